/* packed.c - packs parameters into the layouts of their layers.
 *
 * oneDNN needs the weights of most convolutions in tiles of 16 x 16 channels
 * (device/cpu/tiles16.h), and computes their gradients in tiles.  Update rules
 * work value by value in any layout.  So values, gradients and histories stay
 * in tiles in their arenas, and no pass converts them, until Caffe's layout is
 * needed: for a test, a snapshot, or at the end of a run of iterations.
 *
 *     Caffe's layout  --pack-->  passes, updates, passes, ...  --unpack-->
 *
 * Parameters that several layers share are not packed. */
#include "net/net_inner.h"
#include "net/arena.h"

bool net_param_packs(const struct ct_net *net, int i)
{
    const struct ct_net_param *p = &net->params[i];
    const struct ct_layer *l     = net->layer[p->layer].layer;

    return net->dev->kind == CT_CPU && p->index == 0 && p->n_sharers == 1 &&
           l->type->packs && l->type->packs(l);
}

/* Converts an array in place, through the workspace, which is free between
 * passes. */
static enum ct_status turn(struct ct_net *net, const struct ct_blob *b,
                           float *x, enum ct_layout from, enum ct_layout to)
{
    float *turned = net->work.ptr;

    CT_TRY(net->dev->ops->convert(net->dev, b->shape.dim[0], b->shape.dim[1],
                                  ct_count(b, 2, CT_END), from, CT_F32, x, to,
                                  CT_F32, turned));
    return ct_copy(net->dev, b->count, turned, x);
}

static enum ct_status turn_param(struct ct_net *net,
                                 const struct ct_net_param *p,
                                 enum ct_layout to, float *const *more,
                                 int n_more)
{
    struct ct_blob *b         = p->blob;
    const enum ct_layout from = b->data.layout;

    CT_TRY(ct_workspace_need(&net->work, (size_t)b->count * sizeof(float)));
    CT_TRY(turn(net, b, ct_data(b), from, to));
    b->data.layout = to;
    if (ct_diff(b))
        CT_TRY(turn(net, b, ct_diff(b), from, to));
    b->diff.layout = to;
    for (int i = 0; i < n_more; i++)
        CT_TRY(turn(net, b, more[i] + p->offset, from, to));
    return CT_OK;
}

enum ct_status ct_net_pack(struct ct_net *net, bool packed, float *const *more,
                           int n_more)
{
    if (packed == net->packed)
        return CT_OK;
    for (int i = 0; i < net->n_params; i++) {
        const struct ct_net_param *p = &net->params[i];
        const bool tiles = p->blob->data.layout == CT_TILES16;

        if (packed && net_param_packs(net, i))
            CT_TRY(turn_param(net, p, CT_TILES16, more, n_more));
        else if (!packed && tiles)
            CT_TRY(turn_param(net, p, CT_PLAIN, more, n_more));
    }
    net->packed = packed;
    return CT_OK;
}
