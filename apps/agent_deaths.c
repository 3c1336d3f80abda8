/* agent_deaths.c - what an agent knows of ranks that have ended. */
#include "agent_deaths.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/member.h"

/* After so long nobody takes in who has died before it was in a view. */
static const double absent_seconds = 40;

/* A death that others may still have to hear of.  Its letter goes out again on
 * each line that is opened: on the one before it may have been lost. */
struct death {
    uint64_t      id, serial; /* in the order of deaths */
    double        since;
    uint8_t       job[POST_JOB_BYTES];
    uint32_t      view;       /* that it was in; 0: none */
    struct death *next;
    size_t        bytes;
    uint8_t       letter[];
};

/* ---- Who has ended. */

bool deaths_knows_job(const struct agent_deaths *d)
{
    return member_job_began(d->job) > 0;
}

void deaths_learn_job(struct agent_deaths *d, const uint8_t *job)
{
    if (!deaths_knows_job(d) && member_job_began(job) > 0)
        memcpy(d->job, job, sizeof(d->job));
}

bool deaths_may_be_of(const struct agent_deaths *d, const uint8_t *job)
{
    return !deaths_knows_job(d) || post_same_job(job, d->job);
}

static int find(const struct agent_deaths *d, uint64_t id)
{
    for (int i = 0; i < AGENT_GRAVES; i++)
        if (d->grave[i] == id)
            return i;
    return -1;
}

static void bury(struct agent_deaths *d, uint64_t id, bool own)
{
    const unsigned at = d->n_graves % AGENT_GRAVES;

    if (find(d, id) >= 0)
        return;
    d->grave[at] = id;
    d->own[at]   = own;
    d->n_graves++;
}

static void forget_views(struct agent_deaths *d)
{
    d->newest   = (struct elastic_view){ 0 };
    d->n_next   = 0;
    d->too_many = false;
}

static bool is_in(const struct elastic_view *v, uint64_t id)
{
    for (int r = 0; r < v->n; r++)
        if (v->id[r] == id)
            return true;
    return false;
}

/* Somebody is in a view that came later, without it: nobody needs its consent
 * any more. */
static bool is_past(const struct death *one, const struct elastic_will *w)
{
    return w->view.number > one->view && !is_in(&w->view, one->id) &&
           (!w->accepted || !is_in(&w->next, one->id)) &&
           (one->view > 0 || ct_now() - one->since > absent_seconds);
}

/* Of that generation of the job, where the dead one is known to be of any. */
static bool is_before(const struct death *one, int generation)
{
    return member_job_began(one->job) > 0 &&
           post_job_generation(one->job) < generation;
}

/* Deaths that are nothing to a job in which somebody is bound by that. */
static void drop_past(struct agent_deaths *d, int generation,
                      const struct elastic_will *w)
{
    for (struct death **at = &d->first; *at;) {
        struct death *one = *at;

        if (!is_before(one, generation) && !is_past(one, w)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        ct_free(one);
    }
}

/* Whether views of that job count.  Those of a job that began anew do so
 * alone, and are counted anew. */
static bool counts(struct agent_deaths *d, const uint8_t *job)
{
    const int generation = post_job_generation(job);

    if (member_job_began(job) == 0)
        return true; /* it had not heard the number yet */
    if (!deaths_may_be_of(d, job))
        return false;
    if (generation < d->generation)
        return false;
    if (generation > d->generation)
        forget_views(d);
    d->generation = generation;
    memcpy(d->job, job, sizeof(d->job));
    return true;
}

static bool is_next(const struct agent_deaths *d, uint64_t id)
{
    for (int i = 0; i < d->n_next; i++)
        if (d->next[i] == id)
            return true;
    return false;
}

/* Somebody in the newest view had agreed to that one. */
static void note_next(struct agent_deaths *d, const struct elastic_view *v)
{
    for (int r = 0; r < v->n; r++) {
        if (is_next(d, v->id[r]))
            continue;
        d->too_many |= d->n_next == ELASTIC_MEMBERS;
        if (!d->too_many)
            d->next[d->n_next++] = v->id[r];
    }
}

/* Of a view without members nobody is left, whoever lives: it is none. */
static void note(struct agent_deaths *d, uint64_t id, const uint8_t *job,
                 const struct elastic_will *will, bool own)
{
    bury(d, id, own);
    if (will->view.n == 0 || !counts(d, job))
        return;
    if (will->view.number > d->newest.number) {
        forget_views(d);
        d->newest = will->view;
        drop_past(d, d->generation, will);
    }
    if (will->accepted && will->view.number == d->newest.number)
        note_next(d, &will->next);
}

bool deaths_leave_job_to_us(const struct agent_deaths *d)
{
    for (int r = 0; r < d->newest.n; r++) {
        const int at = find(d, d->newest.id[r]);

        if (at < 0 || (r == 0 && !d->own[at]))
            return false;
    }
    for (int i = 0; i < d->n_next; i++)
        if (find(d, d->next[i]) < 0)
            return false;
    return d->newest.n > 0 && !d->too_many;
}

bool deaths_are_newer(const struct agent_deaths *d, const uint8_t *job,
                      const struct elastic_view *v)
{
    const int generation = post_job_generation(job);

    if (member_job_began(job) > 0 && generation != d->generation)
        return generation < d->generation;
    return v->number < d->newest.number;
}

void deaths_outlived(struct agent_deaths *d, const uint8_t *job,
                     const struct elastic_will *w)
{
    if (d->first && member_job_began(job) > 0 && deaths_may_be_of(d, job) &&
        post_job_generation(job) >= d->generation)
        drop_past(d, post_job_generation(job), w);
}

void deaths_begin_anew(struct agent_deaths *d)
{
    static const struct elastic_will none;

    forget_views(d);
    d->generation++;
    drop_past(d, d->generation, &none);
}

/* ---- Telling. */

/* The agent of a rank is told, too. */
static void learn_agent(struct post *p, const struct elastic_card *c)
{
    struct elastic_card agent = *c;

    if (c->agent == 0 || c->agent == p->config.card.id)
        return;
    agent.id         = c->agent;
    agent.port       = c->agent_port;
    agent.door       = 0;
    agent.data_bytes = 0;
    (void)!post_learn(p, &agent);
}

static void learn_cards(struct post *p, const struct will_place *w)
{
    struct reader r = { w->cards, w->cards + w->cards_bytes, false };

    while (r.at < r.end && !r.short_of) {
        const size_t n = (size_t)take(&r, 2);
        struct elastic_card card;

        if ((size_t)(r.end - r.at) < n)
            return;
        if (card_read(r.at, n, &card) == CT_OK) {
            (void)!post_learn(p, &card);
            learn_agent(p, &card);
        }
        r.at += n;
    }
}

/* The dead may have forgotten agents that have told this one of deaths. */
static void learn_callers(struct post *p)
{
    for (const struct post_caller *c = p->callers; c; c = c->next)
        if (c->what == POST_AGENT && c->card.id != 0 &&
            c->line.state != LINE_CLOSED)
            (void)!post_learn(p, &c->card);
}

static void begin_telling(struct agent_deaths *d, uint64_t id, uint32_t view,
                          const struct will_place *w)
{
    const size_t bytes = 8 + sizeof(w->job) + w->will_bytes;
    struct death *one  = ct_calloc(1, sizeof(*one) + bytes, "a death");
    struct death **at  = &d->first;
    struct writer to;

    if (!one)
        return;
    while (*at)
        at = &(*at)->next;
    *at         = one;
    one->id     = id;
    one->serial = ++d->n_deaths;
    one->since  = ct_now();
    one->view   = view;
    one->bytes  = bytes;
    memcpy(one->job, w->job, sizeof(one->job));
    to.at = one->letter;
    put(&to, id, 8);
    put_bytes(&to, w->job, sizeof(w->job));
    put_bytes(&to, w->will, w->will_bytes);
}

void deaths_note_own(struct agent_deaths *d, struct post *p,
                     const struct will_page *page)
{
    const uint64_t id          = atomic_load(&page->id);
    const struct will_place *w = will_page_last(page);
    struct elastic_will will;

    if (id == 0 || w->will_bytes > ELASTIC_WIRE_BYTES ||
        w->cards_bytes > CARDS_BYTES ||
        elastic_will_read(w->will, w->will_bytes, &will) != CT_OK)
        return; /* it had not begun */
    note(d, id, w->job, &will, true);
    learn_cards(p, w);
    learn_callers(p);
    post_forget(p, id);
    begin_telling(d, id, will.view.number, w);
}

void deaths_take(struct agent_deaths *d, const uint8_t *letter, size_t bytes)
{
    struct reader r   = { letter, letter + bytes, false };
    const uint64_t id = take(&r, 8);
    uint8_t job[POST_JOB_BYTES];
    struct elastic_will will;

    take_bytes(&r, job, sizeof(job));
    if (r.short_of || id == 0 ||
        elastic_will_read(r.at, (size_t)(r.end - r.at), &will) != CT_OK)
        CT_WARN("The letter of another agent makes no sense");
    else if (deaths_may_be_of(d, job) || member_job_began(job) == 0)
        note(d, id, job, &will, false);
}

/* What `p` has told a peer on its line is counted there, from 0 on for each
 * line that opens. */
static void tell_peer(const struct agent_deaths *d, struct post *p,
                      struct post_peer *q, enum post_end over)
{
    const bool is_agent = q->card.agent == q->card.id;
    uint8_t done[POST_DONE_BYTES];

    for (const struct death *one = d->first; one && q->open; one = one->next) {
        if (one->serial <= q->told)
            continue;
        post_write_done(d->job, over, done);
        if (over && is_agent)
            (void)!post_send(p, q->card.id, POST_DONE, done, sizeof(done));
        if (!post_send(p, q->card.id, POST_DEAD, one->letter, one->bytes))
            return;
        q->told = one->serial;
    }
}

/* Peers that have ended; all of them if there is nothing to tell. */
static void forget_peers(const struct agent_deaths *d, struct post *p)
{
    for (struct post_peer *q = p->peers, *next; q; q = next) {
        next = q->next;
        if (!d->first || (!q->open && find(d, q->card.id) >= 0))
            post_forget(p, q->card.id);
    }
}

void deaths_tell(struct agent_deaths *d, struct post *p, enum post_end over)
{
    if (d->first)
        learn_callers(p);
    forget_peers(d, p);
    for (struct post_peer *q = p->peers; q; q = q->next)
        tell_peer(d, p, q, over);
    post_flush(p);
}

bool deaths_are_told(const struct agent_deaths *d, const struct post *p)
{
    bool all = true;

    for (const struct post_peer *q = p->peers; q; q = q->next)
        for (const struct death *one = d->first; one; one = one->next)
            all &= one->serial <= q->told || q->refused;
    return all;
}

void deaths_fini(struct agent_deaths *d)
{
    while (d->first) {
        struct death *one = d->first;

        d->first = one->next;
        ct_free(one);
    }
}
