/* test_marks.c - who watches a solver hears which ranks came and went. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dist/bus.h"
#include "dist/ranks.h"
#include "solver/solver_inner.h"
#include "testing/files.h"

enum { STEPS = 16, GOES_AT = 5, COME_AT = 10, MOST_MARKS = 64 };

/* What the first member heard. */
static struct {
    int            n_come; /* at once, after COME_AT */
    struct ct_mark mark[MOST_MARKS];
    int            n;
} heard;

static void *member_main(void *arg);

/* Until a view has all who live: a busy machine takes its time. */
static void await_all(struct member *m)
{
    bool there = false;

    while (!there) {
        pthread_mutex_lock(&m->bus->lock);
        there = m->a.own.view.number > m->given && !m->a.frozen &&
                m->a.own.view.n == bus_n_alive(m->bus);
        pthread_mutex_unlock(&m->bus->lock);
        bus_nap(200);
    }
}

/* On the thread of the first member, between two iterations. */
static void change(const struct ct_iteration *e, void *arg)
{
    struct member *m = arg;
    struct bus *b    = m->bus;

    if (m->number != 0 || (e->iter != GOES_AT && e->iter != COME_AT))
        return;
    pthread_mutex_lock(&b->lock);
    if (e->iter == GOES_AT)
        bus_kill(b, &b->member[1]);
    for (int i = 0; i < heard.n_come && e->iter == COME_AT; i++) {
        struct member *comer = bus_join(b);

        elastic_join(&m->a, comer->a.me); /* who was asked may be new, too */
        pthread_create(&comer->thread, NULL, member_main, comer);
    }
    pthread_mutex_unlock(&b->lock);
    await_all(m);
}

static void hear(const struct ct_mark *e, void *arg)
{
    const struct member *m = arg;

    if (m->number == 0 && heard.n < MOST_MARKS)
        heard.mark[heard.n++] = *e;
}

static enum ct_status live(struct member *m, struct ct_dist **d,
                           struct ct_solver **s)
{
    static const struct ct_solver_events events = { .iteration = change,
                                                    .mark      = hear };
    struct ct_solver_options o = { .device = ct_device_cpu() };

    CT_TRY(dist_create_elastic(&m->asks, m->bus->options, NULL, d));
    o.exchange = ct_dist_exchange(*d);
    o.rank     = ct_dist_rank(*d);
    o.size     = ct_dist_size(*d);
    CT_TRY(ct_solver_create(m->bus->param, &o, s));
    CT_TRY(ct_solver_listen(*s, &events, m));
    if (o.exchange->facts.n_full < o.size)
        CT_TRY(solver_enter_view(*s, true));
    return ct_solver_step(*s, STEPS - ct_solver_iter(*s));
}

static void *member_main(void *arg)
{
    struct member *m    = arg;
    struct ct_dist *d   = NULL;
    struct ct_solver *s = NULL;

    ct_device_cpu_set_threads(1);
    do { /* a view may end while it comes in */
        ct_solver_destroy(s);
        ct_dist_destroy(d);
        s     = NULL;
        d     = NULL;
        m->st = live(m, &d, &s);
    } while (m->st == CT_ECOMM);
    if (m->st != CT_OK)
        snprintf(m->why, sizeof(m->why), "%s", ct_last_error());
    pthread_mutex_lock(&m->bus->lock);
    bus_leave(m);
    pthread_mutex_unlock(&m->bus->lock);
    ct_solver_destroy(s);
    ct_dist_destroy(d);
    return NULL;
}

/* Three ranks, of which one goes; then so many come. */
static void train(int n_come)
{
    Caffe__DistributedParameter *p = NULL;
    const char *options            = "batch: 'global'";
    Caffe__SolverParameter *param;
    struct bus *b;

    memset(&heard, 0, sizeof(heard));
    heard.n_come = n_come;
    ranks_make_data();
    ranks_batch(RANKS_BATCH);
    param = ranks_solver(1, "");
    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, options,
                            strlen(options), "test", &p));
    ASSERT_OK(bus_create(1, param, p, &b));
    bus_start(b, 3);
    for (int i = 0; i < 3; i++)
        pthread_create(&b->member[i].thread, NULL, member_main, &b->member[i]);
    bus_await(b);
    bus_stop(b);
    if (b->member[0].st != CT_OK)
        FAIL("member 0: %s", b->member[0].why);
    bus_destroy(b);
    ct_message_free(p);
    ct_message_free(param);
}

/* Marks of a kind, of ranks and of more than are named. */
static int count(enum ct_mark_kind kind, int *n_named)
{
    int n = 0;

    *n_named = 0;
    for (int i = 0; i < heard.n; i++) {
        const struct ct_mark *m = &heard.mark[i];

        if (m->kind != kind)
            continue;
        *n_named += m->rank >= 0;
        n += m->rank >= 0 ? 1 : atoi(m->text);
    }
    return n;
}

TEST(marks, a_rank_goes_and_one_comes)
{
    int named;

    train(1);
    ASSERT_INT(1, count(CT_MARK_LOST, &named));
    ASSERT_INT(1, named);
    ASSERT_INT(1, count(CT_MARK_JOINED, &named));
    ASSERT_INT(1, named);
    for (int i = 0; i < heard.n; i++) {
        const struct ct_mark *m = &heard.mark[i];

        if (m->kind == CT_MARK_LOST) {
            ASSERT_INT(1, m->rank);
            ASSERT(strstr(m->text, "rank 1") != NULL);
        } else if (m->kind == CT_MARK_JOINED) {
            ASSERT_INT(2, m->rank);
            ASSERT_STR("rank 2 came", m->text);
            ASSERT_INT(COME_AT + 1, m->iter);
        }
    }
    ASSERT_STR("joined", ct_mark_name(CT_MARK_JOINED));
}

TEST(marks, of_many_that_come_at_once_eight_are_named)
{
    int named;

    train(10);
    ASSERT_INT(10, count(CT_MARK_JOINED, &named));
    ASSERT_INT(8, named);
}
