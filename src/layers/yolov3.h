/* yolov3.h - what a Yolov3 layer keeps; see yolov3.c. */
#ifndef CT_LAYERS_YOLOV3_H
#define CT_LAYERS_YOLOV3_H

#include "layers/yolo.h"

struct yolov3 {
    struct yolo yolo;
    float       scale; /* anchors_scale: pixels a cell */
    bool        logic; /* use_logic_gradient */
};

/* What delta i is multiplied by: the slope of the logistic function. */
CT_HOST_DEVICE static inline float yolov3_slope(const struct yolov3 *s,
                                                int64_t i, float act)
{
    const int64_t plane = s->yolo.h * s->yolo.w;
    const int64_t value = i / plane % (YOLO_CLASS + s->yolo.classes);

    return s->logic && value != 2 && value != 3 ? act * (1 - act) : 1;
}

#endif
