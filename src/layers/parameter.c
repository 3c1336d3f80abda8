/* parameter.c - learned values as a top, Caffe type "Parameter".
 *
 *     y = w      dw += dy
 *
 * The top has the parameter's shape.  It is a copy and not a view, so that a
 * layer that works in place on it leaves w alone, and dw adds up over
 * iter_size, where Caffe's view keeps the last gradient only. */
#include "cortado/layer.h"

#include "proto/params.h"

static enum ct_status parameter_setup(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const Caffe__BlobShape *s = ct_parameter_param(l->param)->shape;
    struct ct_shape shape = CT_SCALAR;

    (void)io;
    if (s && s->n_dim > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "layer %s: the shape has %zu axes, and may "
                       "have %d", l->name, s->n_dim, CT_MAX_AXES);
    for (size_t i = 0; s && i < s->n_dim; i++)
        shape.dim[shape.n_axes++] = s->dim[i];
    return ct_layer_add_blob(l, shape, NULL);
}

static enum ct_status parameter_reshape(struct ct_layer *l,
                                        const struct ct_io *io)
{
    return ct_reshape(io->top[0], l->blob[0]->shape);
}

static enum ct_status parameter_forward(struct ct_layer *l,
                                        const struct ct_io *io)
{
    return ct_copy(l->dev, io->top[0]->count, ct_data(l->blob[0]),
                   ct_data(io->top[0]));
}

static enum ct_status parameter_backward(struct ct_layer *l,
                                         const struct ct_io *io)
{
    if (!l->blob_wants_grad[0])
        return CT_OK;
    return ct_axpy(l->dev, io->top[0]->count, 1, ct_diff(io->top[0]),
                   ct_diff(l->blob[0]));
}

const struct ct_layer_type ct_layer_parameter = {
    .name     = "Parameter",
    .bottoms  = CT_EXACTLY(0),
    .tops     = CT_EXACTLY(1),
    .flags    = CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .setup    = parameter_setup,
    .reshape  = parameter_reshape,
    .forward  = CT_EVERY_DEVICE(parameter_forward),
    .backward = CT_EVERY_DEVICE(parameter_backward),
};
