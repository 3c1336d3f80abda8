/* params.c - the net's parameters: shared by name, in two arenas.
 *
 * All parameters are in one buffer and all gradients in another, in reverse
 * order of layers.  So backward fills the gradients front to back, and a run of
 * them is complete while the others are still being computed:
 *
 *     arena:  | riders | last layer's W | b | ... | first layer's W | b |
 *
 * Each starts on a 64-byte line. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "net/arena.h"
#include "net/net_inner.h"
#include "proto/edit.h"

static const Caffe__ParamSpec *spec_of(const struct net_layer *l, int i)
{
    static const Caffe__ParamSpec none = CAFFE__PARAM_SPEC__INIT;
    const Caffe__LayerParameter *p     = l->layer->param;

    return (size_t)i < p->n_param ? p->param[i] : &none;
}

/* The specs of blobs 0 to n - 1: empty where the prototxt has none. */
static enum ct_status add_specs(Caffe__LayerParameter *p, size_t n)
{
    while (p->n_param < n) {
        Caffe__ParamSpec *spec;

        CT_TRY(ct_edit_create(&caffe__param_spec__descriptor, &spec));
        if (ct_edit_insert(&p->param, &p->n_param, p->n_param, spec) !=
            CT_OK) {
            ct_message_free(spec);
            return CT_ENOMEM;
        }
    }
    return CT_OK;
}

/* Sets lr_mult 0 for blobs that never have a gradient, if the prototxt does not
 * set it, and for all statistics (BatchNorm, BN).  Snapshots show it. */
static enum ct_status add_fixed_specs(struct ct_net *net, int layer)
{
    Caffe__LayerParameter *p = net->param->layer[layer];
    const struct ct_layer *l = net->layer[layer].layer;
    const size_t n_given     = p->n_param;

    for (int i = 0; i < l->n_blob; i++) {
        if (!ct_layer_is_statistic(l, i) &&
            (l->blob_wants_grad[i] || (size_t)i < n_given))
            continue;
        CT_TRY(add_specs(p, (size_t)i + 1));
        p->param[i]->has_lr_mult = true;
        p->param[i]->lr_mult     = 0;
    }
    return CT_OK;
}

static int owner_named(const struct ct_net *net, const char *name)
{
    for (int i = 0; i < net->n_params; i++) {
        const struct ct_net_param *p = &net->params[i];
        const Caffe__ParamSpec *s = spec_of(&net->layer[p->layer], p->index);

        if (s->name && strcmp(s->name, name) == 0)
            return i;
    }
    return -1;
}

static enum ct_status merge_mult(const char *what, const char *name, bool has,
                                 float value, bool *owner_has,
                                 float *owner_value)
{
    if (!has)
        return CT_OK;
    if (*owner_has && *owner_value != value)
        return ct_fail(CT_EINVAL, "shared parameter '%s' has two values of "
                       "%s: %g and %g", name, what, (double)*owner_value,
                       (double)value);
    *owner_has   = true;
    *owner_value = value;
    return CT_OK;
}

static enum ct_status join_owner(struct ct_net *net, struct ct_net_param *o,
                                 struct net_layer *l, int i)
{
    const Caffe__ParamSpec *s = spec_of(l, i);
    struct ct_blob *b         = l->layer->blob[i];
    bool permissive = s->has_share_mode &&
                      s->share_mode ==
                          CAFFE__PARAM_SPEC__DIM_CHECK_MODE__PERMISSIVE;
    char mine[256], theirs[256];

    if (permissive ? b->count != o->blob->count
                   : !ct_shape_equal(&b->shape, &o->blob->shape))
        return ct_fail(CT_ESHAPE, "layer %s: parameter '%s' is %s here but %s "
                       "in layer %s, which owns it", l->layer->name, s->name,
                       ct_shape_text(&b->shape, mine, sizeof(mine)),
                       ct_shape_text(&o->blob->shape, theirs, sizeof(theirs)),
                       net->layer[o->layer].layer->name);
    CT_TRY(merge_mult("lr_mult", s->name, s->has_lr_mult, s->lr_mult,
                      &o->has_lr_mult, &o->lr_mult));
    CT_TRY(merge_mult("decay_mult", s->name, s->has_decay_mult, s->decay_mult,
                      &o->has_decay_mult, &o->decay_mult));
    o->n_sharers++;
    /* Layers that share a gradient add to it in a fixed order, so none of them
     * may run on the side lane. */
    l->layer->flags &= ~(unsigned)CT_LAYER_ASIDE;
    net->layer[o->layer].layer->flags &= ~(unsigned)CT_LAYER_ASIDE;
    return CT_OK;
}

static enum ct_status collect_layer(struct ct_net *net, int layer)
{
    struct net_layer *l = &net->layer[layer];
    int n               = l->layer->n_blob;

    CT_TRY(add_fixed_specs(net, layer));
    if (l->layer->param->n_param > (size_t)n)
        return ct_fail(CT_EINVAL, "layer %s: %zu param specs for %d "
                       "parameter(s)", l->layer->name,
                       l->layer->param->n_param, n);
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*l->param_id), "net params",
                    &l->param_id));
    for (int i = 0; i < n; i++) {
        const Caffe__ParamSpec *s = spec_of(l, i);
        bool named                = s->name && s->name[0];
        int owner                 = named ? owner_named(net, s->name) : -1;

        if (owner >= 0) {
            CT_TRY(join_owner(net, &net->params[owner], l, i));
            l->param_id[i] = owner;
            continue;
        }
        net->params[net->n_params] = (struct ct_net_param){
            l->layer->blob[i], layer, i, s->lr_mult, s->decay_mult,
            s->has_lr_mult, s->has_decay_mult, 1, 0,
        };
        l->param_id[i] = net->n_params++;
    }
    return CT_OK;
}

static enum ct_status lay_out(struct ct_net *net)
{
    const size_t line = CT_ALIGN / sizeof(float);
    size_t used       = CT_ARENA_RIDERS;

    for (int i = net->n_layer - 1; i >= 0; i--)
        for (int j = 0; j < net->layer[i].layer->n_blob; j++) {
            struct ct_net_param *p = &net->params[net->layer[i].param_id[j]];

            if (p->layer != i || p->index != j)
                continue;
            p->offset = used;
            used += ((size_t)p->blob->count + line - 1) / line * line;
        }
    net->arena_count = used;
    CT_TRY(ct_buffer_create(net->dev, used * sizeof(float), "parameters",
                            &net->arena_data));
    if (!net->options.forward_only)
        CT_TRY(ct_buffer_create(net->dev, used * sizeof(float), "gradients",
                                &net->arena_diff));
    return CT_OK;
}

static enum ct_status move_in(struct ct_net *net, struct ct_net_param *p)
{
    size_t bytes = (size_t)p->blob->count * sizeof(float);
    float *to    = net->arena_data->ptr + p->offset;

    if (!net->run.unfilled) /* otherwise both are zeros */
        CT_TRY(ct_copy(net->dev, p->blob->count, ct_data(p->blob), to));
    ct_tensor_place(&p->blob->data, net->arena_data,
                    p->offset * sizeof(float), bytes);
    ct_tensor_clear(&p->blob->diff);
    if (net->arena_diff)
        ct_tensor_place(&p->blob->diff, net->arena_diff,
                        p->offset * sizeof(float), bytes);
    return CT_OK;
}

/* Layers that share a parameter use its owner's memory. */
static void share_params(struct ct_net *net)
{
    for (int i = 0; i < net->n_layer; i++)
        for (int j = 0; j < net->layer[i].layer->n_blob; j++) {
            struct ct_blob *mine = net->layer[i].layer->blob[j];
            struct ct_blob *own  = net->params[net->layer[i].param_id[j]].blob;

            if (mine != own) {
                ct_blob_share_data(mine, own);
                ct_blob_share_diff(mine, own);
            }
        }
}

enum ct_status net_params(struct ct_net *net)
{
    size_t n = 1;

    for (int i = 0; i < net->n_layer; i++)
        n += (size_t)net->layer[i].layer->n_blob;
    CT_TRY(ct_alloc(n, sizeof(*net->params), "net params", &net->params));
    for (int i = 0; i < net->n_layer; i++)
        CT_TRY(collect_layer(net, i));
    CT_TRY(lay_out(net));
    for (int i = 0; i < net->n_params; i++)
        CT_TRY(move_in(net, &net->params[i]));
    share_params(net);
    return CT_OK;
}

/* Places all gradients in `to`; the net takes over the reference. */
static void place_diffs(struct ct_net *net, struct ct_buffer *to)
{
    for (int i = 0; i < net->n_params; i++) {
        struct ct_net_param *p = &net->params[i];

        ct_tensor_place(&p->blob->diff, to, p->offset * sizeof(float),
                        (size_t)p->blob->count * sizeof(float));
    }
    share_params(net);
    ct_buffer_drop(net->arena_diff);
    net->arena_diff = to;
}

static void clear_arena(const struct ct_buffer *b)
{
    if (b)
        ct_mem_clear(b->ptr, b->bytes);
}

void ct_net_clear_arenas(struct ct_net *net)
{
    clear_arena(net->arena_data);
    clear_arena(net->arena_diff);
}

void ct_net_lend_diffs(struct ct_net *net, struct ct_buffer *memory)
{
    place_diffs(net, ct_buffer_use(memory));
}

enum ct_status ct_net_move_diffs(struct ct_net *net, struct ct_buffer *memory)
{
    const size_t bytes     = net->arena_count * sizeof(float);
    struct ct_buffer *from = net->arena_diff, *to = NULL;

    if (!from)
        return ct_fail(CT_EINVAL, "a net for forward passes has no gradients");
    if (memory && from->ptr == memory->ptr)
        return CT_OK;
    if (memory)
        to = ct_buffer_use(memory);
    else
        CT_TRY(ct_buffer_create(net->dev, bytes, "gradients", &to));
    if (ct_copy(net->dev, (int64_t)net->arena_count, from->ptr, to->ptr) !=
        CT_OK) {
        ct_buffer_drop(to);
        return ct_fail_in(CT_EINTERNAL, "cannot move the gradients");
    }
    place_diffs(net, to);
    return CT_OK;
}

enum ct_status ct_net_own_diffs(struct ct_net *net)
{
    return net->arena_diff && net->arena_diff->borrowed
               ? ct_net_move_diffs(net, NULL)
               : CT_OK;
}

/* Copies the values of all parameters to `to`, at their offsets. */
static enum ct_status copy_values(const struct ct_net *net,
                                  struct ct_buffer *to)
{
    for (int i = 0; i < net->n_params; i++) {
        const struct ct_net_param *p = &net->params[i];

        CT_TRY(ct_copy(net->dev, p->blob->count, ct_data(p->blob),
                       to->ptr + p->offset));
    }
    return CT_OK;
}

/* Places the parameters for which `here` is true in `to`. */
static void place_values(struct ct_net *net, struct ct_buffer *to,
                         bool (*here)(const struct ct_net_param *p))
{
    for (int i = 0; i < net->n_params; i++) {
        struct ct_net_param *p = &net->params[i];

        if (here(p))
            ct_tensor_place(&p->blob->data, to, p->offset * sizeof(float),
                            (size_t)p->blob->count * sizeof(float));
    }
    share_params(net);
    ct_buffer_use(to);
    ct_buffer_drop(net->arena_data);
    net->arena_data = to;
}

static bool any(const struct ct_net_param *p)
{
    (void)p;
    return true;
}

static bool is_learned(const struct ct_net_param *p)
{
    return p->lr_mult != 0;
}

/* Parameters that are not learned get private memory, one buffer each. */
static enum ct_status keep_own(struct ct_net *net)
{
    for (int i = 0; i < net->n_params; i++) {
        struct ct_blob *b = net->params[i].blob;
        size_t bytes      = (size_t)b->count * sizeof(float);
        struct ct_buffer *own;

        if (is_learned(&net->params[i]) || bytes == 0)
            continue;
        CT_TRY(ct_buffer_create(net->dev, bytes, "parameters", &own));
        if (ct_copy(net->dev, b->count, ct_data(b), own->ptr) == CT_OK)
            ct_tensor_place(&b->data, own, 0, bytes);
        ct_buffer_drop(own);
    }
    return CT_OK;
}

enum ct_status ct_net_share_values(struct ct_net *net,
                                   struct ct_buffer *shared)
{
    struct ct_buffer *own;
    enum ct_status st;

    if (shared) {
        CT_TRY(keep_own(net));
        place_values(net, shared, is_learned);
        return CT_OK;
    }
    CT_TRY(ct_buffer_create(net->dev, net->arena_count * sizeof(float),
                            "parameters", &own));
    st = copy_values(net, own);
    if (st == CT_OK)
        place_values(net, own, any);
    ct_buffer_drop(own);
    return st;
}

enum ct_status ct_net_keep_values(struct ct_net *net)
{
    for (int i = 0; i < net->n_params; i++) {
        const struct ct_net_param *p = &net->params[i];

        if (!is_learned(p))
            CT_TRY(ct_copy(net->dev, p->blob->count, ct_data(p->blob),
                           net->arena_data->ptr + p->offset));
    }
    place_values(net, net->arena_data, any);
    return CT_OK;
}

enum ct_status ct_net_share_values_of(struct ct_net *net,
                                      const struct ct_net *from)
{
    for (int i = 0; i < net->n_params; i++)
        if (!is_learned(&net->params[i]))
            CT_TRY(ct_copy(net->dev, net->params[i].blob->count,
                           ct_data(from->params[i].blob),
                           ct_data(net->params[i].blob)));
    return ct_net_share_values(net, from->arena_data);
}

void ct_net_take_arenas(struct ct_net *net, const struct ct_net *from)
{
    place_values(net, from->arena_data, any);
    if (net->arena_diff && from->arena_diff && !from->arena_diff->borrowed)
        place_diffs(net, ct_buffer_use(from->arena_diff));
}

void ct_net_swap_values(struct ct_net *net, struct ct_buffer *shared)
{
    place_values(net, shared, is_learned);
}

/* A gradient that the layer computes again must start from zero. */
void ct_net_make_gradient(struct ct_net *net, int param, bool itself)
{
    const struct ct_net_param *p = ct_net_param(net, param);

    ct_net_layer(net, p->layer)->blob_wants_grad[p->index] = itself;
    if (itself && p->blob->dev->kind == CT_CPU)
        memset(ct_diff(p->blob), 0, (size_t)p->blob->count * sizeof(float));
}
