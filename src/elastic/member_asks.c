/* member_asks.c - what the training asks of its member: places in views. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pulse.h"
#include "comm/transport/tcp.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/member_inner.h"

/* Views that follow each other without a member lost or won and without an
 * iteration done: then whoever asks for the next one has to go.  From one to
 * the next it waits for twice as long, so that this takes five seconds where
 * views end at once. */
enum { MOST_VAIN = 12 };
static const double least_pause = 0.01, most_pause = 1;
/* Views that are longer than this, or than --orphan, are not in vain. */
static const double vain_seconds = 60;
/* Who came and gets no parameters goes when nothing has moved for so long: over
 * several views, or in the only one so far. */
static const double supply_seconds = 5, first_supply_seconds = 20;
/* Time in which the job can call a process that another job has refused. */
static const double call_seconds = 2;
/* Time in which one process too many ends, before the others end the view. */
static const double newcomer_seconds = 1;
/* Who has looked at nothing for so long was stopped itself. */
static const double stop_seconds = 1;

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
    m->line[0]         = '\0'; /* the others have gone on since */
    /* Killed between these two, who it was is silent, and not certified dead
     * without the promises that it made. */
    atomic_store(&m->page->id, m->a.me);
    member_write_will(m);
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

static int rank_in(const struct elastic_view *v, uint64_t id)
{
    int r = 0;

    while (r < v->n && v->id[r] != id)
        r++;
    return r < v->n ? r : -1;
}

/* The same members are where they were. */
static bool is_same(const struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view, *w = &m->given;

    return v->base == w->base && v->n == w->n && v->n_full == w->n_full &&
           memcmp(v->id, w->id, (size_t)v->n * sizeof(v->id[0])) == 0;
}

static void count_vain(struct elastic_member *m, double now)
{
    const double most = m->config.orphan > vain_seconds ? m->config.orphan
                                                        : vain_seconds;
    const bool same   = is_same(m);

    m->n_vain   = same && now - m->given_at < most ? m->n_vain + 1 : 0;
    m->given_at = now;
    if (!same) {
        m->moved  = now;
        m->n_done = 0;
    }
}

/* Each view begins its supply anew: only what none before it came to counts. */
void member_see_supply(struct elastic_member *m, double now)
{
    const unsigned n = m->pulse ? atomic_load(&m->pulse->sequence) : 0;

    if (n <= m->n_done)
        return;
    m->n_done = n;
    m->moved  = now;
}

/* What it keeps when it begins anew. */
static int64_t number_of_job(const struct elastic_member *m)
{
    struct reader r = { m->post.job, m->post.job + POST_KEPT_BYTES, false };

    return (int64_t)take(&r, POST_KEPT_BYTES);
}

static void give(struct elastic_member *m, struct elastic_place *out)
{
    const struct elastic_view *v = &m->a.own.view;
    const bool is_first          = m->given.number == 0;

    *out = (struct elastic_place){ .view = v->number, .rank = m->a.rank,
                                   .size = v->n, .base = v->base,
                                   .n_full = v->n_full,
                                   .job = number_of_job(m),
                                   .again = member_founds_again(m) };
    member_log_view(m, false); /* of the view before, which is over */
    if (m->config.placed)
        m->config.placed(m->config.arg, out);
    member_tell_view(m, out);
    if (m->a.rank > 0)
        m->line[0] = '\0'; /* rank 0 says it */
    count_vain(m, ct_now());
    m->given    = *v;
    if (is_first)
        member_log_view(m, true); /* nobody stood still for that */
    m->over     = m->hangs = false;
    m->hint     = (struct elastic_hint){ .number = 0 };
    atomic_store(&m->hinted, false);
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

/* Until something changes, a quarter of a second at most. */
static void await_change(struct elastic_member *m)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 250000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    (void)!pthread_cond_timedwait(&m->change, &m->lock, &t);
}

/* A port of the job may belong to another job by now, which refuses this
 * process.  So a refusal counts only if the job has not called for a while. */
static bool is_refused(const struct elastic_member *m)
{
    return m->post.refusal[0] && m->a.own.view.number == 0 &&
           ct_now() - m->post.refused > call_seconds &&
           !post_is_known(&m->post);
}

/* CT_EINVAL: there is no sense in waiting; CT_EIO: not for this process, but
 * another one may come in its place. */
static enum ct_status wait_a_little(struct elastic_member *m)
{
    await_change(m);
    if (!is_refused(m))
        return CT_OK;
    return m->given.number > 0
               ? ct_fail(CT_EIO, "all others of the job were lost, and it has "
                         "begun anew without this process")
               : ct_fail(CT_EINVAL, "the job does not take this process in: "
                         "%s", m->post.refusal);
}

/* The job knows that this process waits, and can be heard: there may be no room
 * yet, or others have to get parameters before. */
static bool is_expected(const struct elastic_member *m)
{
    return m->a.own.view.number == 0 &&
           post_is_heard(&m->post, m->config.suspect);
}

/* Until there is a place, or a hint of one for who has none. */
static enum ct_status wait_for_place(struct elastic_member *m,
                                     struct elastic_place *hint)
{
    const double begin = ct_now();
    double say = 0, alone = begin; /* since when nobody expects it */
    double looked = begin;

    while (!has_place(m)) {
        const double now = ct_now(), waited = now - begin;

        if (is_expected(m))
            alone = now;
        else if (now - looked > stop_seconds)
            alone += now - looked; /* this process did, not the others */
        looked = now;
        if (m->a.own.view.number == 0 && room_expects(m, hint))
            return CT_OK;
        if (m->job_done)
            return ct_fail(CT_ESTOP, "the others have %s the job",
                           atomic_load(&m->page->over) == POST_STOPPED
                               ? "stopped" : "finished");
        if (m->a.rank < 0 && m->a.own.view.number > 0) {
            if (member_leaves(m))
                return ct_fail(CT_ESTOP, "this process has left the job");
            come_back(m);
        }
        if ((member_leaves(m) && m->a.own.view.number == 0) ||
            (m->given.number == 0 && atomic_load(&m->wants_to_end)))
            return ct_fail(CT_ESTOP, "this process has not joined the job");
        member_say_wait(m, waited, &say);
        if (ct_now() - alone > m->config.orphan) {
            atomic_store(&m->page->waited, true);
            return ct_fail(CT_EIO, "for %.0f s (--orphan) there were not "
                           "enough members of the job to go on; what the "
                           "last snapshot has is there", m->config.orphan);
        }
        CT_TRY(wait_a_little(m));
    }
    return CT_OK;
}

/* Nobody has ended the view that this member has. */
static bool stands(const struct elastic_member *m)
{
    return m->given.number > 0 && !m->a.frozen &&
           m->a.own.view.number == m->given.number;
}

static void tell_cannot(struct elastic_member *m, const char *why)
{
    const size_t n = strlen(why);
    uint8_t letter[4 + 128];
    struct writer w = { letter };

    put(&w, m->given.number, 4);
    put_bytes(&w, why, n < 127 ? n : 127);
    post_send_all(&m->post, POST_CANNOT, letter, (size_t)(w.at - letter));
    member_note_cannot(m, m->a.me, why);
}

/* Who came with this view has no parameters yet, and nothing has moved for
 * long.  How many views there were does not matter: one may take long. */
static bool gets_nothing(const struct elastic_member *m)
{
    return m->a.ready == ELASTIC_NOTHING &&
           ct_now() - m->moved >
               (m->n_vain > 0 ? supply_seconds : first_supply_seconds);
}

/* After views in vain.  Who came and has no parameters yet goes first, whoever
 * gave the view up: its peers may see it fail before it does.  Then whoever
 * asks, the last ranks first and one at a time, so that not all of them go at
 * once.  The only one that has the parameters stays. */
static bool has_to_go(const struct elastic_member *m, bool asks)
{
    const struct elastic_view *v = &m->given;
    const int rank               = rank_in(v, m->a.me);
    const int behind             = v->n - 1 - rank;

    if (rank < 0)
        return false;
    if (v->n_full > 0 && rank >= v->n_full)
        return (asks || m->cannot[0]) && gets_nothing(m);
    if (m->n_vain < MOST_VAIN)
        return false;
    if (!asks || (v->n > 1 && v->n_full == 1))
        return false;
    return m->n_vain >= MOST_VAIN + (behind < 8 ? behind : 8);
}

static enum ct_status leave_for_good(const struct elastic_member *m,
                                     const char *why)
{
    return ct_fail(CT_EIO, "rank %d of %d cannot go on at iteration %d, after "
                   "%d view(s) in which nothing was done, and leaves the job: "
                   "%s", rank_in(&m->given, m->a.me), m->given.n,
                   m->given.base < 0 ? 0 : m->given.base, m->n_vain + 1, why);
}

/* This member ends its view, unless that happens while it still waits. */
static enum ct_status end_view(struct elastic_member *m, const char *why)
{
    double pause = m->n_vain > 0 ? least_pause : 0, until;

    for (int i = 1; i < m->n_vain && pause < most_pause; i++)
        pause *= 2;
    until = ct_now() + (pause < most_pause ? pause : most_pause);
    while (stands(m) && ct_now() < until)
        await_change(m); /* the member's thread looks up often */
    if (!stands(m))
        return CT_OK;
    if (has_to_go(m, true))
        return leave_for_good(m, why);
    tell_cannot(m, why);
    elastic_renew(&m->a);
    member_settle(m);
    return CT_OK;
}

static enum ct_status next(void *arg, struct elastic_place *out)
{
    struct elastic_member *m  = arg;
    struct elastic_place hint = { 0 };
    enum ct_status st         = CT_OK;
    char why[256];

    snprintf(why, sizeof(why), "%s", ct_last_error());
    pthread_mutex_lock(&m->lock);
    m->asking = true;
    if (!member_leaves(m)) /* it was found to hang, and does not any more */
        m->a.leaves = false;
    if (has_to_go(m, false))
        st = leave_for_good(m, why);
    else if (stands(m))
        st = end_view(m, why);
    if (st == CT_OK)
        st = wait_for_place(m, &hint);
    if (st == CT_OK && hint.hint > 0)
        *out = hint;
    else if (st == CT_OK)
        give(m, out);
    m->asking = false;
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

/* First asked when all ranks of a view can train, and then in every
 * iteration. */
static bool ready(void *arg, int iter)
{
    struct elastic_member *m = arg;
    const int before         = atomic_load(&m->page->iter);
    bool yes;

    pthread_mutex_lock(&m->lock);
    m->over_since = ct_now();
    yes = m->a.own.view.number == m->given.number &&
          elastic_ready(&m->a, iter);
    if (yes)
        member_log_view(m, true);
    if (yes && before >= 0 && iter > before)
        m->trained = ct_now();
    pthread_mutex_unlock(&m->lock);
    if (yes)
        atomic_store(&m->page->iter, iter);
    return yes;
}

static void last(void *arg, int iter)
{
    struct elastic_member *m = arg;

    pthread_mutex_lock(&m->lock);
    m->config.last = iter;
    pthread_mutex_unlock(&m->lock);
}

static bool who(void *arg, int rank, char *host, size_t bytes, int *pid)
{
    struct elastic_member *m     = arg;
    const struct elastic_card *c = NULL;

    pthread_mutex_lock(&m->lock);
    if (rank >= 0 && rank < m->given.n)
        c = member_card_of(m, m->given.id[rank]);
    if (c) {
        snprintf(host, bytes, "%s", c->host);
        *pid = (int)c->pid;
    }
    pthread_mutex_unlock(&m->lock);
    return c != NULL;
}

static uint64_t id(void *arg, int rank)
{
    struct elastic_member *m = arg;
    uint64_t out;

    pthread_mutex_lock(&m->lock);
    out = rank >= 0 && rank < m->given.n ? m->given.id[rank] : 0;
    pthread_mutex_unlock(&m->lock);
    return out;
}

/* Nobody sees to a process that waits for others and has lost its agent. */
static bool has_no_agent(const struct elastic_member *m)
{
    return m->config.agent != 0 && getppid() != m->parent;
}

/* *kept: when it last had its agent, or needed none. */
static enum ct_status wait_for_others(struct elastic_member *m, double *kept)
{
    if (member_leaves(m) || atomic_load(&m->wants_to_end))
        return ct_fail(CT_ESTOP, "the job was ended before it began");
    if (!has_no_agent(m))
        *kept = ct_now();
    else if (ct_now() - *kept > m->config.orphan)
        return ct_fail(CT_EIO, "the agent of this process has ended, and for "
                       "%.0f s (--orphan) there were not enough others to "
                       "begin", m->config.orphan);
    return wait_a_little(m);
}

enum ct_status member_begin(struct elastic_member *m, int iter)
{
    const double begin = ct_now();
    enum ct_status st  = CT_OK;
    bool first         = true;
    double say = 0, kept = begin;

    pthread_mutex_lock(&m->lock);
    if (is_founder(m) && elastic_ready(&m->a, iter))
        m->a.most = m->config.most;
    else
        first = false;
    m->asking = first;
    /* Left out, e.g. because it was suspended, it comes back with next(). */
    while (first && st == CT_OK && m->a.rank >= 0 &&
           m->a.own.view.n < m->config.least) {
        member_say_wait(m, ct_now() - begin, &say);
        st = wait_for_others(m, &kept);
    }
    m->asking = false;
    pthread_mutex_unlock(&m->lock);
    return st;
}

void member_end(struct elastic_member *m)
{
    atomic_store(&m->wants_to_end, true);
    post_wake(&m->post);
}

void member_done(struct elastic_member *m, bool finished)
{
    const enum post_end end = finished ? POST_FINISHED : POST_STOPPED;
    uint8_t letter[POST_DONE_BYTES];

    pthread_mutex_lock(&m->lock);
    m->a.most  = 0;
    m->through = true;
    member_log_view(m, false);
    atomic_store(&m->page->over, (int)end);
    post_write_done(m->post.job, end, letter);
    post_send_all(&m->post, POST_DONE, letter, sizeof(letter));
    post_tell_agents(&m->post, POST_DONE, letter, sizeof(letter));
    post_flush(&m->post);
    pthread_mutex_unlock(&m->lock);
}

bool member_is_in(struct elastic_member *m)
{
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes = m->a.rank >= 0 && m->given.number > 0 && !m->job_done;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

bool member_hears_done(struct elastic_member *m)
{
    const double end = ct_now() + 1;
    bool yes;

    pthread_mutex_lock(&m->lock);
    while (!m->job_done && ct_now() < end)
        await_change(m);
    yes = m->job_done;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

uint64_t member_seed(struct elastic_member *m)
{
    uint64_t seed;

    pthread_mutex_lock(&m->lock);
    memcpy(&seed, m->a.own.view.number > 0 ? m->post.job : m->hint.job,
           sizeof(seed));
    pthread_mutex_unlock(&m->lock);
    return seed;
}

int64_t member_job_began(const uint8_t *job)
{
    struct reader r = { job + POST_JOB_BYTES - POST_BEGAN_BYTES,
                        job + POST_JOB_BYTES, false };

    return (int64_t)take(&r, POST_BEGAN_BYTES);
}

int64_t member_began(struct elastic_member *m)
{
    int64_t when;

    pthread_mutex_lock(&m->lock);
    when = member_job_began(m->post.job);
    pthread_mutex_unlock(&m->lock);
    return when;
}

bool member_founds_again(const struct elastic_member *m)
{
    return m->config.founds && member_job_began(m->config.before) > 0;
}

void member_leave(struct elastic_member *m)
{
    atomic_store(&m->wants_to_leave, true);
    post_wake(&m->post);
}

bool member_ends_job(struct elastic_member *m)
{
    bool yes;

    if (atomic_load(&m->ends_job))
        return true;
    if (!member_leaves(m))
        return false;
    pthread_mutex_lock(&m->lock);
    yes = m->a.rank >= 0 && m->a.leaves && !elastic_lets_go(&m->a);
    pthread_mutex_unlock(&m->lock);
    return yes;
}

enum ct_status member_read_size(const char *text, int *least, int *most)
{
    char rest;

    *least = 1;
    *most  = ELASTIC_MEMBERS;
    if (!text || text[0] == '\0' || strcmp(text, "true") == 0)
        return CT_OK;
    return sscanf(text, "%d:%d%c", least, most, &rest) == 2 && *least >= 1 &&
                   *most >= *least && *most <= ELASTIC_MEMBERS
               ? CT_OK
               : ct_fail(CT_EINVAL, "--elastic is MIN:MAX, how many ranks "
                         "train at least and at most (%d), not '%s'",
                         ELASTIC_MEMBERS, text);
}

enum ct_status member_limit_size(int limit, int least, int *most)
{
    if (limit <= 0)
        return CT_OK;
    if (least > limit)
        return ct_fail(CT_EINVAL, "no more than %d ranks can train with this "
                       "batch and these options, and --elastic asks for %d at "
                       "least", limit, least);
    *most = *most < limit ? *most : limit;
    return CT_OK;
}

void member_hush(const struct elastic_place *p, int level)
{
    ct_log_set_level(p->rank == 0 || level > CT_LOG_ERROR
                         ? (enum ct_log_level)level
                         : CT_LOG_ERROR);
}

static void follow(void *arg, const struct ct_pulse *pulse)
{
    struct elastic_member *m = arg;

    pthread_mutex_lock(&m->lock);
    m->pulse = pulse;
    pthread_mutex_unlock(&m->lock);
}

/* Asked in every iteration. */
static bool expects(void *arg, struct elastic_place *out)
{
    struct elastic_member *m = arg;
    bool yes;

    if (!atomic_load(&m->hinted) && !atomic_load(&m->all_wait))
        return false;
    pthread_mutex_lock(&m->lock);
    room_turn(m);
    yes = room_expects(m, out);
    pthread_mutex_unlock(&m->lock);
    return yes;
}

static void prepared(void *arg, uint64_t hint)
{
    struct elastic_member *m = arg;

    pthread_mutex_lock(&m->lock);
    room_prepared(m, hint);
    post_flush(&m->post);
    pthread_mutex_unlock(&m->lock);
    post_wake(&m->post); /* it may have been the last */
}

static void heeds(void *arg, bool hints)
{
    struct elastic_member *m = arg;

    pthread_mutex_lock(&m->lock);
    room_heed(m, hints && m->config.prepares);
    if (!hints) /* a view that reloads does not say when it is ready */
        member_log_view(m, false);
    post_flush(&m->post);
    pthread_mutex_unlock(&m->lock);
    post_wake(&m->post);
}

/* No iteration was done in the view that it was given last. */
static bool nothing_done(const struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;
    const int done = v->number == m->given.number ? m->a.ready : v->base;

    return done <= m->given.base;
}

static bool others_came(void *arg)
{
    struct elastic_member *m = arg;
    const double end         = ct_now() + newcomer_seconds;
    bool yes;

    pthread_mutex_lock(&m->lock);
    yes = m->given.n_full > 0 && m->given.n_full < m->given.n &&
          rank_in(&m->given, m->a.me) != m->given.n - 1 && nothing_done(m);
    while (yes && stands(m) && ct_now() < end)
        await_change(m);
    pthread_mutex_unlock(&m->lock);
    return yes;
}

struct elastic_membership member_answers(struct elastic_member *m)
{
    return (struct elastic_membership){ m, next, open_given, close_given,
                                        ready, who, id, last, follow, expects,
                                        prepared, heeds,
                                        others_came };
}
