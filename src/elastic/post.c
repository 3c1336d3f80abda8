/* post.c - letters between the processes of a job. */
#include "elastic/post.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/bytes.h"

enum {
    MOST_STRANGERS = 64, /* callers that have not shown the secret */
    ACCEPT         = 64, /* at a time */
    MOST_LETTER    = 32 << 10
};

static const double greeting_seconds = 5; /* that a stranger has */
static const double call_seconds     = 2; /* that an address has to answer */
static const double least_pause = 0.05, most_pause = 1;
static const double beat_seconds = 0.25;

/* ---- Lines and epoll. */

static void watch(const struct post *p, int fd, void *about, bool write)
{
    struct epoll_event what = { .events = EPOLLIN | (write ? EPOLLOUT : 0u),
                                .data.ptr = about };

    if (epoll_ctl(p->epoll, EPOLL_CTL_MOD, fd, &what) != 0 && errno == ENOENT)
        (void)epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &what);
}

static void watch_line(const struct post *p, struct elastic_line *l,
                       void *about, bool write)
{
    l->epoll   = p->epoll;
    l->watched = true;
    watch(p, l->fd, about, write);
}

/* ---- Who is known. */

struct post_peer *post_find(const struct post *p, uint64_t id)
{
    for (struct post_peer *q = p->peers; q; q = q->next)
        if (q->card.id == id && id != 0)
            return q;
    return NULL;
}

static bool is_job(const uint8_t *job)
{
    static const uint8_t none[POST_JOB_BYTES];

    return memcmp(job, none, POST_JOB_BYTES) != 0;
}

bool post_same_job(const uint8_t *a, const uint8_t *b)
{
    const size_t end = POST_JOB_BYTES - POST_BEGAN_BYTES;

    return memcmp(a, b, POST_KEPT_BYTES) == 0 &&
           memcmp(a + end, b + end, POST_BEGAN_BYTES) == 0;
}

int post_job_generation(const uint8_t *job)
{
    struct reader r = { job + POST_KEPT_BYTES, job + POST_JOB_BYTES, false };

    return (int)take(&r, 2);
}

bool post_is_known(const struct post *p)
{
    for (const struct post_caller *c = p->callers; c; c = c->next)
        if (c->what == POST_MEMBER && is_job(c->job) &&
            c->line.state == LINE_OPEN)
            return true;
    return false;
}

static struct post_peer *add_peer(struct post *p, const struct elastic_card *c)
{
    struct post_peer *q = ct_calloc(1, sizeof(*q), "a card");

    if (!q)
        return NULL;
    q->about  = POST_PEER;
    q->card   = *c;
    q->serial = ++p->n_news;
    q->heard  = q->closed = ct_now();
    q->pause  = least_pause;
    q->post   = p;
    q->next   = p->peers;
    p->peers  = q;
    return q;
}

/* It is reached elsewhere, too; others are to hear of that. */
static void take_edition(struct post *p, struct post_peer *q,
                         const struct elastic_card *c)
{
    q->card   = *c;
    post_tell_of(p, q);
    if (q->open || q->line.state != LINE_CLOSED)
        return;
    q->at        = 0;
    q->next_call = 0;
}

static bool has_ended(const struct post *p, uint64_t id)
{
    return p->config.ended && p->config.ended(p->config.arg, id);
}

struct post_peer *post_learn(struct post *p, const struct elastic_card *c)
{
    struct post_peer *q = post_find(p, c->id);

    if (q && c->edition > q->card.edition)
        take_edition(p, q, c);
    if (q || c->id == p->config.card.id || has_ended(p, c->id))
        return q;
    q = add_peer(p, c);
    if (q && p->config.learn)
        p->config.learn(p->config.arg, q);
    return q;
}

struct post_peer *post_door(struct post *p, const struct ct_ip *at,
                            uint16_t port)
{
    struct elastic_card c = { .port = port, .n_addresses = 1,
                              .address = { *at } };

    return add_peer(p, &c);
}

static void drop_peers(struct post *p, uint64_t id)
{
    for (struct post_peer **at = &p->peers; *at;) {
        struct post_peer *q = *at;

        if (q->card.id != id) {
            at = &q->next;
            continue;
        }
        *at = q->next;
        line_close(&q->line);
        ct_free(q);
    }
}

void post_forget(struct post *p, uint64_t id)
{
    drop_peers(p, id);
}

/* sweep_callers() does the rest. */
void post_hang_up(struct post *p, uint64_t id)
{
    for (struct post_caller *c = p->callers; c; c = c->next)
        if (c->id == id && id != 0)
            line_close(&c->line);
}

void post_forget_doors(struct post *p)
{
    drop_peers(p, 0);
}

void post_watch(struct post *p, int fd, void *about)
{
    watch(p, fd, about, false);
}

void post_open_door(struct post *p, bool open)
{
    if (p->config.door < 0 || open == p->door_open)
        return;
    /* It may have been reserved alone.  Where another process listens on that
     * port, this one has no door. */
    if (open && listen(p->config.door, SOMAXCONN) != 0)
        return;
    p->door_open = open;
    if (open)
        watch(p, p->config.door, &p->about[POST_DOOR], false);
    else
        (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, p->config.door, NULL);
}

void post_unwatch(struct post *p, int fd)
{
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* Calls again, to say so. */
void post_rename(struct post *p, uint64_t id)
{
    p->config.card.id = id;
    for (struct post_peer *q = p->peers; q; q = q->next) {
        line_close(&q->line);
        q->open      = false;
        q->closed    = ct_now();
        q->next_call = 0;
    }
}

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

static void put_hello(const struct post *p, struct post_peer *q)
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
            put_hello(p, q);
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

static void write_now(struct post *p, struct post_peer *q)
{
    if (q->line.state != LINE_CLOSED)
        watch_line(p, &q->line, q, line_wants_to_write(&q->line));
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
    if (is_job(seeks) && is_job(p->job) && !post_same_job(seeks, p->job)) {
        c->what = POST_GUEST;
        (void)!post_answer(c, POST_NO, NULL, 0);
        return CT_OK;
    }
    if (is_job(job) && is_job(p->job) &&
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
    return q || has_ended(p, c->id) ? CT_OK : CT_ENOMEM;
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

static void from_caller(void *arg, const uint8_t *frame, size_t bytes)
{
    post_take(arg, frame, bytes);
}

/* The job that this process is to join may come yet. */
static void take_misled(struct post *p, const struct post_peer *q)
{
    if (!p->misled && is_job(p->config.seeks))
        CT_WARN("Another job than the one that this process is to join answers "
                "at port %d; it waits for its own", ntohs(q->card.port));
    p->misled = true;
}

/* On lines that this process called, only answers come. */
void post_take_answer(struct post_peer *q, const uint8_t *letter, size_t bytes)
{
    struct post *p = q->post;

    if (bytes == 1 + POST_JOB_BYTES && letter[0] == POST_DONE)
        memcpy(p->done, letter + 1, POST_JOB_BYTES);
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

static void from_peer(void *arg, const uint8_t *frame, size_t bytes)
{
    post_take_answer(arg, frame, bytes);
}

/* ---- Calling. */

/* The next of its addresses, or a pause after the last. */
static void call_failed(struct post_peer *q, int error)
{
    const bool local = q->card.machine == q->post->config.card.machine;
    const int n      = local ? 1 : q->card.n_addresses;

    q->closed_door |= error == ECONNREFUSED;
    if (++q->at < n)
        return;
    q->refused     = q->closed_door;
    q->closed_door = false;
    q->at          = 0;
    q->next_call   = ct_now() + q->pause;
    q->pause       = q->pause * 2 < most_pause ? q->pause * 2 : most_pause;
}

static void call(struct post *p, struct post_peer *q)
{
    const bool local        = q->card.id != 0 &&
                              q->card.machine == p->config.card.machine;
    const struct ct_ip here = ct_loopback_address();

    if (!local && q->card.n_addresses == 0) {
        call_failed(q, EHOSTUNREACH);
    } else if (!line_call(&q->line, local ? &here : &q->card.address[q->at],
                          q->card.port, p->config.secret)) {
        call_failed(q, q->line.error);
    } else {
        watch_line(p, &q->line, q, true);
    }
}

static void step_peer(struct post *p, struct post_peer *q)
{
    const bool was_open = q->open;

    if (q->line.state == LINE_CLOSED)
        return;
    if (!line_step(&q->line, from_peer, q)) {
        const int error = q->line.error;

        q->open = false;
        if (was_open) { /* whoever died listens no more */
            q->closed    = ct_now();
            q->at        = 0;
            q->next_call = 0;
        } else {
            call_failed(q, error ? error : ECONNRESET);
        }
        return;
    }
    if (!was_open && q->line.state == LINE_OPEN) {
        q->open    = true;
        q->refused = q->closed_door = false;
        q->pause   = least_pause;
        q->told    = 0;
        post_tell_of(p, q);
        put_hello(p, q);
    }
    write_now(p, q);
}

/* ---- Being called. */

static void drop_caller(struct post *p, struct post_caller *c)
{
    struct post_caller **at = &p->callers;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    line_close(&c->line);
    ct_free(c);
}

static void step_caller(struct post *p, struct post_caller *c)
{
    if (c->line.state == LINE_CLOSED)
        return;
    (void)!line_step(&c->line, from_caller, c);
    if (c->line.state != LINE_CLOSED)
        watch_line(p, &c->line, c, line_wants_to_write(&c->line));
}

void post_tell_agents(struct post *p, enum post_kind kind, const void *body,
                      size_t bytes)
{
    for (struct post_caller *c = p->callers; c; c = c->next)
        if (c->what == POST_AGENT && post_answer(c, kind, body, bytes))
            step_caller(p, c);
}

/* Callers at their end, strangers that took too long, and the oldest of too
 * many make room. */
static void sweep_callers(struct post *p)
{
    const double now = ct_now();
    int n            = 0;

    for (struct post_caller *c = p->callers, *next; c; c = next) {
        next = c->next;
        if (c->line.state != LINE_CLOSED && !c->line.proven)
            n++;
        if (c->line.state != LINE_CLOSED &&
            (c->line.proven || (n <= MOST_STRANGERS &&
                                now - c->line.since < greeting_seconds)))
            continue;
        drop_caller(p, c);
    }
}

static void accept_some(struct post *p, int listener)
{
    for (int i = 0; i < ACCEPT; i++) {
        const int fd = accept4(listener, NULL, NULL,
                               SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct post_caller *c;

        if (fd < 0)
            return;
        c = ct_calloc(1, sizeof(*c), "a caller");
        if (!c) {
            close(fd);
            return;
        }
        c->about   = POST_CALLER;
        c->post    = p;
        c->next    = p->callers;
        p->callers = c;
        line_answer(&c->line, fd, p->config.secret);
        c->line.memory = &p->greetings;
        watch_line(p, &c->line, c, false);
    }
}

/* ---- The post. */

void post_flush(struct post *p)
{
    for (struct post_peer *q = p->peers; q; q = q->next)
        if (q->open && line_wants_to_write(&q->line))
            step_peer(p, q);
}

static void beat(struct post *p, double now)
{
    if (now < p->next_beat)
        return;
    p->next_beat = now + beat_seconds;
    post_send_all(p, POST_BEAT, NULL, 0);
}

static void make_calls(struct post *p, double now)
{
    for (struct post_peer *q = p->peers; q; q = q->next) {
        if (!q->open && q->line.state != LINE_CLOSED &&
            now - q->line.since > call_seconds) {
            line_close(&q->line);
            call_failed(q, ETIMEDOUT);
        }
        if (q->line.state == LINE_CLOSED && now >= q->next_call)
            call(p, q);
    }
}

void post_wait(struct post *p, int ms, struct post_events *out)
{
    struct epoll_event e[POST_EVENTS];
    const int n = epoll_wait(p->epoll, e, POST_EVENTS, ms);

    out->n = n > 0 ? n : 0;
    for (int i = 0; i < out->n; i++)
        out->about[i] = e[i].data.ptr;
}

static bool is_caller(const struct post *p, const void *about)
{
    for (const struct post_caller *c = p->callers; c; c = c->next)
        if (c == about)
            return true;
    return false;
}

static bool is_peer(const struct post *p, const void *about)
{
    for (const struct post_peer *q = p->peers; q; q = q->next)
        if (q == about)
            return true;
    return false;
}

/* It may have been forgotten since. */
static void work_on(struct post *p, void *about)
{
    uint64_t n;

    if (about == &p->about[POST_LISTENER])
        accept_some(p, p->listener);
    else if (about == &p->about[POST_DOOR])
        accept_some(p, p->config.door);
    else if (about == &p->about[POST_WAKE])
        (void)!read(p->wake, &n, sizeof(n));
    else if (is_caller(p, about))
        step_caller(p, about);
    else if (is_peer(p, about))
        step_peer(p, about);
    else if (p->config.event)
        p->config.event(p->config.arg, about);
}

void post_work(struct post *p, const struct post_events *e)
{
    const double now = ct_now();

    for (int i = 0; i < e->n; i++)
        work_on(p, e->about[i]);
    sweep_callers(p);
    make_calls(p, now);
    beat(p, now);
    post_flush(p);
}

void post_wake(struct post *p)
{
    const uint64_t one = 1;

    (void)!write(p->wake, &one, sizeof(one));
}

enum ct_status post_start(struct post *p, const struct post_config *config)
{
    memset(p, 0, sizeof(*p));
    p->config   = *config;
    p->listener = ct_listen(&p->config.card.port);
    p->epoll    = epoll_create1(EPOLL_CLOEXEC);
    p->wake     = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->listener < 0 || p->epoll < 0 || p->wake < 0) {
        const enum ct_status st = ct_fail(CT_ECOMM, "cannot listen on a port: "
                                          "%s", strerror(errno));

        post_stop(p);
        return st;
    }
    for (int i = 0; i < 3; i++)
        p->about[i] = (enum post_about)i;
    watch(p, p->listener, &p->about[POST_LISTENER], false);
    watch(p, p->wake, &p->about[POST_WAKE], false);
    return CT_OK;
}

void post_stop(struct post *p)
{
    while (p->callers)
        drop_caller(p, p->callers);
    while (p->peers)
        drop_peers(p, p->peers->card.id);
    for (int i = 0; i < 3; i++) {
        const int fd = i == 0 ? p->listener : i == 1 ? p->epoll : p->wake;

        if (fd >= 0)
            close(fd);
    }
    p->listener = p->epoll = p->wake = -1;
}

void post_stop_child(struct post *p)
{
    for (struct post_caller *c = p->callers; c; c = c->next)
        line_leave(&c->line);
    for (struct post_peer *q = p->peers; q; q = q->next)
        line_leave(&q->line);
    if (p->epoll >= 0)
        close(p->epoll);
    p->epoll = -1;
    post_stop(p);
}
