/* agent_deaths.c - what an agent knows of ranks that have ended. */
#include "agent_deaths.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/member.h"

static const double tell_seconds = 40; /* that a death is told of */

/* A death that others may still have to hear of. */
struct death {
    uint64_t      id;
    double        since;
    size_t        bytes;
    uint8_t       letter[8 + POST_JOB_BYTES + ELASTIC_WIRE_BYTES];
    uint64_t      told[ELASTIC_MEMBERS];
    int           n_told;
    struct death *next;
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

void deaths_begin_anew(struct agent_deaths *d)
{
    forget_views(d);
    d->generation++;
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

static void begin_telling(struct agent_deaths *d, uint64_t id,
                          const struct will_place *w)
{
    struct death *one = ct_calloc(1, sizeof(*one), "a death");
    struct writer at;

    if (!one)
        return;
    at.at      = one->letter;
    one->id    = id;
    one->since = ct_now();
    put(&at, id, 8);
    put_bytes(&at, w->job, sizeof(w->job));
    put_bytes(&at, w->will, w->will_bytes);
    one->bytes = (size_t)(at.at - one->letter);
    one->next  = d->first;
    d->first   = one;
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
    begin_telling(d, id, w);
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

static bool was_told(const struct death *one, uint64_t id)
{
    for (int i = 0; i < one->n_told; i++)
        if (one->told[i] == id)
            return true;
    return one->n_told == ELASTIC_MEMBERS;
}

static void tell_one(struct agent_deaths *d, struct post *p,
                     struct death *one, bool over)
{
    for (struct post_peer *q = p->peers; q; q = q->next) {
        if (was_told(one, q->card.id))
            continue;
        if (over && q->card.agent == q->card.id)
            (void)!post_send(p, q->card.id, POST_DONE, d->job,
                             sizeof(d->job));
        if (post_send(p, q->card.id, POST_DEAD, one->letter, one->bytes))
            one->told[one->n_told++] = q->card.id;
    }
}

void deaths_tell(struct agent_deaths *d, struct post *p, bool over)
{
    if (d->first)
        learn_callers(p);
    for (struct death **at = &d->first; *at;) {
        struct death *one = *at;

        tell_one(d, p, one, over);
        if (ct_now() - one->since < tell_seconds) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        ct_free(one);
    }
    if (!d->first) /* there is nothing to tell */
        while (p->peers)
            post_forget(p, p->peers->card.id);
    post_flush(p);
}

bool deaths_are_told(const struct agent_deaths *d, const struct post *p)
{
    bool all = true;

    for (const struct post_peer *q = p->peers; q; q = q->next)
        for (const struct death *one = d->first; one; one = one->next)
            all &= was_told(one, q->card.id) || q->refused;
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
