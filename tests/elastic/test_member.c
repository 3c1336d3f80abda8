/* test_member.c - members of a job in one process, by their real post. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pulse.h"
#include "cortado/log.h"
#include "elastic/member_inner.h"
#include "elastic/member_test.h"
#include "testing/files.h"

/* One that goes along with whatever views there are. */
struct follower {
    struct elastic_member *m;
    struct elastic_place   place;
    pthread_mutex_t        lock;
    bool                   stop;
    double                 patience; /* seconds in a view of two; 0: any */
    int                    n_given_up; /* views, because they took longer */
    double                 began;      /* to wait in the first one of two */
    pthread_t              thread;
};

static struct elastic_place place_of(struct follower *f)
{
    struct elastic_place p;

    pthread_mutex_lock(&f->lock);
    p = f->place;
    pthread_mutex_unlock(&f->lock);
    return p;
}

static int n_given_up(struct follower *f)
{
    int n;

    pthread_mutex_lock(&f->lock);
    n = f->n_given_up;
    pthread_mutex_unlock(&f->lock);
    return n;
}

/* As where another rank stalls. */
static bool gives_up(struct follower *f, const struct elastic_place *p,
                     double since)
{
    bool yes;

    pthread_mutex_lock(&f->lock);
    yes = f->patience > 0 && p->size == 2 && ct_now() - since > f->patience;
    f->n_given_up += yes;
    pthread_mutex_unlock(&f->lock);
    if (yes)
        (void)!ct_fail(CT_ECOMM, "rank 1 stands still");
    return yes;
}

static void *follow(void *arg)
{
    struct follower *f                  = arg;
    const struct elastic_membership *by = member_asks(f->m);
    struct elastic_place p;
    bool stop = false;

    while (!stop && by->next(by->arg, &p) == CT_OK) {
        struct ct_transport *t = NULL;
        const double since     = ct_now();

        if (p.view == 1 && member_begin(f->m, 0) != CT_OK)
            break;
        if (by->open(by->arg, &t) != CT_OK)
            continue;
        (void)!by->ready(by->arg, 0);
        pthread_mutex_lock(&f->lock);
        f->place = p;
        if (p.size == 2 && f->began == 0)
            f->began = since;
        pthread_mutex_unlock(&f->lock);
        while (!stop && ct_transport_check(t) == CT_OK &&
               !gives_up(f, &p, since)) {
            nap();
            pthread_mutex_lock(&f->lock);
            stop = f->stop;
            pthread_mutex_unlock(&f->lock);
        }
        by->close(by->arg);
        t->ops->over(t);
        t->ops->destroy(t);
    }
    return NULL;
}

static void stop_following(struct follower *f)
{
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    member_destroy(f->m);
}

/* One that has no parameters yet asks for a view after the other, or its peer
 * does because it leaves each one at once; nobody is lost, and nothing done.
 * Then it is the one to go and says why, and who has the parameters goes on. */
static void never_goes_on(bool connects, double orphan)
{
    uint16_t port          = 0;
    struct follower f      = { .m = NULL };
    struct member_config c = usual(false, 1);
    struct elastic_place p = { 0 };
    enum ct_status st      = CT_OK;
    uint32_t first         = 0;
    struct elastic_member *m;
    const struct elastic_membership *by;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    f.m = make(&port, true);
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    c.orphan = orphan;
    m        = make_like(c, &port, false);
    by       = member_asks(m);
    while (st == CT_OK) {
        struct ct_transport *t = NULL;

        ASSERT(p.view < 100);
        (void)!ct_fail(CT_ECOMM, "the wire of rank 0 is cut");
        st = by->next(by->arg, &p);
        if (first == 0)
            first = p.view;
        if (st != CT_OK || !connects || by->open(by->arg, &t) != CT_OK)
            continue;
        by->close(by->arg);
        t->ops->over(t);
        t->ops->destroy(t);
        nap();
    }
    ASSERT_STATUS(CT_EIO, st);
    ASSERT_HAS("rank 1 of 2 cannot go on at iteration 0", ct_last_error());
    ASSERT_HAS("the wire of rank 0 is cut", ct_last_error());
    ASSERT(p.view > first + 3 && p.view < first + 100);
    if (!connects) { /* else its peer may have said so first */
        ASSERT_HAS("cannot go on: the wire of rank 0 is cut", p.why);
        ASSERT_HAS("cannot go on: the wire of rank 0 is cut",
                   place_of(&f).why);
    }
    member_destroy(m);
    while (place_of(&f).size != 1)
        nap();
    stop_following(&f);
}

TEST(member, one_that_never_can_go_on_leaves)
{
    never_goes_on(false, 60);
}

/* Others may be given up within less than a second: then views in vain are
 * longer, and count. */
TEST(member, one_that_never_can_go_on_leaves_with_a_small_orphan)
{
    never_goes_on(false, 0.9);
}

TEST(member, one_that_fails_its_peers_leaves_and_not_they)
{
    never_goes_on(true, 60);
}

/* One that came waits in a view for what the others have, as where letters
 * arrive and long messages do not.  Its peer gives the view up, after a while.
 * Returns what its next() says in the end, or CT_OK after `most` seconds.  With
 * `moves` it gets ever more. */
static enum ct_status wait_in_views(bool moves, double most)
{
    struct follower f      = { .patience = 3 };
    struct ct_pulse pulse  = { .iter = 0 };
    uint16_t port          = 0;
    const double end       = ct_now() + most;
    enum ct_status st      = CT_OK;
    struct elastic_place p = { 0 };
    struct elastic_member *m;
    const struct elastic_membership *by;

    f.m = make(&port, true);
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    m  = make(&port, false);
    by = member_asks(m);
    while ((st = by->next(by->arg, &p)) == CT_OK && ct_now() < end) {
        struct ct_transport *t = NULL;

        if (by->open(by->arg, &t) != CT_OK)
            continue;
        if (!moves) /* it begins anew in each view, and comes to this */
            atomic_store(&pulse.sequence, 3);
        by->follow(by->arg, &pulse);
        while (ct_transport_check(t) == CT_OK && ct_now() < end) {
            nap();
            atomic_fetch_add(&pulse.sequence, moves);
        }
        by->follow(by->arg, NULL);
        by->close(by->arg);
        t->ops->over(t);
        t->ops->destroy(t);
    }
    member_destroy(m);
    while (place_of(&f).size != 1)
        nap();
    stop_following(&f);
    return st;
}

TEST(member, one_that_gets_nothing_leaves_however_long_views_are)
{
    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    ASSERT_STATUS(CT_EIO, wait_in_views(false, 20));
    ASSERT_HAS("rank 1 of 2 cannot go on at iteration 0", ct_last_error());
}

TEST(member, one_that_gets_ever_more_stays)
{
    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    ASSERT_OK(wait_in_views(true, 12));
}

/* A process that was forked, such as those that read data for a Python script,
 * has all that this one had open. */
TEST(member, nothing_of_one_that_went_is_left_though_a_forked_process_lives)
{
    uint16_t port     = 0;
    struct follower f = { .m = NULL }, g = { .m = NULL };
    struct follower *both[] = { &f, &g };
    int pipe_fd[2];
    char word;
    pid_t child;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    for (int i = 0; i < 2; i++) {
        both[i]->m = make(&port, i == 0);
        pthread_mutex_init(&both[i]->lock, NULL);
        pthread_create(&both[i]->thread, NULL, follow, both[i]);
    }
    while (place_of(&f).size != 2 || place_of(&g).size != 2)
        nap();
    ASSERT_INT(0, pipe(pipe_fd));
    child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        close(pipe_fd[1]);
        (void)!read(pipe_fd[0], &word, 1); /* until its parent lets go */
        _exit(0);
    }
    close(pipe_fd[0]);
    member_leave(g.m);
    stop_following(&g);
    while (place_of(&f).size != 1)
        nap();
    ASSERT_INT(0, test_n_stale_events());
    stop_following(&f);
    close(pipe_fd[1]);
    ASSERT(waitpid(child, NULL, 0) == child);
}

/* Who leaves has a process that lives on for a while; who is lost has none. */
TEST(member, a_place_says_whether_somebody_has_left)
{
    for (int leaves = 0; leaves < 2; leaves++) {
        uint16_t port     = 0;
        struct follower f = { .m = NULL }, g = { .m = NULL };
        struct follower *both[] = { &f, &g };

        if (seal_init() != CT_OK)
            return; /* there are no elastic jobs in this build */
        for (int i = 0; i < 2; i++) {
            both[i]->m = make(&port, i == 0);
            pthread_mutex_init(&both[i]->lock, NULL);
            pthread_create(&both[i]->thread, NULL, follow, both[i]);
        }
        while (place_of(&f).size != 2 || place_of(&g).size != 2)
            nap();
        ASSERT(!place_of(&f).left);
        if (leaves)
            member_leave(g.m);
        while (leaves && place_of(&f).size != 1)
            nap();
        stop_following(&g);
        while (place_of(&f).size != 1)
            nap();
        ASSERT_INT(leaves, place_of(&f).left);
        stop_following(&f);
    }
}

/* Training was asked to stop.  One process sees the other go, which is through,
 * before it is so itself: it ends alone, though the job takes two. */
TEST(member, at_the_end_fewer_will_do)
{
    uint16_t port     = 0;
    struct follower f = { .m = NULL };
    const struct elastic_membership *by;
    struct elastic_place p = { 0 };
    struct elastic_member *m;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m  = make_of(&port, true, 2);
    by = member_asks(m);
    ASSERT_OK(by->next(by->arg, &p));
    f.m = make_of(&port, false, 2);
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    ASSERT_OK(member_begin(m, 0));
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(2, p.size);
    ASSERT(by->ready(by->arg, 7));
    while (place_of(&f).size != 2)
        nap();
    stop_following(&f);
    by->last(by->arg, 7);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(1, p.size);
    ASSERT_INT(7, p.base);
    member_destroy(m);
}

/* The line of the log that tells of a view of one rank. */
static struct {
    pthread_mutex_t lock;
    int             n;
    char            text[512]; /* the last one */
} told = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_view(enum ct_log_level level, const char *line, void *arg)
{
    const char *at = strstr(line, "View ");

    (void)level, (void)arg;
    if (!at || !strstr(at, "; 1 rank(s) go on"))
        return;
    pthread_mutex_lock(&told.lock);
    told.n++;
    snprintf(told.text, sizeof(told.text), "%s", at);
    pthread_mutex_unlock(&told.lock);
}

static void stop_noting(void *arg)
{
    (void)arg;
    ct_log_set_sink(NULL, NULL);
    ct_log_set_level(CT_LOG_NONE);
}

/* Rank 0 trains, stands still in the view, and again as the next one begins.
 * Returns how long, and the end of the line. */
static double stand_still(struct elastic_member *m, struct follower *f,
                          bool trains, const char **line)
{
    const struct timespec t = { 0, 200000000 };
    const struct elastic_membership *by = member_asks(m);
    struct elastic_place p = { 0 };
    double since;

    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(2, p.size);
    ASSERT(by->ready(by->arg, 0));
    since = ct_now();
    ASSERT(by->ready(by->arg, 1));
    while (place_of(f).size != 2)
        nap();
    nanosleep(&t, NULL);
    stop_following(f);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(1, p.size);
    nanosleep(&t, NULL);
    if (trains)
        ASSERT(by->ready(by->arg, 1));
    else
        by->heeds(by->arg, false);
    since = ct_now() - since;
    (void)by->ready(by->arg, 2);
    pthread_mutex_lock(&told.lock);
    ASSERT_INT(1, told.n);
    *line = strstr(told.text, "; training stood for ");
    pthread_mutex_unlock(&told.lock);
    ASSERT(*line);
    return since;
}

/* From the last iteration until the ranks of the new view can train, or, where
 * it is not known when that is, what has passed so far. */
TEST(member, the_line_of_a_view_has_the_time_without_training)
{
    for (int trains = 0; trains < 2; trains++) {
        uint16_t port     = 0;
        struct follower f = { .m = NULL };
        struct elastic_member *m;
        const char *line, *number;
        double stood, seconds;
        char unit[4];

        if (seal_init() != CT_OK)
            return; /* there are no elastic jobs in this build */
        told.n = 0;
        ct_log_set_sink(note_view, NULL);
        ct_log_set_level(CT_LOG_INFO);
        test_defer(stop_noting, NULL);
        m   = make_of(&port, true, 2);
        f.m = make_of(&port, false, 1);
        pthread_mutex_init(&f.lock, NULL);
        pthread_create(&f.thread, NULL, follow, &f);
        member_asks(m)->last(m, 1); /* then it trains alone */
        stood = stand_still(m, &f, trains, &line);
        stop_noting(NULL);
        number = strpbrk(line, "0123456789");
        ASSERT(sscanf(number, "%lf %3s", &seconds, unit) == 2);
        seconds *= strcmp(unit, "ms") == 0 ? 1e-3 : 1;
        if (stood < 5) /* otherwise it says so earlier */
            ASSERT(trains == !strstr(line, "more than"));
        if (!(seconds > 0.39) || !(seconds < stood + 0.06))
            FAIL("'%s' where it stood for %g s", line, stood);
        member_destroy(m);
    }
}

/* A process whose training hangs: it takes a place, and never asks again.  The
 * other one gives view after view up. */
struct hanging {
    struct follower f; /* the other one */
    struct elastic_member *m;
    atomic_int n_found;
    int n_given_up; /* when it was found to hang */
    double since;          /* it has hung */
    double found, f_began; /* the other one to wait for it */
};

static void found_to_hang(void *arg, const char *why)
{
    struct hanging *h = arg;

    ASSERT_HAS("(--stall)", why);
    h->n_given_up = n_given_up(&h->f);
    h->found      = ct_now();
    pthread_mutex_lock(&h->f.lock);
    h->f_began = h->f.began;
    pthread_mutex_unlock(&h->f.lock);
    atomic_fetch_add(&h->n_found, 1);
}

static void begin_to_hang(struct hanging *h, double stall, bool ends)
{
    struct member_config c = usual(false, 1);
    uint16_t port          = 0;
    struct elastic_place p = { 0 };
    const struct elastic_membership *by;

    pthread_mutex_init(&h->f.lock, NULL);
    h->f.patience = 0.3;
    h->f.m        = make(&port, true);
    pthread_create(&h->f.thread, NULL, follow, &h->f);
    c.stall = stall;
    c.hangs = ends ? found_to_hang : NULL;
    c.arg   = h;
    h->m    = make_like(c, &port, false);
    by      = member_asks(h->m);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(2, p.size);
    h->since = ct_now();
    while (place_of(&h->f).size != 2)
        nap();
}

TEST(member, one_whose_training_hangs_says_so_after_a_stall)
{
    struct hanging h = { .m = NULL };

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    begin_to_hang(&h, 0.2, true);
    while (atomic_load(&h.n_found) == 0)
        nap();
    ASSERT(h.n_given_up >= 2); /* of which one it had not even come to */
    ASSERT(h.found - h.f_began >= 0.5);
    while (n_given_up(&h.f) < 4)
        nap();
    ASSERT_INT(1, atomic_load(&h.n_found));
    member_destroy(h.m); /* as its process ends */
    while (place_of(&h.f).size != 1)
        nap();
    stop_following(&h.f);
}

TEST(member, one_whose_training_hung_is_left_out_and_comes_back)
{
    struct hanging h       = { .m = NULL };
    struct elastic_place p = { 0 };
    const struct elastic_membership *by;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    begin_to_hang(&h, 0.2, false);
    while (place_of(&h.f).size != 1)
        nap();
    ASSERT(n_given_up(&h.f) >= 2);
    by = member_asks(h.m);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(2, p.size);
    member_destroy(h.m);
    stop_following(&h.f);
}

static void *ask(void *arg)
{
    const struct elastic_membership *by = member_asks(arg);
    struct elastic_place p;

    return by->next(by->arg, &p) == CT_OK ? arg : NULL;
}

static bool wants_out(struct elastic_member *m, bool *asks)
{
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes   = m->a.leaves;
    *asks = m->asking;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

/* Its training was found to hang, and asks for a place after all: from then on
 * it does not ask to be left out of any view. */
TEST(member, one_whose_training_hung_stays_once_it_asks)
{
    uint16_t port     = 0;
    struct follower f = { .m = NULL };
    const struct elastic_membership *by;
    struct elastic_place p = { 0 };
    struct elastic_member *m;
    pthread_t thread;
    void *well;
    bool asks;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m  = make_of(&port, true, 2);
    by = member_asks(m);
    ASSERT_OK(by->next(by->arg, &p));
    f.m = make_of(&port, false, 2);
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    ASSERT_OK(member_begin(m, 0));
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(2, p.size);
    while (place_of(&f).size != 2)
        nap();
    pthread_mutex_lock(&m->lock);
    elastic_leave(&m->a); /* as mind_training() does */
    pthread_mutex_unlock(&m->lock);
    stop_following(&f); /* so there is no place for one */
    ASSERT(wants_out(m, &asks));
    pthread_create(&thread, NULL, ask, m);
    do {
        nap();
        (void)wants_out(m, &asks);
    } while (!asks);
    ASSERT(!wants_out(m, &asks));
    f = (struct follower){ .m = make_of(&port, false, 2) };
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    pthread_join(thread, &well);
    ASSERT(well);
    stop_following(&f);
    member_destroy(m);
}

/* A long test, or a snapshot: others give views up that it has not come to, and
 * it stays for as long as its training moves. */
TEST(member, one_that_is_at_work_stays)
{
    struct hanging h      = { .m = NULL };
    struct ct_pulse pulse = { .iter = 0 };
    const struct elastic_membership *by;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    ct_pulse_init(&pulse);
    begin_to_hang(&h, 10, true);
    by = member_asks(h.m);
    by->follow(by->arg, &pulse);
    while (n_given_up(&h.f) < 8 || ct_now() - h.since < 12) {
        ct_pulse_set(&pulse, CT_PULSE_TEST, "conv1");
        nap();
    }
    ASSERT_INT(0, atomic_load(&h.n_found));
    ct_pulse_set(&pulse, CT_PULSE_SNAPSHOT, NULL);
    while (ct_now() - h.since < 24)
        nap();
    ASSERT_INT(0, atomic_load(&h.n_found));
    ct_pulse_set(&pulse, CT_PULSE_TEST, "conv1");
    while (atomic_load(&h.n_found) == 0)
        nap();
    by->follow(by->arg, NULL);
    member_destroy(h.m);
    stop_following(&h.f);
}

/* Training of the only rank hangs, as others come: they wait in vain. */
TEST(member, one_alone_whose_training_hangs_says_so)
{
    struct hanging h       = { .m = NULL };
    struct member_config c = usual(true, 1);
    struct ct_pulse pulse  = { .iter = 0 };
    uint16_t port          = 0;
    struct elastic_place p = { 0 };
    const struct elastic_membership *by;
    double until;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    pthread_mutex_init(&h.f.lock, NULL);
    h.f.patience = 0.3;
    c.stall = 10;
    c.hangs = found_to_hang;
    c.arg   = &h;
    h.m     = make_like(c, &port, true);
    by      = member_asks(h.m);
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT_INT(1, p.size);
    ASSERT_OK(member_begin(h.m, 0));
    ct_pulse_init(&pulse);
    by->follow(by->arg, &pulse);
    h.f.m = make(&port, false);
    pthread_create(&h.f.thread, NULL, follow, &h.f);
    until = ct_now() + 12;
    while (n_given_up(&h.f) < 2 || ct_now() < until) {
        ct_pulse_set(&pulse, CT_PULSE_FORWARD, "conv1");
        nap();
    }
    ASSERT_INT(0, atomic_load(&h.n_found));
    until = ct_now() + 60;
    while (atomic_load(&h.n_found) == 0 && ct_now() < until)
        nap();
    ASSERT_INT(1, atomic_load(&h.n_found));
    by->follow(by->arg, NULL);
    member_destroy(h.m);
    stop_following(&h.f);
}

/* Who is slow, and comes to each view in the end and gets further in it,
 * stays. */
TEST(member, one_that_is_slow_stays)
{
    struct hanging h       = { .m = NULL };
    struct ct_pulse pulse  = { .iter = 0 };
    struct elastic_place p = { 0 };
    const struct elastic_membership *by;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    begin_to_hang(&h, 10, true);
    by = member_asks(h.m);
    by->follow(by->arg, &pulse);
    for (int i = 0; i < 9; i++) {
        const int n = n_given_up(&h.f);
        double until;

        atomic_fetch_add(&pulse.sequence, 1);
        while (n_given_up(&h.f) == n)
            nap();
        until = ct_now() + 1; /* the other one gives it up again */
        while (ct_now() < until)
            nap();
        ASSERT_OK(by->next(by->arg, &p));
        ASSERT_INT(2, p.size);
    }
    ASSERT_INT(0, atomic_load(&h.n_found));
    by->follow(by->arg, NULL);
    member_destroy(h.m);
    stop_following(&h.f);
}

/* An agent whose ranks are all dead has told others of them.  It hears that
 * these have finished the job. */
TEST(member, agents_hear_of_the_end)
{
    struct post_config c   = { .secret = secret, .what = POST_AGENT,
                               .door = -1 };
    const struct ct_ip here = ct_loopback_address();
    const double end       = ct_now() + 30;
    struct elastic_place p = { 0 };
    uint16_t port          = 0;
    struct elastic_member *m;
    struct post_events e;
    struct post agent;
    int64_t began;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    m = make(&port, true);
    ASSERT_OK(member_asks(m)->next(member_asks(m)->arg, &p));
    card_of_this_process(&c.card);
    c.card.id = 5;
    ASSERT_OK(post_start(&agent, &c));
    ASSERT(post_door(&agent, &here, port));
    while (!agent.peers->open && ct_now() < end) {
        post_wait(&agent, 10, &e);
        post_work(&agent, &e);
    }
    while (member_job_began(agent.done) == 0 && ct_now() < end) {
        member_done(m, true); /* until it knows who has called */
        post_wait(&agent, 10, &e);
        post_work(&agent, &e);
    }
    began = member_job_began(agent.done);
    ASSERT(began > 0 && began == member_began(m));
    post_stop(&agent);
    member_destroy(m);
}

/* Two are the least that train.  One of two wants to go, and stays until others
 * have come: it has its place in the next view. */
TEST(member, who_is_not_let_go_is_expected)
{
    uint16_t port     = 0;
    struct follower f = { .m = NULL };
    const struct elastic_membership *by;
    struct member_config c = usual(true, 2);
    struct elastic_place p = { 0 };
    struct elastic_member *a, *b;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.prepares = true;
    a  = make_like(c, &port, true);
    by = member_asks(a);
    ASSERT_OK(by->next(by->arg, &p));
    f.m = make_of(&port, false, 2);
    pthread_mutex_init(&f.lock, NULL);
    pthread_create(&f.thread, NULL, follow, &f);
    ASSERT_OK(member_begin(a, 0));
    ASSERT_OK(by->next(by->arg, &p));
    ASSERT(by->ready(by->arg, 1));
    while (place_of(&f).size != 2)
        nap();
    member_leave(f.m);
    while (!member_ends_job(f.m)) /* it has asked, in vain */
        nap();
    b = make_of(&port, false, 2);
    p = await_hint(by, 3);
    ASSERT_INT(0, p.rank);
    member_destroy(b);
    stop_following(&f);
    member_destroy(a);
}
