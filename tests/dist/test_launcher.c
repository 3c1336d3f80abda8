/* test_launcher.c - a launcher that takes no notice of ranks which have ended
 * is ended by the witness of one; others are left alone. */
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dist/launcher.h"
#include "dist/witness.h"
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
        dist_witness_start();
        raise(by);
    }
}

/* What calls itself so, with a rank that dies of `by`. */
static pid_t launcher(const char *name, int by, bool collects, bool obeys)
{
    const pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_NAME, name, 0, 0, 0);
    lose_rank(by);
    while (collects && wait(NULL) > 0)
        continue;
    if (!obeys)
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
    const pid_t deaf   = launcher("mpirun.deaf", SIGKILL, false, false);
    const pid_t ending = launcher("mpirun.deaf", SIGTERM, false, true);
    const pid_t hears  = launcher("mpirun.hears", SIGKILL, true, true);
    const pid_t script = launcher("script", SIGKILL, false, true);
    int status;

    ASSERT(deaf > 0 && ending > 0 && hears > 0 && script > 0);
    ASSERT_INT(ending, waitpid(ending, &status, 0));
    ASSERT_INT(SIGTERM, signal_of(status));
    ASSERT_INT(deaf, waitpid(deaf, &status, 0));
    ASSERT_INT(SIGKILL, signal_of(status));
    ASSERT_INT(0, waitpid(hears, &status, WNOHANG));
    ASSERT_INT(0, waitpid(script, &status, WNOHANG));
    kill(hears, SIGKILL);
    kill(script, SIGKILL);
    waitpid(hears, &status, 0);
    waitpid(script, &status, 0);
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
                found = (int)dist_launcher_of(getpid()).pid;
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
