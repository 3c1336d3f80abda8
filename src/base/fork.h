/* fork.h - locks that a forked process finds free.
 *
 * A process that fork()s while one of its threads holds a lock leaves a child
 * in which nobody will ever release it.  CT_FORK_SAFE(lock, order) at file
 * scope has fork() wait for the lock and release it on both sides.  It takes
 * the highest order first, so a lock that is taken while another is held has
 * the lower one. */
#ifndef CT_BASE_FORK_H
#define CT_BASE_FORK_H

#include <pthread.h>

/* Orders; the loader has taken those up to 100. */
#define CT_FORK_MEMORY 201
#define CT_FORK_LOG    202
#define CT_FORK_FILES  203

#define CT_FORK_SAFE(lock, order)                                            \
    static void lock##_before_fork(void)                                     \
    {                                                                        \
        pthread_mutex_lock(&(lock));                                         \
    }                                                                        \
    static void lock##_after_fork(void)                                      \
    {                                                                        \
        pthread_mutex_unlock(&(lock));                                       \
    }                                                                        \
    __attribute__((constructor(order))) static void lock##_watch_forks(void) \
    {                                                                        \
        pthread_atfork(lock##_before_fork, lock##_after_fork,                \
                       lock##_after_fork);                                   \
    }

#endif
