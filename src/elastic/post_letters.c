/* post_letters.c - what the processes of a job write to each other, and
 * read. */
#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/post_inner.h"

enum { MOST_LETTER = 32 << 10 }; /* without memory of its own */

/* ---- Writing. */

static bool put_letter(struct elastic_line *l, enum post_kind kind,
                       const void *body, size_t bytes)
{
    uint8_t letter[MOST_LETTER], *big = NULL, *at = letter;
    bool well;

    if (bytes + 1 > sizeof(letter)) {
        if (ct_alloc(bytes + 1, 1, "a letter", &big) != CT_OK)
            return false;
        at = big;
    }
    at[0] = (uint8_t)kind;
    if (bytes > 0)
        memcpy(at + 1, body, bytes);
    well = line_put(l, at, bytes + 1);
    ct_free(big);
    return well;
}

static void put_card(struct post_peer *q, const struct elastic_card *c)
{
    uint8_t bytes[CARD_WIRE_BYTES];
    const size_t n = card_write(c, bytes);

    (void)!put_letter(&q->line, POST_CARD, bytes, n);
}

void post_put_hello(const struct post *p, struct post_peer *q)
{
    uint8_t bytes[CARD_WIRE_BYTES + 72];
    struct writer w = { bytes };

    put(&w, POST_VERSION, 1);
    put(&w, (uint64_t)p->config.what, 1);
    put_bytes(&w, p->job, POST_JOB_BYTES);
    put(&w, p->config.digest, 8);
    put_bytes(&w, p->config.seeks, POST_JOB_BYTES);
    put(&w, q->card.id, 8);
    w.at += card_write(&p->config.card, w.at);
    (void)!put_letter(&q->line, POST_HELLO, bytes, (size_t)(w.at - bytes));
}

void post_set_job(struct post *p, const uint8_t *job)
{
    if (memcmp(p->job, job, POST_JOB_BYTES) == 0)
        return;
    memcpy(p->job, job, POST_JOB_BYTES);
    for (struct post_peer *q = p->peers; q; q = q->next)
        if (q->open)
            post_put_hello(p, q);
}

void post_tell_of(struct post *p, struct post_peer *q)
{
    q->serial = ++p->n_news;
}

static bool is_there(const struct post *p, const struct post_peer *q)
{
    return q->open ||
           (p->config.is_in && p->config.is_in(p->config.arg, q->card.id));
}

/* Everybody that q has not been told of. */
static void put_news(const struct post *p, struct post_peer *q)
{
    if (q->told == p->n_news || p->config.what != POST_MEMBER)
        return;
    for (const struct post_peer *o = p->peers; o; o = o->next)
        if (o->serial > q->told && o != q && o->card.id != 0 &&
            is_there(p, o))
            put_card(q, &o->card);
    q->told = p->n_news;
}

void post_tell_card(struct post *p)
{
    p->config.card.edition++;
    for (struct post_peer *q = p->peers; q; q = q->next)
        if (q->open)
            put_card(q, &p->config.card);
}

static bool send_to(struct post *p, struct post_peer *q, enum post_kind kind,
                    const void *body, size_t bytes)
{
    if (!q->open)
        return false;
    put_news(p, q);
    return put_letter(&q->line, kind, body, bytes);
}

bool post_send(struct post *p, uint64_t to, enum post_kind kind,
               const void *body, size_t bytes)
{
    struct post_peer *q = post_find(p, to);

    return q && send_to(p, q, kind, body, bytes);
}

void post_send_all(struct post *p, enum post_kind kind, const void *body,
                   size_t bytes)
{
    for (struct post_peer *q = p->peers; q; q = q->next)
        (void)!send_to(p, q, kind, body, bytes);
}

bool post_answer(struct post_caller *to, enum post_kind kind,
                 const void *body, size_t bytes)
{
    return put_letter(&to->line, kind, body, bytes);
}

/* ---- Reading. */

static void refuse(struct post_caller *c, const struct elastic_card *card,
                   const char *why)
{
    CT_WARN("A process on %s is not taken in: %s", card->host, why);
    (void)!post_answer(c, POST_NO, why, strlen(why));
}

/* What it told another agent, whose port this one has by now, is not for this
 * one. */
static void take_agent(struct post *p, struct post_caller *c, uint64_t to,
                       const struct elastic_card *card)
{
    const bool errs = p->config.what == POST_AGENT && to != 0 &&
                      to != p->config.card.id;

    c->what = errs ? POST_GUEST : POST_AGENT;
    if (p->config.what == POST_AGENT && !errs)
        c->card = *card;
}

static enum ct_status take_hello(struct post *p, struct post_caller *c,
                                 const uint8_t *body, size_t bytes)
{
    struct reader r = { body, body + bytes, false };
    uint8_t job[POST_JOB_BYTES], seeks[POST_JOB_BYTES];
    struct elastic_card card;
    struct post_peer *q;
    uint64_t version = take(&r, 1), what = take(&r, 1), digest, to;

    if (version != POST_VERSION) { /* what follows is not known */
        static const char why[] = "it is of another version of cortado";

        CT_WARN("A process is not taken in: %s", why);
        (void)!post_answer(c, POST_NO, why, strlen(why));
        c->what = POST_GUEST;
        return CT_OK;
    }
    take_bytes(&r, job, sizeof(job));
    digest = take(&r, 8);
    take_bytes(&r, seeks, sizeof(seeks));
    to = take(&r, 8);
    CT_TRY(card_read(r.at, (size_t)(r.end - r.at), &card));
    if (what == POST_AGENT) {
        take_agent(p, c, to, &card);
        return CT_OK;
    }
    if (what != POST_MEMBER || card.id == p->config.card.id) {
        c->what = POST_GUEST;
        return CT_OK;
    }
    if (post_is_job(seeks) && post_is_job(p->job) &&
        !post_same_job(seeks, p->job)) {
        c->what = POST_GUEST;
        (void)!post_answer(c, POST_NO, NULL, 0);
        return CT_OK;
    }
    if (post_is_job(job) && post_is_job(p->job) &&
        memcmp(job, p->job, sizeof(job)) != 0) {
        refuse(c, &card, "it belongs to another job");
        return CT_OK;
    }
    if (digest != p->config.digest) {
        refuse(c, &card, "its solver, net, flags or version of cortado differ "
               "from this job's");
        return CT_OK;
    }
    memcpy(c->job, job, sizeof(job));
    c->what = POST_MEMBER;
    c->id   = card.id;
    q       = post_learn(p, &card);
    if (q && !q->open)
        q->next_call = 0; /* it is there now */
    return q || post_has_ended(p, c->id) ? CT_OK : CT_ENOMEM;
}

static enum ct_status take_letter(struct post *p, struct post_caller *c,
                                  const uint8_t *frame, size_t bytes)
{
    const enum post_kind kind = bytes > 0 ? (enum post_kind)frame[0] : 0;
    struct post_peer *q;
    struct elastic_card card;

    if (kind == POST_HELLO)
        return take_hello(p, c, frame + 1, bytes - 1);
    if (c->what == 0)
        return ct_fail(CT_EPARSE, "a letter before its sender's name");
    if (c->what == POST_MEMBER && kind == POST_CARD) {
        CT_TRY(card_read(frame + 1, bytes - 1, &card));
        (void)!post_learn(p, &card);
        return CT_OK;
    }
    q = post_find(p, c->id);
    if (q)
        q->heard = ct_now();
    if (kind != POST_BEAT && p->config.take)
        p->config.take(p->config.arg, c, kind, frame + 1, bytes - 1);
    return CT_OK;
}

void post_take(struct post_caller *c, const uint8_t *letter, size_t bytes)
{
    if (take_letter(c->post, c, letter, bytes) != CT_OK)
        CT_WARN("A letter of another process of the job makes no sense: %s",
                ct_last_error());
}

bool post_read_done(const uint8_t *body, size_t bytes, const uint8_t **job,
                    enum post_end *end)
{
    if (bytes != POST_DONE_BYTES)
        return false;
    *job = body;
    *end = (enum post_end)body[POST_JOB_BYTES];
    return *end == POST_FINISHED || *end == POST_STOPPED;
}

void post_write_done(const uint8_t *job, enum post_end end, uint8_t *out)
{
    memcpy(out, job, POST_JOB_BYTES);
    out[POST_JOB_BYTES] = (uint8_t)end;
}

void post_take_done(struct post *p, const uint8_t *body, size_t bytes)
{
    const uint8_t *job;
    enum post_end end;

    if (!post_read_done(body, bytes, &job, &end))
        return;
    memcpy(p->done, job, POST_JOB_BYTES);
    p->end = end;
}

/* The job that this process is to join may come yet. */
static void take_misled(struct post *p, const struct post_peer *q)
{
    if (!p->misled && post_is_job(p->config.seeks))
        CT_WARN("Another job than the one that this process is to join answers "
                "at port %d; it waits for its own", ntohs(q->card.port));
    p->misled = true;
}

/* On lines that this process called, only answers come. */
void post_take_answer(struct post_peer *q, const uint8_t *letter, size_t bytes)
{
    struct post *p = q->post;

    if (bytes > 0 && letter[0] == POST_DONE)
        post_take_done(p, letter + 1, bytes - 1);
    if (bytes == 1 && letter[0] == POST_NO)
        take_misled(p, q);
    if (bytes > 1 && letter[0] == POST_NO && !p->refusal[0]) {
        const size_t n = bytes - 1 < sizeof(p->refusal) - 1
                             ? bytes - 1
                             : sizeof(p->refusal) - 1;

        memcpy(p->refusal, letter + 1, n);
        p->refusal[n] = '\0';
        p->refused    = ct_now();
    }
}
