/* run.c - runs a net: forward, backward, reshape. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/pulse.h"
#include "base/rng.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "device/recording.h"
#include "device/impl.h"
#include "device/layout.h"
#include "net/arena.h"
#include "net/net_inner.h"
#include "net/training.h"

static enum ct_status shadow_shapes(struct ct_net *net, struct net_layer *l)
{
    for (int i = 0; l->shadow && i < l->n_bottom; i++) {
        const struct ct_blob *from = net->blob[l->bottom_id[i]].blob;

        if (l->shadow[i] &&
            !ct_shape_equal(&from->shape, &l->shadow[i]->shape))
            CT_TRY(ct_reshape(l->shadow[i], from->shape));
    }
    return net_bridge_bottoms(net, l);
}

enum ct_status net_layer_reshape(struct ct_net *net, struct net_layer *l)
{
    struct ct_io io = net_io(l);
    enum ct_status st;

    CT_TRY(shadow_shapes(net, l));
    io.want_grad = NULL;
    for (int i = 0; i < l->n_bottom; i++)
        l->seen[i] = l->bottom[i]->version;
    st = l->layer->type->reshape(l->layer, &io);
    if (st != CT_OK)
        return ct_fail_in(net_status(st, CT_ESHAPE), "cannot reshape %s "
                          "layer %s", l->layer->type->name, l->layer->name);
    CT_TRY(net_bridge_tops(net, l));
    return net_copies_shape(net, l);
}

void net_layer_alias(const struct ct_net *net, struct net_layer *l)
{
    unsigned flags      = l->layer->flags;
    struct ct_blob *top = l->n_top ? net->layer[l->last].top[l->diff_top]
                                   : NULL;

    if (l->n_bottom == 0 || l->host_top)
        return;
    for (int i = 0; i < l->n_top && (flags & CT_LAYER_ALIAS_DATA); i++)
        if (ct_data(l->top[i]) != ct_data(l->bottom[0]))
            ct_blob_share_data(l->top[i], l->bottom[0]);
    if ((flags & CT_LAYER_ALIAS_DIFF) && top && l->want_grad[0] &&
        ct_diff(l->bottom[0]) && ct_diff(top) != ct_diff(l->bottom[0]))
        ct_blob_share_diff(top, l->bottom[0]);
}

enum ct_status net_convert(const struct ct_blob *b,
                           const struct ct_tensor *from,
                           const struct ct_tensor *to)
{
    return b->dev->ops->convert(b->dev, b->shape.dim[0], b->shape.dim[1],
                                ct_count(b, 2, CT_END), from->layout,
                                from->dtype, from->ptr, to->layout, to->dtype,
                                to->ptr);
}

static enum ct_status shadows_in(struct ct_net *net, struct net_layer *l)
{
    for (int i = 0; l->shadow && i < l->n_bottom; i++) {
        const struct ct_blob *from = net->blob[l->bottom_id[i]].blob;

        if (l->shadow[i])
            CT_TRY(net_convert(from, &from->data, &l->shadow[i]->data));
    }
    return CT_OK;
}

static enum ct_status shadows_out(struct ct_net *net, struct net_layer *l)
{
    for (int i = 0; l->shadow && i < l->n_bottom; i++) {
        const struct ct_blob *to = net->blob[l->bottom_id[i]].blob;

        if (l->shadow[i] && l->want_grad[i])
            CT_TRY(net_convert(to, &l->shadow[i]->diff, &to->diff));
    }
    return CT_OK;
}

static bool bottoms_changed(const struct net_layer *l)
{
    for (int i = 0; i < l->n_bottom; i++)
        if (l->seen[i] != l->bottom[i]->version)
            return true;
    return false;
}

/* The mean of absolute values, for debug output; it shows an infinity or a NaN.
 * Values that are not float32 are copied to the host, which is slow. */
static double mean_abs(const struct ct_blob *b, const struct ct_tensor *t)
{
    double sum  = 0;
    float *host = NULL;

    if (!t->ptr || b->count == 0)
        return 0;
    if (t->dtype == CT_F32) {
        (void)b->dev->ops->asum(b->dev, ct_elements(b), t->ptr, &sum);
    } else if (ct_alloc((size_t)b->count, sizeof(*host), "values", &host) ==
               CT_OK) {
        if (ct_blob_get(b, t == &b->diff, host) == CT_OK)
            (void)ct_device_cpu()->ops->asum(ct_device_cpu(), b->count, host,
                                             &sum);
        ct_free(host);
    }
    return sum / (double)b->count;
}

/* top->name is the name in the prototxt, even if part.c made the blob. */
static void forward_debug(const struct ct_net *net, const struct net_layer *l)
{
    const Caffe__LayerParameter *p = l->layer->param;

    for (int i = 0; i < l->n_top; i++) {
        const struct ct_blob *top = net->blob[l->top_id[i]].blob;

        CT_INFO("    [Forward] Layer %s, top blob %s data: %g", l->layer->name,
                top->name, mean_abs(top, &top->data));
    }
    for (int i = 0; i < l->layer->n_blob; i++) {
        const struct ct_blob *b = l->layer->blob[i];
        const char *shared = (size_t)i < p->n_param ? p->param[i]->name : NULL;
        char number[16];

        snprintf(number, sizeof(number), "%d", i);
        CT_INFO("    [Forward] Layer %s, param blob %s data: %g",
                l->layer->name, shared && shared[0] ? shared : number,
                mean_abs(b, &b->data));
    }
}

static void backward_debug(const struct net_layer *l)
{
    for (int i = 0; i < l->n_bottom; i++)
        if (l->want_grad[i])
            CT_INFO("    [Backward] Layer %s, bottom blob %s diff: %g",
                    l->layer->name, l->bottom[i]->name,
                    mean_abs(l->bottom[i], &l->bottom[i]->diff));
    for (int i = 0; i < l->layer->n_blob; i++)
        if (l->layer->blob_wants_grad[i])
            CT_INFO("    [Backward] Layer %s, param blob %d diff: %g",
                    l->layer->name, i,
                    mean_abs(l->layer->blob[i], &l->layer->blob[i]->diff));
}

static void params_debug(const struct ct_net *net)
{
    double l1[2] = { 0 }, l2[2] = { 0 }, v;

    for (int i = 0; i < net->n_params; i++) {
        const struct ct_blob *b         = net->params[i].blob;
        const struct ct_device_ops *ops = net->dev->ops;
        const float *part[2]            = { ct_data(b), ct_diff(b) };

        for (int j = 0; j < 2; j++) {
            (void)ops->asum(net->dev, b->count, part[j], &v);
            l1[j] += v;
            (void)ops->dot(net->dev, b->count, part[j], part[j], &v);
            l2[j] += v;
        }
    }
    CT_ERROR("    [Backward] All net params (data, diff): L1 norm = (%g, %g); "
             "L2 norm = (%g, %g)", l1[0], l1[1], sqrt(l2[0]), sqrt(l2[1]));
}

static enum ct_status layer_loss(const struct net_layer *l, double *loss)
{
    for (int i = 0; i < l->n_top; i++) {
        const struct ct_blob *top = l->top[i];
        double part;

        if (l->loss_weight[i] == 0)
            continue;
        CT_TRY(top->dev->ops->dot(top->dev, top->count, ct_data(top),
                                  ct_diff(top), &part));
        *loss += part;
    }
    return CT_OK;
}


/* After a reshape: fills the diffs of loss tops with the loss weight again. */
static enum ct_status refill_weights(const struct net_layer *l)
{
    for (int i = 0; i < l->n_top; i++)
        if (l->loss_weight[i] != 0)
            CT_TRY(ct_fill(l->top[i]->dev, l->top[i]->count,
                           l->loss_weight[i], ct_diff(l->top[i])));
    return CT_OK;
}

/* Reports the layer in the pulse, so that peers can see what takes long. */
static void tell(const struct ct_net *net, int i, enum ct_pulse_phase phase)
{
    const struct ct_layer *l = net->layer[i].layer;

    if (net->training.pulse)
        ct_pulse_set(net->training.pulse,
                     l->phase == CAFFE__PHASE__TEST            ? CT_PULSE_TEST
                     : l->type->flags & CT_LAYER_SOURCE ? CT_PULSE_DATA
                                                               : phase,
                     l->name);
}

/* Layers that run as one have one span with the names of the first and the last
 * layer. */
static void trace_layer(const struct ct_net *net, uint64_t start, int i,
                        enum ct_trace_kind kind)
{
    const struct net_layer *l = &net->layer[i];
    const int first = l->chain ? net_chain_first(l->chain) : l->first;
    const int last  = l->chain ? net_chain_last(l->chain) : l->last;
    char name[160];

    if (!start || i != last)
        return;
    snprintf(name, sizeof(name), "%s%s%s", net->layer[first].layer->name,
             first < i ? " .. " : "", first < i ? l->layer->name : "");
    if (l->layer->type->flags & CT_LAYER_SOURCE)
        kind = CT_TRACE_DATA;
    ct_trace_end(start, kind, name);
}

/* Adds the layer to an error.  A GPU may report the failure of work that was
 * queued before this layer. */
static enum ct_status named(const struct ct_net *net, int i, const char *pass,
                            enum ct_status st)
{
    const struct ct_layer *l = net->layer[i].layer;

    if (st != CT_ENOMEM && st != CT_EDEVICE)
        return st;
    return ct_fail_in(st, "rank %d, %s of layer %s (%s)%s", net->run.rank,
                      pass, l->name, l->type->name,
                      st == CT_EDEVICE ? " or before it" : "");
}

/* Adds the losses that are complete after layer i. */
static enum ct_status turn_losses(const struct ct_net *net, int i,
                                  double *loss)
{
    const struct net_chain *c = net->layer[i].chain;

    if (c && i < net_chain_last(c))
        return CT_OK;
    for (int j = c ? net_chain_first(c) : i; j <= i; j++)
        CT_TRY(layer_loss(&net->layer[j], loss));
    return CT_OK;
}

static enum ct_status forward_one(struct ct_net *net, int i, double *loss)
{
    struct net_layer *l = &net->layer[i];
    struct ct_io io     = net_group_io(net, i);
    uint64_t start;

    if (net->layer_start)
        CT_TRY(net->layer_start(net, i, net->layer_start_arg));
    start = ct_trace_begin();
    tell(net, i, CT_PULSE_FORWARD);
    if (net->hooks.before_forward)
        CT_TRY(net->hooks.before_forward(net, i, net->hooks.arg));
    CT_TRY(shadow_shapes(net, l));
    if (bottoms_changed(l)) {
        CT_TRY(net_layer_reshape(net, l));
        CT_TRY(refill_weights(l));
    }
    if (!l->chain)
        CT_TRY(shadows_in(net, l));
    CT_TRY(net_bridge_forward_in(net, l));
    net_layer_alias(net, l);
    if (net_bridge_is_direct(l))
        CT_TRY(net_bridge_direct(l));
    else if (l->chain && net_chain_last(l->chain) == i)
        CT_TRY(net_chain_forward(net, l->chain));
    else if (!l->chain && l->last == i)
        CT_TRY(ct_layer_forward(net->layer[l->first].layer, &io));
    CT_TRY(net_bridge_forward_out(net, l));
    CT_TRY(net_copies_fill(net, l));
    if (loss)
        CT_TRY(turn_losses(net, i, loss));
    if (net->debug_info)
        forward_debug(net, l);
    if (net->hooks.after_forward)
        CT_TRY(net->hooks.after_forward(net, i, net->hooks.arg));
    trace_layer(net, start, i, CT_TRACE_FORWARD);
    return CT_OK;
}

static enum ct_status forward_layer(struct ct_net *net, int i, double *loss)
{
    return named(net, i, "forward", forward_one(net, i, loss));
}

enum ct_status net_forward_layer(struct ct_net *net, int i)
{
    return forward_layer(net, i, NULL);
}

enum ct_status ct_net_forward_range(struct ct_net *net, int from, int to,
                                    double *loss)
{
    /* The memory of loss tops is not reused, so a GPU's losses are read once at
     * the end of the pass. */
    bool later = net->dev->kind != CT_CPU;
    double sum = 0;

    if (from < 0 || to > net->n_layer)
        return ct_fail(CT_EINVAL, "layers %d to %d of a net that has %d", from,
                       to, net->n_layer);
    if (net->debug_info && from == 0)
        CT_TRY(net_unfuse(net)); /* debug output shows every layer's top */
    /* Chains cannot run if a caller reads layers one by one. */
    if (from == 0 && (to < net->n_layer || net_has_hooks(net)))
        CT_TRY(net_unchain(net));
    else if (from == 0 && net->hooked)
        CT_TRY(net_chain_again(net));
    if (from == 0) {
        net->came_back = false;
        ct_cpu_look_around();
    }
    for (int i = from; i < to; i++)
        CT_TRY(forward_layer(net, i, later ? NULL : &sum));
    if (to == net->n_layer) {
        net->run.pass++;
        if (net->run.pass_on_device)
            CT_TRY(net->dev->ops->tick(net->dev, net->run.pass_on_device));
    }
    for (int i = from; later && loss && i < to; i++)
        CT_TRY(layer_loss(&net->layer[i], &sum));
    if (loss)
        *loss = sum;
    return CT_OK;
}

enum ct_status ct_net_forward(struct ct_net *net, double *loss)
{
    return ct_net_forward_range(net, 0, net->n_layer, loss);
}

enum ct_status ct_net_forward_paired(struct ct_net *net, double *loss)
{
    enum ct_status st;

    net->paired = true;
    st          = ct_net_forward(net, loss);
    net->paired = false;
    return st;
}

/* Clears gradients that are marked stale and that the layer did not write. */
static enum ct_status settle_diffs(const struct net_layer *l)
{
    for (int b = 0; b < l->layer->n_blob; b++) {
        struct ct_blob *blob = l->layer->blob[b];

        if (blob->stale && !(b == 0 && l->layer->sink))
            CT_TRY(ct_fill(blob->dev, blob->count, 0, ct_diff(blob)));
        blob->stale = false;
    }
    return CT_OK;
}

static enum ct_status backward_layer(struct ct_net *net, int i)
{
    struct net_layer *l = &net->layer[i];
    struct ct_io io     = net_group_io(net, i);
    uint64_t start      = ct_trace_begin();

    tell(net, i, CT_PULSE_BACKWARD);
    if (net->hooks.before_backward)
        CT_TRY(net->hooks.before_backward(net, i, net->hooks.arg));
    if (l->chain && net_chain_last(l->chain) == i) {
        if (!net->came_back)
            CT_TRY(net_chain_backward(net, l->chain));
        net->came_back = false; /* a second pass must run backward again */
    }
    if (l->needs_backward && l->last == i && !l->chain) {
        CT_TRY(net_bridge_backward_in(net, l));
        CT_TRY(ct_layer_backward(net->layer[l->first].layer, &io));
        CT_TRY(shadows_out(net, &net->layer[l->first]));
        CT_TRY(net_bridge_backward_out(net, l));
        if (net->debug_info)
            backward_debug(l);
    }
    CT_TRY(net_copies_back(net, l));
    for (int j = l->first; j <= i && l->last == i; j++)
        CT_TRY(settle_diffs(&net->layer[j]));
    if (net->hooks.after_backward)
        CT_TRY(net->hooks.after_backward(net, i, net->hooks.arg));
    if (l->needs_backward)
        trace_layer(net, start, i, CT_TRACE_BACKWARD);
    if (net->layer_done)
        CT_TRY(net->layer_done(net, i, net->layer_done_arg));
    return CT_OK;
}

enum ct_status ct_net_backward_range(struct ct_net *net, int from, int to)
{
    if (from >= net->n_layer || to < 0)
        return ct_fail(CT_EINVAL, "layers %d down to %d of a net that has %d",
                       from, to, net->n_layer);
    if (net->options.forward_only)
        return ct_fail(CT_EINVAL, "this net was built for forward passes "
                       "only");
    /* A caller that reads a layer after its turn needs its gradients, so the
     * side lane must not be behind. */
    net->run.aside = net_may_aside(net) && !net->debug_info &&
                     !net->layer_done && !net->hooks.after_backward;
    for (int i = from; i >= to; i--)
        CT_TRY(named(net, i, "backward", backward_layer(net, i)));
    return ct_side_join(net->dev);
}

/* Scales the loss weights, which are in the diffs of loss tops, for a backward
 * pass. */
static enum ct_status scale_losses(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int t = 0; t < net->layer[i].n_top; t++) {
            const struct ct_blob *top = net->layer[i].top[t];
            const float *scale        = net->loss_scale;
            float here;

            if (net->layer[i].loss_weight[t] == 0)
                continue;
            if (top->dev != net->dev) {
                CT_TRY(net->dev->ops->to_host(net->dev, sizeof(here), scale,
                                              &here));
                scale = &here;
            }
            CT_TRY(top->dev->ops->scale_by(top->dev, top->count, scale,
                                           ct_diff(top)));
        }
    return CT_OK;
}

enum ct_status ct_net_backward(struct ct_net *net)
{
    if (net->loss_scale)
        CT_TRY(scale_losses(net));
    CT_TRY(ct_net_backward_range(net, net->n_layer - 1, 0));
    for (int i = 0; net->loss_scale && i < net->n_layer; i++)
        CT_TRY(refill_weights(&net->layer[i]));
    if (net->debug_info)
        params_debug(net);
    return CT_OK;
}

void ct_net_set_loss_scale(struct ct_net *net, const float *scale)
{
    net->loss_scale = scale;
}

enum ct_status ct_net_clear_diffs(struct ct_net *net)
{
    for (int i = 0; i < net->n_params; i++)
        net->params[i].blob->stale = false;
    return ct_fill(net->dev, (int64_t)net->arena_count, 0,
                   ct_net_arena_diff(net));
}

/* CORTADO_IMPL=diffs:add clears every gradient, and layers add to it. */
enum ct_status ct_net_begin_diff(struct ct_net *net, int i)
{
    const struct ct_net_param *p = &net->params[i];
    const struct ct_layer *l     = net->layer[p->layer].layer;

    p->blob->stale = net->dev->kind == CT_CPU && p->n_sharers == 1 &&
                     (l->flags & CT_LAYER_OVERWRITES) &&
                     ct_impl_allowed("diffs", "write");
    if (p->blob->stale)
        return CT_OK;
    return ct_fill(net->dev, p->blob->count, 0, ct_diff(p->blob));
}

enum ct_status ct_net_begin_diffs(struct ct_net *net)
{
    if (net->dev->kind != CT_CPU)
        return ct_net_clear_diffs(net);
    CT_TRY(ct_fill(net->dev, CT_ARENA_RIDERS, 0, ct_net_arena_diff(net)));
    for (int i = 0; i < net->n_params; i++)
        CT_TRY(ct_net_begin_diff(net, i));
    return CT_OK;
}

enum ct_status ct_net_reshape(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        CT_TRY(net_layer_reshape(net, &net->layer[i]));
    return net_memory(net);
}

enum ct_status ct_net_seek(struct ct_net *net, uint64_t n_passes)
{
    net->run.pass = n_passes;
    if (net->run.pass_on_device)
        CT_TRY(net->dev->ops->from_host(net->dev, sizeof(n_passes), &n_passes,
                                        net->run.pass_on_device));
    for (int i = 0; i < net->n_layer; i++) {
        struct ct_layer *l = net->layer[i].layer;

        if (l->type->seek)
            CT_TRY(l->type->seek(l, n_passes));
    }
    return CT_OK;
}

static bool all_finite(const struct ct_blob *b)
{
    return isfinite(mean_abs(b, &b->data));
}

static bool layer_finite(const struct ct_net *net, int i)
{
    const struct net_layer *l = &net->layer[i];

    for (int b = 0; b < l->layer->n_blob; b++)
        if (!all_finite(l->layer->blob[b]))
            return false;
    for (int t = 0; t < l->n_top && l->last == i; t++)
        if (!all_finite(l->top[t]))
            return false;
    return true;
}

enum ct_status ct_net_find_nan(struct ct_net *net, int *layer)
{
    *layer = -1;
    /* Blobs share memory by lifetime, so each top is checked right after its
     * layer.  The pass continues to its end, because backward may follow. */
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l = &net->layer[i];
        int first           = l->chain ? net_chain_first(l->chain) : i;

        if (!(l->layer->type->flags & CT_LAYER_SOURCE))
            CT_TRY(forward_layer(net, i, NULL));
        if (l->chain && i < net_chain_last(l->chain))
            continue;
        if (l->chain && net_chain_turns(l->chain) && *layer < 0)
            CT_TRY(net_chain_look(net, l->chain, layer));
        for (int j = first; j <= i && (*layer < 0 || j < *layer); j++)
            if (!layer_finite(net, j))
                *layer = j;
    }
    return CT_OK;
}

void ct_net_reseed(struct ct_net *net, uint64_t seed)
{
    net->run.seed = seed;
    for (int i = 0; i < net->n_layer; i++)
        net->layer[i].layer->key = ct_key(seed, net->layer[i].layer->name);
}
