/* trace_path.c - what the time of an iteration was spent on, in words.
 *
 * The critical path is walked backwards, from the end of the rank that ended
 * last.  Work is part of the path.  A wait is not: the path goes on at the
 * rank that came last to what was waited for, when it came there. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "observe/trace_file.h"
#include "observe/trace_read.h"

enum { MOST_COSTS = 512, MOST_LINES = 12, MOST_WAITS = 24 };

/* Time, by who spent it on what. */
struct cost {
    int         rank, by; /* by: who was waited for; -1: nobody */
    const char *cat, *name;
    int64_t     ns;
};

struct costs {
    struct cost cost[MOST_COSTS];
    int         n;
    int64_t     ns; /* of all */
};

struct walk {
    const struct trace_file *file;
    const struct trace_span **step; /* per rank: the iteration; or NULL */
    int     rank;
    int64_t at;
    struct costs costs;
};

static void add(struct costs *c, int rank, int by, const char *cat,
                const char *name, int64_t ns)
{
    int i = 0;

    if (ns <= 0)
        return;
    c->ns += ns;
    while (i < c->n && (c->cost[i].rank != rank || c->cost[i].by != by ||
                        strcmp(c->cost[i].cat, cat) != 0 ||
                        strcmp(c->cost[i].name, name) != 0))
        i++;
    if (i == MOST_COSTS)
        return;
    if (i == c->n)
        c->cost[c->n++] = (struct cost){ rank, by, cat, name, 0 };
    c->cost[i].ns += ns;
}

/* The stretch of a rank that ends at `at` or contains it; NULL: none. */
static const struct trace_stretch *stretch_before(const struct trace_rank *r,
                                                  int64_t at)
{
    int low = 0, high = r->n;

    while (low < high) {
        const int mid = (low + high) / 2;

        if (r->stretch[mid].start < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low > 0 ? &r->stretch[low - 1] : NULL;
}

/* What a wait was for: who came last to it, and when.  `moved` is what the
 * comm thread did for it, on this rank; NULL: it was shared memory. */
struct cause {
    const struct trace_span *last, *moved;
};

static struct cause cause_of(const struct trace_file *f,
                             const struct trace_span *wait)
{
    struct cause c = { NULL, NULL };

    if (wait->exchange) {
        c.last = trace_find_last(f, "send", wait->exchange);
    } else if (wait->job) {
        c.moved = trace_find_job(f, wait->rank, "reduce", wait->job);
        c.last  = c.moved && c.moved->exchange
                      ? trace_find_last(f, "reduce", c.moved->exchange)
                      : c.moved;
    }
    return c;
}

/* Why the comm thread of a rank began that span when it did: it was busy with
 * another, or had just been handed it. */
static const struct trace_span *busy_before(const struct trace_file *f,
                                            const struct trace_span *moved)
{
    const struct trace_span *sent = trace_find_job(f, moved->rank, "send",
                                                   moved->job);
    const struct trace_span *busy = trace_find_before(f, moved);

    return busy && sent && busy->end > sent->start ? busy : NULL;
}

static int64_t step_start(const struct walk *w)
{
    return w->step[w->rank] ? w->step[w->rank]->start : INT64_MAX;
}

/* Backwards over what comm threads did, to the compute thread whose gradient
 * came last. */
static void walk_comm(struct walk *w, const struct trace_span *moved)
{
    while (moved && w->at > step_start(w)) {
        const struct trace_span *last =
            moved->exchange
                ? trace_find_last(w->file, "reduce", moved->exchange)
                : moved;
        const struct trace_span *sent;
        int64_t from = last->start;

        add(&w->costs, moved->rank, -1, "reduce", moved->name, w->at - from);
        w->rank = last->rank;
        w->at   = from < w->at ? from : w->at;
        moved   = busy_before(w->file, last);
        if (moved)
            continue;
        sent = trace_find_job(w->file, last->rank, "send", last->job);
        if (sent && sent->start < w->at) {
            add(&w->costs, last->rank, -1, "send", last->name,
                w->at - sent->start);
            w->at = sent->start;
        }
        return;
    }
}

static void walk_wait(struct walk *w, const struct trace_stretch *s,
                      int64_t from)
{
    const struct cause c = cause_of(w->file, s->span);

    if (c.last && c.last->start > from && c.last->start < w->at) {
        if (c.moved) {
            walk_comm(w, c.moved);
            return;
        }
        add(&w->costs, w->rank, -1, "reduce", s->span->name,
            w->at - c.last->start);
        w->rank = c.last->rank;
        w->at   = c.last->start;
        return;
    }
    add(&w->costs, w->rank, -1, c.last ? "reduce" : "wait", s->span->name,
        w->at - from);
    w->at = from;
}

static void walk_back(struct walk *w)
{
    while (w->at > step_start(w)) {
        const struct trace_stretch *s =
            stretch_before(&w->file->rank[w->rank], w->at);
        int64_t from;

        if (!s)
            return;
        from = s->start > step_start(w) ? s->start : step_start(w);
        if (strcmp(s->span->cat, "wait") == 0) {
            walk_wait(w, s, from);
            continue;
        }
        add(&w->costs, w->rank, -1, s->span->cat, s->span->name,
            w->at - from);
        w->at = from;
    }
}

/* Of a rank's own step: whom it waited for. */
static void find_waits(const struct trace_file *f,
                       const struct trace_span *step, struct costs *c)
{
    const struct trace_rank *r = &f->rank[step->rank];

    for (int i = 0; i < r->n; i++) {
        const struct trace_stretch *s = &r->stretch[i];
        const struct cause cause      = strcmp(s->span->cat, "wait") == 0
                                            ? cause_of(f, s->span)
                                            : (struct cause){ NULL, NULL };
        int64_t came;

        if (s->start < step->start || s->end > step->end || !cause.last)
            continue;
        came = cause.last->start < s->start ? s->start
               : cause.last->start > s->end ? s->end
                                            : cause.last->start;
        if (cause.last->rank != step->rank)
            add(c, step->rank, cause.last->rank, "wait", s->span->name,
                came - s->start);
        else
            came = s->start;
        add(c, step->rank, -1, "reduce", s->span->name, s->end - came);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;

    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void say_cost(const struct cost *c, struct ct_text *out)
{
    static const struct {
        const char *cat, *before, *behind;
    } words[] = {
        { "forward", "forward of ", "" },
        { "backward", "backward of ", "" },
        { "data", "waiting for data of ", "" },
        { "update", "update of ", "" },
        { "reduce", "exchanging the gradient of ", "" },
        { "send", "until the comm thread takes up the gradient of ", "" },
        { "codec", "coding gradients with ", "" },
        { "copy", "copying ", "" },
        { "graph", "", "" },
        { "wait", "waiting for ", "" },
        { "iteration", "the solver, between the layers", NULL },
    };

    ct_text_addf(out, "rank %d: ", c->rank);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(c->cat, words[i].cat) == 0) {
            ct_text_addf(out, "%s%s\n", words[i].before,
                         words[i].behind ? c->name : "");
            return;
        }
    ct_text_addf(out, "%s\n", c->name);
}

static void say_path(struct walk *w, const struct trace_span *last,
                     struct ct_text *out)
{
    struct costs *c = &w->costs;
    int64_t rest    = c->ns;

    qsort(c->cost, (size_t)c->n, sizeof(c->cost[0]), by_time);
    ct_text_addf(out, "%s took %.3f ms with %d rank(s); rank %d ended last.\n"
                 "The critical path, %.3f ms, went through:\n", last->name,
                 1e-6 * (double)(last->end - last->start), w->file->n_ranks,
                 last->rank, 1e-6 * (double)c->ns);
    for (int i = 0; i < c->n && i < MOST_LINES; i++) {
        ct_text_addf(out, "%6.1f %% %9.3f ms  ",
                     100 * (double)c->cost[i].ns / (double)c->ns,
                     1e-6 * (double)c->cost[i].ns);
        say_cost(&c->cost[i], out);
        rest -= c->cost[i].ns;
    }
    if (rest > 0)
        ct_text_addf(out, "%6.1f %% %9.3f ms  the rest\n",
                     100 * (double)rest / (double)c->ns, 1e-6 * (double)rest);
}

/* What takes a hundredth of a step or more, of all ranks. */
struct waits {
    struct cost *cost; /* owned */
    size_t       n, room;
};

static enum ct_status keep_waits(struct costs *c,
                                 const struct trace_span *step,
                                 struct waits *all)
{
    const double whole = (double)(step->end - step->start);

    qsort(c->cost, (size_t)c->n, sizeof(c->cost[0]), by_time);
    for (int i = 0; i < c->n && 100 * (double)c->cost[i].ns >= whole; i++) {
        if (all->n == all->room) {
            const size_t room = all->room ? 2 * all->room : 64;
            void *more = ct_realloc(all->cost, room * sizeof(*all->cost),
                                    "trace");

            if (!more)
                return CT_ENOMEM;
            all->cost = more;
            all->room = room;
        }
        all->cost[all->n++] = c->cost[i];
    }
    return CT_OK;
}

/* Of many only the longest. */
static void say_waits(struct waits *all, const struct trace_span **step,
                      struct ct_text *out)
{
    if (all->n > MOST_WAITS)
        qsort(all->cost, all->n, sizeof(*all->cost), by_time);
    for (size_t i = 0; i < all->n && i < MOST_WAITS; i++) {
        const struct cost *x       = &all->cost[i];
        const struct trace_span *s = step[x->rank];
        const double share         = 100 * (double)x->ns /
                             (double)(s->end - s->start);

        if (x->by >= 0)
            ct_text_addf(out, "%.0f %% of rank %d's step waits for rank %d's "
                         "%s gradient (%.3f ms).\n", share, x->rank, x->by,
                         x->name, 1e-6 * (double)x->ns);
        else
            ct_text_addf(out, "%.0f %% of rank %d's step waits while the %s "
                         "gradient is moved and summed (%.3f ms).\n", share,
                         x->rank, x->name, 1e-6 * (double)x->ns);
    }
    if (all->n > MOST_WAITS)
        ct_text_addf(out, "%zu shorter waits take 1 %% of a step or more.\n",
                     all->n - MOST_WAITS);
}

/* The iteration of each rank; *last is the one that ended last. */
static enum ct_status find_steps(const struct trace_file *f,
                                 const char *path, int iteration,
                                 const struct trace_span **step,
                                 const struct trace_span **last)
{
    const char *name = NULL;
    int64_t most     = -1;
    char wanted[32];

    *last = NULL;
    snprintf(wanted, sizeof(wanted), "iteration %d", iteration);
    for (int i = 0; i < f->n; i++) {
        const struct trace_span *s = &f->span[i];

        if (strcmp(s->cat, "iteration") != 0 ||
            (iteration >= 0 && strcmp(s->name, wanted) != 0) ||
            s->end - s->start <= most)
            continue;
        most = s->end - s->start;
        name = s->name;
    }
    if (!name && iteration >= 0)
        return ct_fail(CT_ENOTFOUND, "%s: %s is not in it", path, wanted);
    if (!name)
        return ct_fail(CT_ENOTFOUND, "%s: there is no whole iteration in it",
                       path);
    for (int i = 0; i < f->n; i++) {
        const struct trace_span *s = &f->span[i];

        if (strcmp(s->cat, "iteration") != 0 || strcmp(s->name, name) != 0)
            continue;
        step[s->rank] = s;
        if (!*last || s->end > (*last)->end)
            *last = s;
    }
    return CT_OK;
}

static enum ct_status explain(const struct trace_file *f, const char *path,
                              int iteration, struct ct_text *out)
{
    const struct trace_span **step = NULL, *last;
    struct walk *w = NULL;
    struct waits waits = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)f->n_ranks, sizeof(*step), "trace", &step),
                st, out);
    CT_TRY_GOTO(ct_alloc(1, sizeof(*w), "trace", &w), st, out);
    CT_TRY_GOTO(find_steps(f, path, iteration, step, &last), st, out);
    *w = (struct walk){ .file = f, .step = step, .rank = last->rank,
                        .at = last->end };
    walk_back(w);
    say_path(w, last, out);
    for (int r = 0; r < f->n_ranks; r++) {
        if (!step[r])
            continue;
        w->costs.n = 0;
        find_waits(f, step[r], &w->costs);
        CT_TRY_GOTO(keep_waits(&w->costs, step[r], &waits), st, out);
    }
    say_waits(&waits, step, out);
    if (out->failed)
        st = CT_ENOMEM;
out:
    ct_free(waits.cost);
    ct_free(w);
    ct_free(step);
    return st;
}

enum ct_status ct_trace_explain(const char *path, int iteration,
                                struct ct_text *out)
{
    struct trace_file f;
    enum ct_status st = trace_file_read(path, &f);

    if (st == CT_OK)
        st = explain(&f, path, iteration, out);
    trace_file_fini(&f);
    return st;
}
