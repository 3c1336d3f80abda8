/* test_agents.c - what agents tell each other of the dead. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "elastic/bytes.h"
#include "elastic/member_inner.h"
#include "elastic/member_test.h"
#include "elastic/wire.h"

#include "../../apps/agent_deaths.h"
#include "../../apps/agent_orders.h"

/* ---- Who is dead. */

static const uint8_t no_job[POST_JOB_BYTES];

/* A job that has begun, so often anew. */
static void make_job(uint8_t job[POST_JOB_BYTES], int generation)
{
    struct writer w = { job + POST_KEPT_BYTES };

    memset(job, 1, POST_JOB_BYTES);
    put(&w, (uint64_t)generation, 2);
}

/* A rank of this agent ends with that will. */
static void lose(struct agent_deaths *d, struct post *p, uint64_t id,
                 const uint8_t *job, const struct elastic_will *will)
{
    struct will_page *page = NULL;
    struct will_place *w;
    int fd;

    ASSERT_OK(will_page_create(&fd, &page));
    w             = will_page_next(page);
    w->will_bytes = (uint32_t)elastic_will_write(will, w->will);
    memcpy(w->job, job, sizeof(w->job));
    will_page_publish(page);
    atomic_store(&page->id, id);
    deaths_note_own(d, p, page);
    will_page_unmap(page);
    close(fd);
}

static void take_death(struct agent_deaths *d, uint64_t id, const uint8_t *job,
                       const struct elastic_will *will)
{
    uint8_t letter[8 + POST_JOB_BYTES + ELASTIC_WIRE_BYTES];
    struct writer w = { letter };

    put(&w, id, 8);
    put_bytes(&w, job, POST_JOB_BYTES);
    w.at += elastic_will_write(will, w.at);
    deaths_take(d, letter, (size_t)(w.at - letter));
}

/* It may be in a view that another one had agreed to. */
TEST(agents, who_died_before_its_first_view_is_dead)
{
    const struct elastic_will none = { .promised = 0 };
    struct elastic_will will       = {
        .view     = { .number = 3, .n = 1, .n_full = 1, .id = { 10 } },
        .promised = 5,
        .accepted = 5,
        .next     = { .number = 4, .n = 2, .n_full = 1, .id = { 10, 20 } },
    };
    struct agent_deaths d = { 0 };
    struct post p         = { 0 };
    uint8_t job[POST_JOB_BYTES], other[POST_JOB_BYTES];

    make_job(job, 0);
    make_job(other, 0);
    other[0] = 2;
    lose(&d, &p, 10, job, &will);
    ASSERT(!deaths_leave_job_to_us(&d));
    take_death(&d, 20, other, &none);
    ASSERT(!deaths_leave_job_to_us(&d));
    take_death(&d, 20, no_job, &none);
    ASSERT(deaths_leave_job_to_us(&d));
    deaths_fini(&d);
}

/* It would be a view of which nobody lives. */
TEST(agents, a_view_without_members_leaves_no_job)
{
    const struct elastic_will will = { .view = { .number = 3 } };
    struct agent_deaths d          = { 0 };
    struct post p                  = { 0 };
    uint8_t job[POST_JOB_BYTES];

    make_job(job, 0);
    take_death(&d, 10, job, &will);
    ASSERT(!deaths_leave_job_to_us(&d));
    lose(&d, &p, 11, job, &will);
    ASSERT(!deaths_leave_job_to_us(&d));
    deaths_fini(&d);
}

/* A rank that was left out and is stopped has not heard of newer views. */
TEST(agents, an_older_view_keeps_no_job)
{
    const struct elastic_will will = {
        .view = { .number = 3, .n = 1, .n_full = 1, .id = { 10 } },
    };
    const struct elastic_view older = { .number = 2, .n = 2 };
    struct agent_deaths d           = { 0 };
    struct post p                   = { 0 };
    uint8_t job[POST_JOB_BYTES], before[POST_JOB_BYTES], after[POST_JOB_BYTES];

    make_job(before, 1);
    make_job(job, 2);
    make_job(after, 3);
    lose(&d, &p, 10, job, &will);
    ASSERT(deaths_are_newer(&d, job, &older));
    ASSERT(deaths_are_newer(&d, no_job, &older));
    ASSERT(!deaths_are_newer(&d, job, &will.view));
    ASSERT(deaths_are_newer(&d, before, &will.view));
    ASSERT(!deaths_are_newer(&d, after, &older));
    deaths_fini(&d);
}

/* It may have begun anew since the last death that an agent saw. */
TEST(agents, a_job_is_the_same_when_it_began_anew)
{
    const struct elastic_will will = {
        .view = { .number = 3, .n = 1, .n_full = 1, .id = { 10 } },
    };
    struct agent_deaths d = { 0 };
    struct post p         = { 0 };
    uint8_t job[POST_JOB_BYTES], after[POST_JOB_BYTES], other[POST_JOB_BYTES];

    make_job(job, 0);
    make_job(after, 1);
    make_job(other, 0);
    other[0] = 2;
    ASSERT(deaths_may_be_of(&d, other)); /* it knows of none */
    lose(&d, &p, 10, job, &will);
    ASSERT(deaths_may_be_of(&d, job));
    ASSERT(deaths_may_be_of(&d, after));
    ASSERT(!deaths_may_be_of(&d, other));
    deaths_fini(&d);
}

/* Before it has seen a death. */
TEST(agents, a_rank_says_which_job_it_is)
{
    struct agent_deaths d = { 0 };
    uint8_t job[POST_JOB_BYTES], after[POST_JOB_BYTES], other[POST_JOB_BYTES];

    make_job(job, 0);
    make_job(after, 1);
    make_job(other, 0);
    other[0] = 2;
    deaths_learn_job(&d, no_job);
    ASSERT(deaths_may_be_of(&d, other));
    deaths_learn_job(&d, job);
    deaths_learn_job(&d, other);
    ASSERT(deaths_may_be_of(&d, job) && deaths_may_be_of(&d, after));
    ASSERT(!deaths_may_be_of(&d, other));
    deaths_fini(&d);
}

/* Its descriptor is closed once: another file may have its number by then. */
TEST(agents, a_page_for_which_there_is_no_room_leaves_no_descriptor)
{
    struct will_page *page = NULL;
    struct rlimit limit, none;
    int fd = -1;

    ASSERT_INT(0, getrlimit(RLIMIT_FSIZE, &limit));
    none = (struct rlimit){ 0, limit.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    ASSERT_INT(0, setrlimit(RLIMIT_FSIZE, &none));
    ASSERT_STATUS(CT_EIO, will_page_create(&fd, &page));
    ASSERT_INT(0, setrlimit(RLIMIT_FSIZE, &limit));
    ASSERT_INT(-1, fd);
    ASSERT(!page);
}

/* ---- Letters. */

struct heard {
    int            n_dead;
    enum post_what from;
};

static void hear(void *arg, struct post_caller *from, enum post_kind kind,
                 const uint8_t *body, size_t bytes)
{
    struct heard *h = arg;

    (void)body;
    (void)bytes;
    h->n_dead += kind == POST_DEAD;
    h->from = from->what;
}

static void start_agent(struct post *p, uint64_t id, struct heard *h)
{
    struct post_config c = { .secret = secret, .what = POST_AGENT, .door = -1,
                             .take = hear, .arg = h };

    card_of_this_process(&c.card);
    c.card.id = c.card.agent = id;
    ASSERT_OK(post_start(p, &c));
}

static void work(struct post *a, struct post *b)
{
    struct post_events e;

    post_wait(a, 5, &e);
    post_work(a, &e);
    post_wait(b, 5, &e);
    post_work(b, &e);
}

/* Agent 2 knows of agent 1 only because that has called. */
TEST(agents, who_has_called_hears_of_deaths)
{
    static struct post a, b;
    const struct elastic_will none = { .promised = 0 };
    struct heard at_a = { 0 }, at_b = { 0 };
    struct agent_deaths d = { 0 };
    const double end      = ct_now() + 20;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    start_agent(&a, 1, &at_a);
    start_agent(&b, 2, &at_b);
    ASSERT(post_learn(&a, &b.config.card));
    while (!b.callers || b.callers->what != POST_AGENT) {
        ASSERT(ct_now() < end);
        work(&a, &b);
        deaths_tell(&d, &b, 0);
    }
    ASSERT(!b.peers);
    lose(&d, &b, 10, no_job, &none);
    while (at_a.n_dead == 0) {
        ASSERT(ct_now() < end);
        work(&a, &b);
        deaths_tell(&d, &b, 0);
    }
    ASSERT_INT(POST_AGENT, (int)at_a.from);
    deaths_fini(&d);
    post_stop(&a);
    post_stop(&b);
}

/* What was written to a line that broke may be lost. */
TEST(agents, who_calls_again_hears_of_deaths_again)
{
    static struct post a, b;
    const struct elastic_will none = { .promised = 0 };
    struct heard at_a = { 0 }, at_b = { 0 };
    struct agent_deaths d = { 0 };
    const double end      = ct_now() + 20;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    start_agent(&a, 1, &at_a);
    start_agent(&b, 2, &at_b);
    lose(&d, &b, 10, no_job, &none);
    ASSERT(post_learn(&b, &a.config.card));
    for (int times = 1; times < 4; times++) {
        while (at_a.n_dead < times) {
            ASSERT(ct_now() < end);
            work(&a, &b);
            deaths_tell(&d, &b, 0);
        }
        ASSERT(deaths_are_told(&d, &b));
        for (int i = 0; i < 20; i++) { /* once a line */
            work(&a, &b);
            deaths_tell(&d, &b, 0);
        }
        ASSERT_INT(times, at_a.n_dead);
        line_close(&a.callers->line); /* the network is gone */
        while (b.peers->open) {
            ASSERT(ct_now() < end);
            work(&a, &b);
        }
    }
    deaths_fini(&d);
    post_stop(&a);
    post_stop(&b);
}

static bool tells_of(const struct agent_deaths *d)
{
    return d->first != NULL;
}

/* A network may be down for longer than any pause: what ends the telling is a
 * view without the dead. */
TEST(agents, deaths_are_told_of_until_a_view_comes_without_them)
{
    const struct elastic_will with = {
        .view = { .number = 3, .n = 2, .n_full = 2, .id = { 10, 20 } },
    };
    const struct elastic_will none = { .promised = 0 };
    struct elastic_will later = with, past = with;
    struct agent_deaths d = { 0 };
    struct post p         = { 0 };
    uint8_t job[POST_JOB_BYTES], after[POST_JOB_BYTES];

    make_job(job, 0);
    make_job(after, 1);
    past.view.number = 2;
    past.view.n      = 1;
    past.view.id[0]  = 20;
    later.view.number++;
    lose(&d, &p, 10, job, &with);
    deaths_outlived(&d, job, &past);
    deaths_outlived(&d, job, &later);
    ASSERT(tells_of(&d)); /* it is in the view */
    later.view.n     = 1;
    later.view.id[0] = 20;
    later.accepted   = 7;
    later.next       = with.view;
    deaths_outlived(&d, job, &later);
    ASSERT(tells_of(&d)); /* it may be in the next one */
    later.accepted = 0;
    deaths_outlived(&d, job, &later);
    ASSERT(!tells_of(&d));
    lose(&d, &p, 11, no_job, &none);
    deaths_outlived(&d, job, &later);
    ASSERT(tells_of(&d)); /* it may be taken in yet */
    deaths_fini(&d);
    d = (struct agent_deaths){ 0 };
    lose(&d, &p, 10, job, &with);
    deaths_outlived(&d, after, &past);
    ASSERT(!tells_of(&d)); /* the job has begun anew */
    deaths_fini(&d);
}

/* The port belonged to agent 3 before. */
TEST(agents, what_another_one_is_told_is_not_taken)
{
    static struct post a, b;
    struct heard at_a = { 0 }, at_b = { 0 };
    const double end         = ct_now() + 20;
    struct elastic_card card;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    start_agent(&a, 1, &at_a);
    start_agent(&b, 2, &at_b);
    card    = b.config.card;
    card.id = card.agent = 3;
    ASSERT(post_learn(&a, &card));
    while (at_b.n_dead == 0) {
        ASSERT(ct_now() < end);
        work(&a, &b);
        (void)!post_send(&a, 3, POST_DEAD, "", 1);
    }
    ASSERT_INT(POST_GUEST, (int)at_b.from);
    post_stop(&a);
    post_stop(&b);
}

/* The job has no room for it. */
TEST(agents, who_only_waits_leaves_them_addresses)
{
    struct member_config c = usual(true, 1);
    const double end       = ct_now() + 20;
    struct will_page *page = NULL;
    struct elastic_place p = { 0 };
    uint16_t port          = 0;
    struct elastic_member *m, *waits;
    int fd;

    if (seal_init() != CT_OK)
        return; /* there are no elastic jobs in this build */
    c.most = 1;
    m      = make_like(c, &port, true);
    ASSERT_OK(member_asks(m)->next(member_asks(m)->arg, &p));
    ASSERT_OK(member_begin(m, 0));
    ASSERT_OK(will_page_create(&fd, &page));
    c      = usual(false, 1);
    c.will = fd;
    waits  = make_like(c, &port, false);
    while (will_page_last(page)->cards_bytes == 0) {
        ASSERT(ct_now() < end);
        nap();
    }
    member_destroy(waits);
    member_destroy(m);
    will_page_unmap(page);
    close(fd);
}

/* ---- Orders of a launcher. */

static int obeyed[8], n_obeyed;

static void obey(int number)
{
    if (n_obeyed < 8)
        obeyed[n_obeyed++] = number;
}

static void send_orders(struct agent_orders *o, const char *text, size_t n)
{
    n_obeyed = 0;
    orders_take(o, text, n, obey);
}

TEST(agents, an_order_may_come_in_pieces)
{
    struct agent_orders o = { .n = 0 };

    send_orders(&o, "signal 15\nsig", 13);
    ASSERT_INT(1, n_obeyed);
    ASSERT_INT(15, obeyed[0]);
    send_orders(&o, "nal 2", 5);
    ASSERT_INT(0, n_obeyed);
    send_orders(&o, "\n", 1);
    ASSERT_INT(1, n_obeyed);
    ASSERT_INT(2, obeyed[0]);
}

/* Nor is the end of one that is too long; what follows them is. */
TEST(agents, lines_that_are_no_orders_are_skipped)
{
    static const char text[] = "signal 1\0\nsignal\nsignal 15 2\n"
                               "signal 123456789\nsignal 2\n";
    struct agent_orders o    = { .n = 0 };
    char line[100];

    send_orders(&o, text, sizeof(text) - 1);
    ASSERT_INT(1, n_obeyed);
    ASSERT_INT(2, obeyed[0]);
    memset(line, ' ', sizeof(line));
    for (int n = 20; n < 80; n++) {
        send_orders(&o, line, (size_t)n);
        send_orders(&o, "signal 15\nsignal 10\n", 20);
        ASSERT_INT(1, n_obeyed);
        ASSERT_INT(10, obeyed[0]);
    }
}
