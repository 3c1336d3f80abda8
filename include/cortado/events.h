/* cortado/events.h - what happens in training, for whoever watches it.
 *
 * A listener is a constant table of functions and an argument for them; every
 * function may be NULL.  All are called on the thread that trains, between two
 * steps of its loop, so training waits for them: note what is needed and
 * return.  What an event points to is valid during the call only.  Without a
 * listener nothing is measured and nothing is called. */
#ifndef CT_EVENTS_H
#define CT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_solver;

/* An iteration is over: its update has begun or is done. */
struct ct_iteration {
    int     iter;      /* as the log counts: the first is 0 */
    int     max_iter;
    double  loss;      /* of this iteration, the mean over ranks */
    double  smoothed;  /* over average_loss iterations, as in the log */
    double  rate;      /* the learning rate of its update */
    int64_t samples;   /* that all ranks took together; 0: unknown */
    double  seconds;   /* that it took, without tests and snapshots */
    double  seconds_left; /* until max_iter; 0 while unknown */
    bool    displayed; /* the log has a line about it */
};

struct ct_test_output {
    const char *name;
    double      value;  /* the mean over the test's batches */
    double      weight; /* in the loss; 0: none */
};

struct ct_test_result {
    int    iter, net;  /* net: which test net, from 0 */
    double seconds;
    const struct ct_test_output *output;
    int    n_outputs;
};

struct ct_snapshot_files {
    int         iter;
    const char *model, *state; /* paths */
};

/* Something happened among the ranks. */
enum ct_mark_kind {
    CT_MARK_JOINED,  /* a rank came to a job that was running */
    CT_MARK_LOST,    /* a rank has died or left */
    CT_MARK_SUSPECT, /* a rank is not waited for until it comes back */
    CT_MARK_BACK,    /* a suspect rank came back */
    CT_MARK_VIEW,    /* the ranks that train together changed */
    CT_MARK_N_KINDS
};

struct ct_mark {
    enum ct_mark_kind kind;
    int    rank;       /* whom it is about; -1: all */
    int    iter;
    double time;       /* seconds since 1970 */
    char   text[192];  /* a sentence */
};

struct ct_solver_events {
    void (*iteration)(const struct ct_iteration *e, void *arg);
    void (*test)(const struct ct_test_result *e, void *arg);
    void (*snapshot)(const struct ct_snapshot_files *e, void *arg); /* rank 0 */
    void (*mark)(const struct ct_mark *e, void *arg);
    /* ct_solver_solve() ends: CT_OK at max_iter, CT_ESTOP on request, or a
     * failure, whose cause is ct_last_error(). */
    void (*stop)(int iter, enum ct_status why, void *arg);
    /* Asked before an iteration: is inspect wanted after it?  It is called
     * when all parameters are updated and their gradients are still there, so
     * that iteration overlaps less; ct_blob_get() reads both.  With several
     * ranks gradients are this rank's own or sums, as ranks exchange them, and
     * some may not be stored at all: ct_solver_gradient_scale() says. */
    bool (*wants_inspect)(int iter, void *arg);
    void (*inspect)(struct ct_solver *s, int iter, void *arg);
    /* Ranks come or go.  First with false: nets and ranks are about to change,
     * and no other thread may look at them; then, some time after, with true:
     * training goes on with these.  Either may come twice. */
    void (*view)(bool begins, void *arg);
};

/* `events` and `arg` must outlive the solver.  At most 8 listeners. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_listen(
    struct ct_solver *s, const struct ct_solver_events *events, void *arg);

/* During inspect: the gradient of parameter i times this is the mean gradient
 * of the samples it is from; 0: its gradient is not stored. */
CT_API float ct_solver_gradient_scale(const struct ct_solver *s, int i);

/* "joined", "lost" and so on. */
CT_API const char *ct_mark_name(enum ct_mark_kind kind);

#ifdef __cplusplus
}
#endif
#endif
