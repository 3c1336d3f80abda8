/* shapes.h - pictures of simple shapes on backgrounds, made up from a seed, to
 * train detectors on without a download.
 *
 * Picture `index` of a set is a pure function of (seed, index): one to four
 * discs (label 1), rectangles (2) and triangles (3) of any colour, in part
 * over each other's corners, on a background of two colours, lines and
 * noise. */
#ifndef CT_DATA_SHAPES_H
#define CT_DATA_SHAPES_H

#include "data/annotation.h"
#include "data/images.h"

enum { CT_N_SHAPES = 4 }; /* the background, label 0, counts */

extern const char *const ct_shape_names[CT_N_SHAPES];

/* B G R pixels of side x side, and the objects, in the order of labels. */
CT_MUST_CHECK enum ct_status ct_shapes_draw(uint64_t seed, uint64_t index,
                                            int side, struct ct_image *out,
                                            struct ct_objects *objects);

struct ct_shape_set {
    uint64_t seed, first; /* pictures first .. first + n - 1 */
    int64_t  n;
    int      side;
};

/* Called now and then, and at the end, with the pictures done so far. */
typedef void (*ct_shape_progress_fn)(void *arg, int64_t done, int64_t n);

/* All of them into a new database of AnnotatedDatum records; keys are the
 * picture's numbers as %08d.  Refuses a path that is taken. */
CT_MUST_CHECK enum ct_status ct_shape_set_write(const struct ct_shape_set *set,
                                                const char *backend,
                                                const char *path,
                                                ct_shape_progress_fn progress,
                                                void *arg);

/* As files PATH/%08d.png with PATH/%08d.xml as VOC has them, and PATH.txt with
 * a line "image annotation" for each, as convert_annoset reads it. */
CT_MUST_CHECK enum ct_status ct_shape_set_write_images(
    const struct ct_shape_set *set, const char *path,
    ct_shape_progress_fn progress, void *arg);

/* The text of a labelmap prototxt. */
CT_MUST_CHECK enum ct_status ct_shapes_label_map(struct ct_text *out);

#endif
