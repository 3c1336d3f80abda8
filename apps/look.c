/* look.c - which hosts answer, and which snapshots they have.
 *
 * A host is asked in the way in which a job gets there (hosts.h): by a script
 * that says it has the folder and the program, and the iteration of the newest
 * snapshot. */
#include "look.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "launch.h"
#include "passed_on.h"

enum { PATIENCE = 15, MOST_BYTES = 4096 };

static const char answer[] = "cortado-newest ", cannot[] = "cortado-cannot";

/* $1: the program, which may lack a library; $2: the prefix; $3: since when.
 * In one line: C shells take no more between quotes, nor exclamation marks. */
static const char script[] =
    "\"$1\" --version >/dev/null 2>&1 || { echo cortado-cannot; exit 1; }; "
    "newest=-1; "
    "for file in \"$2\"_iter_*.solverstate \"$2\"_iter_*.solverstate.h5; do "
    "when=$(stat -c %Y -- \"$file\" 2>/dev/null) || continue; "
    "iter=${file##*_iter_}; iter=${iter%%.*}; "
    "[ \"$when\" -ge \"$3\" ] && [ \"$iter\" -gt $newest ] 2>/dev/null && "
    "newest=$iter; "
    "done; "
    "echo \"cortado-newest $newest\"";

struct question {
    pid_t  pid;
    int    from; /* what it prints */
    char   text[MOST_BYTES + 1]; /* the end of that */
    size_t n;
};

static void ask(const struct host *h, const struct look_for *what,
                struct question *q)
{
    char since[32];
    const char *const words[] = { "sh", "-c", script, "sh",
                                  h->is_here ? "true" : what->program,
                                  what->prefix, since, NULL };
    int ends[2];

    snprintf(since, sizeof(since), "%" PRId64, what->since);
    q->from = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    q->pid = fork();
    if (q->pid == 0) {
        const int nothing = open("/dev/null", O_RDWR);

        passed_on_reset();
        setpgid(0, 0); /* with all that it starts */
        dup2(nothing, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        hosts_become(h, what->folder, words);
        _exit(127);
    }
    if (q->pid > 0)
        setpgid(q->pid, q->pid); /* here, too: one of both is first */
    close(ends[1]);
    q->from = ends[0];
}

/* False: that was all. */
static bool hear(struct question *q)
{
    char piece[MOST_BYTES];
    const ssize_t n = read(q->from, piece, sizeof(piece));

    if (n <= 0)
        return false;
    if (q->n + (size_t)n > MOST_BYTES) { /* a greeting may be long */
        const size_t keep = MOST_BYTES - (size_t)n;

        memmove(q->text, q->text + q->n - keep, keep);
        q->n = keep;
    }
    memcpy(q->text + q->n, piece, (size_t)n);
    q->n += (size_t)n;
    return true;
}

static void understand(struct question *q, struct look *out)
{
    const char *last = NULL;

    q->text[q->n] = '\0';
    for (const char *at = q->text; (at = strstr(at, answer)); at++)
        last = at;
    out->answers = last != NULL;
    out->lacks   = !last && strstr(q->text, cannot);
    out->newest  = last ? strtoll(last + strlen(answer), NULL, 10) : -1;
}

static void hear_all(struct question *q, int n, struct pollfd *fd)
{
    const double end = ct_now() + PATIENCE;
    int left         = 0;

    for (int i = 0; i < n; i++) {
        fd[i] = (struct pollfd){ .fd = q[i].from, .events = POLLIN };
        left += q[i].from >= 0;
    }
    while (left > 0 && ct_now() < end && !launch_is_asked_to_end()) {
        poll(fd, (nfds_t)n, 100);
        for (int i = 0; i < n; i++)
            if (fd[i].fd >= 0 && fd[i].revents && !hear(&q[i])) {
                fd[i].fd = -1;
                left--;
            }
    }
}

enum ct_status look_at(const struct hosts *h, const struct look_for *what,
                       struct look *out)
{
    struct question *q = NULL;
    struct pollfd *fd  = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)h->n, sizeof(*q), "hosts", &q), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)h->n, sizeof(*fd), "hosts", &fd), st, out);
    for (int i = 0; i < h->n; i++)
        ask(&h->host[i], what, &q[i]);
    hear_all(q, h->n, fd);
    for (int i = 0; i < h->n; i++) {
        if (q[i].from >= 0)
            close(q[i].from);
        if (q[i].pid > 0) {
            kill(-q[i].pid, SIGKILL); /* what has not ended */
            waitpid(q[i].pid, NULL, 0);
        }
        understand(&q[i], &out[i]);
    }
out:
    ct_free(q);
    ct_free(fd);
    return st;
}
