/* replay.c - a whole pass, forward and backward, replayed on a GPU.
 *
 * In small nets it takes longer to launch kernels one by one than to run them.
 * So from the third pass on only the sources run as usual, and everything after
 * them is one recorded graph.  If a blob changes its shape or address, it takes
 * three passes again.  Work that the solver's layer_done queues, such as copies
 * of gradients for peers, is recorded, too.  A net is not recorded if it has
 * hooks, a layer on the CPU, or a layer whose work depends on values that the
 * host reads (CT_LAYER_NO_CAPTURE), or with CORTADO_IMPL=replay:none.
 *
 * The loss is sent to the host when the forward pass is over.  While the GPU
 * runs the backward pass, the host reads the loss and prepares the update and
 * the next pass, so the GPU never waits. */
#include "net/replay.h"

#include "base/trace.h"
#include "cortado/log.h"
#include "device/device_inner.h"
#include "device/recording.h"
#include "device/impl.h"
#include "net/net_inner.h"

enum { WARM_UP = 2, MOST_LOSSES = 64 };

static int n_losses(const struct ct_net *net)
{
    int n = 0;

    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; t < net->layer[i].n_top; t++)
            n += net->layer[i].loss_weight[t] != 0;
    return n;
}

static bool can_replay(const struct ct_net *net)
{
    const struct ct_net_hooks *h = &net->hooks;

    if (net->dev->kind == CT_CPU || net->debug_info ||
        h->before_forward || h->after_forward || h->before_backward ||
        h->after_backward || net->options.forward_only ||
        n_losses(net) > MOST_LOSSES || !ct_impl_allowed("replay", "graph"))
        return false;
    for (int i = 0; i < net->n_layer; i++) {
        const struct ct_layer *l = net->layer[i].layer;

        if (!(l->type->flags & CT_LAYER_SOURCE) &&
            (net->layer[i].host_top || (l->flags & CT_LAYER_NO_CAPTURE)))
            return false;
    }
    return true;
}

static bool is_source(const struct ct_net *net, int i)
{
    return net->layer[i].layer->type->flags & CT_LAYER_SOURCE;
}

/* Whether blob `id` has readers, and all of them ignore rows of -1 at its
 * end. */
static bool is_open_ended(const struct ct_net *net, int id)
{
    bool is_read = false;

    for (int i = 0; i < net->n_layer; i++)
        for (int b = 0; b < net->layer[i].n_bottom; b++) {
            if (net->layer[i].bottom_id[b] != id)
                continue;
            if (!(net->layer[i].layer->type->open_ended >> b & 1))
                return false;
            is_read = true;
        }
    return is_read;
}

void net_mark_open_ended(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; is_source(net, i) && t < net->layer[i].n_top; t++)
            if (is_open_ended(net, net->layer[i].top_id[t]))
                net->layer[i].layer->may_pad |= 1u << t;
}

/* A number that changes when a shape or an address changes, or when other
 * gradients are computed. */
static uint64_t stamp_of(const struct ct_net *net)
{
    uint64_t stamp = (uint64_t)(uintptr_t)net->activations +
                     ct_device_stamp(net->dev) +
                     (uint64_t)(uintptr_t)ct_net_arena_diff(net);

    for (int i = 0; i < net->n_layer; i++)
        for (int b = 0; b < net->layer[i].layer->n_blob; b++)
            stamp = stamp * 3 + net->layer[i].layer->blob_wants_grad[b];
    for (int i = 0; i < net->n_blob; i++)
        stamp = stamp * 31 + net->blob[i].blob->version +
                (uint64_t)(uintptr_t)ct_data(net->blob[i].blob);
    return stamp;
}

static enum ct_status run_sources(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        if (is_source(net, i))
            CT_TRY(net_forward_layer(net, i));
    return CT_OK;
}

static enum ct_status begin_aside(const struct ct_net *net)
{
    return net_may_aside(net) ? ct_side_begin(net->dev) : CT_OK;
}

static enum ct_status end_aside(const struct ct_net *net)
{
    return net_may_aside(net) ? ct_side_end(net->dev) : CT_OK;
}

/* Computes the weighted sum of all losses, and counts the pass. */
static enum ct_status send_loss(struct ct_net *net)
{
    struct ct_beacon_part part[MOST_LOSSES];
    int n = 0;

    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; t < net->layer[i].n_top; t++) {
            const struct ct_blob *top = net->layer[i].top[t];

            if (net->layer[i].loss_weight[t] == 0)
                continue;
            part[n++] = (struct ct_beacon_part){ ct_data(top), ct_diff(top),
                                                 top->count };
        }
    return ct_beacon_send(net->beacon, n, part, net->run.pass_on_device);
}

/* Clears gradients at the same time as the forward pass, which does not use
 * them.  Canonical training is an exception: its forward pass adds statistics
 * to them. */
static enum ct_status clear_diffs(struct ct_net *net)
{
    if (net->run.share > 0)
        return ct_net_clear_diffs(net);
    CT_TRY(begin_aside(net));
    CT_TRY(ct_net_clear_diffs(net));
    return end_aside(net);
}

static enum ct_status forward(struct ct_net *net, bool fresh)
{
    struct net_ahead ahead;

    CT_TRY(net_ahead_begin(net, &ahead));
    if (fresh)
        CT_TRY(clear_diffs(net));
    for (int i = 0; i < net->n_layer; i++)
        if (!is_source(net, i)) {
            CT_TRY(net_ahead_before(net, &ahead, i));
            CT_TRY(net_forward_layer(net, i));
        }
    return ct_side_join(net->dev);
}

/* The loss is sent at the same time as the backward pass runs. */
static enum ct_status both(struct ct_net *net, bool fresh)
{
    CT_TRY(forward(net, fresh));
    if (net->loss_scale) { /* backward scales the weights that it reads */
        CT_TRY(send_loss(net));
    } else {
        CT_TRY(begin_aside(net));
        CT_TRY(send_loss(net));
        CT_TRY(end_aside(net));
    }
    return ct_net_backward(net);
}

/* The work that is recorded: everything except the sources. */
static enum ct_status run_rest(struct ct_net *net, bool fresh)
{
    const enum ct_status st    = both(net, fresh);
    const enum ct_status ended = net_ahead_end(net);

    return st == CT_OK ? ended : st;
}

/* Index of the recording: with or without clearing, with or without
 * layer_done. */
static int kind_of(const struct ct_net *net, bool fresh)
{
    return fresh + 2 * (net->layer_done != NULL);
}

static void forget(struct ct_net *net, int kind)
{
    ct_graph_destroy(net->graph[kind]);
    net->graph[kind] = NULL;
}

void ct_net_forget_passes(struct ct_net *net)
{
    for (int i = 0; i < 4; i++)
        forget(net, i);
}

static enum ct_status record(struct ct_net *net, bool fresh)
{
    const int kind = kind_of(net, fresh);
    enum ct_status st, ended;

    forget(net, kind);
    CT_TRY(ct_graph_begin(net->dev));
    st    = run_rest(net, fresh);
    ended = ct_graph_end(net->dev, &net->graph[kind]);
    if (st == CT_OK && ended == CT_OK)
        return CT_OK;
    CT_WARN("net %s is not replayed: %s", ct_net_name(net), ct_last_error());
    forget(net, kind);
    net->no_replay = true;
    return CT_OK;
}

static enum ct_status pass_by_pass(struct ct_net *net, bool fresh,
                                   double *loss)
{
    if (fresh)
        CT_TRY(ct_net_clear_diffs(net));
    CT_TRY(ct_net_forward(net, loss));
    return ct_net_backward(net);
}

enum ct_status ct_net_forward_backward(struct ct_net *net, bool fresh,
                                       double *loss)
{
    const int kind = kind_of(net, fresh);
    enum ct_status st;
    uint64_t stamp, start;

    if (net->no_replay || !can_replay(net))
        return pass_by_pass(net, fresh, loss);
    if (!net->beacon)
        CT_TRY(ct_beacon_create(net->dev, &net->beacon));
    CT_TRY(run_sources(net));
    stamp       = stamp_of(net);
    net->n_same = stamp == net->stamp ? net->n_same + 1 : 0;
    net->stamp  = stamp;
    if (net->n_same < WARM_UP)
        forget(net, kind);
    else if (!net->graph[kind] || stamp != net->graph_stamp[kind])
        CT_TRY(record(net, fresh));
    net->graph_stamp[kind] = stamp;
    net->run.pass++;
    if (net->graph[kind]) {
        start = ct_trace_begin();
        CT_TRY(ct_graph_launch(net->graph[kind]));
        ct_trace_end(start, CT_TRACE_GRAPH, "launch of a recorded pass");
    } else {
        CT_TRY(run_rest(net, fresh)); /* the sources have run already */
    }
    start = ct_trace_begin();
    st    = ct_beacon_wait(net->beacon, loss);
    ct_trace_end(start, CT_TRACE_WAIT, "loss from the GPU");
    return st == CT_OK
               ? CT_OK
               : ct_fail_in(st, "rank %d, a recorded pass of net %s "
                            "(CORTADO_IMPL=replay:none finds the layer)",
                            net->run.rank, ct_net_name(net));
}
