/* member_asks.c - what the training asks of its member: places in views. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "comm/transport/tcp.h"
#include "cortado/log.h"
#include "elastic/member_inner.h"

/* Taken for lost by the others: it comes back as somebody new. */
static void come_back(struct elastic_member *m)
{
    seal_draw(&m->a.me, sizeof(m->a.me));
    m->a.me |= 1;
    elastic_init(&m->a, m->a.me, member_send_rules, m);
    m->a.least = m->config.least;
    m->a.most  = m->config.most;
    memset(&m->written, 0xff, sizeof(m->written));
    m->post.refusal[0] = '\0';
    member_write_will(m);
    atomic_store(&m->page->id, m->a.me);
    post_rename(&m->post, m->a.me);
    member_knock(m);
    m->next_retry = 0;
    CT_WARN("This process stood still, and the others went on without it: it "
            "joins again");
}

/* Where gradients go: every member's card is there. */
static bool knows_all(const struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;

    for (int r = 0; r < v->n; r++)
        if (r != m->a.rank && !post_find(&m->post, v->id[r]))
            return false;
    return true;
}

static void note_left(struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;

    for (int r = 0; r < m->given.n; r++) {
        bool stays = false;

        for (int k = 0; k < v->n; k++)
            stays |= v->id[k] == m->given.id[r];
        if (!stays)
            member_note(m, m->given.id[r], "left");
    }
}

/* One line for every change: who, why, how long it took, what is next. */
static void say_view(struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;
    const int n_new              = m->given.n > 0 ? v->n - v->n_full : 0;
    char came[32]                = "";

    note_left(m);
    if (n_new > 0)
        snprintf(came, sizeof(came), "%d more came; ", n_new);
    if (m->a.rank == 0)
        CT_INFO("View %u: %s%s%d rank(s) go on at iteration %d, after %.0f ms",
                v->number, m->events, came, v->n, v->base < 0 ? 0 : v->base,
                m->since > 0 ? 1e3 * (ct_now() - m->since) : 0);
    m->since     = 0;
    m->events[0] = '\0';
    memset(m->noted, 0, sizeof(m->noted));
}

static void give(struct elastic_member *m, struct elastic_place *out)
{
    const struct elastic_view *v = &m->a.own.view;

    *out = (struct elastic_place){ v->number, m->a.rank, v->n, v->base,
                                   v->n_full };
    if (m->config.placed)
        m->config.placed(m->config.arg, out);
    say_view(m);
    m->given = *v;
    m->over  = false;
}

/* It gets ready by itself, and begin() lets the others in. */
static bool is_founder(const struct elastic_member *m)
{
    return m->config.founds && m->a.own.view.number == 1;
}

static bool has_place(const struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;

    return m->a.rank >= 0 && !m->a.frozen &&
           (v->n >= m->config.least || is_founder(m) ||
            v->base >= m->config.last) &&
           v->number > m->given.number && knows_all(m);
}

/* A quarter of a second at most.  CT_EINVAL: there is no sense in waiting. */
static enum ct_status wait_a_little(struct elastic_member *m)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 250000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    (void)!pthread_cond_timedwait(&m->change, &m->lock, &t);
    return m->post.refusal[0] && m->a.own.view.number == 0
               ? ct_fail(CT_EINVAL, "the job does not take this process in: "
                         "%s", m->post.refusal)
               : CT_OK;
}

static enum ct_status wait_for_place(struct elastic_member *m)
{
    const double begin = ct_now();
    bool said          = false;

    while (!has_place(m)) {
        const double waited = ct_now() - begin;

        if (m->job_done)
            return ct_fail(CT_ESTOP, "the others have finished the job");
        if (m->a.rank < 0 && m->a.own.view.number > 0) {
            if (member_leaves(m))
                return ct_fail(CT_ESTOP, "this process has left the job");
            come_back(m);
        }
        if ((member_leaves(m) && m->a.own.view.number == 0) ||
            (m->given.number == 0 && atomic_load(&m->wants_to_end)))
            return ct_fail(CT_ESTOP, "this process has not joined the job");
        if (waited > 5 && !said) {
            CT_WARN("This process waits for the others of the job: it knows "
                    "%d, and training takes %d", m->a.own.view.n,
                    m->config.least);
            said = true;
        }
        if (waited > m->config.orphan)
            return ct_fail(CT_EIO, "for %.0f s (--orphan) there were not "
                           "enough members of the job to go on; what the "
                           "last snapshot has is there", m->config.orphan);
        CT_TRY(wait_a_little(m));
    }
    return CT_OK;
}

static enum ct_status next(void *arg, struct elastic_place *out)
{
    struct elastic_member *m = arg;
    enum ct_status st;

    pthread_mutex_lock(&m->lock);
    if (m->given.number > 0 && m->a.own.view.number == m->given.number &&
        !m->a.frozen) {
        elastic_renew(&m->a);
        member_settle(m);
    }
    st = wait_for_place(m);
    if (st == CT_OK)
        give(m, out);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* Ranks of one machine, by the first of them. */
static void number_hosts(const struct elastic_view *v,
                         const struct elastic_card *const *card, int *host)
{
    for (int r = 0; r < v->n; r++) {
        host[r] = r;
        for (int q = r - 1; q >= 0; q--)
            if (card[q]->machine == card[r]->machine)
                host[r] = host[q];
    }
}

static enum ct_status open_view(struct elastic_member *m,
                                struct ct_transport **out)
{
    const struct elastic_view *v = &m->a.own.view;
    const struct elastic_card *card[ELASTIC_MEMBERS];
    const void *address[ELASTIC_MEMBERS];
    size_t bytes[ELASTIC_MEMBERS];
    int host[ELASTIC_MEMBERS];
    struct ct_tcp_view view = { v->number, m->a.rank, v->n, address, bytes,
                                host };

    for (int r = 0; r < v->n; r++) {
        const struct post_peer *q = post_find(&m->post, v->id[r]);

        if (!q && r != m->a.rank)
            return ct_fail(CT_ECOMM, "rank %d of view %u has ended", r,
                           v->number);
        card[r]    = q ? &q->card : &m->post.config.card;
        address[r] = card[r]->data;
        bytes[r]   = card[r]->data_bytes;
    }
    number_hosts(v, card, host);
    return ct_tcp_open(m->tcp, &view, out);
}

static enum ct_status open_given(void *arg, struct ct_transport **out)
{
    struct elastic_member *m = arg;
    enum ct_status st;

    pthread_mutex_lock(&m->lock);
    if (m->a.frozen || m->a.own.view.number != m->given.number)
        st = ct_fail(CT_ECOMM, "view %u is over", m->given.number);
    else
        st = open_view(m, out);
    if (st == CT_OK) {
        m->transport = *out;
        m->over      = false;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static void close_given(void *arg)
{
    struct elastic_member *m = arg;

    pthread_mutex_lock(&m->lock);
    m->transport = NULL;
    pthread_mutex_unlock(&m->lock);
}

static bool ready(void *arg, int iter)
{
    struct elastic_member *m = arg;
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes = m->a.own.view.number == m->given.number &&
          elastic_ready(&m->a, iter);
    pthread_mutex_unlock(&m->lock);
    if (yes)
        atomic_store(&m->page->iter, iter);
    return yes;
}

enum ct_status member_begin(struct elastic_member *m, int iter)
{
    enum ct_status st = CT_OK;
    bool first        = true;

    pthread_mutex_lock(&m->lock);
    if (is_founder(m) && elastic_ready(&m->a, iter))
        m->a.most = m->config.most;
    else
        first = false;
    while (first && st == CT_OK && m->a.own.view.n < m->config.least)
        st = member_leaves(m) || atomic_load(&m->wants_to_end)
                 ? ct_fail(CT_ESTOP, "the job was ended before it began")
                 : wait_a_little(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

void member_end(struct elastic_member *m)
{
    atomic_store(&m->wants_to_end, true);
    post_wake(&m->post);
}

void member_done(struct elastic_member *m)
{
    pthread_mutex_lock(&m->lock);
    m->a.most = 0;
    post_send_all(&m->post, POST_DONE, m->post.job, sizeof(m->post.job));
    post_flush(&m->post);
    pthread_mutex_unlock(&m->lock);
}

uint64_t member_seed(struct elastic_member *m)
{
    uint64_t seed;

    pthread_mutex_lock(&m->lock);
    memcpy(&seed, m->post.job, sizeof(seed));
    pthread_mutex_unlock(&m->lock);
    return seed;
}

void member_leave(struct elastic_member *m)
{
    atomic_store(&m->wants_to_leave, true);
    post_wake(&m->post);
}

bool member_ends_job(struct elastic_member *m)
{
    bool yes;

    if (!member_leaves(m))
        return false;
    pthread_mutex_lock(&m->lock);
    yes = m->a.rank >= 0 && m->a.leaves && !elastic_lets_go(&m->a);
    pthread_mutex_unlock(&m->lock);
    return yes;
}

struct elastic_membership member_answers(struct elastic_member *m)
{
    return (struct elastic_membership){ m, next, open_given, close_given,
                                        ready };
}
