/* input.c - blobs that the caller fills, Caffe type "Input".
 *
 * One `shape` for all tops, or one for each, or none: then the caller gives
 * the tops their shapes.  A shape that the caller changes later stays, so
 * reshape leaves the tops alone. */
#include "cortado/layer.h"

#include "layers/source.h"
#include "proto/params.h"

static enum ct_status input_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__InputParameter *p = ct_input_param(l->param);

    if (p->n_shape > 1 && p->n_shape != (size_t)io->n_top)
        return ct_fail(CT_EINVAL, "layer %s: %zu shapes for %d tops: give "
                       "one, or one for each top", l->name, p->n_shape,
                       io->n_top);
    for (int i = 0; i < io->n_top && p->n_shape > 0; i++) {
        struct ct_shape shape;

        CT_TRY(ct_source_shape(l, p->shape[p->n_shape > 1 ? i : 0], &shape));
        CT_TRY(ct_reshape(io->top[i], shape));
    }
    return CT_OK;
}

static enum ct_status input_nothing(struct ct_layer *l, const struct ct_io *io)
{
    (void)l, (void)io;
    return CT_OK;
}

const struct ct_layer_type ct_layer_input = {
    .name    = "Input",
    .bottoms = CT_EXACTLY(0),
    .tops    = CT_AT_LEAST(1),
    .flags   = CT_LAYER_SOURCE | CT_LAYER_NO_GRAD,
    .setup   = input_setup,
    .reshape = input_nothing,
    .forward = CT_EVERY_DEVICE(input_nothing),
};
