/* scene.h - an image with objects on its way to a batch, as SSD trains on it.
 *
 *     distort -> expand -> crop to a sampled part -> resize -> noise
 *
 * Expanding puts the image somewhere on a larger canvas of the mean's colour.
 * Boxes follow: an object stays while it meets emit_constraint and some of its
 * box is left.  A plan says what happens to one sample, and follows from its
 * size, its objects and draws that are keyed by (key, epoch, sample). */
#ifndef CT_DATA_SCENE_H
#define CT_DATA_SCENE_H

#include "data/draws.h"
#include "data/sampler.h"
#include "data/transform.h"

/* For all samples of a layer; any thread. */
struct ct_scene {
    const Caffe__TransformationParameter *transform; /* borrowed */
    const Caffe__AnnotatedDataParameter  *annotated; /* borrowed */
    const struct ct_transform            *mean;      /* borrowed */
    uint64_t                              key;
};

struct ct_scene_plan {
    int  canvas_w, canvas_h, x, y; /* where the image lies on its canvas */
    int  crop_x, crop_y, crop_w, crop_h; /* the part of the canvas */
    int  out_w, out_h;
    int  scaled_w, scaled_h; /* of which the part takes this, in the middle */
    bool whole; /* the part is the image as it is */
    Caffe__ResizeParameter__InterpMode mode;
};

/* What one worker has for it. */
struct ct_scene_work {
    struct ct_codec *codec;
    struct ct_image *image;        /* the sample; changes */
    struct ct_image *part, *scaled; /* scratch */
    struct ct_room  *floats;       /* pixels that are not bytes */
};

/* Refuses what contradicts itself, naming the layer. */
CT_MUST_CHECK enum ct_status ct_scene_check(const struct ct_scene *s,
                                            const char *layer);

/* The plan of a sample of width x height pixels; `objects` become those that
 * are left, in parts of the output. */
CT_MUST_CHECK enum ct_status ct_scene_plan(const struct ct_scene *s,
                                           int64_t epoch, int64_t sample,
                                           int width, int height,
                                           struct ct_objects *objects,
                                           struct ct_scene_plan *out);

/* out_h x out_w pixels, in memory of `work`. */
CT_MUST_CHECK enum ct_status ct_scene_run(const struct ct_scene *s,
                                          const struct ct_scene_plan *plan,
                                          int64_t epoch, int64_t sample,
                                          const struct ct_scene_work *work,
                                          struct ct_pixels *out);

/* Objects in parts of `part`, which is in parts of what they are in now. */
void ct_scene_project(const struct ct_scene *s, struct ct_bbox part,
                      struct ct_objects *objects);
void ct_scene_mirror(struct ct_objects *objects);

#endif
