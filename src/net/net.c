/* net.c - creates and destroys a net; queries. */
#include "net/net_inner.h"

#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "device/impl.h"
#include "device/recording.h"
#include "layers/plugins.h"
#include "net/phase.h"
#include "net/replay.h"
#include "net/training.h"

static enum ct_status net_passes(struct ct_net *net,
                                 const Caffe__NetParameter *param)
{
    CT_TRY(net_filter(param, &net->options, &net->param));
    net_precision_note(net);
    CT_TRY(net_split(net->param));
    if (net->dev->kind != CT_CPU) {
        CT_TRY(ct_buffer_create(net->dev, 64, "counters", &net->cells));
        net->run.pass_on_device = (uint64_t *)(void *)net->cells->ptr;
    }
    CT_TRY(net_build(net));
    CT_TRY(net_backward_needs(net));
    CT_TRY(net_params(net));
    net_mark_open_ended(net);
    CT_TRY(net_part_all(net));
    CT_TRY(net_fuse(net));
    CT_TRY(net_layouts(net));
    CT_TRY(net_memory(net));
    return net_tune(net);
}

static void net_report(const struct ct_net *net)
{
    char *table;

    if (net->options.quiet)
        return;
    for (int i = 0; i < net->n_output; i++)
        CT_INFO("This network produces output %s",
                net->blob[net->output[i]].name);
    if (ct_net_summary(net, &table) == CT_OK) {
        for (char *line = table, *end; (end = strchr(line, '\n'));
             line = end + 1)
            CT_INFO("%.*s", (int)(end - line), line);
        ct_free(table);
    }
    CT_INFO("Network initialization done.");
}

enum ct_status ct_net_create(const Caffe__NetParameter *param,
                             const struct ct_net_options *options,
                             struct ct_net **out)
{
    struct ct_net *net;
    bool trial;
    enum ct_status st;

    CT_TRY(ct_impl_check());
    CT_TRY(ct_alloc(1, sizeof(*net), "net", &net));
    net->options     = *options;
    if (options->training)
        net->training = *options->training;
    net->options.training = NULL;
    net->dev         = options->device ? options->device : ct_device_cpu();
    net->run.seed    = options->seed;
    net->run.rank    = options->rank;
    net->run.device  = net->dev;
    net->run.work    = &net->work;
    net->run.size    = options->size > 0 ? options->size : 1;
    net->run.own_data   = net->training.own_data;
    net->run.deal_tests = options->deal_tests;
    net->run.share      = net->training.share;
    net->run.dealing    = &net->training.dealing;
    net->run.forward_only = options->forward_only;
    net->run.fixed_params = options->fixed_params;
    net->run.peers      = net->training.peers;
    net->run.unfilled   = net->training.unfilled;
    net->debug_info  = param->debug_info;
    st               = ct_plugins_load_asked(param);
    if (st == CT_OK)
        st = net_tuning(net);
    if (st == CT_OK)
        st = net_passes(net, param);
    net->options.stage   = NULL; /* borrowed for the build only */
    net->options.n_stage = 0;
    if (st != CT_OK) {
        trial = net->training.trial;
        ct_net_destroy(net);
        if (st == CT_ENOMEM && !trial)
            st = net_explain_memory(param, options);
        return param->name ? ct_fail_in(st, "net %s", param->name) : st;
    }
    net_report(net);
    *out = net;
    return CT_OK;
}

enum ct_status ct_net_create_file(const char *path,
                                  const struct ct_net_options *options,
                                  struct ct_net **out)
{
    Caffe__NetParameter *param = NULL;
    enum ct_status st;

    CT_TRY(ct_net_param_read(path, &param));
    st = ct_net_create(param, options, out);
    ct_message_free(param);
    return st == CT_OK ? st : ct_fail_in(st, "%s", path);
}

void ct_net_destroy(struct ct_net *net)
{
    if (!net)
        return;
    net_chains_drop(net);
    for (int i = 0; i < net->n_layer; i++) {
        struct net_layer *l = &net->layer[i];

        ct_layer_destroy(l->layer);
        for (int b = 0; l->shadow && b < l->n_bottom; b++)
            ct_blob_destroy(l->shadow[b]);
        net_bridge_fini(l);
        ct_free(l->shadow);
        ct_free(l->bottom);
        ct_free(l->top);
        ct_free(l->bottom_id);
        ct_free(l->top_id);
        ct_free(l->seen);
        ct_free(l->want_grad);
        ct_free(l->loss_weight);
        ct_free(l->param_id);
    }
    for (int i = 0; i < net->n_blob; i++) {
        ct_blob_destroy(net->blob[i].blob);
        ct_free(net->blob[i].name);
    }
    ct_free(net->layer);
    ct_free(net->blob);
    ct_free(net->input);
    ct_free(net->output);
    ct_free(net->params);
    ct_buffer_drop(net->arena_data);
    ct_buffer_drop(net->arena_diff);
    ct_buffer_drop(net->activations);
    ct_net_forget_passes(net);
    ct_beacon_destroy(net->beacon);
    ct_buffer_drop(net->cells);
    ct_workspace_fini(&net->work);
    ct_tuning_fini(&net->tuning);
    ct_message_free(net->param);
    ct_free(net);
}

bool ct_net_can_deal(const struct ct_net *net, int *layer)
{
    for (int i = 0; i < net->n_layer; i++) {
        const struct ct_layer *l = net->layer[i].layer;
        bool source = l->type->flags & CT_LAYER_SOURCE;

        if ((source && !(l->type->flags & CT_LAYER_DEALS)) ||
            (l->flags & CT_LAYER_CARRIES)) {
            if (layer)
                *layer = i;
            return false;
        }
    }
    return true;
}

uint64_t ct_net_n_passes(const struct ct_net *net)
{
    return net->run.pass;
}

int ct_net_share(const struct ct_net *net)
{
    return net->run.share > 0 ? net->run.share : 1;
}

void ct_net_set_skew(struct ct_net *net, int64_t skew, int64_t step)
{
    net->training.dealing.skew      = skew;
    net->training.dealing.skew_step = step;
}

int64_t ct_net_skew(const struct ct_net *net)
{
    return net->training.dealing.skew;
}

int64_t ct_net_skew_step(const struct ct_net *net)
{
    return net->training.dealing.skew_step;
}

const char *ct_net_name(const struct ct_net *net)
{
    return net->param->name ? net->param->name : "";
}

const Caffe__NetParameter *ct_net_param_message(const struct ct_net *net)
{
    return net->param;
}

Caffe__Phase ct_net_phase(const struct ct_net *net)
{
    return net->options.phase;
}

int ct_net_n_layers(const struct ct_net *net)
{
    return net->n_layer;
}

struct ct_layer *ct_net_layer(const struct ct_net *net, int i)
{
    return net->layer[i].layer;
}

int ct_net_find_layer(const struct ct_net *net, const char *name)
{
    for (int i = 0; i < net->n_layer; i++)
        if (strcmp(net->layer[i].layer->name, name) == 0)
            return i;
    return -1;
}

struct ct_io ct_net_io(const struct ct_net *net, int layer)
{
    return net_io(&net->layer[layer]);
}

bool ct_net_layer_needs_backward(const struct ct_net *net, int layer)
{
    return net->layer[layer].needs_backward;
}

int ct_net_group_first(const struct ct_net *net, int layer)
{
    return net->layer[layer].first;
}

int ct_net_group_last(const struct ct_net *net, int layer)
{
    return net->layer[layer].last;
}

int ct_net_n_blobs(const struct ct_net *net)
{
    return net->n_named;
}

struct ct_blob *ct_net_blob(const struct ct_net *net, int i)
{
    return net->blob[i].blob;
}

const char *ct_net_blob_name(const struct ct_net *net, int i)
{
    return net->blob[i].name;
}

float ct_net_blob_loss_weight(const struct ct_net *net, int i)
{
    return net->blob[i].loss_weight;
}

int ct_net_find_blob(const struct ct_net *net, const char *name)
{
    for (int i = 0; i < net->n_blob; i++)
        if (strcmp(net->blob[i].name, name) == 0)
            return i;
    return -1;
}

int ct_net_bottom_id(const struct ct_net *net, int layer, int i)
{
    return net->blob[net->layer[layer].bottom_id[i]].stands_for;
}

int ct_net_top_id(const struct ct_net *net, int layer, int i)
{
    return net->blob[net->layer[layer].top_id[i]].stands_for;
}

int ct_net_n_inputs(const struct ct_net *net)
{
    return net->n_input;
}

int ct_net_input_id(const struct ct_net *net, int i)
{
    return net->input[i];
}

int ct_net_n_outputs(const struct ct_net *net)
{
    return net->n_output;
}

int ct_net_output_id(const struct ct_net *net, int i)
{
    return net->output[i];
}

int ct_net_n_params(const struct ct_net *net)
{
    return net->n_params;
}

const struct ct_net_param *ct_net_param(const struct ct_net *net, int i)
{
    return &net->params[i];
}

float *ct_net_arena_data(const struct ct_net *net)
{
    return net->arena_data ? net->arena_data->ptr : NULL;
}

float *ct_net_arena_diff(const struct ct_net *net)
{
    return net->arena_diff ? net->arena_diff->ptr : NULL;
}

size_t ct_net_arena_count(const struct ct_net *net)
{
    return net->arena_count;
}

void ct_net_set_hooks(struct ct_net *net, const struct ct_net_hooks *hooks)
{
    net->hooks = *hooks;
}

void ct_net_set_layer_done(struct ct_net *net, ct_net_fn done, void *arg)
{
    net->layer_done     = done;
    net->layer_done_arg = arg;
}

void ct_net_set_pulse(struct ct_net *net, struct ct_pulse *pulse)
{
    net->training.pulse = pulse;
}

void ct_net_set_layer_start(struct ct_net *net, ct_net_fn start, void *arg)
{
    net->layer_start     = start;
    net->layer_start_arg = arg;
}

void ct_net_params_changed(struct ct_net *net)
{
    net->run.params++;
}

void ct_net_set_debug_info(struct ct_net *net, bool on)
{
    net->debug_info = on;
}
