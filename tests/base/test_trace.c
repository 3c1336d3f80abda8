/* test_trace.c - the recorder of spans: off, on, by several threads, full. */
#include <pthread.h>
#include <unistd.h>

#include "base/trace.h"
#include "testing/test.h"

/* What was recorded, unpacked. */
struct seen {
    struct ct_text        bytes;
    struct ct_trace_part  head;
    struct ct_trace_track track[16];
    const char           *events[16]; /* not aligned */
    const char           *names;
};

static struct ct_trace_event event_at(const struct seen *s, int track, int i)
{
    struct ct_trace_event e;

    memcpy(&e, s->events[track] + (size_t)i * sizeof(e), sizeof(e));
    return e;
}

static void drop(void *arg)
{
    ct_text_fini(arg);
}

static struct seen *unpack(void)
{
    static struct seen s;
    const char *at;

    s = (struct seen){ 0 };
    ct_trace_pack(3, &s.bytes);
    test_defer(drop, &s.bytes);
    ASSERT(!s.bytes.failed);
    memcpy(&s.head, s.bytes.s, sizeof(s.head));
    at = s.bytes.s + sizeof(s.head);
    ASSERT(s.head.n_tracks <= 16);
    for (uint32_t i = 0; i < s.head.n_tracks; i++) {
        memcpy(&s.track[i], at, sizeof(s.track[i]));
        s.events[i] = at + sizeof(s.track[i]);
        at = s.events[i] + s.track[i].n_events * sizeof(struct ct_trace_event);
    }
    s.names = at;
    ASSERT_INT(s.bytes.n_bytes, at - s.bytes.s + (int64_t)s.head.n_names);
    return &s;
}

static const char *name_of(const struct seen *s, int track, int i)
{
    return s->names + event_at(s, track, i).name;
}

static void span(const char *name)
{
    const uint64_t start = ct_trace_begin();

    ct_trace_end_about(start, CT_TRACE_SEND, name,
                       (struct ct_trace_about){ 7, 8, 9 });
}

TEST(trace, nothing_is_recorded_unless_asked_for)
{
    ASSERT_INT(0, ct_trace_begin());
    ct_trace_start();
    ct_trace_stop();
    ASSERT_INT(0, ct_trace_begin());
    span("unseen");
    ASSERT_INT(0, unpack()->head.n_tracks);
}

TEST(trace, a_span_keeps_name_kind_times_and_what_it_is_about)
{
    char name[] = "conv1";
    struct seen *s;
    struct ct_trace_event e;
    uint64_t before;

    ct_trace_thread("tester");
    ct_trace_start();
    before = ct_trace_now();
    span(name);
    memcpy(name, "gone!", sizeof(name)); /* the recorder has a copy */
    ct_trace_stop();
    s = unpack();
    ASSERT_INT(CT_TRACE_MAGIC, s->head.magic);
    ASSERT_INT(3, s->head.rank);
    ASSERT_INT(getpid(), s->head.pid);
    ASSERT_INT(1, s->head.n_tracks);
    ASSERT_STR("tester", s->track[0].name);
    ASSERT_INT(1, s->track[0].n_events);
    e = event_at(s, 0, 0);
    ASSERT_STR("conv1", name_of(s, 0, 0));
    ASSERT_INT(CT_TRACE_SEND, e.kind);
    ASSERT(before <= e.start && e.start <= e.end && e.end <= ct_trace_now());
    ASSERT_INT(7, e.about.bytes);
    ASSERT_INT(8, e.about.exchange);
    ASSERT_INT(9, e.about.job);
}

TEST(trace, a_second_recording_forgets_the_first)
{
    struct seen *s;

    ct_trace_start();
    span("first");
    ct_trace_stop();
    ct_trace_start();
    span("second");
    ct_trace_stop();
    s = unpack();
    ASSERT_INT(1, s->track[0].n_events);
    ASSERT_STR("second", name_of(s, 0, 0));
}

enum { THREADS = 4, EACH = 20000 };

static void *record(void *arg)
{
    char name[32];

    ct_trace_thread(arg);
    for (int i = 0; i < EACH; i++) {
        snprintf(name, sizeof(name), "span %d", i % 50);
        span(name);
    }
    return NULL;
}

TEST(trace, threads_record_side_by_side)
{
    static char names[THREADS][8] = { "a", "b", "c", "d" };
    pthread_t thread[THREADS];
    struct seen *s;

    ct_trace_start();
    for (int i = 0; i < THREADS; i++)
        ASSERT(pthread_create(&thread[i], NULL, record, names[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ct_trace_stop();
    s = unpack();
    ASSERT_INT(THREADS, s->head.n_tracks);
    ASSERT_INT(0, s->head.n_dropped);
    ASSERT_INT(sizeof("span 0") * 10 + sizeof("span 10") * 40,
               s->head.n_names);
    for (int t = 0; t < THREADS; t++) {
        ASSERT_INT(EACH, s->track[t].n_events);
        for (int i = 0; i < EACH; i++) {
            char name[32];

            snprintf(name, sizeof(name), "span %d", i % 50);
            ASSERT_STR(name, name_of(s, t, i));
        }
    }
}

TEST(trace, a_full_block_drops_what_follows_and_counts_it)
{
    struct seen *s;

    ct_trace_start();
    for (int i = 0; i < (1 << 16) + 10; i++)
        span("many");
    ct_trace_stop();
    s = unpack();
    ASSERT_INT(1 << 16, s->track[0].n_events);
    ASSERT_INT(10, s->head.n_dropped);
}
