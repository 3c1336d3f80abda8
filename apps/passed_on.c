/* passed_on.c - signals that a parent passes on to what it has started. */
#include "passed_on.h"

#include <stdio.h>

const int passed_on[N_PASSED_ON] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1,
                                     SIGUSR2 };
static volatile sig_atomic_t came[NSIG];

static void note(int number)
{
    came[number] = 1;
}

void passed_on_catch(void)
{
    struct sigaction sa = { .sa_handler = note, .sa_flags = SA_RESTART };

    for (int i = 0; i < N_PASSED_ON; i++)
        sigaction(passed_on[i], &sa, NULL);
    sigaction(SIGCHLD, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
    passed_on_unblock(); /* a parent may have blocked them */
}

bool passed_on_take(int number)
{
    const bool yes = came[number];

    came[number] = 0;
    return yes;
}

bool passed_on_has(int number)
{
    return came[number];
}

void passed_on_note(int number)
{
    for (int i = 0; i < N_PASSED_ON; i++)
        if (passed_on[i] == number)
            came[number] = 1;
}

void passed_on_reset(void)
{
    for (int i = 0; i < N_PASSED_ON; i++)
        signal(passed_on[i], SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
}

void passed_on_add(sigset_t *set)
{
    for (int i = 0; i < N_PASSED_ON; i++)
        sigaddset(set, passed_on[i]);
}

void passed_on_unblock(void)
{
    sigset_t set;

    sigemptyset(&set);
    passed_on_add(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool passed_on_is_taken(pid_t pid, int number)
{
    char path[64], line[256];
    unsigned long long blocked = 0, caught = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "SigBlk: %llx", &blocked) != 1)
            (void)!sscanf(line, "SigCgt: %llx", &caught);
    fclose(f);
    return ((blocked | caught) >> (number - 1) & 1) != 0;
}
