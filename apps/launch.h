/* launch.h - ranks by the launcher of the MPI that the program is linked to. */
#ifndef CT_APPS_LAUNCH_H
#define CT_APPS_LAUNCH_H

#include <sys/types.h>

#include "hosts.h"
#include "train_signals.h"

/* All of it borrowed. */
struct launch_call {
    const struct hosts *hosts;    /* in the order of ranks */
    char *const        *words;    /* the command and its own; NULL ends them */
    const char         *snapshot; /* to begin from, in place of theirs; NULL:
                                   * as they say */
};

/* From here on this process takes signals for the ranks, and the ranks that a
 * launcher leaves behind.  Which signals ask for the end stands in `f`. */
void launch_begin(const struct signal_flags *f);

/* Has the launcher start this program on all ranks of these hosts, and waits
 * for its end; signals go to the ranks.  A second one that asks for the end, or
 * one that no rank takes for some seconds, ends the launcher.  *code: what it
 * exits with. */
CT_MUST_CHECK enum ct_status launch_run(const struct launch_call *c, int *code);

/* The same once, on this host; any signal that ranks get may end them. */
CT_MUST_CHECK enum ct_status launch_here(int n_ranks, char *const *words,
                                         int *code);

/* The file that this process runs. */
CT_MUST_CHECK enum ct_status launch_self(char *out, size_t bytes);

/* In a child of this process, `parent`: becomes that program, without input, in
 * a group of its own, so that Ctrl-C reaches this process alone.  It ends with
 * its parent. */
_Noreturn void launch_become(const char *program, char **call, pid_t parent);

/* Ends what the launcher has left behind on this host: ranks, and processes of
 * this session. */
void launch_tidy(void);

/* A signal has asked for the end. */
bool launch_is_asked_to_end(void);

/* Waits, until somebody asks for the end at most. */
void launch_pause(int seconds);

/* Before an error is printed.  Ranks that were started together usually meet
 * the same one: rank 0 speaks at once and its end ends the job; the others
 * wait some seconds, and speak if they are still there. */
void launch_await_turn(void);

#endif
