/* background.h - threads that only look on and never hold up those who compute.
 */
#ifndef CT_BASE_BACKGROUND_H
#define CT_BASE_BACKGROUND_H

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For the calling thread, which gets this name of up to 15 letters.  It takes a
 * core that is free at once, but puts nobody off a busy one when it wakes, and
 * gets little of that core where several want it.  A system that does not allow
 * this does no harm. */
static inline void ct_background(const char *name)
{
    const struct sched_param none = { 0 };

    prctl(PR_SET_NAME, name);
    (void)!sched_setscheduler(0, SCHED_BATCH, &none);
    (void)!setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
}

#endif
