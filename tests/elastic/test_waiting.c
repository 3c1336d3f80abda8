/* test_waiting.c - who waits to be taken in, or was left out. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "elastic/bytes.h"
#include "elastic/member_inner.h"
#include "elastic/member_test.h"
#include "elastic/wire.h"

struct comer {
    struct elastic_member *m;
    struct elastic_place   place;
    enum ct_status         st;
};

static void *come(void *arg)
{
    struct comer *c                     = arg;
    const struct elastic_membership *by = member_asks(c->m);

    c->st = by->next(by->arg, &c->place);
    return NULL;
}

/* Another job has come to where the one that is looked for had a door. */
TEST(waiting, a_refusal_of_another_job_is_not_the_last_word)
{
    const struct timespec moment = { 0, 200000000 };
    uint16_t other = 0, own = 0;
    const int door           = ct_reserve_port(&own);
    struct member_config c   = usual(true, 1);
    struct comer comer       = { .m = NULL };
    struct elastic_place p   = { 0 };
    struct elastic_member *a, *b;
    pthread_t thread;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.digest = 7;
    a        = make_like(c, &other, true);
    ASSERT_OK(member_asks(a)->next(member_asks(a)->arg, &p));
    ASSERT_OK(member_begin(a, 0));
    c          = usual(false, 1);
    c.knock[1] = (struct elastic_door){ ct_loopback_address(), own };
    c.knock[0] = (struct elastic_door){ ct_loopback_address(), other };
    c.n_knock  = 2;
    ASSERT_OK(member_create(&c, &comer.m));
    pthread_create(&thread, NULL, come, &comer);
    nanosleep(&moment, NULL); /* in which it is refused */
    c      = usual(true, 1);
    c.door = door;
    ASSERT_OK(member_create(&c, &b));
    ASSERT_OK(member_asks(b)->next(member_asks(b)->arg, &p));
    ASSERT_OK(member_begin(b, 0));
    pthread_join(thread, NULL);
    ASSERT_OK(comer.st);
    ASSERT_INT(2, comer.place.size);
    member_destroy(comer.m);
    member_destroy(b);
    member_destroy(a);
}

/* ---- Letters as others would write them. */

/* Process `by` says that this is the next view. */
static void install(struct elastic_member *m, uint64_t by, const uint8_t *job,
                    const struct elastic_view *v)
{
    const struct elastic_message r = { .kind = ELASTIC_INSTALL,
                                       .view = v->number, .next = *v };
    struct post_caller caller      = { .id = by, .what = POST_MEMBER };
    static uint8_t letter[8 + ELASTIC_WIRE_BYTES]; /* to 0: to anybody */
    const size_t n = elastic_message_write(&r, letter + 8);

    memcpy(caller.job, job, POST_JOB_BYTES);
    pthread_mutex_lock(&m->lock);
    member_on_letter(m, &caller, POST_RULES, letter, 8 + n);
    pthread_mutex_unlock(&m->lock);
}

static bool reaches(struct elastic_member *m, uint64_t id)
{
    const struct post_peer *q;
    bool yes;

    pthread_mutex_lock(&m->lock);
    q   = post_find(&m->post, id);
    yes = q && q->open;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

static uint32_t view_of(struct elastic_member *m)
{
    uint32_t v;

    pthread_mutex_lock(&m->lock);
    v = m->a.own.view.number;
    pthread_mutex_unlock(&m->lock);
    return v;
}

static bool asks(struct elastic_member *m)
{
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes = m->asking;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

/* For longer than --orphan: the job is there. */
TEST(waiting, who_asks_a_full_job_waits)
{
    const struct timespec while_it_waits = { 2, 0 };
    const double end       = ct_now() + 30;
    struct member_config c = usual(true, 1);
    uint16_t port          = 0;
    struct comer comer     = { .m = NULL };
    struct elastic_place p = { 0 };
    struct elastic_member *m;
    pthread_t thread;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.most = 1;
    m      = make_like(c, &port, true);
    ASSERT_OK(member_asks(m)->next(member_asks(m)->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    c        = usual(false, 1);
    c.orphan = 0.5;
    comer.m  = make_like(c, &port, false);
    while (!reaches(comer.m, m->a.me) || !reaches(m, comer.m->a.me)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_create(&thread, NULL, come, &comer);
    while (!asks(comer.m)) {
        ASSERT(ct_now() < end);
        nap();
    }
    nanosleep(&while_it_waits, NULL);
    ASSERT(asks(comer.m));
    member_destroy(m);
    pthread_join(thread, NULL);
    ASSERT_STATUS(CT_EIO, comer.st); /* now there is none */
    member_destroy(comer.m);
}

/* Others had no chance to answer meanwhile. */
TEST(waiting, who_was_stopped_goes_on_waiting)
{
    const struct timespec stopped = { 3, 0 }, moment = { 0, 700000000 };
    const double end       = ct_now() + 30;
    struct member_config c = usual(false, 1);
    uint16_t port          = 0;
    struct comer comer     = { .m = NULL };
    pthread_t thread;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    close(ct_listen(&port));
    c.orphan = 2;
    comer.m  = make_like(c, &port, false);
    pthread_create(&thread, NULL, come, &comer);
    while (!asks(comer.m)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_mutex_lock(&comer.m->lock);
    nanosleep(&stopped, NULL);
    pthread_mutex_unlock(&comer.m->lock);
    nanosleep(&moment, NULL);
    ASSERT(asks(comer.m));
    pthread_join(thread, NULL);
    ASSERT_STATUS(CT_EIO, comer.st);
    ASSERT(ct_now() < end);
    member_destroy(comer.m);
}

/* Two wait and know each other.  The first to be told of the view tells the
 * other one, which has it from nobody else. */
TEST(waiting, who_hears_of_a_view_from_another_that_came_knows_the_job)
{
    static const uint8_t job[POST_JOB_BYTES] = "of who began it";
    struct elastic_view v    = { .number = 2, .n = 3, .n_full = 1,
                                 .id = { 77 } };
    const double end         = ct_now() + 30;
    struct member_config c   = usual(false, 1);
    struct elastic_member *m[2];

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(member_create(&c, &m[i]));
        v.id[i + 1] = m[i]->a.me;
    }
    pthread_mutex_lock(&m[0]->lock);
    ASSERT(post_learn(&m[0]->post, &m[1]->post.config.card));
    pthread_mutex_unlock(&m[0]->lock);
    while (!reaches(m[0], v.id[2]) || !reaches(m[1], v.id[1])) {
        ASSERT(ct_now() < end);
        nap();
    }
    install(m[0], 77, job, &v);
    while (view_of(m[1]) == 0) {
        ASSERT(ct_now() < end);
        nap();
    }
    for (int i = 0; i < 2; i++)
        ASSERT(memcmp(job, m[i]->post.job, sizeof(job)) == 0);
    for (int i = 0; i < 2; i++)
        member_destroy(m[i]);
}

/* Process `id` has ended, and was bound by that. */
static void tell_end(struct elastic_member *m, uint64_t id, const uint8_t *job,
                     const struct elastic_will *will)
{
    struct post_caller caller = { .id = 78, .what = POST_MEMBER };
    static uint8_t letter[8 + POST_JOB_BYTES + ELASTIC_WIRE_BYTES];
    struct writer w = { letter };

    put(&w, id, 8);
    put_bytes(&w, job, POST_JOB_BYTES);
    w.at += elastic_will_write(will, w.at);
    pthread_mutex_lock(&m->lock);
    member_on_letter(m, &caller, POST_DEAD, letter, (size_t)(w.at - letter));
    pthread_mutex_unlock(&m->lock);
}

/* A job has begun anew while a process waited to be taken in.  What the dead of
 * before were bound by is nothing to its views, which it counts anew; nor are
 * views of before that come late. */
TEST(waiting, who_waits_is_not_bound_by_the_dead_of_before)
{
    static const uint8_t job[2][POST_JOB_BYTES] = {
        { 1, 2, 3, 4, 5, 6, 8, 0, 9 }, { 1, 2, 3, 4, 5, 6, 9, 0, 7 } };
    static const uint32_t number[] = { 57, 3, 2 }; /* of the first death */
    struct elastic_view v = { .number = 2, .n = 2, .n_full = 1, .id = { 77 } };
    struct elastic_view old = { .number = 60, .n = 2, .n_full = 1,
                                .id = { 60 } };
    struct elastic_will before = { .promised = 1 << 16 | 1,
                                   .accepted = 1 << 16 | 1 };
    const struct elastic_will last = { .view = { .number = 1, .n = 1,
                                                 .id = { 56 } } };
    struct member_config c = usual(false, 1);

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    for (int i = 0; i < 3; i++) {
        struct elastic_member *m = NULL;

        ASSERT_OK(member_create(&c, &m));
        v.id[1] = old.id[1] = m->a.me;
        before.view         = (struct elastic_view){ number[i], 0, 1, 1,
                                                     { 55 } };
        before.next         = before.view;
        before.next.number++;
        tell_end(m, 55, job[0], &before);
        if (i == 1) {
            tell_end(m, 56, job[1], &last);
            tell_end(m, 57, job[0], &before);
            ASSERT(elastic_has_ended(&m->a, 57));
            install(m, 60, job[0], &old);
            ASSERT_INT(0, view_of(m));
        }
        install(m, 77, job[1], &v);
        ASSERT_INT(2, view_of(m));
        ASSERT(m->a.left == 0);
        member_destroy(m);
    }
}

/* The same job: its past views are past. */
TEST(waiting, who_waits_is_bound_by_the_dead)
{
    static const uint8_t job[POST_JOB_BYTES] = "of who began it";
    struct elastic_view v = { .number = 2, .n = 2, .n_full = 1, .id = { 77 } };
    const struct elastic_will will = { .view = { .number = 3, .n = 1,
                                                 .id = { 55 } },
                                       .accepted = 1 << 16 | 1 };
    struct member_config c   = usual(false, 1);
    struct elastic_member *m = NULL;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    ASSERT_OK(member_create(&c, &m));
    v.id[1] = m->a.me;
    tell_end(m, 55, job, &will);
    install(m, 77, job, &v);
    ASSERT_INT(0, view_of(m));
    v.number = 3;
    install(m, 77, job, &v);
    ASSERT_INT(3, view_of(m));
    ASSERT(m->a.left == will.accepted);
    member_destroy(m);
}

struct beginner {
    struct elastic_member *m;
    atomic_bool            ended;
    enum ct_status         st;
};

static void *begin(void *arg)
{
    struct beginner *b = arg;

    b->st = member_begin(b->m, 0);
    atomic_store(&b->ended, true);
    return NULL;
}

/* It was suspended while it waited for others, and they left it out. */
TEST(waiting, one_that_is_left_out_before_it_begins_comes_back)
{
    static const uint8_t none[POST_JOB_BYTES];
    const struct elastic_view v = { .number = 2, .n = 1, .n_full = 1,
                                    .id = { 77 } };
    const double end       = ct_now() + 30;
    uint16_t port          = 0;
    struct beginner b      = { .m = NULL };
    struct elastic_place p = { 0 };
    struct member_config c = usual(true, 2);
    uint64_t id;
    pthread_t thread;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.orphan = 0.5;
    b.m = make_like(c, &port, true);
    id  = b.m->a.me;
    ASSERT_OK(member_asks(b.m)->next(b.m, &p));
    pthread_create(&thread, NULL, begin, &b);
    nap();
    install(b.m, 77, none, &v);
    while (!atomic_load(&b.ended)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_join(thread, NULL);
    ASSERT_OK(b.st);
    ASSERT_STATUS(CT_EIO, member_asks(b.m)->next(b.m, &p));
    ASSERT_HAS("--orphan", ct_last_error()); /* there are no others */
    ASSERT(b.m->a.me != id);
    member_destroy(b.m);
}

static bool knows(struct elastic_member *m, uint64_t id)
{
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes = post_find(&m->post, id) != NULL;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

/* Its lines to the others are still there when it wakes. */
TEST(waiting, who_slept_until_it_was_forgotten_comes_back)
{
    struct member_config c = usual(true, 1);
    const double end       = ct_now() + 30;
    uint16_t port          = 0;
    struct elastic_member *a, *b;
    uint64_t id;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.orphan = 0.5;
    a        = make_like(c, &port, true);
    b        = make(&port, false);
    id       = b->a.me;
    while (!reaches(a, id) || !reaches(b, a->a.me)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_mutex_lock(&b->lock); /* its thread can do nothing */
    while (knows(a, id)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_mutex_unlock(&b->lock);
    while (!reaches(a, id)) {
        ASSERT(ct_now() < end);
        nap();
    }
    member_destroy(b);
    member_destroy(a);
}

/* Who may be gone is heard of from those alone who reach it, or are in a view
 * with it: if each told the next one, nobody would forget it. */
TEST(waiting, who_is_not_reached_is_not_passed_on)
{
    struct elastic_card card = { .id = 99 };
    struct elastic_view v    = { .number = 2, .n = 2, .n_full = 2 };
    const double end         = ct_now() + 30;
    uint16_t port            = 0;
    struct elastic_member *a, *b, *c;
    double until;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    a = make(&port, true);
    b = make(&port, false);
    while (!reaches(a, b->a.me) || !reaches(b, a->a.me)) {
        ASSERT(ct_now() < end);
        nap();
    }
    pthread_mutex_lock(&a->lock);
    ASSERT(post_learn(&a->post, &card));
    pthread_mutex_unlock(&a->lock);
    c = make(&port, false);
    while (!reaches(b, c->a.me) || !reaches(c, b->a.me)) {
        ASSERT(ct_now() < end); /* these two have heard of each other */
        nap();
    }
    until = ct_now() + 1; /* some letters */
    while (ct_now() < until) {
        ASSERT(!knows(b, card.id) && !knows(c, card.id));
        nap();
    }
    v.id[0] = a->a.me;
    v.id[1] = card.id;
    install(a, card.id, a->post.job, &v);
    while (!knows(b, card.id) || !knows(c, card.id)) {
        ASSERT(ct_now() < end);
        nap();
    }
    member_destroy(c);
    member_destroy(b);
    member_destroy(a);
}

/* Who was in no view when it was lost is seen to by nobody. */
TEST(waiting, who_is_not_heard_of_is_forgotten)
{
    const struct elastic_will will = { .promised = 0 };
    struct elastic_card card       = { .id = 99 };
    struct member_config c         = usual(true, 1);
    const double end               = ct_now() + 30;
    uint16_t port                  = 0;
    struct elastic_member *m;
    bool known                     = true;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.orphan = 0.5;
    m        = make_like(c, &port, true);
    pthread_mutex_lock(&m->lock);
    ASSERT(post_learn(&m->post, &card));
    pthread_mutex_unlock(&m->lock);
    while (known) {
        ASSERT(ct_now() < end);
        nap();
        pthread_mutex_lock(&m->lock);
        known = post_find(&m->post, card.id) != NULL;
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_lock(&m->lock);
    ASSERT(post_learn(&m->post, &card)); /* it may live */
    elastic_dead(&m->a, card.id, &will);
    post_forget(&m->post, card.id);
    ASSERT(!post_learn(&m->post, &card));
    pthread_mutex_unlock(&m->lock);
    member_destroy(m);
}
