/* observe.h - what `cortado train` records and shows of itself. */
#ifndef CT_APPS_OBSERVE_H
#define CT_APPS_OBSERVE_H

#include "command.h"
#include "cortado/dist.h"

struct ct_trace_file;
struct observe;

struct observe_flags {
    const char *run;  /* the run folder; NULL: none, or one by the net's name */
    const char *http; /* where the live page is served; NULL: nowhere */
};

#define OBSERVE_FLAGS(f) FLAG("run", &(f).run), FLAG("http", &(f).http)

/* All ranks call it, before the solver is made; *out is NULL where nothing was
 * asked for and on ranks other than 0, which any rank may become in a job of
 * processes that come and go (`job`: its number; NULL: they stay).  `param` is
 * the solver in force. */
CT_MUST_CHECK enum ct_status observe_start(const struct observe_flags *f,
                                           const Caffe__SolverParameter *param,
                                           const uint64_t *job,
                                           struct ct_dist *d,
                                           struct observe **out);
/* For the solver's options.  NULL for NULL. */
struct ct_pulse *observe_pulse(struct observe *o);
/* All ranks call it, when the solver is there and restored. */
CT_MUST_CHECK enum ct_status observe_follow(const struct observe_flags *f,
                                            struct observe *o,
                                            struct ct_dist *d,
                                            struct ct_solver *s);
/* Until NULL: a button of the live page asks this one for a trace, which goes
 * to the run folder, and `d` for records of its ranks. */
void observe_trace(struct observe *o, struct ct_trace_file *trace,
                   struct ct_dist *d);

/* What a button of the live page asks for, once.  Takes NULL. */
enum ct_solver_action observe_action(struct observe *o);

/* Training has failed, and this process will end without freeing anything. */
void observe_last_words(struct observe *o); /* takes NULL */
void observe_end(struct observe *o); /* takes NULL */

#endif
