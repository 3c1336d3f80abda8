/* test_trace_file.c - spans of several ranks as a file, and that file in words.
 *
 * Times are in ms.  Three ranks; rank 0 is the slow one:
 *
 *     rank 0   forward 0-40  backward 40-80   sends at 80   waits 80-85  -100
 *     rank 1   forward 0-20  backward 20-46   sends at 46   waits 46-85  -100
 *     rank 2   forward 0-20  backward 20-46   sends at 46   waits 46-85  -100
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/trace.h"
#include "observe/json.h"
#include "observe/trace_file.h"
#include "testing/files.h"
#include "testing/test.h"

static void drop(void *arg)
{
    ct_text_fini(arg);
}

/* A part made by hand: names, then events, in ns. */
struct maker {
    struct ct_trace_part  head;
    struct ct_text        names;
    struct {
        struct ct_trace_track head;
        struct ct_text        events;
    } track[3];
};

static struct maker *maker(struct maker *m, int rank)
{
    *m = (struct maker){ .head = { .magic = CT_TRACE_MAGIC, .rank = rank,
                                   .pid = 100 + rank } };
    strcpy(m->head.host, "node");
    return m;
}

static void put(struct maker *m, int track, const char *thread, double start,
                double end, enum ct_trace_kind kind, const char *name,
                uint64_t exchange, uint64_t job)
{
    const struct ct_trace_event e = {
        .start = (uint64_t)(1e6 * start) + 1000000000,
        .end   = (uint64_t)(1e6 * end) + 1000000000,
        .about = { 0, exchange, job },
        .name  = (uint32_t)m->names.n_bytes,
        .kind  = (uint32_t)kind,
    };

    strcpy(m->track[track].head.name, thread);
    m->track[track].head.n_events++;
    if ((uint32_t)track >= m->head.n_tracks)
        m->head.n_tracks = (uint32_t)track + 1;
    ct_text_add_bytes(&m->names, name, strlen(name) + 1);
    ct_text_add_bytes(&m->track[track].events, &e, sizeof(e));
}

static void compute(struct maker *m, double start, double end,
                    enum ct_trace_kind kind, const char *name,
                    uint64_t exchange)
{
    put(m, 0, "compute", start, end, kind, name, exchange, 0);
}

static void pack(struct maker *m, struct ct_text *out)
{
    *out = (struct ct_text){ 0 };
    m->head.n_names = m->names.n_bytes;
    ct_text_add_bytes(out, &m->head, sizeof(m->head));
    for (uint32_t i = 0; i < m->head.n_tracks; i++) {
        ct_text_add_bytes(out, &m->track[i].head, sizeof(m->track[i].head));
        ct_text_add_bytes(out, m->track[i].events.s,
                          m->track[i].events.n_bytes);
        ct_text_fini(&m->track[i].events);
    }
    ct_text_add_bytes(out, m->names.s, m->names.n_bytes);
    ct_text_fini(&m->names);
    test_defer(drop, out);
}

/* The ranks of the head of this file, through shared memory. */
static void three_ranks(struct ct_text *part)
{
    for (int r = 0; r < 3; r++) {
        const double f = r ? 20 : 40, b = r ? 46 : 80;
        struct maker m;

        maker(&m, r);
        compute(&m, 0, f, CT_TRACE_FORWARD, "conv1", 0);
        compute(&m, f, b, CT_TRACE_BACKWARD, "conv1", 0);
        compute(&m, b, b + .125, CT_TRACE_SEND, "conv1", 17);
        compute(&m, b + .125, 85, CT_TRACE_WAIT, "conv1", 17);
        compute(&m, 85, 100, CT_TRACE_UPDATE, "conv1", 0);
        compute(&m, 0, 100, CT_TRACE_ITERATION, "iteration 7", 0);
        put(&m, 1, "prefetch 0", 3, 9, CT_TRACE_PREFETCH, "samples", 0, 0);
        pack(&m, &part[r]);
    }
}

static const char *explain(const struct ct_text *part, int n, int iteration)
{
    static struct ct_text text, json;
    static char path[600];

    text = json = (struct ct_text){ 0 };
    test_defer(drop, &text);
    test_defer(drop, &json);
    ASSERT_OK(ct_trace_json(part, n, &json));
    snprintf(path, sizeof(path), "%s/trace.json", test_folder());
    ASSERT_OK(ct_file_write(path, json.s, json.n_bytes));
    ASSERT_OK(ct_trace_explain(path, iteration, &text));
    return text.s;
}

TEST(trace_file, a_wait_is_put_down_to_the_rank_that_came_last)
{
    static struct ct_text part[3];
    const char *said;

    three_ranks(part);
    said = explain(part, 3, -1);
    ASSERT_HAS("iteration 7 took 100.000 ms with 3 rank(s)", said);
    /* 46.125 to 80 of 100 ms */
    ASSERT_HAS("34 % of rank 2's step waits for rank 0's conv1 gradient "
               "(33.875 ms).", said);
    ASSERT_HAS("34 % of rank 1's step waits for rank 0's conv1", said);
    ASSERT(!strstr(said, "rank 0's step waits for"));
    ASSERT_HAS("5 % of rank 0's step waits while the conv1 gradient is moved "
               "and summed (4.875 ms).", said);
}

TEST(trace_file, the_critical_path_goes_through_the_slow_rank)
{
    static struct ct_text part[3];
    const char *said;

    three_ranks(part);
    /* Rank 2 ends last. */
    ((struct ct_trace_event *)(void *)(part[2].s +
        sizeof(struct ct_trace_part) + sizeof(struct ct_trace_track)))[5]
        .end += 1000000;
    said = explain(part, 3, 7);
    ASSERT_HAS("rank 2 ended last", said);
    ASSERT_HAS("39.6 %    40.000 ms  rank 0: forward of conv1\n", said);
    ASSERT_HAS("39.6 %    40.000 ms  rank 0: backward of conv1\n", said);
    ASSERT_HAS("14.9 %    15.000 ms  rank 2: update of conv1\n", said);
    ASSERT_HAS("5.0 %     5.000 ms  rank 2: exchanging the gradient of conv1",
               said);
    ASSERT(!strstr(said, "rank 1:"));
}

/* By comm threads: rank 1 hands its gradient over at 50, rank 0 at 30; both
 * comm threads are at it from then until 60. */
TEST(trace_file, waits_for_the_comm_thread_lead_to_the_last_rank_too)
{
    static struct ct_text part[2];
    const char *said;

    for (int r = 0; r < 2; r++) {
        const double b = r ? 50 : 30;
        struct maker m;

        maker(&m, r);
        compute(&m, 0, b, CT_TRACE_BACKWARD, "ip1", 0);
        put(&m, 0, "compute", b, b + 1, CT_TRACE_SEND, "ip1", 0, 5);
        put(&m, 0, "compute", b + 1, 60, CT_TRACE_WAIT, "ip1", 0, 5);
        compute(&m, 0, 60 + 4 * (1 - r), CT_TRACE_ITERATION, "iteration 1",
                0);
        put(&m, 1, "comm", b + 1, 60, CT_TRACE_REDUCE, "ip1", 9, 5);
        pack(&m, &part[r]);
    }
    said = explain(part, 2, -1);
    ASSERT_HAS("31 % of rank 0's step waits for rank 1's ip1 gradient "
               "(20.000 ms).", said); /* 31 to 51 of 64 */
    ASSERT_HAS("78.1 %    50.000 ms  rank 1: backward of ip1", said);
    ASSERT_HAS("14.1 %     9.000 ms  rank 0: exchanging the gradient of ip1",
               said);
}

/* ---- the file */

static int count(const struct ct_json *events, const char *ph)
{
    int n = 0;

    for (const struct ct_json *e = events->child; e; e = e->next)
        n += strcmp(ct_json_text(ct_json_get(e, "ph"), ""), ph) == 0;
    return n;
}

static void drop_json(void *arg)
{
    ct_json_free(arg);
}

static const struct ct_json *events_of(const struct ct_text *part, int n)
{
    struct ct_text text = { 0 };
    struct ct_json *json;

    ASSERT_OK(ct_trace_json(part, n, &text));
    ASSERT_OK(ct_json_parse(text.s, text.n_bytes, "trace", &json));
    ct_text_fini(&text);
    test_defer(drop_json, json);
    return ct_json_get(json, "traceEvents");
}

/* Every rank sums 40 parameters; rank 700 is late for all of them. */
static void write_many(const char *path, int n_ranks)
{
    static struct ct_text t;

    t = (struct ct_text){ 0 };
    test_defer(drop, &t);
    ct_text_add(&t, "{\"traceEvents\":[");
    for (int r = 0; r < n_ranks; r++) {
        ct_text_addf(&t, "%s{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":0,"
                     "\"dur\":8000,\"name\":\"iteration 1\",\"cat\":"
                     "\"iteration\"}", r ? "," : "", r);
        for (int i = 0; i < 40; i++) {
            const int begun = 200 * i + (r == 700 ? 150 : 50);

            ct_text_addf(&t, ",{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%d,"
                         "\"dur\":1,\"name\":\"p%d\",\"cat\":\"send\","
                         "\"args\":{\"exchange\":\"%x\"}}", r, begun, i,
                         i + 1);
            ct_text_addf(&t, ",{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%d,"
                         "\"dur\":%d,\"name\":\"p%d\",\"cat\":\"wait\","
                         "\"args\":{\"exchange\":\"%x\"}}", r, begun + 1,
                         200 * i + 160 - begun - 1, i, i + 1);
        }
    }
    ct_text_add(&t, "]}");
    ASSERT_OK(ct_file_write(path, t.s, t.n_bytes));
}

/* A search per wait, so that this takes no time; and no screen of lines. */
TEST(trace_file, a_thousand_ranks_are_explained_in_a_few_lines)
{
    static struct ct_text said;
    const char *path = test_path("many.json");
    int n_lines      = 0;

    said = (struct ct_text){ 0 };
    test_defer(drop, &said);
    write_many(path, 1000);
    ASSERT_OK(ct_trace_explain(path, -1, &said));
    ASSERT_HAS("with 1000 rank(s)", said.s);
    ASSERT_HAS("waits for rank 700's p", said.s);
    ASSERT_HAS("shorter waits take 1 % of a step or more", said.s);
    for (const char *s = said.s; *s; s++)
        n_lines += *s == '\n';
    ASSERT(n_lines < 45);
}

TEST(trace_file, arrows_lead_from_the_last_to_those_who_waited)
{
    static struct ct_text part[3];
    const struct ct_json *all;
    int n = 0;

    three_ranks(part);
    all = events_of(part, 3);
    ASSERT_INT(2, count(all, "s"));
    ASSERT_INT(2, count(all, "f"));
    for (const struct ct_json *e = all->child; e; e = e->next) {
        const char *ph  = ct_json_text(ct_json_get(e, "ph"), "");
        const double ts = ct_json_number(ct_json_get(e, "ts"), -1);
        const double at = ct_json_number(ct_json_get(e, "pid"), -1);

        if (*ph == 's') {
            ASSERT_FLOAT(80000, ts, 0);
            ASSERT_FLOAT(0, at, 0);
        } else if (*ph == 'f') { /* inside the wait's slice, by 1 ns */
            ASSERT_FLOAT(84999.999, ts, 1e-6);
            ASSERT_FLOAT(++n, at, 0);
            ASSERT_STR("e", ct_json_text(ct_json_get(e, "bp"), ""));
        }
    }
}

TEST(trace_file, clocks_of_other_hosts_are_set_right)
{
    static struct ct_text part[3];
    const struct ct_json *all;
    struct ct_trace_part head;

    three_ranks(part);
    /* Rank 1's clock is 1 s behind: as it stands its wait ends too early. */
    for (int i = 0; i < 6; i++) {
        struct ct_trace_event *e = (void *)(part[1].s + sizeof(head) +
                                            sizeof(struct ct_trace_track));

        e[i].start -= 1000000000;
        e[i].end -= 1000000000;
    }
    ASSERT_INT(1, count(events_of(part, 3), "s")); /* not back in time */
    memcpy(&head, part[1].s, sizeof(head));
    head.clock_offset = 1000000000;
    memcpy(part[1].s, &head, sizeof(head));
    all = events_of(part, 3);
    ASSERT_INT(2, count(all, "s"));
}

TEST(trace_file, damaged_parts_are_refused)
{
    static struct ct_text part[3], json;

    json = (struct ct_text){ 0 };
    test_defer(drop, &json);
    three_ranks(part);
    part[1].n_bytes -= 5;
    ASSERT_STATUS(CT_ECOMM, ct_trace_json(part, 3, &json));
    ASSERT_HAS("rank 1", ct_last_error());
}

TEST(trace_file, a_file_that_is_no_trace_is_refused_with_its_name)
{
    static struct ct_text text;
    char path[600];

    text = (struct ct_text){ 0 };
    test_defer(drop, &text);
    snprintf(path, sizeof(path), "%s/other.json", test_folder());
    ASSERT_OK(ct_file_write(path, "{\"a\":1}", 7));
    ASSERT_STATUS(CT_EPARSE, ct_trace_explain(path, -1, &text));
    ASSERT_HAS("other.json", ct_last_error());
    ASSERT_OK(ct_file_write(path, "{\"a\":1", 6));
    ASSERT_STATUS(CT_EPARSE, ct_trace_explain(path, -1, &text));
}

TEST(trace_file, the_iterations_to_record_are_read_from_a_flag)
{
    struct ct_trace_file f;

    ASSERT_OK(ct_trace_file_init(&f, "100:3", NULL));
    ASSERT_INT(100, f.tracing.from);
    ASSERT_INT(3, f.tracing.count);
    ASSERT_OK(ct_trace_file_init(&f, NULL, NULL));
    ASSERT_INT(-1, f.tracing.from);
    ASSERT_STATUS(CT_EINVAL, ct_trace_file_init(&f, "100", NULL));
    ASSERT_STATUS(CT_EINVAL, ct_trace_file_init(&f, "-1:2", NULL));
    ASSERT_STATUS(CT_EINVAL, ct_trace_file_init(&f, "1:0", NULL));
    ASSERT_STATUS(CT_EINVAL, ct_trace_file_init(&f, "1:2x", NULL));
    ASSERT_HAS("FROM:COUNT", ct_last_error());
}
