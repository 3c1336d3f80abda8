/* segments.h - what the layers share that read images with images of labels:
 * DenseImageData and ImageSegData.
 *
 *     top 0: N x C x H x W, (pixel - mean) scale      top 1: N x 1 x H x W
 *     top 2: N x 1 x 1 x 2, height and width before padding
 *
 * In TRAIN an image may be scaled by a random factor first.  Then a crop_size
 * square is cut out, at random in TRAIN, else in the centre; what lies beyond a
 * smaller image is the mean, its label ignore_label.  mirror turns both around
 * with probability 1/2.  Labels are never mixed: they are the nearest ones.
 * Draws depend on seed, layer, epoch and sample alone. */
#ifndef CT_LAYERS_SEGMENTS_H
#define CT_LAYERS_SEGMENTS_H

#include "layers/batches.h"

enum ct_label_kind { CT_LABEL_NONE, CT_LABEL_IMAGE, CT_LABEL_PIXEL };

/* What a layer's parameters say; texts are borrowed. */
struct ct_segments_config {
    const char        *source, *root, *param; /* param: its name, for errors */
    int64_t            batch_size;
    uint32_t           rand_skip, new_height, new_width, threads;
    bool               shuffle, color, skip;
    enum ct_label_kind kind;
    int                ignore_label;
};

/* The members that both parameter messages have; p points to one of them. */
#define CT_SEGMENTS_WORDS(p)                                                 \
    .source = (p)->source, .root = (p)->root_folder,                         \
    .batch_size = (p)->batch_size, .rand_skip = (p)->rand_skip,              \
    .new_height = (p)->new_height, .new_width = (p)->new_width,              \
    .shuffle = (p)->shuffle, .color = (p)->is_color

struct segment_line; /* inside segments.c */

struct ct_segments {
    struct ct_batches         batches; /* first: batches.h finds it there */
    struct ct_segments_config config;
    struct segment_line      *line;
    int64_t                   n_lines;
    struct ct_text            paths;
    struct ct_order           order;
    int64_t                   start, pass, epoch;
};

/* setup of the layer, whose state is a struct ct_segments. */
CT_MUST_CHECK enum ct_status ct_segments_setup(
    struct ct_layer *l, const struct ct_segments_config *config);

/* Slots of the layer type. */
CT_MUST_CHECK enum ct_status ct_segments_reshape(struct ct_layer *l,
                                                 const struct ct_io *io);
CT_MUST_CHECK enum ct_status ct_segments_forward(struct ct_layer *l,
                                                 const struct ct_io *io);
CT_MUST_CHECK enum ct_status ct_segments_seek(struct ct_layer *l,
                                              uint64_t n_passes);
int64_t ct_segments_records(const struct ct_layer *l);
void ct_segments_teardown(struct ct_layer *l);

/* The slots of a type, but for setup. */
#define CT_SEGMENTS_SLOTS                                                    \
    .state_size = sizeof(struct ct_segments),                                \
    .reshape    = ct_segments_reshape,                                       \
    .forward    = { [CT_CPU] = ct_segments_forward },                        \
    .seek       = ct_segments_seek,                                          \
    .records    = ct_segments_records,                                       \
    .report     = ct_batches_report,                                         \
    .teardown   = ct_segments_teardown

#endif
