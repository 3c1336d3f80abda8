/* main.c - draws nets at random and trains each in every way there is.
 *
 *     build/tests/random_nets [--seed=N|day] [--count=N] [--seconds=S]
 *         [--jobs=J] [--ways=N|all] [--way=NAME] [--gpu] [--most=N]
 *         [--type=TYPE] [--shrink=S] [--keep] [--print]
 *     build/tests/random_nets --types [--seed=N] [--count=N] [--print]
 *
 * Nets are made from the seeds N, N + 1, ... until --count nets are done,
 * --seconds are over, or --most have failed.  Each is trained in the plainest
 * way, which definitions in double precision check, by defaults, and in --ways
 * others, drawn by its seed; with --type only nets that have such a layer.  A
 * net that does not agree is shrunk, for --shrink seconds, and printed.
 * Children do the work, so that a crash or a hang is a result like others.
 * With --types nets are drawn and not trained, until every type of layer has
 * been drawn.  Ends "N passed, M failed". */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "check.h"
#include "types.h"

enum { MOST_JOBS = 64, CHUNK = 10, HANG_SECONDS = 120 };

/* What a child says of one net, over its pipe. */
struct report {
    uint64_t seed;
    int      what; /* enum check_outcome, or BEGUN */
};
enum { BEGUN = -1 };

struct job {
    pid_t    pid;
    int      pipe;
    uint64_t at;   /* the net it is at */
    double   since;
};

struct count {
    int  passed, failed, passed_over;
};

static bool take_flag(const char *arg, const char *name, double *value)
{
    const size_t n = strlen(name);

    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, n) != 0 ||
        arg[2 + n] != '=')
        return false;
    *value = strcmp(arg + 3 + n, "all") == 0 ? 1e9 : atof(arg + 3 + n);
    return true;
}

static void say(int fd, uint64_t seed, int what)
{
    const struct report r = { seed, what };

    if (write(fd, &r, sizeof(r)) != sizeof(r))
        _exit(3);
}

/* A child: nets from `seed` on, until `n` are done. */
static void work(const struct check_options *o, uint64_t seed, uint64_t n,
                 int fd)
{
    for (uint64_t i = 0; i < n; i++) {
        say(fd, seed + i, BEGUN);
        say(fd, seed + i, (int)check_net(o, seed + i));
        fflush(stdout);
    }
}

static void start(struct job *j, const struct check_options *o, uint64_t seed,
                  uint64_t n)
{
    int fd[2];

    if (pipe(fd) != 0) {
        perror("pipe");
        exit(3);
    }
    fflush(stdout);
    j->pid = fork();
    if (j->pid == 0) {
        close(fd[0]);
        work(o, seed, n, fd[1]);
        exit(0);
    }
    close(fd[1]);
    j->pipe  = fd[0];
    j->at    = seed;
    j->since = ct_now();
}

static void fail_net(struct count *c, const struct job *j, const char *why)
{
    printf("seed %llu: %s\n", (unsigned long long)j->at, why);
    c->failed++;
}

/* A child has ended; true: by itself. */
static bool collect(struct job *j, struct count *c)
{
    int status = 0;
    char why[64];

    close(j->pipe);
    waitpid(j->pid, &status, 0);
    j->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    snprintf(why, sizeof(why), WIFSIGNALED(status)
             ? "ended by signal %d" : "ended with exit code %d",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    fail_net(c, j, why);
    return false;
}

static void hear(struct job *j, struct count *c)
{
    struct report r;

    if (read(j->pipe, &r, sizeof(r)) != sizeof(r)) {
        (void)collect(j, c);
        return;
    }
    j->at    = r.seed;
    j->since = ct_now();
    c->passed      += r.what == CHECK_PASSED;
    c->failed      += r.what == CHECK_FAILED;
    c->passed_over += r.what == CHECK_PASSED_OVER;
}

static void watch(struct job *jobs, int n_jobs, struct count *c)
{
    struct pollfd p[MOST_JOBS];
    int n = 0;

    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].pid)
            p[n++] = (struct pollfd){ .fd = jobs[i].pipe, .events = POLLIN };
    (void)poll(p, (nfds_t)n, 1000);
    n = 0;
    for (int i = 0; i < n_jobs; i++) {
        if (!jobs[i].pid)
            continue;
        if (p[n++].revents)
            hear(&jobs[i], c);
        else if (ct_now() - jobs[i].since > HANG_SECONDS) {
            kill(jobs[i].pid, SIGKILL);
            printf("seed %llu: hangs\n", (unsigned long long)jobs[i].at);
            (void)collect(&jobs[i], c);
        }
    }
}

/* Where a run ends. */
struct limits {
    double count, seconds, failures;
};

static int run(const struct check_options *o, uint64_t seed,
               const struct limits *l, int n_jobs)
{
    struct job jobs[MOST_JOBS] = { 0 };
    struct count c             = { 0 };
    const double begin         = ct_now();
    uint64_t next = 0;
    int busy;

    do {
        const bool more = (double)next < l->count &&
                          ct_now() - begin < l->seconds &&
                          c.failed < l->failures;

        busy = 0;
        for (int i = 0; i < n_jobs; i++) {
            if (!jobs[i].pid && more && (double)next < l->count) {
                const double left = l->count - (double)next;
                const uint64_t n  = left < CHUNK ? (uint64_t)left : CHUNK;

                start(&jobs[i], o, seed + next, n);
                next += n;
            }
            busy += jobs[i].pid != 0;
        }
        if (busy)
            watch(jobs, n_jobs, &c);
    } while (busy);
    printf("seeds %llu to %llu in %.0f s; %d could not be judged\n",
           (unsigned long long)seed, (unsigned long long)(seed + next - 1),
           ct_now() - begin, c.passed_over);
    printf("%d passed, %d failed\n", c.passed, c.failed);
    return c.failed > 0 || c.passed == 0;
}

int main(int argc, char **argv)
{
    struct check_options o = { .n_ways = 6 };
    struct limits l = { .count = 1e9, .seconds = 1e9, .failures = 20 };
    double seed = 1, jobs = 1, most_ways = 6;
    bool types  = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--gpu") == 0)
            o.gpu = true;
        else if (strcmp(argv[i], "--print") == 0)
            o.print = true;
        else if (strcmp(argv[i], "--types") == 0)
            types = true;
        else if (strcmp(argv[i], "--keep") == 0)
            o.keep = true;
        else if (strcmp(argv[i], "--seed=day") == 0)
            seed = 1e6 + 1e4 * (double)(time(NULL) / 86400);
        else if (strncmp(argv[i], "--way=", 6) == 0)
            o.only = argv[i] + 6;
        else if (strncmp(argv[i], "--type=", 7) == 0)
            o.type = argv[i] + 7;
        else if (!take_flag(argv[i], "seed", &seed) &&
                 !take_flag(argv[i], "count", &l.count) &&
                 !take_flag(argv[i], "seconds", &l.seconds) &&
                 !take_flag(argv[i], "jobs", &jobs) &&
                 !take_flag(argv[i], "ways", &most_ways) &&
                 !take_flag(argv[i], "most", &l.failures) &&
                 !take_flag(argv[i], "shrink", &o.shrink_seconds)) {
            fprintf(stderr, "unknown flag %s; see tests/random/main.c\n",
                    argv[i]);
            return 1;
        }
    }
    if (types)
        return check_types((uint64_t)seed, l.count, o.print);
    o.n_ways = most_ways > 1000 ? 1000 : (int)most_ways;
    if (l.count > 1e8 && l.seconds > 1e8)
        l.seconds = 60;
    if (jobs > MOST_JOBS)
        jobs = MOST_JOBS;
    printf("seed %.0f\n", seed);
    return run(&o, (uint64_t)seed, &l, (int)jobs);
}
