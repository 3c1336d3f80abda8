/* status_line.c - how far training is, on one line of a terminal. */
#include "status_line.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* Seconds between two drawings, and between two looks at the ranks; the share
 * of time that others must wait more than one, for that one to be called slow.
 */
static const double draw_s = 0.25, look_s = 2, notable = 0.05;

/* Who waited least since the last look is who the others waited for. */
static void look_at_ranks(struct status_line *s, double now)
{
    const int n       = ct_dist_size(s->dist);
    const double span = now - s->last_looked;
    double least = 1e300, most = 0;
    int who = -1;

    if (!s->dist || n < 2 || span < look_s)
        return;
    if (n != s->n_waited) { /* ranks came or went: it looks anew */
        ct_free(s->waited);
        s->waited      = NULL;
        s->n_waited    = 0;
        s->last_looked = 0;
        s->slowest     = -1;
        if (ct_alloc((size_t)n, sizeof(*s->waited), "ranks", &s->waited) !=
            CT_OK)
            return;
        s->n_waited = n;
    }
    for (int r = 0; r < n; r++) {
        struct ct_rank_state state;
        double part;

        if (!ct_dist_rank_state(s->dist, r, &state))
            continue;
        part         = state.waited - s->waited[r];
        s->waited[r] = state.waited;
        most         = part > most ? part : most;
        if (part < least) {
            least = part;
            who   = r;
        }
    }
    s->slowest = s->last_looked > 0 && most - least > notable * span ? who
                                                                     : -1;
    s->last_looked = now;
}

static int columns(void)
{
    struct winsize size = { 0 };

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

void status_line_draw(const struct ct_iteration *e, void *arg)
{
    struct status_line *s = arg;
    const double now      = ct_now();
    const long left       = (long)e->seconds_left;
    char text[256], slow[32] = "";

    s->step = s->step > 0 ? .9 * s->step + .1 * e->seconds : e->seconds;
    if (now - s->last_drawn < draw_s && e->iter + 1 < e->max_iter)
        return;
    s->last_drawn = now;
    look_at_ranks(s, now);
    if (s->slowest >= 0)
        snprintf(slow, sizeof(slow), "  rank %d is slowest", s->slowest);
    snprintf(text, sizeof(text), " iteration %d/%d  loss %.4f  rate %.3g  "
             "%.0f samples/s  %ld:%02ld:%02ld left%s", e->iter + 1,
             e->max_iter, e->smoothed, e->rate,
             s->step > 0 ? (double)e->samples / s->step : 0, left / 3600,
             left / 60 % 60, left % 60, slow);
    /* A line that is wider than the terminal would roll. */
    fprintf(stderr, "\r%.*s\033[K", columns() - 1, text);
}

void status_line_end(struct status_line *s)
{
    fputs("\r\033[K", stderr);
    ct_free(s->waited);
    s->waited = NULL;
}
