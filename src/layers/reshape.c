/* reshape.c - the same values in another shape, Caffe type "Reshape".
 *
 * Of the bottom's axes, num_axes (-1: all the rest) from `axis` on give way to
 * the dimensions in `shape`; the others stay.  A negative axis counts from
 * behind the last: -1 puts the new axes at the end.  In `shape`
 *
 *     0   copies the bottom's dimension at this place
 *     -1  takes whatever is left; once at most
 *
 * The top is a view of the bottom. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "layers/common.h"
#include "proto/params.h"

static enum ct_status reshape_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ReshapeParameter *p = ct_reshape_param(l->param);
    int n_inferred = 0;

    (void)io;
    if (p->num_axes < -1)
        return ct_fail(CT_EINVAL, "layer %s: num_axes is %d, and must be -1 "
                       "(all) or at least 0", l->name, p->num_axes);
    for (size_t i = 0; p->shape && i < p->shape->n_dim; i++) {
        if (p->shape->dim[i] < -1)
            return ct_fail(CT_EINVAL, "layer %s: dimension %zu of the new "
                           "shape is %" PRId64, l->name, i, p->shape->dim[i]);
        n_inferred += p->shape->dim[i] == -1;
    }
    if (n_inferred > 1)
        return ct_fail(CT_EINVAL, "layer %s: the new shape has %d dimensions "
                       "of -1, and may have one", l->name, n_inferred);
    return CT_OK;
}

/* The bottom's axes [*from, *to) that are replaced. */
static enum ct_status reshape_range(const struct ct_layer *l,
                                    const struct ct_shape *x, int *from,
                                    int *to)
{
    const Caffe__ReshapeParameter *p = ct_reshape_param(l->param);

    *from = p->axis >= 0 ? p->axis : x->n_axes + p->axis + 1;
    if (*from < 0 || *from > x->n_axes)
        return ct_fail(CT_EINVAL, "layer %s: axis %d is out of range for a "
                       "bottom of %d axes", l->name, p->axis, x->n_axes);
    if (p->num_axes > x->n_axes - *from)
        return ct_fail(CT_EINVAL, "layer %s: %d axes from axis %d are more "
                       "than the bottom's %d", l->name, p->num_axes, *from,
                       x->n_axes);
    *to = p->num_axes < 0 ? x->n_axes : *from + p->num_axes;
    return CT_OK;
}

/* The top's shape; where it has a -1, *inferred is set to its place. */
static enum ct_status reshape_compose(const struct ct_layer *l,
                                      const struct ct_shape *x,
                                      struct ct_shape *y, int *inferred)
{
    const Caffe__BlobShape *s = ct_reshape_param(l->param)->shape;
    const size_t n_new = s ? s->n_dim : 0;
    int from = 0, to = 0;

    CT_TRY(reshape_range(l, x, &from, &to));
    if (n_new + (size_t)(from + x->n_axes - to) > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "layer %s: the top has more than %d axes",
                       l->name, CT_MAX_AXES);
    *y = (struct ct_shape){ 0 };
    for (int i = 0; i < from; i++)
        y->dim[y->n_axes++] = x->dim[i];
    for (size_t i = 0; i < n_new; i++) {
        int at = y->n_axes;

        if (s->dim[i] == 0 && at >= x->n_axes)
            return ct_fail(CT_ESHAPE, "layer %s: dimension %zu of the new "
                           "shape is 0, and the bottom has no axis %d to copy",
                           l->name, i, at);
        if (s->dim[i] == -1)
            *inferred = at;
        y->dim[y->n_axes++] = s->dim[i] == 0 ? x->dim[at] : s->dim[i];
    }
    for (int i = to; i < x->n_axes; i++)
        y->dim[y->n_axes++] = x->dim[i];
    return CT_OK;
}

static enum ct_status reshape_reshape(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct ct_shape *x = &io->bottom[0]->shape;
    const int64_t count = io->bottom[0]->count;
    struct ct_shape y;
    char a[256], b[256];
    int inferred = -1;

    CT_TRY(reshape_compose(l, x, &y, &inferred));
    if (inferred >= 0) {
        int64_t known;

        y.dim[inferred] = 1;
        if (ct_shape_check(&y) != CT_OK)
            return ct_fail_in(CT_ESHAPE, "layer %s", l->name);
        known = ct_shape_count(&y, 0, CT_END);
        if (known == 0 || count % known != 0)
            return ct_fail(CT_ESHAPE, "layer %s: the bottom's %" PRId64
                           " values do not divide by %" PRId64 ", the product "
                           "of the given dimensions", l->name, count, known);
        y.dim[inferred] = count / known;
    }
    if (ct_shape_check(&y) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "layer %s", l->name);
    if (ct_shape_count(&y, 0, CT_END) != count)
        return ct_fail(CT_ESHAPE, "layer %s: a bottom of %s cannot become %s",
                       l->name, ct_shape_text(x, a, sizeof(a)),
                       ct_shape_text(&y, b, sizeof(b)));
    return ct_reshape(io->top[0], y);
}

static enum ct_status reshape_forward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    return ct_copy(l->dev, io->top[0]->count, ct_data(io->bottom[0]),
                   ct_data(io->top[0]));
}

static enum ct_status reshape_backward(struct ct_layer *l,
                                       const struct ct_io *io)
{
    if (!io->want_grad[0])
        return CT_OK;
    return ct_copy(l->dev, io->top[0]->count, ct_diff(io->top[0]),
                   ct_diff(io->bottom[0]));
}

const struct ct_layer_type ct_layer_reshape = {
    .name     = "Reshape",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_ALIAS_DATA | CT_LAYER_ALIAS_DIFF |
                CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .setup    = reshape_setup,
    .reshape  = reshape_reshape,
    .forward  = CT_EVERY_DEVICE(reshape_forward),
    .backward = CT_EVERY_DEVICE(reshape_backward),
};
