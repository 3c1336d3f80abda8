/* ahead.c - weights of later convolutions get their form beside earlier layers.
 *
 * On a GPU most convolutions want their weights in another order or type than
 * they have outside, which is a kernel of some microseconds before each.  Those
 * of all but the first convolution run on the side lane, some at a time:
 *
 *     main   conv1 ...   | conv2 ... conv3 ...   | conv4 ...
 *     side   w2, w3      | w4, w5, w6, w7        |           join: |
 *
 * so that the main lane waits for the side lane a few times only, and rarely at
 * all.  Those of the gradients of data come last; the end of the forward pass
 * waits for them. */
#include "device/impl.h"
#include "device/recording.h"
#include "layers/conv_base.h"
#include "net/net_inner.h"

enum { FIRST_GROUP = 2 };

static struct ct_layer *conv_at(const struct ct_net *net, int i)
{
    struct ct_layer *l = net->layer[i].layer;

    return l->dev == net->dev && ct_conv_layer_of(l) ? l : NULL;
}

/* The first convolution from layer i on, or the number of layers. */
static int next_conv(const struct ct_net *net, int i)
{
    while (i < net->n_layer && !conv_at(net, i))
        i++;
    return i;
}

/* Up to `most` of them, from e->next on. */
static enum ct_status make_forward(struct ct_net *net, struct net_ahead *e,
                                   int most)
{
    for (int n = 0; n < most && e->next < net->n_layer; n++) {
        CT_TRY(ct_conv_layer_ahead(conv_at(net, e->next), CT_FORWARD, true));
        e->next = next_conv(net, e->next + 1);
    }
    return CT_OK;
}

static enum ct_status make_backward(struct ct_net *net)
{
    for (int i = net->n_layer - 1; i >= 0; i--)
        if (conv_at(net, i) && net->layer[i].want_grad[0])
            CT_TRY(ct_conv_layer_ahead(conv_at(net, i), CT_BACKWARD, true));
    return CT_OK;
}

/* The next group; behind the last one, what backward wants. */
static enum ct_status make_some(struct ct_net *net, struct net_ahead *e)
{
    const bool all = e->next == net->n_layer;

    e->wanted = e->next;
    CT_TRY(ct_side_begin(net->dev));
    CT_TRY(all ? make_backward(net) : make_forward(net, e, e->size));
    CT_TRY(ct_side_end(net->dev));
    e->size *= 2;
    return CT_OK;
}

enum ct_status net_ahead_begin(struct ct_net *net, struct net_ahead *e)
{
    *e = (struct net_ahead){ .next = net->n_layer, .size = FIRST_GROUP,
                             .wanted = net->n_layer };
    if (!net_may_aside(net) || !ct_impl_allowed("weights", "ahead"))
        return CT_OK;
    e->next = next_conv(net, next_conv(net, 0) + 1);
    return e->next < net->n_layer ? make_some(net, e) : CT_OK;
}

enum ct_status net_ahead_before(struct ct_net *net, struct net_ahead *e, int i)
{
    if (i < e->wanted)
        return CT_OK;
    CT_TRY(ct_side_join(net->dev));
    return make_some(net, e);
}

enum ct_status net_ahead_end(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int pass = 0; conv_at(net, i) && pass < CT_PASSES; pass++)
            CT_TRY(ct_conv_layer_ahead(conv_at(net, i), (enum ct_pass)pass,
                                       false));
    return CT_OK;
}
