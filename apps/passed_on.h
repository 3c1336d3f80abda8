/* passed_on.h - signals that a parent passes on to what it has started.
 *
 * A process has one set of handlers, so what they note is the process's. */
#ifndef CT_APPS_PASSED_ON_H
#define CT_APPS_PASSED_ON_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { N_PASSED_ON = 5 };
extern const int passed_on[N_PASSED_ON];

/* From here on they end nothing, nor does SIGPIPE; they and SIGCHLD end a
 * wait. */
void passed_on_catch(void);
/* Has this one come, or been noted, since this was last asked? */
bool passed_on_take(int number);
/* The same, and it is still there for the next who asks. */
bool passed_on_has(int number);
/* As if it had come.  One that is not passed on is forgotten. */
void passed_on_note(int number);

/* In a child: these signals have their usual effects. */
void passed_on_reset(void);
/* For a mask that keeps them waiting; lets them in. */
void passed_on_add(sigset_t *set);
void passed_on_unblock(void);

/* Does that process do something with it: has it a handler, or a thread that
 * waits?  Before that, a signal would end it. */
bool passed_on_is_taken(pid_t pid, int number);

#endif
