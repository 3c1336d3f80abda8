/* test_limit.c - what may be sent a second, by a clock that the test turns. */
#include "comm/rate.h"
#include "comm/transport.h"
#include "testing/test.h"

TEST(limit, rates_are_read_in_bits_and_bytes)
{
    static const struct {
        const char *text;
        double      bytes;
    } good[] = {
        { "100mbit", 12.5e6 }, { "1gbit", 125e6 }, { "12.5MB", 12.5e6 },
        { "8bit", 1 },         { "3kB", 3000 },    { "2GB", 2e9 },
        { "1Mbit:all", 125e3 },
    };
    static const char *const bad[] = { "", "fast", "100", "-1mbit", "0MB",
                                       "1mib", "1 mbit", "nanMB", "1e30GB" };
    const char *rest;
    double v;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ASSERT_OK(ct_rate_parse(good[i].text, &v, &rest));
        ASSERT_FLOAT(good[i].bytes, v, 1e-6);
        ASSERT_STR(i == 6 ? ":all" : "", rest);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ASSERT_STATUS(CT_EINVAL, ct_rate_parse(bad[i], &v, &rest));
}

TEST(limit, tokens_come_with_time_and_stop_at_a_seconds_worth)
{
    struct ct_rate r;

    ct_rate_init(&r, 1000, 5);
    ASSERT(!ct_rate_take(&r, 5, 1));    /* none at the start */
    ASSERT(ct_rate_take(&r, 5.1, 400)); /* 100 there: 300 owed */
    ASSERT_FLOAT(-300, ct_rate_level(&r, 5.1), 1e-9);
    ASSERT(!ct_rate_take(&r, 5.39, 1));
    ASSERT(ct_rate_take(&r, 5.41, 1));
    ASSERT_FLOAT(1000, ct_rate_level(&r, 100), 0);
    ASSERT_FLOAT(1000, ct_rate_level(&r, 99), 0); /* a clock that goes back */
}

/* Counted over many messages: the rate, and a second's worth at first. */
TEST(limit, the_mean_is_the_rate)
{
    struct ct_rate r;
    double sent = 0;

    ct_rate_init(&r, 1e6, 0);
    for (int ms = 1; ms <= 20000; ms++)
        while (ct_rate_take(&r, ms * 1e-3, 1500))
            sent += 1500;
    ASSERT_FLOAT(20e6, sent, 3000);
}

static double clock_of(void *arg)
{
    return *(double *)arg;
}

struct pair {
    double               now;
    struct ct_transport *a, *b; /* a is limited to 1000 bytes a second */
};

static void end(void *arg)
{
    struct pair *p = arg;

    p->a->ops->destroy(p->a);
    p->b->ops->destroy(p->b);
}

static void begin(struct pair *p)
{
    struct ct_transport *t[2];

    p->now = 0;
    ASSERT_OK(ct_loopback_create(2, NULL, t));
    p->b = t[1];
    ASSERT_OK(ct_limit_create(t[0], 1000, clock_of, &p->now, &p->a));
    ASSERT_INT(0, p->a->rank);
    ASSERT_INT(2, p->a->size);
    test_defer(end, p);
}

static bool is_done(struct ct_transport *t, struct ct_request *r)
{
    bool done;

    ASSERT_OK(t->ops->test(t, r, &done));
    return done;
}

TEST(limit, sends_wait_for_tokens_in_order_and_receives_do_not)
{
    static struct pair p;
    char out[800], in[2][800] = { { 0 } }, back = 'x', got = 0;
    struct ct_request s[2], r[2], s_back, r_back;

    begin(&p);
    memset(out, 'm', sizeof(out));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(p.b->ops->receive(p.b, 0, 7, in[i], 800, &r[i]));
        ASSERT_OK(p.a->ops->send(p.a, 1, 7, out, 800, &s[i]));
    }
    /* No tokens yet, but what the other side sends arrives. */
    ASSERT_OK(p.a->ops->receive(p.a, 1, 3, &got, 1, &r_back));
    ASSERT_OK(p.b->ops->send(p.b, 0, 3, &back, 1, &s_back));
    ASSERT(is_done(p.a, &r_back) && is_done(p.b, &s_back));
    ASSERT_INT('x', got);
    ASSERT(!is_done(p.a, &s[0]) && !is_done(p.b, &r[0]));
    p.now = 0.5;
    ASSERT(is_done(p.a, &s[0]) && is_done(p.b, &r[0]));
    ASSERT_INT('m', in[0][799]);
    ASSERT_FLOAT(-300, ct_limit_tokens(p.a), 1e-9);
    ASSERT(!is_done(p.a, &s[1]));
    p.now = 0.79;
    ASSERT(!is_done(p.a, &s[1]));
    p.now = 0.81;
    ASSERT(is_done(p.a, &s[1]) && is_done(p.b, &r[1]));
}

TEST(limit, a_send_in_line_can_be_cancelled)
{
    static struct pair p;
    char out[3] = { 1, 2, 3 }, in = 0;
    struct ct_request s[3], r;

    begin(&p);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(p.a->ops->send(p.a, 1, i, &out[i], 1, &s[i]));
    ASSERT(p.a->ops->cancel(p.a, &s[2])); /* the last and the first */
    ASSERT(p.a->ops->cancel(p.a, &s[0]));
    p.now = 1;
    ASSERT_OK(p.b->ops->receive(p.b, 0, 1, &in, 1, &r));
    ASSERT(is_done(p.a, &s[1]) && is_done(p.b, &r)); /* the other one goes */
    ASSERT_INT(2, in);
}

/* A peer leaves while messages to it wait for tokens. */
TEST(limit, what_cannot_be_sent_any_more_fails_by_itself)
{
    static struct pair p;
    struct ct_transport *t[2];
    struct ct_request s[2], got;
    char x[800] = { 0 }, in;
    bool done   = true;

    p.now = 0;
    ASSERT_OK(ct_loopback_create(2, NULL, t));
    ASSERT_OK(ct_limit_create(t[0], 1000, clock_of, &p.now, &p.a));
    for (int i = 0; i < 2; i++)
        ASSERT_OK(p.a->ops->send(p.a, 1, 7, x, 800, &s[i]));
    t[0]->ops->over(t[0]);
    p.now = 10;
    ASSERT_STATUS(CT_ECOMM, p.a->ops->receive(p.a, 1, 3, &in, 1, &got));
    for (int i = 0; i < 2; i++) {
        ASSERT_STATUS(CT_ECOMM, p.a->ops->test(p.a, &s[i], &done));
        ASSERT(!done);
        ASSERT(p.a->ops->cancel(p.a, &s[i]));
    }
    p.a->ops->destroy(p.a);
    t[1]->ops->destroy(t[1]);
}
