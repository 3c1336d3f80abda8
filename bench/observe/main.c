/* main.c - what watching costs:
 *     mpiexec -n P watch_bench SOLVER FOLDER SECONDS [journal]
 *
 * One training is watched and left alone in turns of a second, or of six steps
 * where these take longer, by the journal's own wake and sleep, so that both
 * sides see the same machine at nearly the same time.  While it is watched,
 * rank 0 writes FOLDER and serves the live page, and a thread asks for what an
 * open page asks for, once a second, and for metrics; with `journal` it writes
 * the folder and no more.  Prints a line for each turn: 0 or 1 (watched), the
 * time that the threads which watch had on processors, then the seconds of each
 * of its steps.  The first step of a turn, in which threads come or go, is left
 * out. */
#include <arpa/inet.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cortado/cortado.h"
#include "cortado/dist.h"
#include "observe/board.h"
#include "observe/journal.h"
#include "solver/tracing.h"

enum { LEAST_STEPS = 6, MAX_STEPS = 4096 }; /* of a turn */
static const double TURN_SECONDS = 1.0;

struct bench {
    struct ct_dist    *dist;
    struct ct_solver  *solver;
    struct ct_journal *journal; /* rank 0's; NULL elsewhere, as is the board */
    struct ct_board   *board;
    char               address[400];
    int                port; /* of the page; 0: there is none */
    atomic_bool        watched, over;
    double             step[MAX_STEPS];
    double             spent; /* by the threads that watch, in this turn */
};

/* The first line of a file of thread `id`, or "". */
static void read_of(const char *id, const char *name, char *out, size_t bytes)
{
    char path[320];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%s/%s", id, name);
    file   = fopen(path, "r");
    out[0] = '\0';
    if (file && !fgets(out, (int)bytes, file))
        out[0] = '\0';
    if (file)
        fclose(file);
}

/* Seconds on processors of the journal's thread and the page's. */
static double watchers_spent(void)
{
    DIR *all   = opendir("/proc/self/task");
    double sum = 0;
    struct dirent *e;

    while (all && (e = readdir(all))) {
        char name[64], times[128];

        read_of(e->d_name, "comm", name, sizeof(name));
        read_of(e->d_name, "schedstat", times, sizeof(times));
        if (strcmp(name, "journal\n") == 0 || strcmp(name, "board\n") == 0)
            sum += 1e-9 * strtod(times, NULL);
    }
    if (all)
        closedir(all);
    return sum;
}

/* Where a file that grows goes on, as the head of an answer says; -1: nowhere,
 * it is not such a file. */
static long next_in(const char *head)
{
    const char *next = strstr(head, "X-Next: ");

    return next ? atol(next + 8) : -1;
}

/* One request, answered to its end; returns where the file goes on. */
static long ask(int port, const char *path)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    char text[4096];
    const int n = snprintf(text, sizeof(text),
                           "GET /%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                           "Connection: close\r\n\r\n", path, port);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    long next   = -1;
    ssize_t got;

    if (s >= 0 && connect(s, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        send(s, text, (size_t)n, MSG_NOSIGNAL) == n)
        while ((got = read(s, text, sizeof(text) - 1)) > 0) {
            text[got] = '\0';
            if (next < 0)
                next = next_in(text);
        }
    if (s >= 0)
        close(s);
    return next;
}

/* A file that grows: thinned the first time, then what is new. */
static void ask_more(int port, const char *name, int thin, long *next)
{
    char path[128];

    if (*next < 0)
        snprintf(path, sizeof(path), "api/runs/0/%s?thin=%d", name, thin);
    else
        snprintf(path, sizeof(path), "api/runs/0/%s?from=%ld", name, *next);
    *next = ask(port, path);
}

/* As a page does that is open, and Prometheus. */
static void *visit(void *arg)
{
    enum { SCRAPE = 15 }; /* seconds */
    struct bench *b = arg;
    long series = -1, ranks = -1;

    for (int i = 0; !atomic_load(&b->over); i++) {
        if (b->port && atomic_load(&b->watched)) {
            (void)ask(b->port, "api/runs");
            ask_more(b->port, "series.jsonl", 100, &series);
            ask_more(b->port, "ranks.jsonl", 10, &ranks);
            (void)ask(b->port, "api/runs/0/ranks_now.json");
            if (i % SCRAPE == 0)
                (void)ask(b->port, "metrics");
        }
        nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
    }
    return NULL;
}

static enum ct_status watch(struct bench *b, bool on)
{
    atomic_store(&b->watched, on);
    if (on)
        return ct_journal_wake(b->journal, b->address);
    ct_journal_sleep(b->journal);
    return CT_OK;
}

/* All ranks take the steps that rank 0 asks for; 0: that was all. */
static enum ct_status take_turn(struct bench *b, bool on, int *n_steps)
{
    CT_TRY(ct_dist_broadcast(b->dist, n_steps, sizeof(*n_steps)));
    if (*n_steps == 0)
        return CT_OK;
    CT_TRY(watch(b, on));
    CT_TRY(ct_solver_step(b->solver, 1));
    b->spent = -watchers_spent();
    for (int i = 0; i < *n_steps; i++) {
        const double start = ct_now();

        CT_TRY(ct_solver_step(b->solver, 1));
        b->step[i] = ct_now() - start;
    }
    b->spent += watchers_spent();
    return CT_OK;
}

static void print_turn(const struct bench *b, bool on, int n_steps)
{
    printf("%d %.6f", on, b->spent);
    for (int i = 0; i < n_steps; i++)
        printf(" %.6f", b->step[i]);
    printf("\n");
    fflush(stdout);
}

static enum ct_status take_turns(struct bench *b, double seconds)
{
    const bool leads = ct_dist_rank(b->dist) == 0;
    int n_steps      = 8; /* to know how long one takes */
    double end, step = 0;

    CT_TRY(take_turn(b, false, &n_steps));
    for (int i = 0; i < n_steps; i++)
        step += b->step[i] / n_steps;
    end = ct_now() + seconds;
    for (int turn = 0; n_steps > 0; turn++) {
        const bool on = turn % 4 == 1 || turn % 4 == 2;

        n_steps = (int)fmin(fmax(TURN_SECONDS / step, LEAST_STEPS), MAX_STEPS);
        if (turn % 2 == 0 && ct_now() > end) /* in whole pairs */
            n_steps = 0;
        CT_TRY(take_turn(b, on, &n_steps));
        if (leads && n_steps > 0)
            print_turn(b, on, n_steps);
    }
    return CT_OK;
}

static enum ct_status lead(struct bench *b, int argc, char **argv)
{
    const char *folder[]        = { argv[2] };
    struct ct_board_options web = { .address = "0", .folder = folder,
                                    .n_folders = 1 };
    struct ct_journal_options o = { .folder = argv[2], .version = "bench",
                                    .argc = argc, .argv = argv,
                                    .dist = b->dist, .asleep = true };
    const char *url;

    CT_TRY(ct_journal_create(&o, &b->journal));
    if (argc == 5)
        return CT_OK;
    CT_TRY(ct_board_create(&web, &b->board));
    url = ct_board_url(b->board);
    snprintf(b->address, sizeof(b->address), "%.*s", (int)strcspn(url, "#"),
             url);
    b->port = atoi(strrchr(b->address, ':') + 1);
    return CT_OK;
}

static enum ct_status run(struct bench *b, int argc, char **argv)
{
    const bool leads           = ct_dist_rank(b->dist) == 0;
    struct ct_solver_watch watch = { 0 };
    struct ct_solver_options o = { .rank = ct_dist_rank(b->dist),
                                   .size = ct_dist_size(b->dist),
                                   .exchange = ct_dist_exchange(b->dist),
                                   .watch = &watch };
    pthread_t visitor;
    enum ct_status st;

    if (leads) {
        CT_TRY(lead(b, argc, argv));
        watch.pulse = ct_journal_pulse(b->journal);
    }
    CT_TRY(ct_solver_create_file(argv[1], &o, &b->solver));
    CT_TRY(ct_journal_measure_links(b->journal, b->dist));
    if (!leads)
        return take_turns(b, atof(argv[3]));
    CT_TRY(ct_journal_follow(b->journal, b->solver));
    if (pthread_create(&visitor, NULL, visit, b) != 0)
        return ct_fail(CT_EINTERNAL, "no thread for the visitor");
    st = take_turns(b, atof(argv[3]));
    atomic_store(&b->over, true);
    pthread_join(visitor, NULL);
    return st;
}

int main(int argc, char **argv)
{
    struct bench b = { 0 };
    enum ct_status st;

    if (argc != 4 && !(argc == 5 && strcmp(argv[4], "journal") == 0)) {
        fprintf(stderr,
                "usage: watch_bench SOLVER FOLDER SECONDS [journal]\n");
        return 2;
    }
    ct_log_set_level(CT_LOG_WARNING);
    st = ct_dist_create(NULL, &b.dist);
    if (st == CT_OK)
        st = run(&b, argc, argv);
    if (st == CT_OK)
        st = ct_dist_end(b.dist);
    if (st != CT_OK) {
        fprintf(stderr, "watch_bench: %s\n", ct_last_error());
        ct_dist_abort(b.dist, 1);
    }
    ct_journal_destroy(b.journal);
    ct_board_destroy(b.board);
    ct_solver_destroy(b.solver);
    ct_dist_destroy(b.dist);
    return st == CT_OK ? 0 : 1;
}
