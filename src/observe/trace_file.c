/* trace_file.c - spans of all ranks as Chrome's trace JSON. */
#include "observe/trace_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "observe/json.h"

static const char *const kinds[CT_TRACE_N_KINDS] = {
    "iteration", "forward", "backward", "data", "update", "wait", "send",
    "reduce", "codec", "copy", "graph", "prefetch", "test", "snapshot",
};

/* One rank's part, taken apart; everything points into it. */
struct part {
    struct ct_trace_part  head;
    const char           *names;
};

struct track {
    const char            *name;
    struct ct_trace_event *event; /* owned; by start, the longest first */
    size_t                 n;
    int                    rank, tid;
};

/* A span that takes part in an exchange between ranks. */
struct meeting {
    const struct ct_trace_event *event;
    const struct track          *track;
    uint64_t                     start, end; /* by rank 0's clock */
};

struct all {
    struct part    *part;
    struct track   *track;
    struct meeting *meeting;
    size_t          n_tracks, n_meetings;
    int             n_parts, n_arrows, n_impossible;
    uint64_t        begin; /* the earliest time */
    struct ct_text *out;
};

static enum ct_status bad_part(int rank)
{
    return ct_fail(CT_ECOMM, "what rank %d recorded came damaged", rank);
}

static int by_start(const void *a, const void *b)
{
    const struct ct_trace_event *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* The compute thread is 0, the comm thread 1; others follow. */
static int tid_of(const char *name, int *next)
{
    if (strcmp(name, "compute") == 0)
        return 0;
    return strcmp(name, "comm") == 0 ? 1 : (*next)++;
}

/* Bytes [at, at + n) of a part, or NULL. */
static const char *bytes_at(const struct ct_text *t, size_t at, size_t n)
{
    return at <= t->n_bytes && n <= t->n_bytes - at ? t->s + at : NULL;
}

static enum ct_status take_track(struct all *a, const struct ct_text *from,
                                 int rank, size_t *at, int *next_tid)
{
    struct track *t = &a->track[a->n_tracks];
    struct ct_trace_track head;
    const char *data = bytes_at(from, *at, sizeof(head));
    size_t bytes;

    if (!data)
        return bad_part(rank);
    memcpy(&head, data, sizeof(head));
    t->name = data + offsetof(struct ct_trace_track, name);
    t->rank = rank;
    t->tid  = tid_of(t->name, next_tid);
    *at += sizeof(head);
    if (!memchr(head.name, 0, sizeof(head.name)) ||
        !ct_mul_fits(head.n_events, sizeof(*t->event), &bytes) ||
        !(data = bytes_at(from, *at, bytes)))
        return bad_part(rank);
    CT_TRY(ct_alloc(head.n_events + 1, sizeof(*t->event), "trace",
                    &t->event));
    a->n_tracks++;
    memcpy(t->event, data, bytes);
    t->n = head.n_events;
    *at += bytes;
    qsort(t->event, t->n, sizeof(*t->event), by_start);
    return CT_OK;
}

static enum ct_status check_events(const struct part *p,
                                   const struct track *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->event[i].name >= p->head.n_names ||
            t->event[i].kind >= CT_TRACE_N_KINDS ||
            t->event[i].end < t->event[i].start)
            return bad_part(t->rank);
    return CT_OK;
}

static enum ct_status take_part(struct all *a, const struct ct_text *from,
                                int rank)
{
    struct part *p   = &a->part[rank];
    size_t at        = sizeof(p->head), first = a->n_tracks;
    const char *data = bytes_at(from, 0, sizeof(p->head));
    int next_tid     = 2;
    void *more;

    if (!data)
        return bad_part(rank);
    memcpy(&p->head, data, sizeof(p->head));
    if (p->head.magic != CT_TRACE_MAGIC || p->head.rank != rank ||
        !memchr(p->head.host, 0, sizeof(p->head.host)))
        return bad_part(rank);
    more = ct_realloc(a->track, (first + p->head.n_tracks + 1) *
                                    sizeof(*a->track), "trace");
    if (!more)
        return CT_ENOMEM;
    a->track = more;
    for (uint32_t i = 0; i < p->head.n_tracks; i++)
        CT_TRY(take_track(a, from, rank, &at, &next_tid));
    p->names = bytes_at(from, at, p->head.n_names);
    if (!p->names || (p->head.n_names && p->names[p->head.n_names - 1]))
        return bad_part(rank);
    for (size_t i = first; i < a->n_tracks; i++)
        CT_TRY(check_events(p, &a->track[i]));
    return CT_OK;
}

static uint64_t time_of(const struct all *a, int rank, uint64_t t)
{
    return (uint64_t)((int64_t)t + a->part[rank].head.clock_offset);
}

/* Nanoseconds as microseconds, exactly. */
static void add_time(struct ct_text *out, const char *key, uint64_t ns)
{
    ct_text_addf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000,
                 (unsigned)(ns % 1000));
}

static void begin_event(const struct all *a, const char *ph, const char *name)
{
    ct_text_addf(a->out, "%s\n{\"ph\":\"%s\",\"name\":",
                 a->out->s[a->out->n_bytes - 1] == '[' ? "" : ",", ph);
    ct_json_add_string(a->out, name);
}

static void add_place(const struct all *a, const struct track *t)
{
    ct_text_addf(a->out, ",\"pid\":%d,\"tid\":%d", t->rank, t->tid);
}

static void add_span(const struct all *a, const struct track *t,
                     const struct ct_trace_event *e)
{
    const struct ct_trace_about *x = &e->about;
    const char *comma              = "";

    begin_event(a, "X", a->part[t->rank].names + e->name);
    ct_text_addf(a->out, ",\"cat\":\"%s\"", kinds[e->kind]);
    add_place(a, t);
    add_time(a->out, "ts", time_of(a, t->rank, e->start) - a->begin);
    add_time(a->out, "dur", e->end - e->start);
    ct_text_add(a->out, ",\"args\":{");
    if (x->bytes) {
        ct_text_addf(a->out, "\"bytes\":%" PRId64, x->bytes);
        comma = ",";
    }
    if (x->exchange) {
        ct_text_addf(a->out, "%s\"exchange\":\"%" PRIx64 "\"", comma,
                     x->exchange);
        comma = ",";
    }
    if (x->job)
        ct_text_addf(a->out, "%s\"job\":%" PRIu64, comma, x->job);
    ct_text_add(a->out, "}}");
}

static void add_names(const struct all *a, int rank)
{
    const struct ct_trace_part *p = &a->part[rank].head;
    char name[128];

    snprintf(name, sizeof(name), "rank %d (pid %d on %s)", rank, p->pid,
             p->host);
    begin_event(a, "M", "process_name");
    ct_text_addf(a->out, ",\"pid\":%d,\"tid\":0,\"args\":{\"name\":", rank);
    ct_json_add_string(a->out, name);
    ct_text_add(a->out, "}}");
    begin_event(a, "M", "process_sort_index");
    ct_text_addf(a->out, ",\"pid\":%d,\"tid\":0,\"args\":{\"sort_index\":%d}}",
                 rank, rank);
}

static void add_track(const struct all *a, const struct track *t)
{
    begin_event(a, "M", "thread_name");
    add_place(a, t);
    ct_text_add(a->out, ",\"args\":{\"name\":");
    ct_json_add_string(a->out, t->name);
    ct_text_add(a->out, "}}");
    begin_event(a, "M", "thread_sort_index");
    add_place(a, t);
    ct_text_addf(a->out, ",\"args\":{\"sort_index\":%d}}", t->tid);
    for (size_t i = 0; i < t->n; i++)
        add_span(a, t, &t->event[i]);
}

/* ---- arrows */

static int by_exchange(const void *a, const void *b)
{
    const struct meeting *x = a, *y = b;
    const uint64_t p = x->event->about.exchange, q = y->event->about.exchange;

    if (p != q)
        return p < q ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static enum ct_status find_meetings(struct all *a)
{
    size_t n = 0;

    for (size_t t = 0; t < a->n_tracks; t++)
        for (size_t i = 0; i < a->track[t].n; i++)
            n += a->track[t].event[i].about.exchange != 0;
    CT_TRY(ct_alloc(n + 1, sizeof(*a->meeting), "trace", &a->meeting));
    for (size_t t = 0; t < a->n_tracks; t++)
        for (size_t i = 0; i < a->track[t].n; i++) {
            const struct track *track      = &a->track[t];
            const struct ct_trace_event *e = &track->event[i];

            if (e->about.exchange)
                a->meeting[a->n_meetings++] = (struct meeting){
                    e, track, time_of(a, track->rank, e->start),
                    time_of(a, track->rank, e->end) };
        }
    qsort(a->meeting, a->n_meetings, sizeof(*a->meeting), by_exchange);
    return CT_OK;
}

static void add_end(const struct all *a, const char *ph,
                    const struct meeting *m, uint64_t at)
{
    begin_event(a, ph, a->part[m->track->rank].names + m->event->name);
    ct_text_addf(a->out, ",\"cat\":\"exchange\",\"id\":%d%s", a->n_arrows,
                 *ph == 'f' ? ",\"bp\":\"e\"" : "");
    add_place(a, m->track);
    add_time(a->out, "ts", at - a->begin);
    ct_text_add(a->out, "}");
}

/* From who came last to one who waited.  The end lies inside its slice. */
static void add_arrow(struct all *a, const struct meeting *last,
                      const struct meeting *waits)
{
    const uint64_t to = waits->end > waits->start ? waits->end - 1
                                                  : waits->end;

    if (waits->track->rank == last->track->rank ||
        waits->start >= last->start)
        return;
    /* Clocks differ; or it is the comm thread of a broadcast's root, which
     * waits for nobody. */
    if (to < last->start) {
        a->n_impossible += waits->event->kind == CT_TRACE_WAIT;
        return;
    }
    a->n_arrows++;
    add_end(a, "s", last, last->start);
    add_end(a, "f", waits, to);
}

/* Meetings [0, n) are one exchange.  In shared memory ranks send and wait; by
 * the comm thread both are one span. */
static void add_exchange(struct all *a, const struct meeting *m, size_t n)
{
    const struct meeting *last = NULL;
    bool sent = false;

    for (size_t i = 0; i < n; i++)
        sent |= m[i].event->kind == CT_TRACE_SEND;
    for (size_t i = 0; i < n; i++)
        if (m[i].event->kind == (sent ? CT_TRACE_SEND : CT_TRACE_REDUCE))
            last = &m[i]; /* they are sorted by their start */
    for (size_t i = 0; last && i < n; i++)
        if (m[i].event->kind == (sent ? CT_TRACE_WAIT : CT_TRACE_REDUCE))
            add_arrow(a, last, &m[i]);
}

static enum ct_status add_arrows(struct all *a)
{
    CT_TRY(find_meetings(a));
    for (size_t i = 0, n; i < a->n_meetings; i += n) {
        for (n = 1; i + n < a->n_meetings &&
                    a->meeting[i + n].event->about.exchange ==
                        a->meeting[i].event->about.exchange; n++)
            continue;
        add_exchange(a, &a->meeting[i], n);
    }
    return CT_OK;
}

/* ---- the file */

static void find_begin(struct all *a)
{
    a->begin = UINT64_MAX;
    for (size_t t = 0; t < a->n_tracks; t++) {
        const struct track *x = &a->track[t];
        uint64_t first = x->n ? time_of(a, x->rank, x->event[0].start)
                              : UINT64_MAX;

        a->begin = first < a->begin ? first : a->begin;
    }
}

static void add_facts(const struct all *a)
{
    uint64_t dropped = 0;
    int64_t error    = 0;

    for (int r = 0; r < a->n_parts; r++) {
        const struct ct_trace_part *p = &a->part[r].head;

        dropped += p->n_dropped;
        error = p->clock_error > error ? p->clock_error : error;
    }
    ct_text_addf(a->out, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{"
                 "\"program\":\"cortado\",\"ranks\":%d,\"arrows\":%d,"
                 "\"arrows_left_out\":%d,\"dropped_spans\":%" PRIu64 ","
                 "\"clock_error_us\":%.3f}}\n", a->n_parts, a->n_arrows,
                 a->n_impossible, dropped, 1e-3 * (double)error);
}

enum ct_status ct_trace_json(const struct ct_text *part, int n_parts,
                             struct ct_text *out)
{
    struct all a      = { .n_parts = n_parts, .out = out };
    enum ct_status st = CT_OK;

    CT_TRY_GOTO(ct_alloc((size_t)n_parts, sizeof(*a.part), "trace", &a.part),
                st, out);
    for (int r = 0; r < n_parts; r++)
        CT_TRY_GOTO(take_part(&a, &part[r], r), st, out);
    find_begin(&a);
    ct_text_add(out, "{\"traceEvents\":[");
    if (out->failed) {
        st = CT_ENOMEM;
        goto out;
    }
    for (int r = 0; r < n_parts; r++)
        add_names(&a, r);
    for (size_t t = 0; t < a.n_tracks; t++)
        add_track(&a, &a.track[t]);
    CT_TRY_GOTO(add_arrows(&a), st, out);
    add_facts(&a);
    if (out->failed)
        st = ct_fail(CT_ENOMEM, "no memory for the trace's text");
out:
    for (size_t t = 0; t < a.n_tracks; t++)
        ct_free(a.track[t].event);
    ct_free(a.meeting);
    ct_free(a.track);
    ct_free(a.part);
    return st;
}

static enum ct_status write_file(void *arg, int first, struct ct_text *part,
                                 int n_parts)
{
    struct ct_trace_file *f = arg;
    struct ct_text json = { 0 }, path = { 0 };
    enum ct_status st;

    ct_text_addf(&path, "%s/trace-%d.json", f->folder, first);
    st = ct_trace_json(part, n_parts, &json);
    if (st == CT_OK)
        st = path.failed ? CT_ENOMEM
                         : ct_file_write(path.s, json.s, json.n_bytes);
    if (st == CT_OK) {
        CT_INFO("Traced from iteration %d: %s", first, path.s);
        if (f->written)
            f->written(f->arg, path.s);
    }
    ct_text_fini(&json);
    ct_text_fini(&path);
    return st;
}

enum ct_status ct_trace_file_init(struct ct_trace_file *f, const char *text,
                                  const char *folder)
{
    enum { DEFAULT_COUNT = 3, MOST = 1000000000 };
    long from = -1, count = DEFAULT_COUNT;
    char *end;

    if (text) {
        from = strtol(text, &end, 10);
        if (end == text || *end != ':' || from < 0 || from > MOST)
            end = NULL;
        else
            count = strtol(end + 1, &end, 10);
        if (!end || *end || count < 1 || count > MOST)
            return ct_fail(CT_EINVAL, "--trace=%s: give FROM:COUNT, the first "
                           "iteration to record and how many, such as 100:3",
                           text);
    }
    *f = (struct ct_trace_file){
        .tracing = { .from = (int)from, .count = (int)count, .planned = -1,
                     .write = write_file, .arg = f },
        .folder  = folder ? folder : ".",
    };
    return CT_OK;
}

void ct_trace_file_want(struct ct_trace_file *f)
{
    atomic_store(&f->tracing.wanted, true);
}
