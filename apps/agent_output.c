/* agent_output.c - what the programs of an agent print. */
#include "agent_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "passed_on.h"

static const double end_seconds = 2;

static const int own[2] = { STDOUT_FILENO, STDERR_FILENO };

/* Can it break?  A terminal or a file can not. */
static bool is_connection(int fd, struct stat *about)
{
    return fstat(fd, about) == 0 &&
           (S_ISFIFO(about->st_mode) || S_ISSOCK(about->st_mode));
}

/* What is written to a connection that broke is lost. */
static void pass_on(int to, const char *text, ssize_t n)
{
    while (n > 0) {
        const ssize_t done = write(to, text, (size_t)n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return;
        text += done;
        n -= done;
    }
}

/* Until nobody can write to them any more. */
static void pass_all_on(int *from)
{
    char text[1 << 16];

    while (from[0] >= 0 || from[1] >= 0) {
        struct pollfd p[2] = { { from[0], POLLIN, 0 }, { from[1], POLLIN, 0 } };

        if (poll(p, 2, -1) <= 0)
            continue;
        for (int i = 0; i < 2; i++) {
            ssize_t n = -1;

            if (from[i] < 0 || p[i].revents == 0)
                continue;
            n = read(from[i], text, sizeof(text));
            if (n > 0)
                pass_on(own[i], text, n);
            else if (n == 0 || errno != EINTR)
                from[i] = -1;
        }
    }
}

static void become_passer(int *from)
{
    for (int i = 0; i < N_PASSED_ON; i++)
        signal(passed_on[i], SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    (void)setpgid(0, 0);
    close(STDIN_FILENO);
    pass_all_on(from);
    _exit(0);
}

static void close_all(int *fd)
{
    for (int i = 0; i < 2; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}

/* One way for both where they are one, so that lines keep their order. */
static bool open_ways(int *from, int *to)
{
    struct stat about[2];
    bool open[2], is_one;

    for (int i = 0; i < 2; i++)
        open[i] = is_connection(own[i], &about[i]);
    is_one = open[0] && open[1] && about[0].st_dev == about[1].st_dev &&
             about[0].st_ino == about[1].st_ino;
    for (int i = 0; i < 2; i++) {
        int ends[2];

        if (!open[i])
            continue;
        if (i == 1 && is_one) {
            to[1] = fcntl(to[0], F_DUPFD_CLOEXEC, 0);
        } else if (pipe2(ends, O_CLOEXEC) == 0) {
            from[i] = ends[0];
            to[i]   = ends[1];
        }
        if (to[i] < 0)
            return false;
    }
    return true;
}

enum ct_status agent_output_begin(struct agent_output *o)
{
    int from[2] = { -1, -1 };

    *o = (struct agent_output){ { -1, -1 }, 0 };
    if (open_ways(from, o->to) && from[0] < 0 && from[1] < 0)
        return CT_OK;
    o->pid = from[0] < 0 && from[1] < 0 ? -1 : fork();
    if (o->pid == 0) {
        close_all(o->to);
        become_passer(from);
    }
    close_all(from);
    if (o->pid > 0)
        return CT_OK;
    close_all(o->to);
    o->pid = 0;
    return ct_fail(CT_EIO, "cannot pass output on: %s", strerror(errno));
}

void agent_output_give(const struct agent_output *o)
{
    for (int i = 0; i < 2; i++)
        if (o->to[i] >= 0)
            dup2(o->to[i], own[i]);
}

/* What a program has left running may go on printing. */
void agent_output_end(struct agent_output *o)
{
    const double end = ct_now() + end_seconds;

    close_all(o->to);
    while (o->pid > 0 && waitpid(o->pid, NULL, WNOHANG) == 0 &&
           ct_now() < end)
        poll(NULL, 0, 10);
    o->pid = 0;
}
