/* shared.c - sums inside a host through memory that all its ranks see.
 *
 * A rank tells the others two numbers that grow: how many runs it has posted
 * and of how many it has added up its slice.  Each stands on a line of memory
 * of its own, which one rank writes and the others read.
 *
 * Pieces of a run's work are taken by counting: `taken` and `done` hold the
 * run's ticket above and a count below, and a run that finds an older ticket
 * starts both anew.  A run is posted when the one is done whose place it
 * takes, so no run in use can be older.
 *
 * Every rank writes n floats that others read: of its own vector all but the
 * slice that it adds up itself, and the sums of that slice.               */
#include "comm/coll/shared.h"

#include <string.h>

#include "base/mem.h"
#include "base/trace.h"
#include "comm/coll/coll.h"
#include "comm/logbook.h"
#include "device/cpu/simd.h"

enum {
    LINE  = 64 / sizeof(float),
    BLOCK = 2048, /* floats added at once: they stay in the first cache */
    SHORT_NS = 1000 /* a wait that is not worth a span */
};

struct shared_line {
    _Alignas(64) atomic_uint_least64_t posted;
    _Alignas(64) atomic_uint_least64_t added;
    atomic_uint_least64_t busy_with; /* the ticket whose piece it has; 0 */
};

struct shared_pieces {
    _Alignas(64) atomic_uint_least64_t taken;
    _Alignas(64) atomic_uint_least64_t done;
};

enum { COUNT_BITS = 24 }; /* of taken and done, below the ticket */

struct ct_part ct_shared_slice(int64_t n, int size, int i)
{
    struct ct_part p = ct_part((n + LINE - 1) / LINE, size, i);
    int64_t end      = (p.first + p.n) * LINE;

    p.first = p.first * LINE < n ? p.first * LINE : n;
    p.n     = (end < n ? end : n) - p.first;
    return p;
}

/* With `bytes` behind what ranks tell each other. */
static enum ct_status create(struct ct_comm *c, size_t bytes,
                             struct ct_shared **out, void **behind)
{
    const size_t size  = (size_t)c->local.size;
    const size_t lines = size * sizeof(struct shared_line);
    const size_t heads = lines + CT_SHARED_RUNS * sizeof(struct shared_pieces);
    struct ct_shared *s;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*s), "shared sums", &s));
    st = ct_alloc(size, sizeof(*s->vector), "shared sums", &s->vector);
    if (st == CT_OK)
        st = ct_window_create(c, heads + bytes, &s->window);
    if (st != CT_OK) {
        ct_shared_destroy(s);
        return st;
    }
    s->comm   = c;
    s->line   = s->window->memory;
    s->pieces = (void *)((char *)s->window->memory + lines);
    s->number = c->sequence;
    *behind   = (char *)s->window->memory + heads;
    *out      = s;
    return CT_OK;
}

enum ct_status ct_shared_create(struct ct_comm *c, int64_t n, int64_t more,
                                struct ct_shared **out)
{
    const int64_t stride = (n + LINE - 1) / LINE * LINE;
    const int size       = c->local.size;
    struct ct_part sums;
    size_t bytes;
    void *floats;

    if (!ct_mul_fits((size_t)size + 1, (size_t)stride * sizeof(float), &bytes))
        return ct_fail(CT_ENOMEM, "%lld floats a rank", (long long)n);
    CT_TRY(create(c, bytes + (size_t)more * sizeof(float), out, &floats));
    for (int r = 0; r < size; r++)
        (*out)->vector[r] = (float *)floats + r * stride;
    (*out)->sums = (float *)floats + size * stride;
    (*out)->more = (*out)->sums + stride;
    sums         = ct_part(stride, size, c->local.me);
    ct_window_reach((*out)->window, (*out)->sums + sums.first,
                    (size_t)sums.n * sizeof(float), true);
    return CT_OK;
}

enum ct_status ct_shared_create_at(struct ct_comm *c, float *const *vector,
                                   float *sums, struct ct_shared **out)
{
    void *none;

    CT_TRY(create(c, 0, out, &none));
    for (int r = 0; r < c->local.size; r++)
        (*out)->vector[r] = vector[r];
    (*out)->sums = sums;
    return CT_OK;
}

void ct_shared_destroy(struct ct_shared *s)
{
    if (!s)
        return;
    ct_window_destroy(s->window);
    ct_free(s->vector);
    ct_free(s);
}

float *ct_shared_mine(const struct ct_shared *s)
{
    return s->vector[s->window->local.me];
}

float *ct_shared_sums(const struct ct_shared *s)
{
    return s->sums;
}

float *ct_shared_more(const struct ct_shared *s)
{
    return s->more;
}

/* y = ((y + a) + b) + c: the order is part of the result. */
CT_SIMD static void add3(int64_t n, const float *restrict a,
                         const float *restrict b, const float *restrict c,
                         float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] = ((y[i] + a[i]) + b[i]) + c[i];
}

CT_SIMD static void add1(int64_t n, const float *restrict a,
                         float *restrict y)
{
    CT_SIMD_EACH (i, n)
        y[i] += a[i];
}

void ct_shared_add(const struct ct_shared *s, int64_t first, int64_t n,
                   float *y)
{
    float *const *x = s->vector;
    int size        = s->window->local.size, r = 1;

    memcpy(y, x[0] + first, (size_t)n * sizeof(*y));
    for (; r + 2 < size; r += 3)
        add3(n, x[r] + first, x[r + 1] + first, x[r + 2] + first, y);
    for (; r < size; r++)
        add1(n, x[r] + first, y);
}

static void add_slice(struct ct_shared *s, const struct ct_part *run)
{
    const struct ct_group *g = &s->window->local;
    struct ct_part mine      = ct_shared_slice(run->n, g->size, g->me);
    const int64_t first      = run->first + mine.first;

    for (int64_t i = 0; i < mine.n; i += BLOCK)
        ct_shared_add(s, first + i, mine.n - i < BLOCK ? mine.n - i : BLOCK,
                      ct_shared_sums(s) + first + i);
    if (s->between && s->failed == CT_OK)
        s->failed = s->between(s->comm, ct_shared_sums(s) + first, mine.n);
}

/* Counts one more for the run `ticket`; returns how many there were before. */
static int64_t count(atomic_uint_least64_t *x, uint64_t ticket)
{
    const uint64_t none = ticket << COUNT_BITS;
    uint64_t old        = atomic_load(x), next;

    do
        next = (old < none ? none : old) + 1;
    while (!atomic_compare_exchange_weak(x, &old, next));
    return (int64_t)(next - 1 - none);
}

static struct shared_pieces *pieces_of(const struct ct_shared *s,
                                       uint64_t ticket)
{
    return &s->pieces[(ticket - 1) % CT_SHARED_RUNS];
}

static const struct shared_run *run_of(const struct ct_shared *s,
                                       uint64_t ticket)
{
    return &s->run[(ticket - 1) % CT_SHARED_RUNS];
}

/* A rank that has not posted so many runs; -1: all have. */
static int not_posted(struct ct_shared *s, uint64_t n)
{
    const int size = s->window->local.size;
    uint64_t least = UINT64_MAX;

    if (s->everywhere >= n)
        return -1;
    for (int r = 0; r < size; r++) {
        uint64_t posted = atomic_load(&s->line[r].posted);

        if (posted < n)
            return r;
        least = posted < least ? posted : least;
    }
    s->everywhere = least;
    return -1;
}

/* One that has a piece of the run and is not done with it; -1: all is done. */
static int not_done(struct ct_shared *s, uint64_t ticket)
{
    const struct shared_run *run = run_of(s, ticket);
    const uint64_t all = (ticket << COUNT_BITS) + (uint64_t)run->n_pieces;
    const int size     = s->window->local.size;
    int who            = 0;

    if (atomic_load(&pieces_of(s, ticket)->done) >= all)
        return -1;
    while (who < size - 1 && atomic_load(&s->line[who].busy_with) != ticket)
        who++;
    return who;
}

static int not_added(struct ct_shared *s, uint64_t n)
{
    if (n + CT_SHARED_RUNS <= s->n_posted) /* or it would not be posted */
        return -1;
    if (run_of(s, n)->work)
        return not_done(s, n);
    for (int r = 0; r < s->window->local.size; r++)
        if (atomic_load(&s->line[r].added) < n)
            return r;
    return -1;
}

/* Tells a number that has grown.  Whoever tells it last wakes the sleepers:
 * before that none of them could go on. */
static void tell(struct ct_shared *s, atomic_uint_least64_t *line, uint64_t n,
                 int (*missing)(struct ct_shared *s, uint64_t n))
{
    atomic_store(line, n);
    if (ct_window_asleep(s->window) && missing(s, n) < 0)
        ct_window_ring(s->window);
}

/* Pieces of a run until none is left to take. */
static void take_pieces(struct ct_shared *s, uint64_t ticket)
{
    const struct shared_run *run   = run_of(s, ticket);
    struct shared_pieces *p        = pieces_of(s, ticket);
    atomic_uint_least64_t *mine    = &s->line[s->window->local.me].busy_with;
    const uint64_t all = (ticket << COUNT_BITS) + (uint64_t)run->n_pieces;
    int64_t i;

    if (atomic_load(&p->taken) >= all)
        return;
    atomic_store(mine, ticket);
    while (s->failed == CT_OK && (i = count(&p->taken, ticket)) <
                                     run->n_pieces) {
        s->failed = run->work(s, run->arg, i);
        if (s->failed == CT_OK && count(&p->done, ticket) + 1 ==
                                      run->n_pieces &&
            ct_window_asleep(s->window))
            ct_window_ring(s->window);
    }
    atomic_store(mine, 0);
}

/* For traces: what the run `ticket` is on all ranks. */
static struct ct_trace_about about(const struct ct_shared *s, uint64_t ticket,
                                   uint64_t bytes)
{
    return (struct ct_trace_about){
        .bytes    = (int64_t)bytes,
        .exchange = (uint64_t)(s->number + 1) << 40 | ticket };
}

void ct_shared_progress(struct ct_shared *s)
{
    while (s->n_added < s->n_posted && not_posted(s, s->n_added + 1) < 0) {
        const struct shared_run *run = run_of(s, s->n_added + 1);
        const uint64_t start         = ct_trace_begin();

        if (run->work)
            take_pieces(s, s->n_added + 1);
        else
            add_slice(s, &run->floats);
        if (s->failed != CT_OK)
            return;
        s->n_added++;
        ct_trace_end_about(start, CT_TRACE_REDUCE, run->label,
                           about(s, s->n_added, 0));
        if (run->work)
            continue;
        tell(s, &s->line[s->window->local.me].added, s->n_added, not_added);
    }
}

struct waiting {
    struct ct_shared *shared;
    uint64_t          ticket;
};

/* Adding is what a rank does while it waits. */
static int missing(void *arg)
{
    struct waiting *w   = arg;
    struct ct_shared *s = w->shared;
    int who;

    do { /* again when the last one posts between two looks */
        ct_shared_progress(s);
        if (s->failed != CT_OK)
            return -1;
        who = s->n_added < w->ticket ? not_posted(s, s->n_added + 1)
                                     : not_added(s, w->ticket);
    } while (who < 0 && s->n_added < w->ticket);
    return who;
}

bool ct_shared_done(struct ct_shared *s, uint64_t ticket)
{
    struct waiting w = { s, ticket };

    return missing(&w) < 0;
}

/* For an autopsy, on any thread: the book is the comm's. */
static struct ct_logbook *book_of(const struct ct_shared *s)
{
    return s->comm->pen ? s->comm->pen->book : NULL;
}

static void note_ends(struct ct_shared *s, uint64_t ticket)
{
    while (s->n_noted < ticket)
        ct_logbook_end(book_of(s), run_of(s, ++s->n_noted)->entry, s->failed);
}

enum ct_status ct_shared_wait(struct ct_shared *s, uint64_t ticket)
{
    struct waiting w     = { s, ticket };
    const uint64_t start = ct_trace_begin();
    const char *label    = run_of(s, ticket)->label;

    CT_TRY(ct_window_wait(s->window, missing, &w));
    note_ends(s, ticket);
    if (start && ct_trace_now() - start > SHORT_NS)
        ct_trace_end_about(start, CT_TRACE_WAIT, label, about(s, ticket, 0));
    return s->failed;
}

static enum ct_status post(struct ct_shared *s, struct shared_run run,
                           uint64_t bytes, uint64_t *ticket)
{
    const struct ct_group *g = &s->window->local;
    uint64_t start;

    if (s->n_posted >= CT_SHARED_RUNS) /* whose place it takes */
        CT_TRY(ct_shared_wait(s, s->n_posted + 1 - CT_SHARED_RUNS));
    start     = ct_trace_begin();
    run.entry = ct_logbook_begin(book_of(s), (uint64_t)(s->number + 1) << 16 |
                                                 s->comm->channel,
                                 s->n_posted + 1, run.work ? "share work"
                                                           : "share sum",
                                 bytes, run.label);
    s->run[s->n_posted % CT_SHARED_RUNS] = run;
    *ticket = ++s->n_posted;
    tell(s, &s->line[g->me].posted, s->n_posted, not_posted);
    if (g->size > 1)
        atomic_fetch_add_explicit(&s->comm->bytes_sent, bytes,
                                  memory_order_relaxed);
    ct_trace_end_about(start, CT_TRACE_SEND, run.label,
                       about(s, *ticket, bytes));
    return CT_OK;
}

enum ct_status ct_shared_post(struct ct_shared *s, const char *label,
                              int64_t first, int64_t n, uint64_t *ticket)
{
    return post(s, (struct shared_run){ .label = label,
                                        .floats = { first, n } },
                (uint64_t)n * sizeof(float), ticket);
}

enum ct_status ct_shared_post_work(struct ct_shared *s,
                                   const struct ct_shared_work *work,
                                   uint64_t *ticket)
{
    return post(s, (struct shared_run){ .label = work->label,
                                        .work = work->run, .arg = work->arg,
                                        .n_pieces = work->n_pieces },
                work->bytes, ticket);
}

static int not_here(void *arg)
{
    struct waiting *w = arg;

    ct_shared_progress(w->shared);
    return w->shared->failed != CT_OK ? -1 : not_posted(w->shared, w->ticket);
}

/* A run without floats: who has posted it is here. */
enum ct_status ct_shared_meet(struct ct_shared *s)
{
    struct waiting w = { .shared = s };
    uint64_t start;

    CT_TRY(ct_shared_post(s, "meet", 0, 0, &w.ticket));
    start = ct_trace_begin();
    CT_TRY(ct_window_wait(s->window, not_here, &w));
    if (start && ct_trace_now() - start > SHORT_NS)
        ct_trace_end_about(start, CT_TRACE_WAIT, run_of(s, w.ticket)->label,
                           about(s, w.ticket, 0));
    return s->failed;
}

enum ct_status ct_shared_run(
    struct ct_comm *c, float *x, int64_t n,
    enum ct_status (*between)(struct ct_comm *c, float *x, int64_t n))
{
    struct ct_shared *s = atomic_load(&c->shared);
    uint64_t ticket;

    if (!s) {
        enum ct_status st = ct_shared_create(c, CT_SHARED_SEGMENT, 0, &s);

        c->place.window_failed |= st == CT_ENOTSUP;
        CT_TRY(st);
        atomic_store(&c->shared, s);
    }
    s->between = between;
    for (int64_t i = 0; i < n; i += CT_SHARED_SEGMENT) {
        int64_t some = n - i < CT_SHARED_SEGMENT ? n - i : CT_SHARED_SEGMENT;

        memcpy(ct_shared_mine(s), x + i, (size_t)some * sizeof(*x));
        CT_TRY(ct_shared_post(s, "sum", 0, some, &ticket));
        CT_TRY(ct_shared_wait(s, ticket));
        memcpy(x + i, ct_shared_sums(s), (size_t)some * sizeof(*x));
    }
    return CT_OK;
}

static bool shared_is_usual(const struct ct_place *p, double bytes)
{
    (void)bytes;
    return p->n_hosts == 1 && ct_place_has_window(p);
}

static bool shared_available(const struct ct_comm *c)
{
    return shared_is_usual(&c->place, 0);
}

static enum ct_status shared_run(struct ct_comm *c, float *x, int64_t n)
{
    ct_comm_begin(c, "sum shared", (uint64_t)n * sizeof(*x));
    if (c->place.n_hosts > 1)
        return ct_fail(CT_ENOTSUP, "ranks on %d hosts share no memory: sum by "
                       "--reduce=hierarchical", c->place.n_hosts);
    return c->size > 1 ? ct_shared_run(c, x, n, NULL) : CT_OK;
}

static double shared_bytes(const struct ct_place *p, int64_t n)
{
    return p->size > 1 ? (double)n * sizeof(float) : 0;
}

static struct ct_cost shared_cost(const struct ct_terms *t)
{
    return (struct ct_cost){
        .bytes   = t->S,
        .seconds = t->S * (t->P - 1) / t->P * t->c,
    };
}

const struct ct_allreduce_type ct_coll_shared = {
    .name      = "shared",
    .run       = shared_run,
    .bytes     = shared_bytes,
    .cost      = shared_cost,
    .available = shared_available,
    .is_usual  = shared_is_usual,
};
