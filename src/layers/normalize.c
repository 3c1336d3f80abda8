/* normalize.c - type "Normalize" of SSD's fork: L2 length one, then a scale.
 *
 *     y = x s / r,   r = sqrt(eps + sum of x^2)
 *     dx = dy s / r - x / r^3 sum of dy s x        ds += sum of dy x / r
 *
 * x, y: n c ...  The sums go over the channels of a position, or over the
 * whole item with across_spatial (the default).  Blob 0 is s: a scalar with
 * channel_shared (the default), otherwise one value per channel; filled with 1
 * unless scale_filler says otherwise.
 *
 * Deviation from SSD: its dx leaves s out of the sum and multiplies by it
 * afterwards, which differs where the channels' s differ; this is the gradient.
 * Liu et al., "SSD: single shot multibox detector"; Liu, Rabinovich, Berg,
 * "ParseNet: looking wider to see better". */
#include "cortado/layer.h"

#include <inttypes.h>

#include "device/norm.h"
#include "layers/cuda/slots.h"
#include "layers/normalize.h"
#include "proto/params.h"

static enum ct_status normalize_setup(struct ct_layer *l,
                                      const struct ct_io *io)
{
    static const Caffe__FillerParameter zero = CAFFE__FILLER_PARAMETER__INIT;
    const Caffe__NormalizeParameter *p = ct_norm_param(l->param);
    const struct ct_blob *x = io->bottom[0];
    Caffe__FillerParameter one = zero;
    struct normalize *s = l->state;

    if (x->shape.n_axes < 2)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom must have channels, at "
                       "least 2 axes, not %d", l->name, x->shape.n_axes);
    one.value      = 1;
    s->unit.c      = x->shape.dim[1];
    s->unit.whole  = p->across_spatial;
    s->unit.shared = p->channel_shared;
    s->unit.eps    = p->eps;
    CT_TRY(ct_layer_add_blob(l, s->unit.shared ? CT_SCALAR
                                               : CT_SHAPE(s->unit.c),
                             p->scale_filler ? p->scale_filler : &one));
    CT_TRY(ct_layer_add_scratch(l, &s->inverse));
    return ct_layer_add_scratch(l, &s->parts);
}

static enum ct_status normalize_reshape(struct ct_layer *l,
                                        const struct ct_io *io)
{
    struct normalize *s = l->state;
    const struct ct_blob *x = io->bottom[0];

    if (x->shape.n_axes < 2 || x->shape.dim[1] != s->unit.c)
        return ct_fail(CT_ESHAPE, "layer %s: the bottom no longer has %" PRId64
                       " channels", l->name, s->unit.c);
    s->unit.n     = x->shape.dim[0];
    s->unit.inner = ct_count(x, 2, CT_END);
    CT_TRY(ct_reshape(s->inverse, CT_SHAPE(ct_unit_vectors(&s->unit))));
    CT_TRY(ct_reshape(s->parts, CT_SHAPE(ct_unit_parts(&s->unit))));
    return ct_reshape(io->top[0], x->shape);
}

static enum ct_status normalize_forward(struct ct_layer *l,
                                        const struct ct_io *io)
{
    const struct normalize *s = l->state;

    ct_unit_forward(&s->unit, ct_data(io->bottom[0]), ct_data(l->blob[0]),
                    ct_data(s->parts), ct_data(s->inverse),
                    ct_data(io->top[0]));
    return CT_OK;
}

static enum ct_status normalize_backward(struct ct_layer *l,
                                         const struct ct_io *io)
{
    const struct normalize *s = l->state;

    ct_unit_backward(&s->unit, ct_data(io->bottom[0]), ct_diff(io->top[0]),
                     ct_data(l->blob[0]), ct_data(s->inverse),
                     ct_data(s->parts),
                     io->want_grad[0] ? ct_diff(io->bottom[0]) : NULL,
                     l->blob_wants_grad[0] ? ct_diff(l->blob[0]) : NULL);
    return CT_OK;
}

/* A GPU takes the vectors of positions where they lie in one piece. */
static bool normalize_accepts(const struct ct_layer *l,
                              const struct ct_io *io, enum ct_layout layout)
{
    const struct normalize *s = l->state;

    (void)io;
    return layout == CT_NHWC && !s->unit.whole && l->dev->kind == CT_CUDA;
}

const struct ct_layer_type ct_layer_normalize = {
    .name       = "Normalize",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_NO_TOP | CT_LAYER_SAME_LAYOUT,
    .state_size = sizeof(struct normalize),
    .setup      = normalize_setup,
    .reshape    = normalize_reshape,
    .forward    = { normalize_forward, CT_CUDA_FN(normalize_forward) },
    .backward   = { normalize_backward, CT_CUDA_FN(normalize_backward) },
    .accepts    = normalize_accepts,
};
