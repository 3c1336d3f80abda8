/* cortado/solver.h - training: a train net, its test nets, an update rule. */
#ifndef CT_SOLVER_H
#define CT_SOLVER_H

#include "cortado/events.h"
#include "cortado/net.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_exchange;
struct ct_solver;
struct ct_solver_watch; /* inside the library */

enum ct_solver_action {
    CT_ACTION_NONE,
    CT_ACTION_SNAPSHOT,
    CT_ACTION_STOP /* snapshot, then end as if max_iter were reached */
};

struct ct_solver_options {
    const struct ct_device *device; /* NULL: the CPU */
    int                     rank, size;
    int                     level; /* of the train net's state */
    const char *const      *stage;
    int                     n_stage;
    /* Polled once an iteration; NULL: never asks for anything. */
    enum ct_solver_action (*action)(void *arg);
    void *arg;
    bool  keep_blobs; /* as for nets; and every gradient after a step */
    struct ct_exchange *exchange; /* with peers; NULL: alone.  Borrowed */
    const struct ct_solver_watch *watch; /* NULL: nobody looks on */
};

/* `param` is already upgraded and is copied. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_create(
    const Caffe__SolverParameter *param,
    const struct ct_solver_options *options, struct ct_solver **out);
CT_API CT_MUST_CHECK enum ct_status ct_solver_create_file(
    const char *path, const struct ct_solver_options *options,
    struct ct_solver **out);
CT_API void ct_solver_destroy(struct ct_solver *s); /* takes NULL */

/* From the current iteration to max_iter, with tests, displays, snapshots.
 * CT_ESTOP: stopped early on request. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_solve(struct ct_solver *s);
CT_API CT_MUST_CHECK enum ct_status ct_solver_step(struct ct_solver *s, int n);
CT_API CT_MUST_CHECK enum ct_status ct_solver_test_all(struct ct_solver *s);
/* The update alone: learning rate, clipping, decay, rule, iteration + 1. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_apply_update(
    struct ct_solver *s);

CT_API CT_MUST_CHECK enum ct_status ct_solver_snapshot(struct ct_solver *s);
/* From a .solverstate or .solverstate.h5 and the model it names. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_restore(struct ct_solver *s,
                                                      const char *path);
/* The newest snapshot of this solver's prefix that is whole; CT_ENOTFOUND
 * when there is none.  *path is ct_free'd by the caller. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_newest_snapshot(
    const struct ct_solver *s, char **path);

CT_API struct ct_net *ct_solver_net(const struct ct_solver *s);
CT_API int ct_solver_n_test_nets(const struct ct_solver *s);
CT_API struct ct_net *ct_solver_test_net(const struct ct_solver *s, int i);
CT_API int ct_solver_iter(const struct ct_solver *s);
CT_API double ct_solver_loss(const struct ct_solver *s); /* smoothed */
/* What losses are multiplied by in fp16; 0: nothing.  Waits for the GPU. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_loss_scale(
    const struct ct_solver *s, float *out);
CT_API Caffe__SolverParameter *ct_solver_param(const struct ct_solver *s);
CT_API CT_MUST_CHECK enum ct_status ct_solver_rate(struct ct_solver *s,
                                                   float *out);

/* The precision that the words of the solver's train net ask for. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_precision(
    const Caffe__SolverParameter *param, enum ct_precision *out);

#ifdef __cplusplus
}
#endif
#endif
