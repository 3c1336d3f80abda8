/* member.c - one process of an elastic job. */
#include "elastic/member_inner.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pulse.h"
#include "comm/transport/tcp.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/links.h"
#include "elastic/neighbours.h"
#include "elastic/will_page.h"
#include "elastic/wire.h"

enum { TICK_MS = 50 };
static const double retry_seconds = 0.3, join_seconds = 0.1;

/* ---- What is said, and written down before. */

static void add_card(struct will_place *w, const struct elastic_card *c)
{
    uint8_t bytes[CARD_WIRE_BYTES];
    const size_t n = card_write(c, bytes);
    struct writer at = { w->cards + w->cards_bytes };

    if (w->cards_bytes + n + 2 > CARDS_BYTES)
        return;
    put(&at, n, 2);
    put_bytes(&at, bytes, n);
    w->cards_bytes += (uint32_t)n + 2;
}

void member_write_will(struct elastic_member *m)
{
    struct will_place *w;

    if (memcmp(&m->written, &m->a.own, sizeof(m->written)) == 0)
        return;
    w              = will_page_next(m->page);
    w->will_bytes  = (uint32_t)elastic_will_write(&m->a.own, w->will);
    w->cards_bytes = 0;
    memcpy(w->job, m->post.job, sizeof(w->job));
    for (const struct post_peer *q = m->post.peers; q; q = q->next)
        if (q->card.id != 0)
            add_card(w, &q->card);
    will_page_publish(m->page);
    m->written = m->a.own;
}

void member_send_rules(void *arg, uint64_t to, const struct elastic_message *r)
{
    struct elastic_member *m = arg;
    uint8_t bytes[8 + ELASTIC_WIRE_BYTES];
    struct writer w = { bytes };

    member_write_will(m);
    put(&w, to, 8);
    w.at += elastic_message_write(r, w.at);
    (void)!post_send(&m->post, to, POST_RULES, bytes, (size_t)(w.at - bytes));
}

/* ---- Deaths. */

/* A job that began anew counts its views anew: what was decided before is
 * nothing to it. */
static bool are_other_jobs(const uint8_t *a, const uint8_t *b)
{
    static const uint8_t none[POST_JOB_BYTES];

    return memcmp(a, none, sizeof(none)) != 0 &&
           memcmp(b, none, sizeof(none)) != 0 &&
           memcmp(a, b, sizeof(none)) != 0;
}

static bool is_of_another_job(const struct elastic_member *m,
                              const uint8_t *job)
{
    return are_other_jobs(job, m->post.job);
}

/* Is that what the other job was before it began anew? */
static bool is_before(const uint8_t *job, const uint8_t *other)
{
    return post_same_job(job, other) &&
           post_job_generation(job) < post_job_generation(other);
}

static void forget_unread(struct elastic_member *m)
{
    memset(&m->a.unread, 0, sizeof(m->a.unread));
}

/* Who has no view yet keeps what the dead were bound by in one job alone: the
 * one that it may be taken into is the one that began last.  False: what this
 * one was bound by is nothing to it. */
static bool keeps_will_of(struct elastic_member *m, const uint8_t *job,
                          const struct elastic_will *will)
{
    static const uint8_t none[POST_JOB_BYTES];
    const bool keeps_any = m->a.unread.view.number > 0;

    if (m->a.own.view.number > 0 || will->view.number == 0)
        return true;
    if (keeps_any && are_other_jobs(job, m->unread_job)) {
        if (is_before(job, m->unread_job))
            return false;
        forget_unread(m);
    }
    if (!keeps_any || memcmp(job, none, sizeof(none)) != 0)
        memcpy(m->unread_job, job, sizeof(m->unread_job));
    return true;
}

static void bury(struct elastic_member *m, uint64_t id, const uint8_t *job,
                 const struct elastic_will *will)
{
    static const struct elastic_will none;

    member_note(m, id, "has ended");
    elastic_dead(&m->a, id, keeps_will_of(m, job, will) ? will : &none);
    post_forget(&m->post, id);
}

/* To all, so that also those hear of it whom the witness cannot reach. */
static void tell_death(struct elastic_member *m, uint64_t id,
                       const struct will_place *place)
{
    uint8_t letter[8 + POST_JOB_BYTES + ELASTIC_WIRE_BYTES];
    struct writer w = { letter };

    put(&w, id, 8);
    put_bytes(&w, place->job, sizeof(place->job));
    put_bytes(&w, place->will, place->will_bytes);
    post_send_all(&m->post, POST_DEAD, letter, (size_t)(w.at - letter));
}

static void on_end(void *arg, uint64_t id, const struct will_place *w)
{
    struct elastic_member *m = arg;
    struct elastic_will will;

    if (w->will_bytes > ELASTIC_WIRE_BYTES ||
        elastic_will_read(w->will, w->will_bytes, &will) != CT_OK ||
        is_of_another_job(m, w->job))
        return; /* it is silent, then */
    tell_death(m, id, w);
    bury(m, id, w->job, &will);
}

static void on_event(void *arg, void *about)
{
    struct elastic_member *m = arg;

    neighbours_look(&m->neighbours, about, on_end, m);
}

/* ---- Letters. */

static void take_death(struct elastic_member *m, const uint8_t *body,
                       size_t bytes)
{
    struct reader r   = { body, body + bytes, false };
    const uint64_t id = take(&r, 8);
    uint8_t job[POST_JOB_BYTES];
    struct elastic_will will;

    take_bytes(&r, job, sizeof(job));
    if (r.short_of || elastic_will_read(r.at, (size_t)(r.end - r.at), &will) !=
                          CT_OK)
        CT_WARN("A death makes no sense: %s", ct_last_error());
    else if (id != m->a.me && !is_of_another_job(m, job))
        bury(m, id, job, &will);
}

/* Nobody can be taken in who would never hear of it.  It asks again. */
static bool is_reached(const struct elastic_member *m, uint64_t id)
{
    const struct post_peer *q = post_find(&m->post, id);

    return q && q->open;
}

/* Whoever sends a first view says first which job that is of.  One that has not
 * heard of its own job when it says hello says so again (post_set_job). */
static bool is_nameless(const struct elastic_member *m,
                        const struct post_caller *from,
                        const struct elastic_message *rule)
{
    static const uint8_t none[POST_JOB_BYTES];

    return rule->kind == ELASTIC_INSTALL && m->a.own.view.number == 0 &&
           memcmp(from->job, none, sizeof(none)) == 0;
}

/* It has no view, and is told of one of another job than those of the dead that
 * it has heard of.  They do not bind it there.  False: that job has begun anew
 * since. */
static bool is_news_of_job(struct elastic_member *m, const uint8_t *job)
{
    if (m->a.own.view.number > 0 || m->a.unread.view.number == 0 ||
        !are_other_jobs(job, m->unread_job))
        return true;
    if (is_before(job, m->unread_job))
        return false;
    forget_unread(m);
    return true;
}

/* Of those to whom this process was before it came back, none counts.  With its
 * first view a member is in the job of who sent it. */
static void take_rules(struct elastic_member *m, const struct post_caller *from,
                       const uint8_t *body, size_t bytes)
{
    struct reader r       = { body, body + bytes, false };
    const uint64_t to     = take(&r, 8);
    const bool had_a_view = m->a.own.view.number > 0;
    struct elastic_message rule;

    if (r.short_of ||
        elastic_message_read(r.at, (size_t)(r.end - r.at), &rule) != CT_OK) {
        CT_WARN("A letter makes no sense: %s", ct_last_error());
        return;
    }
    if (from->id == 0 || (to != 0 && to != m->a.me) ||
        (rule.kind == ELASTIC_JOIN && !is_reached(m, rule.about)) ||
        is_nameless(m, from, &rule) ||
        (rule.kind == ELASTIC_INSTALL && !is_news_of_job(m, from->job)))
        return;
    if (rule.kind == ELASTIC_JOIN)
        room_ask(m, rule.about);
    else
        elastic_receive(&m->a, from->id, &rule);
    if (!had_a_view && m->a.own.view.number > 0) {
        post_set_job(&m->post, from->job);
        memset(&m->written, 0xff, sizeof(m->written)); /* not in that one */
    }
}

static void take_cannot(struct elastic_member *m, uint64_t from,
                        const uint8_t *body, size_t bytes)
{
    struct reader r     = { body, body + bytes, false };
    const uint64_t view = take(&r, 4);
    char why[128];
    size_t n = (size_t)(r.end - r.at);

    if (!r.short_of && view > m->given_up)
        m->given_up = (uint32_t)view;
    if (r.short_of || view != m->given.number)
        return;
    n = n < sizeof(why) - 1 ? n : sizeof(why) - 1;
    take_bytes(&r, (uint8_t *)why, n);
    why[n] = '\0';
    member_note_cannot(m, from, why);
}

static void answer(struct elastic_member *m, struct post_caller *to, int what)
{
    struct ct_text text = { 0 };

    if (what == MEMBER_ASK_JSON || what == MEMBER_ASK_TEXT)
        member_describe(m, what == MEMBER_ASK_JSON, &text);
    else if (what == MEMBER_ASK_DESCRIPTION && m->config.description)
        ct_text_add(&text, m->config.description);
    else if (what == MEMBER_ASK_ROLL)
        member_call_roll(m, &text);
    if (!text.failed && text.s)
        (void)!post_answer(to, POST_TELL, text.s, text.n_bytes);
    ct_text_fini(&text);
}

/* Another job with the same secret may be meant. */
static void end_job(struct elastic_member *m, const uint8_t *job)
{
    if (!post_same_job(job, m->post.job) ||
        atomic_exchange(&m->ends_job, true))
        return;
    CT_INFO("Somebody who knows the secret asks the job to end");
    member_end(m);
}

static void take_question(struct elastic_member *m, struct post_caller *from,
                          const uint8_t *body, size_t bytes)
{
    if (bytes == 1) {
        answer(m, from, body[0]);
    } else if (bytes == 1 + POST_JOB_BYTES && body[0] == MEMBER_ASK_END) {
        end_job(m, body + 1);
        answer(m, from, MEMBER_ASK_ROLL);
    }
}

/* Whoever still waits for the job need not. */
static void take_done(struct elastic_member *m, const uint8_t *body,
                      size_t bytes)
{
    const uint8_t *job;
    enum post_end end;

    if (!post_read_done(body, bytes, &job, &end) || is_of_another_job(m, job))
        return;
    m->job_done = true;
    atomic_store(&m->page->over, (int)end);
}

void member_on_letter(void *arg, struct post_caller *from,
                      enum post_kind kind, const uint8_t *body, size_t bytes)
{
    struct elastic_member *m = arg;

    if (kind == POST_RULES)
        take_rules(m, from, body, bytes);
    else if (kind == POST_DEAD)
        take_death(m, body, bytes);
    else if (kind == POST_DONE)
        take_done(m, body, bytes);
    else if (kind == POST_CANNOT)
        take_cannot(m, from->id, body, bytes);
    else if (kind == POST_EXPECT)
        room_take_hint(m, from, body, bytes);
    else if (kind == POST_PREPARED)
        room_take_prepared(m, from->id, body, bytes);
    else if (kind == POST_ASK)
        take_question(m, from, body, bytes);
}

/* ---- Whether it hangs. */

/* Whether training is still at work in the view that it has not left: a long
 * test, a snapshot on a slow disk, or steps between two means of the
 * weights. */
static bool training_moves(const struct elastic_member *m)
{
    const struct ct_pulse *p = m->pulse;

    return p && (atomic_load(&p->phase) == CT_PULSE_SNAPSHOT ||
                 1e-6 * (double)(ct_pulse_now() - atomic_load(&p->changed)) <
                     m->config.stall);
}

/* The thread that trains may hang, e.g. as it reads data, while this member
 * goes on answering.  The others have waited for it in a view that it has not
 * come to, and given that up; then they are better off without this process.
 * Who is slow has as long as --stall. */
static void mind_training(struct elastic_member *m, double now)
{
    char why[256];

    if (m->config.stall <= 0 || !m->over || m->asking || m->through ||
        m->hangs || m->a.rank < 0 ||
        m->given_up <= m->given.number ||
        now - m->over_since < m->config.stall || training_moves(m))
        return;
    m->hangs = true;
    snprintf(why, sizeof(why), "the training of this process, rank %d of view "
             "%u, has not come to view %u within %.0f s (--stall); the others "
             "waited there, and go on without it", m->a.rank, m->given.number,
             m->given_up, now - m->over_since);
    if (m->config.hangs) {
        m->config.hangs(m->config.arg, why);
    } else {
        CT_ERROR("%s", why);
        elastic_leave(&m->a);
    }
}

/* ---- The thread. */

/* Asks everybody, and at every door, to be taken in. */
static void ask_to_join(struct elastic_member *m)
{
    const struct elastic_message r = { .kind = ELASTIC_JOIN,
                                       .about = m->a.me };
    uint8_t bytes[8 + ELASTIC_WIRE_BYTES];
    struct writer w = { bytes };

    put(&w, 0, 8);
    w.at += elastic_message_write(&r, w.at);
    post_send_all(&m->post, POST_RULES, bytes, (size_t)(w.at - bytes));
}

static bool learn_addresses(void *arg, const struct ct_ip *now, int n_now)
{
    struct elastic_member *m = arg;
    struct elastic_card *c   = &m->post.config.card;
    bool is_in;

    pthread_mutex_lock(&m->lock);
    if (card_learn_addresses(c, now, n_now)) {
        ct_tcp_learn_addresses(m->tcp, now, n_now);
        memcpy(c->data, ct_tcp_address(m->tcp, &c->data_bytes),
               c->data_bytes);
        post_tell_card(&m->post);
    }
    is_in = m->a.rank >= 0;
    pthread_mutex_unlock(&m->lock);
    return is_in;
}

static void retry(struct elastic_member *m, double now)
{
    if (now < m->next_retry)
        return;
    m->next_retry = now + (m->a.own.view.number == 0 ? join_seconds
                                                     : retry_seconds);
    if (m->a.own.view.number == 0 && !member_leaves(m))
        ask_to_join(m);
    else
        elastic_retry(&m->a);
}

void member_knock(struct elastic_member *m)
{
    for (int i = 0; i < m->config.n_knock; i++)
        (void)!post_door(&m->post, &m->config.knock[i].at,
                         m->config.knock[i].port);
}

/* Whoever is in a view answers at the door, and knocks at none. */
static void mind_doors(struct elastic_member *m)
{
    post_open_door(&m->post, m->a.rank >= 0);
    if (m->a.rank >= 0)
        post_forget_doors(&m->post);
}

/* What follows from what this member knows now. */
void member_settle(struct elastic_member *m)
{
    mind_doors(m);
    if (member_leaves(m) && !m->a.leaves && m->a.rank >= 0)
        elastic_leave(&m->a);
    if (m->a.frozen || m->a.own.view.number != m->given.number) {
        if (m->since == 0 && m->given.number > 0)
            m->since = ct_now();
        if (m->transport && !m->over)
            m->transport->ops->over(m->transport);
        if (!m->over)
            m->over_since = ct_now();
        m->over = true;
    }
    member_write_will(m);
    post_flush(&m->post);
    pthread_cond_broadcast(&m->change);
}

static void *member_main(void *arg)
{
    struct elastic_member *m = arg;
    struct post_events events;

    while (!atomic_load(&m->stop)) {
        double now;

        post_wait(&m->post, TICK_MS, &events);
        pthread_mutex_lock(&m->lock);
        post_work(&m->post, &events);
        now = ct_now();
        member_mind_line(m, now);
        member_mind_peers(m, now);
        mind_training(m, now);
        member_see_supply(m, now);
        retry(m, now);
        room_mind(m, now);
        member_settle(m);
        pthread_mutex_unlock(&m->lock);
    }
    return NULL;
}

const struct elastic_membership *member_asks(const struct elastic_member *m)
{
    return &m->asks;
}

/* ---- Its beginning and its end. */

static enum ct_status make_card(struct elastic_member *m,
                                struct elastic_card *c)
{
    const void *address;

    card_of_this_process(c);
    seal_draw(&c->id, sizeof(c->id));
    c->id |= 1;
    c->will = (uint32_t)m->page_file;
    c->door = m->config.door >= 0 ? ct_port_of(m->config.door) : 0;
    c->agent      = m->config.agent;
    c->agent_port = m->config.agent_port;
    address = ct_tcp_address(m->tcp, &c->data_bytes);
    if (c->data_bytes > CARD_DATA_BYTES)
        return ct_fail(CT_EINTERNAL, "an address of %zu bytes", c->data_bytes);
    memcpy(c->data, address, c->data_bytes);
    return CT_OK;
}

static enum ct_status make_page(struct elastic_member *m)
{
    m->page_file    = m->config.will;
    m->page_is_ours = m->config.will < 0;
    if (m->page_is_ours)
        return will_page_create(&m->page_file, &m->page);
    m->page = will_page_map(m->page_file);
    return m->page ? CT_OK
                   : ct_fail(CT_EIO, "the page of the agent: %s",
                             strerror(errno));
}

static void draw_job(struct elastic_member *m)
{
    uint8_t *job          = m->post.job;
    const uint8_t *before = m->config.before;
    const int64_t began   = member_job_began(before);
    struct writer w = { job + POST_KEPT_BYTES };

    seal_draw(job, POST_JOB_BYTES);
    put(&w, began > 0 ? (uint64_t)post_job_generation(before) + 1 : 0, 2);
    if (began > 0)
        memcpy(job, before, POST_KEPT_BYTES);
    w.at = job + POST_JOB_BYTES - POST_BEGAN_BYTES;
    put(&w, (uint64_t)(began > 0 ? began : time(NULL)), POST_BEGAN_BYTES);
}

static enum ct_status begin(struct elastic_member *m)
{
    struct post_config p = { .secret = m->config.secret, .what = POST_MEMBER,
                             .digest = m->config.digest,
                             .door = m->config.door, .take = member_on_letter,
                             .event = on_event, .arg = m };

    CT_TRY(seal_init());
    CT_TRY(ct_tcp_create(&m->tcp));
    CT_TRY(make_page(m));
    CT_TRY(make_card(m, &p.card));
    memcpy(p.seeks, m->config.seeks, sizeof(p.seeks));
    member_learn_peers(&p);
    CT_TRY(post_start(&m->post, &p));
    elastic_init(&m->a, p.card.id, member_send_rules, m);
    m->a.least = m->config.least;
    m->a.most  = m->config.founds ? 1 : m->config.most;
    if (m->config.founds) {
        draw_job(m);
        elastic_found(&m->a);
    }
    if (!m->config.founds)
        member_knock(m);
    memset(&m->written, 0xff, sizeof(m->written)); /* nothing yet */
    member_write_will(m);
    atomic_store(&m->page->iter, -1);
    atomic_store(&m->page->id, m->a.me);
    m->worked = ct_now();
    if (pthread_create(&m->thread, NULL, member_main, m) != 0)
        return ct_fail(CT_EIO, "a thread: %s", strerror(errno));
    m->runs = true;
    return links_start(learn_addresses, m, m->config.file, &m->links);
}

enum ct_status member_create(const struct member_config *c,
                             struct elastic_member **out)
{
    struct elastic_member *m = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*m), "a member", &m));
    m->config    = *c;
    m->page_file = -1;
    m->parent    = getppid();
    m->post.listener = m->post.epoll = m->post.wake = -1;
    m->heeds = m->config.prepares;
    m->asks  = member_answers(m);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->change, NULL);
    st = begin(m);
    if (st == CT_OK)
        *out = m;
    else
        member_destroy(m);
    return st;
}

void member_destroy(struct elastic_member *m)
{
    if (!m)
        return;
    links_stop(m->links);
    if (m->runs) {
        atomic_store(&m->stop, true);
        post_wake(&m->post);
        pthread_join(m->thread, NULL);
    }
    neighbours_fini(&m->neighbours);
    post_stop(&m->post);
    ct_tcp_destroy(m->tcp);
    will_page_unmap(m->page);
    if (m->page_is_ours && m->page_file >= 0)
        close(m->page_file);
    pthread_cond_destroy(&m->change);
    pthread_mutex_destroy(&m->lock);
    ct_free(m);
}
