/* test_room.c - a process that asks to be taken in waits until all are
 * prepared. */
#include "elastic/member_inner.h"
#include "elastic/member_test.h"

/* A member that founds the job is in a view of its own; another one, which
 * would join it, has its first hint. */
static void make_two(struct elastic_member **a, struct elastic_member **b,
                     struct elastic_place *hint)
{
    const struct elastic_membership *by;
    struct elastic_place p = { 0 };
    uint16_t port          = 0;

    *a = make_preparing(&port, true);
    by = member_asks(*a);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_OK(member_begin(*a, 0));
    *b = make_preparing(&port, false);
    by = member_asks(*b);
    ASSERT_OK(by->next(by->arg, hint));
    ASSERT_INT(0, hint->view);
}

static bool is_over(const struct elastic_membership *by,
                    const struct ct_transport *t)
{
    struct elastic_place p;

    nap();
    ASSERT(!by->expects(by->arg, &p)); /* as an iteration begins */
    return ct_transport_check(t) != CT_OK;
}

TEST(room, who_comes_waits_until_all_are_prepared)
{
    const struct elastic_membership *first, *second;
    struct elastic_place p = { 0 }, q = { 0 };
    struct elastic_member *a, *b;
    struct ct_transport *t = NULL;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    make_two(&a, &b, &q);
    first  = member_asks(a);
    second = member_asks(b);
    ASSERT_OK(first->open(first->arg, &t));
    ASSERT_INT(1, q.rank);
    ASSERT_INT(2, q.size);
    while (!first->expects(first->arg, &p))
        nap();
    ASSERT_INT(0, p.rank);
    ASSERT_INT(2, p.size);
    first->prepared(first->arg, p.hint);
    second->prepared(second->arg, q.hint + 1); /* not the one that it has */
    for (int i = 0; i < 20; i++)
        ASSERT(!is_over(first, t));
    second->prepared(second->arg, q.hint);
    while (!is_over(first, t))
        continue;
    first->close(first->arg);
    t->ops->destroy(t);
    ASSERT_OK(first->next(first->arg, &p));
    ASSERT_OK(second->next(second->arg, &q));
    ASSERT_INT(2, p.view);
    ASSERT_INT(2, q.view);
    ASSERT_INT(0, p.rank);
    ASSERT_INT(1, q.rank);
    member_destroy(b);
    member_destroy(a);
}

/* As if it had been asked so many seconds ago. */
static void age_room(struct elastic_member *m, double seconds)
{
    pthread_mutex_lock(&m->lock);
    m->room.since -= seconds;
    pthread_mutex_unlock(&m->lock);
}

static int hoped_size(struct elastic_member *m)
{
    int size;

    pthread_mutex_lock(&m->lock);
    size = m->hint.size;
    pthread_mutex_unlock(&m->lock);
    return size;
}

static void await_hope(struct elastic_member *m, int size)
{
    const double end = ct_now() + 60;

    while (hoped_size(m) != size && ct_now() < end)
        nap();
    ASSERT_INT(size, hoped_size(m));
}

/* It was given hope of a place, and others took that.  It waits as one that has
 * never had any, and gets the next place that there is. */
TEST(room, who_finds_the_job_full_has_no_hope)
{
    struct elastic_place q = { 0 };
    struct elastic_member *a, *b;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    make_two(&a, &b, &q);
    ASSERT_INT(2, hoped_size(b));
    pthread_mutex_lock(&a->lock);
    a->a.most = 1;
    pthread_mutex_unlock(&a->lock);
    await_hope(b, 0);
    pthread_mutex_lock(&a->lock);
    a->a.most = 2;
    pthread_mutex_unlock(&a->lock);
    await_hope(b, 2);
    member_destroy(b);
    member_destroy(a);
}

/* Where servers keep the parameters, no rank makes anything in advance, and who
 * comes need not wait for that.  A hint that came before that was known counts
 * as taken. */
TEST(room, who_comes_waits_for_nobody_who_takes_no_hints)
{
    const struct elastic_membership *first, *second;
    struct elastic_place q = { 0 };
    struct elastic_member *a, *b;
    double begin;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    make_two(&a, &b, &q);
    first  = member_asks(a);
    second = member_asks(b);
    age_room(a, -50);
    begin = ct_now();
    first->heeds(first->arg, false);
    second->prepared(second->arg, q.hint);
    ASSERT_OK(second->next(second->arg, &q));
    ASSERT_INT(2, q.view);
    ASSERT(ct_now() - begin < 30); /* it would be taken in after a minute */
    member_destroy(b);
    member_destroy(a);
}

/* Whoever asked is gone before it was taken in: what was prepared for it is of
 * no use, until the next one comes. */
TEST(room, a_hint_that_will_not_come_true_is_withdrawn)
{
    uint16_t port          = 0;
    struct elastic_place p = { 0 }, q = { 0 };
    const struct elastic_membership *by;
    struct elastic_member *a, *b;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    a  = make_preparing(&port, true);
    by = member_asks(a);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_OK(member_begin(a, 0));
    for (int i = 0; i < 2; i++) {
        b = make_preparing(&port, false);
        q = await_hint(by, 2);
        ASSERT(q.hint > p.hint);
        member_destroy(b);
        p = await_hint(by, 0);
        ASSERT(p.hint > q.hint);
        by->prepared(by->arg, q.hint); /* too late, and of no effect */
    }
    member_destroy(a);
}

static uint32_t view_of(struct elastic_member *m, int *n_asking)
{
    uint32_t number;

    pthread_mutex_lock(&m->lock);
    number    = m->a.own.view.number;
    *n_asking = m->room.n;
    pthread_mutex_unlock(&m->lock);
    return number;
}

/* Who came last has yet to get what the others have, which may take longer than
 * the others are waited for: a view that follows would begin that anew. */
TEST(room, nobody_is_let_in_unprepared_while_another_gets_the_state)
{
    const struct elastic_membership *first, *second;
    struct elastic_place p = { 0 }, q = { 0 };
    struct elastic_member *a, *b, *c;
    struct ct_transport *t = NULL;
    uint16_t port;
    int n = 0;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    make_two(&a, &b, &q);
    first  = member_asks(a);
    second = member_asks(b);
    port   = a->post.config.card.door;
    ASSERT_OK(first->open(first->arg, &t));
    p = await_hint(first, 2);
    first->prepared(first->arg, p.hint);
    second->prepared(second->arg, q.hint);
    while (!is_over(first, t))
        continue;
    first->close(first->arg);
    t->ops->destroy(t);
    ASSERT_OK(first->next(first->arg, &p));
    ASSERT_INT(2, p.size);
    ASSERT_INT(1, p.n_full);
    ASSERT_OK(second->next(second->arg, &q));
    c = make_preparing(&port, false);
    while (view_of(a, &n) == p.view && n == 0)
        nap();
    for (int i = 0; i < 200; i++) {
        age_room(a, 60);
        ASSERT_INT(p.view, view_of(a, &n));
        nap();
    }
    ASSERT(second->ready(second->arg, p.base)); /* it has all */
    ASSERT(first->ready(first->arg, p.base + 1));
    for (; view_of(a, &n) == p.view; nap())
        age_room(a, 60);
    member_destroy(c);
    member_destroy(b);
    member_destroy(a);
}
