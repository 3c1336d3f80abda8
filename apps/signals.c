/* signals.c - a thread for signals. */
#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* These and no others, which have threads of their own (peers.c). */
static void *take_signals(void *ours)
{
    sigset_t others;

    sigfillset(&others);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    pthread_sigmask(SIG_UNBLOCK, ours, NULL);
    for (;;)
        pause();
    return NULL;
}

void signals_aside(bool term)
{
    static sigset_t mask; /* the thread reads it at any time later */
    pthread_t thread;

    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGUSR2);
    if (term)
        sigaddset(&mask, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &mask, NULL) != 0)
        return;
    if (pthread_create(&thread, NULL, take_signals, &mask) != 0)
        pthread_sigmask(SIG_UNBLOCK, &mask, NULL); /* better so than deaf */
    else
        pthread_detach(thread);
}
