/* mirror.h - a copy in CPU memory of a net's arenas on a GPU, which peers read
 * and write.
 *
 *     gradients    are copied out in groups, each as soon as the backward pass
 *                  has completed its layers; their sums are copied back group
 *                  by group before the update
 *     parameters   and histories are copied when the exchange needs them: when
 *                  training starts, for means of weights, from servers
 *
 * dist/ works on these copies as on a net in CPU memory. */
#ifndef CT_SOLVER_MIRROR_H
#define CT_SOLVER_MIRROR_H

#include "net/cut.h"

struct ct_exchange;
struct ct_stage;

struct ct_mirror {
    struct ct_net *net;
    const struct ct_device *dev; /* the device of the net */
    float         *data, *diff; /* laid out as the arenas; owned */
    float         *history[2];  /* NULL: not needed by the exchange; owned */
    /* Private to mirror.c: */
    bool            *stays;        /* per parameter: ct_mirror_keep; owned */
    float           *on_device[2]; /* the solver's histories; borrowed */
    struct ct_stage *stage;        /* makes the copies; owned */
    struct ct_cut    groups;       /* runs that are copied together */
    bool            *arrived;      /* per group: its sums are on the device;
                                    * owned */
    int              n_queued;     /* groups whose copies are queued */
    int             *of_layer;     /* per layer: the last group to wait for,
                                    * -1: none; owned */
};

/* Groups of up to group_bytes; 0: a size that suits copies.  `history`:
 * n_history arrays on the device that the exchange uses. */
CT_MUST_CHECK enum ct_status ct_mirror_create(struct ct_net *net,
                                              const struct ct_device *dev,
                                              size_t group_bytes,
                                              float *const *history,
                                              int n_history,
                                              struct ct_mirror **out);
void ct_mirror_destroy(struct ct_mirror *m); /* takes NULL */

/* stays: the gradient of `param` is summed on the device and not copied. */
void ct_mirror_keep(struct ct_mirror *m, int param, bool stays);
/* For the exchange's own copies, in order with those of the mirror. */
struct ct_stage *ct_mirror_stage(const struct ct_mirror *m);

/* Call it before a pass is queued whose gradients will be copied. */
void ct_mirror_expect(struct ct_mirror *m);
/* For the net's layer_done, while the pass is queued. */
CT_MUST_CHECK enum ct_status ct_mirror_queue(struct ct_mirror *m, int layer);
/* Waits until the gradients of layers from `layer` up are in diff, except those
 * that stay on the device. */
CT_MUST_CHECK enum ct_status ct_mirror_wait(struct ct_mirror *m, int layer);
/* Waits for the sums of the group of `param` with x->wait() and copies them to
 * the device; once per pass. */
CT_MUST_CHECK enum ct_status ct_mirror_arrive(struct ct_mirror *m,
                                              struct ct_exchange *x,
                                              int param);

/* Copy parameters from and to the device; floats [first, first + n) of both
 * arenas; histories.  Each waits for its copies, and does nothing if m is
 * NULL. */
CT_MUST_CHECK enum ct_status ct_mirror_get(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put_run(struct ct_mirror *m,
                                               size_t first, size_t n);
CT_MUST_CHECK enum ct_status ct_mirror_get_history(struct ct_mirror *m);
CT_MUST_CHECK enum ct_status ct_mirror_put_history(struct ct_mirror *m);

/* The arenas of `net`, a parameter and the device as the exchange sees them:
 * those of the mirror; if m is NULL, those of the net. */
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
