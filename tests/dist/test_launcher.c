/* test_launcher.c - a launcher that takes no notice of ranks which have ended
 * is ended by the witness of one; others are left alone. */
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "liveness/launcher.h"
#include "liveness/witness.h"
#include "testing/test.h"

static void pause_for(int seconds)
{
    const struct timespec t = { seconds, 0 };

    nanosleep(&t, NULL);
}

/* Starts a rank that dies, by the launcher's hand or otherwise. */
static void lose_rank(int by)
{
    if (fork() == 0) {
        live_witness_start();
        raise(by);
    }
}

/* Whether a launcher collects its ranks and goes when told; whether a rank of
 * it lives. */
enum { COLLECTS = 1, STUBBORN = 2, SURVIVED = 4 };

/* What calls itself so, with a rank that dies of `by`. */
static pid_t launcher(const char *name, int by, int how)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_NAME, name, 0, 0, 0);
    lose_rank(by);
    while ((how & COLLECTS) && wait(NULL) > 0)
        continue;
    if ((how & SURVIVED) && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause_for(60);
        _exit(0);
    }
    if (how & STUBBORN)
        signal(SIGTERM, SIG_IGN);
    pause_for(60);
    _exit(0);
}

static int signal_of(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(launcher, that_is_deaf_is_ended)
{
    const pid_t deaf   = launcher("mpirun.deaf", SIGKILL, STUBBORN);
    const pid_t ending = launcher("mpirun.deaf", SIGTERM, 0);
    const pid_t alone[] = { launcher("mpirun.hears", SIGKILL, COLLECTS),
                            launcher("mpirun.goes.on", SIGKILL, SURVIVED),
                            launcher("script", SIGKILL, 0) };
    int status;

    ASSERT(deaf > 0 && ending > 0);
    ASSERT_INT(ending, waitpid(ending, &status, 0));
    ASSERT_INT(SIGTERM, signal_of(status));
    ASSERT_INT(deaf, waitpid(deaf, &status, 0));
    ASSERT_INT(SIGKILL, signal_of(status));
    for (int i = 0; i < 3; i++) {
        ASSERT_INT(0, waitpid(alone[i], &status, WNOHANG));
        kill(alone[i], SIGKILL);
        waitpid(alone[i], &status, 0);
    }
}

/* A wrapper between it and the rank, and a test runner above, are none. */
TEST(launcher, is_found_behind_wrappers)
{
    int say[2], found = -1;
    pid_t top;

    ASSERT(pipe(say) == 0);
    top = fork();
    if (top == 0) {
        prctl(PR_SET_NAME, "orted", 0, 0, 0);
        if (fork() == 0) {
            prctl(PR_SET_NAME, "sh", 0, 0, 0);
            if (fork() == 0) {
                found = (int)live_launcher_of(getpid()).pid;
                if (write(say[1], &found, sizeof(found)) < 0)
                    _exit(1);
                _exit(0);
            }
            wait(NULL);
            _exit(0);
        }
        wait(NULL);
        _exit(0);
    }
    ASSERT_INT((int)sizeof(found), (int)read(say[0], &found, sizeof(found)));
    ASSERT_INT((int)top, found);
    waitpid(top, NULL, 0);
    close(say[0]);
    close(say[1]);
}
