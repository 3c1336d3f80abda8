/* net_flags.c - what the commands that build a net have in common. */
#include "net_flags.h"

#include "base/mem.h"

enum ct_status net_flags_apply(struct net_flags *f)
{
    if (f->gpu && f->gpu[0])
        return ct_fail(CT_ENOTSUP, "--gpu=%s: this build has no GPU support; "
                       "leave the flag out to run on the CPU", f->gpu);
    if (f->threads < 0)
        return ct_fail(CT_EINVAL, "--threads cannot be negative");
    if (f->threads)
        ct_device_cpu_set_threads(f->threads);
    CT_INFO("Use CPU.");
    if (f->stage && f->stage[0]) {
        f->stage_copy = ct_strdup(f->stage, "stages");
        if (!f->stage_copy)
            return CT_ENOMEM;
        f->n_stages = flags_list(f->stage_copy, &f->stages);
    }
    return CT_OK;
}

void net_flags_fini(struct net_flags *f)
{
    ct_free(f->stages);
    ct_free(f->stage_copy);
}

struct ct_net_options net_flags_options(const struct net_flags *f,
                                        Caffe__Phase phase)
{
    return (struct ct_net_options){
        .phase   = phase,
        .level   = f->level,
        .stage   = f->stages,
        .n_stage = f->n_stages,
        .seed    = 1,
    };
}
