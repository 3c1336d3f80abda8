/* train_signals.h - what signals ask of `cortado train`.
 *
 * A process has one training at a time, and handlers have no argument, so this
 * keeps what they need in the process. */
#ifndef CT_APPS_TRAIN_SIGNALS_H
#define CT_APPS_TRAIN_SIGNALS_H

#include "command.h"
#include "cortado/dist.h"

struct ct_trace_file;
struct elastic_member;

/* What each signal does: stop, snapshot, none or leave. */
struct signal_flags {
    const char *sigint, *sighup, *sigterm, *sigusr1;
};

#define SIGNAL_FLAGS(f)                       \
    FLAG("sigint_effect", &(f).sigint),       \
        FLAG("sighup_effect", &(f).sighup),   \
        FLAG("sigterm_effect", &(f).sigterm), \
        FLAG("sigusr1_effect", &(f).sigusr1)

/* Was any of them given?  Are they words that training knows? */
bool signal_flags_given(const struct signal_flags *f);
CT_MUST_CHECK enum ct_status signal_flags_check(const struct signal_flags *f);
/* Those that were not given.  Ranks of an elastic job can leave it.  SIGUSR1
 * does what SIGTERM does: launchers may pass on only one of the two. */
void signal_flags_default(struct signal_flags *f, bool elastic);
/* Does this signal stop all ranks? */
bool signal_flags_stop(const struct signal_flags *f, int number);
/* Does it end the rank that gets it: that stops, or leaves? */
bool signal_flags_end(const struct signal_flags *f, int number);

/* Fails on a word that it does not know.  `m`, or NULL: the member of an
 * elastic job that leaves it at some signals; borrowed until NULL is given. */
CT_MUST_CHECK enum ct_status train_signals_read(const struct signal_flags *f,
                                                struct elastic_member *m);
void train_signals_forget_member(void);

/* From here on signals have their effects, when training begins at the latest;
 * before that, a second one ends a process that is alone. */
void train_signals_catch(void);
/* From here on SIGUSR2 ends nothing. */
void train_signals_catch_requests(void);
/* Training begins.  Until NULL: whom SIGUSR2 asks for a trace, and whom for
 * records. */
void train_signals_ask(struct ct_trace_file *trace, struct ct_dist *d);

/* What a signal has asked for, once. */
enum ct_solver_action train_signals_action(void);

#endif
