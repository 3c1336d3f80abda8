/* net_flags.c - what the commands that build a net have in common. */
#include "net_flags.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/pick.h"

enum ct_status net_flags_n_gpus(const struct net_flags *f, int *out)
{
    int id;

    *out = 0;
    if (!f->gpu || !f->gpu[0])
        return CT_OK;
    return ct_gpu_pick(f->gpu, ct_device_cuda_count(), 0, &id, out);
}

/* The flag's, or what the net's own words ask for. */
static enum ct_status find_precision(const struct net_flags *f,
                                     enum ct_precision *out)
{
    Caffe__NetParameter *net = NULL;

    *out = CT_FP32;
    if (f->precision)
        return ct_precision_parse(f->precision, out);
    if (f->solver)
        return ct_solver_precision(f->solver, out);
    if (!f->model)
        return CT_OK;
    CT_TRY(ct_net_param_read(f->model, &net));
    *out = ct_net_precision(net);
    ct_message_free(net);
    return CT_OK;
}

static enum ct_status open_device(struct net_flags *f)
{
    enum ct_precision precision;
    int id, n;

    CT_TRY(find_precision(f, &precision));
    if (!f->gpu || !f->gpu[0]) {
        /* A net's own fp16 is for GPUs, and no reason to refuse it here. */
        if (!f->precision && precision != CT_BF16_MIXED)
            precision = CT_FP32;
        CT_TRY(ct_device_cpu_open(precision, &f->device));
        CT_INFO("Use CPU%s.",
                ct_device_dtype(f->device) == CT_BF16 ? ", bf16" : "");
        return CT_OK;
    }
    CT_TRY(ct_gpu_pick(f->gpu, ct_device_cuda_count(), f->local, &id, &n));
    CT_TRY(ct_device_cuda_open(id, precision, &f->device));
    CT_INFO("Using GPU %d: %s, %s", id, ct_device_name(f->device),
            ct_precision_name(precision));
    return CT_OK;
}

static enum ct_status load_plugins(const struct net_flags *f)
{
    char *copy = f->plugin ? ct_strdup(f->plugin, "plug-ins") : NULL;
    const char **list = NULL;
    int n = copy ? flags_list(copy, &list) : 0;
    enum ct_status st = CT_OK;

    for (int i = 0; i < n && st == CT_OK; i++)
        st = ct_plugin_load(list[i]);
    ct_free(list);
    ct_free(copy);
    return st;
}

enum ct_status net_flags_stages(struct net_flags *f)
{
    if (f->stage_copy || !f->stage || !f->stage[0])
        return CT_OK;
    f->stage_copy = ct_strdup(f->stage, "stages");
    if (!f->stage_copy)
        return CT_ENOMEM;
    f->n_stages = flags_list(f->stage_copy, &f->stages);
    return CT_OK;
}

enum ct_status net_flags_apply(struct net_flags *f)
{
    if (f->threads < 0)
        return ct_fail(CT_EINVAL, "--threads cannot be negative");
    ct_device_cpu_set_threads(f->threads ? f->threads
                              : getenv("OMP_NUM_THREADS")
                                  ? ct_device_cpu_threads()
                                  : 0);
    CT_TRY(load_plugins(f));
    CT_TRY(open_device(f));
    return net_flags_stages(f);
}

void net_flags_fini(struct net_flags *f)
{
    ct_device_close(f->device);
    ct_free(f->stages);
    ct_free(f->stage_copy);
}

struct ct_net_options net_flags_options(const struct net_flags *f,
                                        Caffe__Phase phase)
{
    return (struct ct_net_options){
        .device  = f->device,
        .phase   = phase,
        .level   = f->level,
        .stage   = f->stages,
        .n_stage = f->n_stages,
        .seed    = 1,
    };
}
