/* progress.c - how far a long job is. */
#include "progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "log_lines.h"

static volatile sig_atomic_t got_signal;

static void on_signal(int number)
{
    got_signal = number;
}

static void draw(struct progress *p, int64_t total)
{
    double now = ct_now(), rate = (double)p->done / (now - p->start + 1e-9);

    if (now - p->last_drawn < 0.1)
        return;
    p->last_drawn = now;
    if (total > 0)
        fprintf(stderr, "\r %" PRId64 " of %" PRId64 " (%d %%)  %.0f/s  "
                "%.0f s left\033[K", p->done, total,
                (int)(100 * p->done / total), rate,
                (double)(total - p->done) / (rate + 1e-9));
    else
        fprintf(stderr, "\r %" PRId64 "  %.0f/s\033[K", p->done, rate);
}

static enum ct_status step(void *arg, int64_t done, int64_t total)
{
    struct progress *p = arg;

    if (got_signal)
        return ct_fail(CT_ESTOP, "stopped by signal %d after %" PRId64
                       " records; what was written is removed",
                       (int)got_signal, p->done);
    p->done = done;
    if (p->live) {
        draw(p, total);
    } else if (p->every && done % p->every == 0) {
        CT_INFO("Processed %" PRId64 " files.", done);
        p->logged = done;
    }
    return CT_OK;
}

void progress_start(struct progress *p, int64_t every)
{
    struct sigaction sa = { .sa_handler = on_signal };

    *p = (struct progress){ .watch = { step, p }, .every = every,
                            .live  = isatty(STDERR_FILENO),
                            .start = ct_now() };
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    log_lines_over_progress(p->live);
}

void progress_end(struct progress *p, enum ct_status st)
{
    log_lines_over_progress(false);
    if (p->live)
        fputs("\r\033[K", stderr);
    if (st == CT_OK && p->every && p->done != p->logged)
        CT_INFO("Processed %" PRId64 " files.", p->done);
}
