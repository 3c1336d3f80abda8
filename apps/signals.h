/* signals.h - signals reach a run on a thread of their own.
 *
 * The kernel puts a handler's frame on the stack of the thread that it
 * interrupts.  Matrix products of oneDNN 2 keep values there, further below
 * the stack pointer than a frame stays away from; a signal in the middle of
 * one writes over them, and the product then over other memory.  So threads
 * that compute keep the signals out that have handlers. */
#ifndef CT_APPS_SIGNALS_H
#define CT_APPS_SIGNALS_H

#include <stdbool.h>

/* From here on SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and, with `term`, SIGTERM
 * interrupt a thread that does nothing else, not the caller nor threads that it
 * starts later.  Call it before the first of those. */
void signals_aside(bool term);

#endif
