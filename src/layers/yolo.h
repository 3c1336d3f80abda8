/* yolo.h - what RegionLoss and Yolov3 have in common: predictions of boxes on a
 * grid, and how far they are from the ground truth.
 *
 * Bottom 0 is N x A (5 + C) x H x W: for each of A anchors x, y, w, h, o and C
 * classes.  With sx = 1 / (1 + e^-x) and so on cell (i, j) predicts the box
 *
 *     centre ((j + sx) / W, (i + sy) / H),  size (e^w p / P, e^h q / Q)
 *
 * around an anchor of p x q, where the image is P x Q.  Bottom 1 has up to T
 * boxes an image: label, and centre and size as parts of the image; a width of
 * 0 ends them.
 *
 * `act` has sx, sy, w, h, so and what the classes become, `delta` the gradient
 * by what stands in act, both in bottom 0's shape.  The functions are for
 * kernels too. */
#ifndef CT_LAYERS_YOLO_H
#define CT_LAYERS_YOLO_H

#include <math.h>

#include "base/rng.h"
#include "cortado/layer.h"

enum { YOLO_ANCHORS = 32, YOLO_BOX = 4, YOLO_OBJECT = 4, YOLO_CLASS = 5 };

struct yolo {
    int64_t n, num, classes, h, w, truths;
    int     n_anchors; /* all, of which mask[] has `num` */
    float   anchor[2 * YOLO_ANCHORS];
    int     mask[YOLO_ANCHORS];
    float   net_w, net_h; /* P, Q */
    float   thresh, object, no_object, of_class, coord;
    bool    region; /* RegionLoss: squares and a softmax; else logarithms */
    bool    rescore, bias_match, small; /* small: 2 - w h times */
    struct ct_blob *act, *delta;
};

/* A box by its centre. */
struct yolo_box { float x, y, w, h; };

CT_HOST_DEVICE static inline int64_t yolo_at(const struct yolo *y, int64_t b,
                                             int64_t a, int64_t value,
                                             int64_t cell)
{
    return ((b * y->num + a) * (YOLO_CLASS + y->classes) + value) * y->h *
               y->w + cell;
}

CT_HOST_DEVICE static inline float yolo_logistic(float x)
{
    const float e = expf(-fabsf(x));

    return (x >= 0 ? 1 : e) / (1 + e);
}

CT_HOST_DEVICE static inline float yolo_shared(float x1, float w1, float x2,
                                               float w2)
{
    const float left = fmaxf(x1 - w1 / 2, x2 - w2 / 2);
    const float right = fminf(x1 + w1 / 2, x2 + w2 / 2);

    return right - left;
}

CT_HOST_DEVICE static inline float yolo_overlap(struct yolo_box a,
                                                struct yolo_box b)
{
    const float w = yolo_shared(a.x, a.w, b.x, b.w);
    const float h = yolo_shared(a.y, a.h, b.y, b.h);

    return w > 0 && h > 0 ? w * h / (a.w * a.h + b.w * b.h - w * h) : 0;
}

/* Truth t of image b; false: there are no more. */
CT_HOST_DEVICE static inline bool yolo_truth(const struct yolo *y,
                                             const float *truth, int64_t b,
                                             int64_t t, struct yolo_box *box,
                                             int64_t *label)
{
    const float *v = truth + (b * y->truths + t) * 5;

    if (t >= y->truths || !(v[3] > 0 && v[4] > 0))
        return false;
    box->x = v[1];
    box->y = v[2];
    box->w = v[3];
    box->h = v[4];
    *label = v[0] > -1 && v[0] < (float)y->classes ? (int64_t)v[0] : -1;
    return true;
}

CT_HOST_DEVICE static inline struct yolo_box yolo_predicted(
    const struct yolo *y, const float *act, int64_t b, int64_t a, int64_t cell)
{
    const int64_t at = yolo_at(y, b, a, 0, cell), step = y->h * y->w;
    const float *anchor = y->anchor + 2 * y->mask[a];
    struct yolo_box box;

    box.x = ((float)(cell % y->w) + act[at]) / (float)y->w;
    box.y = ((float)(cell / y->w) + act[at + step]) / (float)y->h;
    box.w = expf(act[at + 2 * step]) * anchor[0] / y->net_w;
    box.h = expf(act[at + 3 * step]) * anchor[1] / y->net_h;
    return box;
}

/* Pulls a box to the truth; returns how they overlap. */
CT_HOST_DEVICE static inline float yolo_pull(const struct yolo *y,
                                             const float *act, float *delta,
                                             int64_t b, int64_t a,
                                             int64_t cell,
                                             struct yolo_box truth,
                                             float scale)
{
    const int64_t at = yolo_at(y, b, a, 0, cell), step = y->h * y->w;
    const float *anchor = y->anchor + 2 * y->mask[a];
    const float want[YOLO_BOX] = {
        truth.x * (float)y->w - (float)(cell % y->w),
        truth.y * (float)y->h - (float)(cell / y->w),
        logf(truth.w * y->net_w / anchor[0]),
        logf(truth.h * y->net_h / anchor[1]),
    };

    for (int k = 0; k < YOLO_BOX; k++) {
        const float v = act[at + k * step];

        /* The square of a logistic function, or its logarithm. */
        delta[at + k * step] =
            scale * (v - want[k]) * (y->region && k < 2 ? v * (1 - v) : 1);
    }
    return yolo_overlap(yolo_predicted(y, act, b, a, cell), truth);
}

/* act of one box, and delta as if it held nothing. */
CT_HOST_DEVICE static inline void yolo_empty(const struct yolo *y,
                                             const float *x, const float *truth,
                                             int64_t b, int64_t a,
                                             int64_t cell, bool early,
                                             float *act, float *delta)
{
    const int64_t at = yolo_at(y, b, a, 0, cell), step = y->h * y->w;
    const int64_t object = at + YOLO_OBJECT * step;
    const int64_t first  = at + YOLO_CLASS * step;
    float top = -INFINITY, sum = 0, best = 0;
    struct yolo_box box, is;
    int64_t label;

    for (int64_t k = 0; k < YOLO_CLASS + y->classes; k++) {
        const float v = x[at + k * step];

        act[at + k * step] = k == 2 || k == 3 || (y->region && k > 4)
                                 ? v
                                 : yolo_logistic(v);
        delta[at + k * step] = 0;
        top = k > 4 && v > top ? v : top;
    }
    for (int64_t k = 0; y->region && k < y->classes; k++) {
        act[first + k * step] = expf(act[first + k * step] - top);
        sum += act[first + k * step];
    }
    for (int64_t k = 0; y->region && k < y->classes; k++)
        act[first + k * step] /= sum;
    is = yolo_predicted(y, act, b, a, cell);
    for (int64_t t = 0; yolo_truth(y, truth, b, t, &box, &label); t++)
        best = fmaxf(best, yolo_overlap(is, box));
    if (!(best > y->thresh))
        delta[object] = y->no_object * act[object] *
                        (y->region ? act[object] * (1 - act[object]) : 1);
    if (early) { /* towards the anchor in the middle of the cell */
        const float *anchor = y->anchor + 2 * y->mask[a];

        box.x = ((float)(cell % y->w) + 0.5f) / (float)y->w;
        box.y = ((float)(cell / y->w) + 0.5f) / (float)y->h;
        box.w = anchor[0] / y->net_w;
        box.h = anchor[1] / y->net_h;
        yolo_pull(y, act, delta, b, a, cell, box, 0.01f);
    }
}

/* The anchor of this layer that a truth is most alike; -1: another's is. */
CT_HOST_DEVICE static inline int64_t yolo_owner(const struct yolo *y,
                                                const float *act, int64_t b,
                                                int64_t cell,
                                                struct yolo_box truth)
{
    float best    = 0;
    int64_t owner = y->region ? 0 : -1;

    truth.x = truth.y = 0;
    for (int k = 0; k < y->n_anchors; k++) {
        struct yolo_box box = { 0, 0, y->anchor[2 * k] / y->net_w,
                                y->anchor[2 * k + 1] / y->net_h };
        int64_t a = -1;
        float overlap;

        for (int64_t i = 0; i < y->num; i++)
            a = y->mask[i] == k ? i : a;
        if (y->region && !y->bias_match && a >= 0) {
            box   = yolo_predicted(y, act, b, a, cell);
            box.x = box.y = 0;
        }
        overlap = yolo_overlap(box, truth);
        if (overlap > best) {
            best  = overlap;
            owner = a;
        }
    }
    return owner;
}

/* delta where image b holds something, one truth after the other. */
CT_HOST_DEVICE static inline void yolo_fill(const struct yolo *y,
                                            const float *truth, int64_t b,
                                            const float *act, float *delta)
{
    const int64_t step = y->h * y->w;
    struct yolo_box box;
    int64_t label;

    for (int64_t t = 0; yolo_truth(y, truth, b, t, &box, &label); t++) {
        const int64_t j = (int64_t)(box.x * (float)y->w);
        const int64_t i = (int64_t)(box.y * (float)y->h);
        const int64_t cell = i * y->w + j;
        int64_t a, object, first;
        float overlap, o;
        bool taken = false;

        if (!(box.x >= 0 && box.y >= 0 && i < y->h && j < y->w))
            continue;
        a = yolo_owner(y, act, b, cell, box);
        if (a < 0)
            continue;
        overlap = yolo_pull(y, act, delta, b, a, cell, box,
                            y->coord * (y->small ? 2 - box.w * box.h : 1));
        object = yolo_at(y, b, a, YOLO_OBJECT, cell);
        first  = object + step;
        o      = act[object];
        delta[object] = y->object * (o - (y->rescore ? overlap : 1)) *
                        (y->region ? o * (1 - o) : 1);
        for (int64_t k = 0; !y->region && k < y->classes; k++)
            taken = taken || delta[first + k * step] != 0;
        /* A second truth in one place adds its class. */
        for (int64_t k = 0; k < y->classes; k++)
            if (!taken || k == label)
                delta[first + k * step] =
                    y->of_class *
                    (act[first + k * step] - (k == label ? 1 : 0));
    }
}

/* In yolo.c: what both types do alike. */
CT_MUST_CHECK enum ct_status yolo_setup(struct ct_layer *l, struct yolo *y);
CT_MUST_CHECK enum ct_status yolo_reshape(const struct ct_layer *l,
                                          const struct ct_io *io,
                                          struct yolo *y);
/* `early`: the layer has hardly seen anything. */
CT_MUST_CHECK enum ct_status yolo_forward(const struct ct_layer *l,
                                          const struct ct_io *io,
                                          const struct yolo *y, bool early);
#endif
