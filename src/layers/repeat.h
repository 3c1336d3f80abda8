/* repeat.h - what Scale and Bias share: which axes of x their coefficients
 * stand for.  `axis` names the first one; num_axes counts them for a learned
 * blob (-1: to the end), and a second bottom brings its own number. */
#ifndef CT_LAYERS_REPEAT_H
#define CT_LAYERS_REPEAT_H

#include <inttypes.h>

#include "cortado/layer.h"
#include "layers/channels.h"

/* The shape of the learned coefficients. */
CT_MUST_CHECK static inline enum ct_status repeat_shape(
    const struct ct_layer *l, const struct ct_blob *x, int axis, int num_axes,
    struct ct_shape *out)
{
    int first, n;

    if (ct_axis(x, axis, &first) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s", l->name);
    if (num_axes < -1)
        return ct_fail(CT_EINVAL, "layer %s: num_axes must be 0 or more, or -1 "
                       "for all that follow `axis`, not %d", l->name,
                       num_axes);
    n = num_axes < 0 ? x->shape.n_axes - first : num_axes;
    if (n > x->shape.n_axes - first)
        return ct_fail(CT_EINVAL, "layer %s: %d axes from axis %d on reach "
                       "beyond the bottom's %d", l->name, n, first,
                       x->shape.n_axes);
    out->n_axes = n;
    for (int i = 0; i < n; i++)
        out->dim[i] = x->shape.dim[first + i];
    return CT_OK;
}

/* How coefficients of shape `s` lie over x; refuses those that do not fit. */
CT_MUST_CHECK static inline enum ct_status repeat_over(
    const struct ct_layer *l, const struct ct_blob *x,
    const struct ct_shape *s, int axis, struct ct_repeat *out)
{
    const struct ct_channels array = channels_of(x);
    char text[256], other[256];
    int first = 0;
    bool fits;

    if (s->n_axes > 0 && ct_axis(x, axis, &first) != CT_OK)
        return ct_fail_in(CT_EINVAL, "layer %s", l->name);
    fits = first + s->n_axes <= x->shape.n_axes;
    for (int i = 0; fits && i < s->n_axes; i++)
        fits = x->shape.dim[first + i] == s->dim[i];
    if (!fits)
        return ct_fail(CT_ESHAPE, "layer %s: coefficients of shape %s do not "
                       "fit a bottom of shape %s from axis %d on", l->name,
                       ct_shape_text(s, text, sizeof(text)),
                       ct_shape_text(&x->shape, other, sizeof(other)), first);
    *out = ct_repeat_of(&array, ct_count(x, 0, first),
                        ct_shape_count(s, 0, CT_END),
                        ct_count(x, first + s->n_axes, CT_END));
    return CT_OK;
}

#endif
