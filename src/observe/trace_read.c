/* trace_read.c - a trace file read back: spans, and who works when. */
#include "observe/trace_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { MOST_RANKS = 1 << 20, MOST_DEPTH = 64 };

static enum ct_status bad(const char *path, const char *what)
{
    return ct_fail(CT_EPARSE, "%s is no trace of cortado: %s", path, what);
}

static int by_place(const void *a, const void *b)
{
    const struct trace_span *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->tid != y->tid)
        return x->tid - y->tid;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

typedef int (*compare_fn)(const void *a, const void *b);

static int by_start(const struct trace_span *x, const struct trace_span *y)
{
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Lists of pointers: by rank, job and category; by exchange and category. */
static int by_job(const void *a, const void *b)
{
    const struct trace_span *x = *(const struct trace_span *const *)a;
    const struct trace_span *y = *(const struct trace_span *const *)b;
    const int cat              = strcmp(x->cat, y->cat);

    if (x->rank != y->rank)
        return x->rank - y->rank;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return cat ? cat : by_start(x, y);
}

/* The last of those that began at once is the lowest rank. */
static int by_exchange(const void *a, const void *b)
{
    const struct trace_span *x = *(const struct trace_span *const *)a;
    const struct trace_span *y = *(const struct trace_span *const *)b;
    const int cat              = strcmp(x->cat, y->cat);

    if (x->exchange != y->exchange)
        return x->exchange < y->exchange ? -1 : 1;
    if (cat || x->start != y->start)
        return cat ? cat : by_start(x, y);
    return y->rank - x->rank;
}

static bool take_span(const struct ct_json *e, struct trace_span *s)
{
    const struct ct_json *args = ct_json_get(e, "args");
    const double ts  = ct_json_number(ct_json_get(e, "ts"), -1);
    const double dur = ct_json_number(ct_json_get(e, "dur"), -1);
    const double pid = ct_json_number(ct_json_get(e, "pid"), -1);
    const double tid = ct_json_number(ct_json_get(e, "tid"), -1);

    if (!(ts >= 0 && ts < 1e15 && dur >= 0 && dur < 1e15 && pid >= 0 &&
          pid < MOST_RANKS && tid >= 0 && tid < MOST_RANKS))
        return false;
    *s = (struct trace_span){
        .start    = llround(1e3 * ts),
        .end      = llround(1e3 * (ts + dur)),
        .name     = ct_json_text(ct_json_get(e, "name"), NULL),
        .cat      = ct_json_text(ct_json_get(e, "cat"), NULL),
        .exchange = strtoull(ct_json_text(ct_json_get(args, "exchange"), "0"),
                             NULL, 16),
        .job      = (uint64_t)ct_json_number(ct_json_get(args, "job"), 0),
        .rank     = (int)pid,
        .tid      = (int)tid,
    };
    return s->name && s->cat;
}

static enum ct_status take_spans(struct trace_file *f, const char *path)
{
    const struct ct_json *all = ct_json_get(f->json, "traceEvents");

    if (!all || all->kind != CT_JSON_LIST)
        return bad(path, "it has no list traceEvents");
    CT_TRY(ct_alloc((size_t)all->n + 1, sizeof(*f->span), "trace", &f->span));
    for (const struct ct_json *e = all->child; e; e = e->next) {
        struct trace_span *s = &f->span[f->n];

        if (strcmp(ct_json_text(ct_json_get(e, "ph"), ""), "X") != 0)
            continue;
        if (!take_span(e, s))
            return bad(path, "an event of phase X lacks name, cat, pid, tid, "
                       "ts or dur");
        f->n_ranks = s->rank >= f->n_ranks ? s->rank + 1 : f->n_ranks;
        f->n++;
    }
    qsort(f->span, (size_t)f->n, sizeof(*f->span), by_place);
    return f->n ? CT_OK : bad(path, "it has no spans");
}

static enum ct_status sort_spans(struct trace_file *f)
{
    CT_TRY(ct_alloc((size_t)f->n + 1, sizeof(*f->by_job), "trace",
                    &f->by_job));
    CT_TRY(ct_alloc((size_t)f->n + 1, sizeof(*f->by_exchange), "trace",
                    &f->by_exchange));
    for (int i = 0; i < f->n; i++) {
        if (f->span[i].job)
            f->by_job[f->n_jobs++] = &f->span[i];
        if (f->span[i].exchange)
            f->by_exchange[f->n_exchanges++] = &f->span[i];
    }
    qsort(f->by_job, (size_t)f->n_jobs, sizeof(*f->by_job), by_job);
    qsort(f->by_exchange, (size_t)f->n_exchanges, sizeof(*f->by_exchange),
          by_exchange);
    return CT_OK;
}

static void add_stretch(struct trace_rank *r, const struct trace_span *span,
                        int64_t start, int64_t end)
{
    if (span && end > start)
        r->stretch[r->n++] = (struct trace_stretch){ start, end, span };
}

/* Spans [0, n) of one thread, which nest: who is the innermost when. */
static void flatten(struct trace_rank *r, const struct trace_span *span, int n)
{
    const struct trace_span *open[MOST_DEPTH];
    int depth  = 0;
    int64_t at = 0;

    for (int i = 0; i <= n; i++) {
        const int64_t next = i < n ? span[i].start : INT64_MAX;

        while (depth > 0 && open[depth - 1]->end <= next) {
            add_stretch(r, open[depth - 1], at, open[depth - 1]->end);
            at = open[depth - 1]->end > at ? open[depth - 1]->end : at;
            depth--;
        }
        if (i == n)
            break;
        if (depth > 0)
            add_stretch(r, open[depth - 1], at, next);
        at = next;
        if (depth < MOST_DEPTH)
            open[depth++] = &span[i];
    }
}

static enum ct_status find_stretches(struct trace_file *f)
{
    CT_TRY(ct_alloc((size_t)f->n_ranks, sizeof(*f->rank), "trace", &f->rank));
    for (int first = 0, n; first < f->n; first += n) {
        const struct trace_span *s = &f->span[first];
        struct trace_rank *r       = &f->rank[s->rank];

        for (n = 1; first + n < f->n && s[n].rank == s->rank &&
                    s[n].tid == s->tid; n++)
            continue;
        if (s->tid != 0)
            continue;
        CT_TRY(ct_alloc(2 * (size_t)n + 1, sizeof(*r->stretch), "trace",
                        &r->stretch));
        flatten(r, s, n);
    }
    return CT_OK;
}

enum ct_status trace_file_read(const char *path, struct trace_file *out)
{
    char *text = NULL;
    size_t n_bytes;
    enum ct_status st;

    *out = (struct trace_file){ 0 };
    CT_TRY(ct_file_read(path, &text, &n_bytes));
    st = ct_json_parse(text, n_bytes, path, &out->json);
    ct_free(text);
    CT_TRY(st);
    CT_TRY(take_spans(out, path));
    CT_TRY(sort_spans(out));
    return find_stretches(out);
}

void trace_file_fini(struct trace_file *f)
{
    for (int r = 0; f->rank && r < f->n_ranks; r++)
        ct_free(f->rank[r].stretch);
    ct_free(f->rank);
    ct_free(f->by_job);
    ct_free(f->by_exchange);
    ct_free(f->span);
    ct_json_free(f->json);
    *f = (struct trace_file){ 0 };
}

/* The first of n sorted ones that is not before the key. */
static int first_of(const struct trace_span *const *list, int n,
                    const struct trace_span *key, compare_fn compare)
{
    int low = 0, high = n;

    while (low < high) {
        const int mid = (low + high) / 2;

        if (compare(&list[mid], &key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct trace_span *trace_find_job(const struct trace_file *f, int rank,
                                        const char *cat, uint64_t job)
{
    const struct trace_span key = { .rank = rank, .cat = cat, .job = job,
                                    .start = INT64_MIN };
    const int i = first_of(f->by_job, f->n_jobs, &key, by_job);

    return i < f->n_jobs && f->by_job[i]->rank == rank &&
                   f->by_job[i]->job == job &&
                   strcmp(f->by_job[i]->cat, cat) == 0
               ? f->by_job[i]
               : NULL;
}

const struct trace_span *trace_find_last(const struct trace_file *f,
                                         const char *cat, uint64_t exchange)
{
    const struct trace_span key = { .cat = cat, .exchange = exchange,
                                    .start = INT64_MAX };
    const int i = first_of(f->by_exchange, f->n_exchanges, &key,
                           by_exchange) - 1;

    return i >= 0 && f->by_exchange[i]->exchange == exchange &&
                   strcmp(f->by_exchange[i]->cat, cat) == 0
               ? f->by_exchange[i]
               : NULL;
}

const struct trace_span *trace_find_before(const struct trace_file *f,
                                           const struct trace_span *s)
{
    const struct trace_span *at = s;

    while (at-- > f->span && at->rank == s->rank && at->tid == s->tid)
        if (at->end <= s->start && strcmp(at->cat, s->cat) == 0)
            return at;
    return NULL;
}
