/* define.h - what each layer type is by definition, in double precision.
 *
 * Written from the formulas, one plain loop each, and without a line of the
 * engine's code: the measure that even the plainest way is held to.  There is
 * no backward; central differences of these give every gradient. */
#ifndef CT_TESTS_RANDOM_DEFINE_H
#define CT_TESTS_RANDOM_DEFINE_H

#include <stdbool.h>

#include "cortado/proto.h"
#include "cortado/shape.h"

struct tensor {
    struct ct_shape shape;
    int64_t         n;
    double         *v; /* owned by who made it */
};

/* One layer in one pass.  Tops have their shapes; v is to be filled.  What
 * the engine itself made is there for layers that draw at random. */
struct definition {
    const Caffe__LayerParameter *param;
    int                  n_bottom, n_top, n_blob;
    const struct tensor *bottom, *blob, *seen_top;
    const struct tensor *seen_bottom; /* of the engine's own pass */
    const struct tensor *drawn; /* Dropout's: what became of ones */
    struct tensor       *top;
    double              *minimised; /* what the gradient is of, where that is
                                       not the top; else left alone */
};

typedef void (*define_fn)(const struct definition *d);

/* NULL: a type that has no definition here. */
define_fn define_find(const char *type);

/* An axis of a tensor, from either end; counts before and behind it. */
int     define_axis(const struct tensor *t, int axis);
int64_t define_count(const struct tensor *t, int from, int to);
static inline int64_t define_dim(const struct tensor *t, int axis)
{
    return axis < t->shape.n_axes ? t->shape.dim[axis] : 1;
}

/* define_windows.c and its like: parts of the list. */
struct define_entry {
    const char *type;
    define_fn   fn;
};
extern const struct define_entry define_windows[], define_losses[],
    define_steps[], define_regions[], define_boxes[], define_grids[],
    define_python[];

/* define_losses.c: what a sum over `full` values of `batch` items, `valid` of
 * them counted, is divided by. */
double define_normaliser(const Caffe__LossParameter *p, int mode,
                         double batch, double full, double valid);

/* What a loss of boxes chooses: matches, boxes that count.  Writes less
 * than eight numbers for each of the bottoms' values; returns how many. */
enum { DEFINE_MOST_PRIORS = 256 };
int64_t define_box_choice(const struct definition *d, int *out);
int64_t define_grid_choice(const struct definition *d, int *out);

#endif
