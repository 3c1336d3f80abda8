/* post.c - letters between the processes of a job: who is known, called, and
 * calls. */
#include "elastic/post_inner.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "elastic/bytes.h"

enum {
    MOST_STRANGERS = 64, /* callers that have not shown the secret */
    ACCEPT         = 64  /* at a time */
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

bool post_is_job(const uint8_t *job)
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

static bool calls_from_job(const struct post_caller *c)
{
    return c->what == POST_MEMBER && post_is_job(c->job) &&
           c->line.state == LINE_OPEN;
}

bool post_is_known(const struct post *p)
{
    for (const struct post_caller *c = p->callers; c; c = c->next)
        if (calls_from_job(c))
            return true;
    return false;
}

bool post_is_heard(const struct post *p, double seconds)
{
    for (const struct post_caller *c = p->callers; c; c = c->next) {
        const struct post_peer *q = post_find(p, c->id);

        if (calls_from_job(c) && q && q->open &&
            ct_now() - q->heard <= seconds)
            return true;
    }
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

bool post_has_ended(const struct post *p, uint64_t id)
{
    return p->config.ended && p->config.ended(p->config.arg, id);
}

struct post_peer *post_learn(struct post *p, const struct elastic_card *c)
{
    struct post_peer *q = post_find(p, c->id);

    if (q && c->edition > q->card.edition)
        take_edition(p, q, c);
    if (q || c->id == p->config.card.id || post_has_ended(p, c->id))
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

static void from_peer(void *arg, const uint8_t *frame, size_t bytes)
{
    post_take_answer(arg, frame, bytes);
}

static void write_now(struct post *p, struct post_peer *q)
{
    if (q->line.state != LINE_CLOSED)
        watch_line(p, &q->line, q, line_wants_to_write(&q->line));
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
        post_put_hello(p, q);
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

static void from_caller(void *arg, const uint8_t *frame, size_t bytes)
{
    post_take(arg, frame, bytes);
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
