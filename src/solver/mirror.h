/* mirror.h - what lies on a GPU, in the CPU's memory, where peers read it and
 * write to it.
 *
 *     gradients    go out in groups, each as soon as the backward pass has
 *                  completed its layers and while it goes on; what the ranks
 *                  made of them comes back group by group before the update
 *     parameters   and histories are copied when the exchange asks: when
 *                  training starts, for means of weights, from servers
 *
 * Everything that dist/ does works on these copies as on a CPU's net. */
#ifndef CT_SOLVER_MIRROR_H
#define CT_SOLVER_MIRROR_H

#include "net/cut.h"

struct ct_exchange;
struct ct_stage;

struct ct_mirror {
    struct ct_net *net;
    const struct ct_device *dev; /* the net's */
    float         *data, *diff; /* as the arenas lie; owned */
    float         *history[2];  /* NULL: the exchange does without; owned */
    /* mirror.c's: */
    bool            *stays;        /* per parameter: ct_mirror_keep; owned */
    float           *on_device[2]; /* the solver's histories; borrowed */
    struct ct_stage *stage;        /* makes the copies; owned */
    struct ct_cut    groups;       /* runs that are copied as one */
    bool            *arrived;      /* per group: its sums are on the device;
                                    * owned */
    int              n_queued;     /* groups whose copies are queued */
    int             *of_layer;     /* per layer: the last group to wait for,
                                    * -1: none; owned */
};

/* Groups of up to group_bytes, 0: as copies like it.  `history` has n_history
 * arrays on the device, those that the exchange works with. */
CT_MUST_CHECK enum ct_status ct_mirror_create(struct ct_net *net,
                                              const struct ct_device *dev,
                                              size_t group_bytes,
                                              float *const *history,
                                              int n_history,
                                              struct ct_mirror **out);
void ct_mirror_destroy(struct ct_mirror *m); /* takes NULL */

/* The gradient of `param` stays on the device, where the exchange sums it, and
 * is not copied; or is copied again. */
void ct_mirror_keep(struct ct_mirror *m, int param, bool stays);
/* For copies of the exchange's own, in order with the mirror's. */
struct ct_stage *ct_mirror_stage(const struct ct_mirror *m);

/* A pass is about to be queued whose gradients go out. */
void ct_mirror_expect(struct ct_mirror *m);
/* For the net's layer_done, while the pass is queued. */
CT_MUST_CHECK enum ct_status ct_mirror_queue(struct ct_mirror *m, int layer);
/* Waits until what layers from `layer` up have made is in diff, but for what
 * stays on the device. */
CT_MUST_CHECK enum ct_status ct_mirror_wait(struct ct_mirror *m, int layer);
/* Once x->wait() returns for them, the gradients of the group that `param` is
 * in go back to the device; once a pass. */
CT_MUST_CHECK enum ct_status ct_mirror_arrive(struct ct_mirror *m,
                                              struct ct_exchange *x,
                                              int param);

/* Parameters from the device and to it; of both arenas' floats [first,
 * first + n); histories.  Each takes NULL, does nothing then, and waits. */
CT_MUST_CHECK enum ct_status ct_mirror_get(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put_run(struct ct_mirror *m,
                                               size_t first, size_t n);
CT_MUST_CHECK enum ct_status ct_mirror_get_history(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put_history(struct ct_mirror *m);

/* Where the exchange finds the arenas of `net` in the CPU's memory, a
 * parameter, and the device: what the mirror has; with NULL, the net itself. */
static inline float *ct_mirror_data(const struct ct_mirror *m,
                                    const struct ct_net *net)
{
    return m ? m->data : ct_net_arena_data(net);
}

static inline float *ct_mirror_diff(const struct ct_mirror *m,
                                    const struct ct_net *net)
{
    return m ? m->diff : ct_net_arena_diff(net);
}

static inline const float *ct_mirror_param(const struct ct_mirror *m,
                                           const struct ct_net_param *p)
{
    return m ? m->data + p->offset : ct_data(p->blob);
}

static inline const struct ct_device *ct_mirror_device(
    const struct ct_mirror *m)
{
    return m ? m->dev : ct_device_cpu();
}

#endif
