/* measure_impl.c - measures the implementations of a net's operations.
 *
 * This is the last step of building, because layouts, fused layers and chains
 * change the operations.  A layer of a chain runs as the twins of its groups,
 * so the twins are measured and not the layer itself. */
#include <stdlib.h>

#include "device/impl.h"
#include "net/net_inner.h"

enum ct_status net_tuning(struct ct_net *net)
{
    const struct ct_net_training *t = &net->training;
    const int n_ranks               = net->run.size + t->more_come;
    const struct ct_tuning_case c   = {
        .word      = t->trial ? "off" : getenv("CORTADO_TUNE"),
        .forced    = ct_impl_forced("conv"),
        .compared  = ct_impl_asked(),
        .canonical = net->run.share > 0,
        .looked_at = net->options.quiet,
        .n_ranks   = n_ranks,
    };

    if (net->dev->kind != CT_CPU)
        return CT_OK;
    net->tuning.packs = t->n_histories > 0 && n_ranks == 1;
    net->work.tuning  = &net->tuning;
    return ct_tuning_init(&net->tuning, &c, "conv-cpu");
}

static enum ct_status tune_all(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++) {
        const struct net_layer *l = &net->layer[i];

        if (l->layer->type->tune && l->first == i && !l->chain)
            CT_TRY(l->layer->type->tune(l->layer));
    }
    for (int i = 0; i < net->n_chain; i++)
        CT_TRY(net_chain_tune(net->chain[i]));
    return CT_OK;
}

enum ct_status net_tune(struct ct_net *net)
{
    enum ct_status st;

    if (net->tuning.mode != CT_TUNING_MEASURE)
        return CT_OK;
    ct_tuning_begin(&net->tuning);
    st = tune_all(net);
    ct_tuning_end(&net->tuning, net->options.quiet ? NULL : "convolution");
    return st;
}
