/* replay.c - a whole pass, forward and backward, replayed on a GPU.
 *
 * Small nets take less time to compute than to launch kernel by kernel.  So
 * from the third pass on the sources run as ever, and everything behind them
 * is one recorded graph, for as long as no blob changes its shape or place.
 * Hooks, a layer on the CPU, or one whose work depends on what the host sees
 * (CT_LAYER_NO_CAPTURE) keep a net from it; CORTADO_IMPL=replay:none too. */
#include "cortado/log.h"
#include "device/graph.h"
#include "device/impl.h"
#include "net/net.h"

enum { WARM_UP = 2 };

static bool can_replay(const struct ct_net *net)
{
    const struct ct_net_hooks *h = &net->hooks;

    if (net->dev->kind == CT_CPU || net->debug_info || net->layer_done ||
        h->before_forward || h->after_forward || h->before_backward ||
        h->after_backward || net->options.forward_only ||
        !ct_impl_allowed("replay", "graph"))
        return false;
    for (int i = 0; i < net->n_layer; i++) {
        const struct ct_layer *l = net->layer[i].layer;

        if (!(l->type->flags & CT_LAYER_SOURCE) &&
            (net->layer[i].host_top || (l->flags & CT_LAYER_NO_CAPTURE)))
            return false;
    }
    return true;
}

/* Changes when a shape or an address does. */
static uint64_t stamp_of(const struct ct_net *net)
{
    uint64_t stamp = (uint64_t)(uintptr_t)net->activations +
                     ct_device_stamp(net->dev);

    for (int i = 0; i < net->n_blob; i++)
        stamp = stamp * 31 + net->blob[i].blob->version +
                (uint64_t)(uintptr_t)ct_data(net->blob[i].blob);
    return stamp;
}

static bool is_source(const struct ct_net *net, int i)
{
    return net->layer[i].layer->type->flags & CT_LAYER_SOURCE;
}

static enum ct_status run_sources(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        if (is_source(net, i))
            CT_TRY(net_forward_layer(net, i));
    return CT_OK;
}

/* What the graph holds: all but the sources, and the weighted loss. */
static enum ct_status run_rest(struct ct_net *net)
{
    float beta = 0;

    for (int i = 0; i < net->n_layer; i++)
        if (!is_source(net, i))
            CT_TRY(net_forward_layer(net, i));
    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; t < net->layer[i].n_top; t++) {
            const struct ct_blob *top = net->layer[i].top[t];

            if (net->layer[i].loss_weight[t] == 0)
                continue;
            CT_TRY(net->dev->ops->dot_to(net->dev, top->count, ct_data(top),
                                         ct_diff(top), beta,
                                         net_loss_cell(net)));
            beta = 1;
        }
    CT_TRY(net->dev->ops->tick(net->dev, net->run.pass_on_device));
    return ct_net_backward(net);
}

static enum ct_status record(struct ct_net *net)
{
    enum ct_status st, ended;

    ct_graph_destroy(net->graph);
    net->graph = NULL;
    CT_TRY(ct_graph_begin(net->dev));
    st    = run_rest(net);
    ended = ct_graph_end(net->dev, &net->graph);
    if (st == CT_OK && ended == CT_OK)
        return CT_OK;
    CT_WARN("net %s is not replayed: %s", ct_net_name(net), ct_last_error());
    ct_graph_destroy(net->graph);
    net->graph = NULL;
    net->no_replay = true;
    return CT_OK;
}

static enum ct_status pass_by_pass(struct ct_net *net, double *loss)
{
    CT_TRY(ct_net_forward(net, loss));
    return ct_net_backward(net);
}

enum ct_status ct_net_forward_backward(struct ct_net *net, double *loss)
{
    enum ct_status st;
    uint64_t stamp;
    float sum;

    if (net->no_replay || net->n_warm++ < WARM_UP || !can_replay(net))
        return pass_by_pass(net, loss);
    CT_TRY(run_sources(net));
    stamp = stamp_of(net);
    if (!net->graph || stamp != net->graph_stamp) {
        CT_TRY(record(net));
        net->graph_stamp = stamp;
    }
    if (!net->graph) { /* the sources have run already */
        net->run.pass++;
        CT_TRY(run_rest(net));
    } else {
        net->run.pass++;
        CT_TRY(ct_graph_launch(net->graph));
    }
    st = net->dev->ops->to_host(net->dev, sizeof(sum), net_loss_cell(net),
                                &sum);
    if (st != CT_OK)
        return ct_fail_in(st, "rank %d, a recorded pass of net %s "
                          "(CORTADO_IMPL=replay:none finds the layer)",
                          net->run.rank, ct_net_name(net));
    *loss = (double)sum;
    return CT_OK;
}
