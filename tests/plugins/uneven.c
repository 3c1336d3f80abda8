/* uneven.c - a layer by which ranks get out of step: y = x, and from the
 * twentieth pass on all ranks but rank 1 sum a number of theirs.  What rank 1
 * does next then meets that sum.  For tests/mpi/autopsy. */
#include <cortado/plugin.h>
#include <string.h>

enum { FROM = 20 };

static enum ct_status reshape(struct ct_layer *l, const struct ct_io *io)
{
    (void)l;
    return ct_reshape(io->top[0], io->bottom[0]->shape);
}

static enum ct_status forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_peers *p = l->run->peers;
    double one               = 1;

    memcpy(ct_data(io->top[0]), ct_data(io->bottom[0]),
           (size_t)io->top[0]->count * sizeof(float));
    if (!p || !p->sum)
        return ct_fail(CT_EINVAL, "layer %s: ranks cannot sum; use --sync_bn",
                       l->name);
    return l->run->pass >= FROM && l->run->rank != 1 ? p->sum(p, &one, 1)
                                                     : CT_OK;
}

static enum ct_status backward(struct ct_layer *l, const struct ct_io *io)
{
    (void)l;
    if (io->want_grad[0])
        memcpy(ct_diff(io->bottom[0]), ct_diff(io->top[0]),
               (size_t)io->top[0]->count * sizeof(float));
    return CT_OK;
}

static const struct ct_layer_type uneven = {
    .name     = "Uneven",
    .bottoms  = CT_EXACTLY(1),
    .tops     = CT_EXACTLY(1),
    .reshape  = reshape,
    .forward  = { [CT_CPU] = forward },
    .backward = { [CT_CPU] = backward },
};

CT_PLUGIN("uneven", &uneven)
