/* net_flags.h - what the commands that build a net have in common. */
#ifndef CT_APPS_NET_FLAGS_H
#define CT_APPS_NET_FLAGS_H

#include "command.h"
#include "flags.h"

struct net_flags {
    const char  *model, *weights, *gpu, *precision, *stage, *phase, *plugin;
    int          level, threads;
    const Caffe__SolverParameter *solver; /* whose net is run; or NULL */
    int          local; /* this process among those of its machine */
    const struct ct_device *device; /* what apply opened; fini closes it */
    char        *stage_copy;
    const char **stages;
    int          n_stages;
};

/* Flags every such command takes; for use inside a struct flag list. */
#define NET_FLAGS(f)                                                         \
    FLAG("gpu", &(f).gpu),                                                   \
    FLAG("precision", &(f).precision),                                       \
    FLAG("plugin", &(f).plugin),                                             \
    FLAG("level", &(f).level),                                               \
    FLAG("stage", &(f).stage),                                               \
    FLAG("threads", &(f).threads)

/* Splits stages, once. */
CT_MUST_CHECK enum ct_status net_flags_stages(struct net_flags *f);
/* Sets threads and device, splits stages. */
CT_MUST_CHECK enum ct_status net_flags_apply(struct net_flags *f);
void net_flags_fini(struct net_flags *f);
/* How many GPUs --gpu names: 0 without the flag. */
CT_MUST_CHECK enum ct_status net_flags_n_gpus(const struct net_flags *f,
                                              int *out);

/* Options for a net of this phase. */
struct ct_net_options net_flags_options(const struct net_flags *f,
                                        Caffe__Phase phase);
#endif
