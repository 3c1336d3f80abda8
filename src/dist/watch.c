/* watch.c - who waits for whom, and who is gone. */
#include "dist/watch.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "dist/autopsy.h"
#include "dist/dist.h"
#include "dist/page.h"

enum {
    TAG          = CT_TAG_END - 1,
    TAG_MOVED    = CT_TAG_END - 3,
    LOOK_MS      = 200,  /* between two looks at the pulses */
    LAST_MS      = 100,  /* that last words wait for a death to show */
    SEND_US      = 1000000, /* between two messages to rank 0 */
    SILENT_US    = 3000000, /* a pulse without a beat for so long is silent */
    GRACE_US     = 5000000,
    WITNESS_US   = 300000   /* that a witness needs to tell of a death */
};

/* What a rank tells the others at the start. */
struct card {
    char     host[64];
    int32_t  pid, fd;
    uint64_t nonce;
};

struct seat {
    struct card       card;
    struct dist_page *page;  /* mapped; NULL: not of this host */
    struct ct_pulse   copy;  /* of one that is not, on rank 0 */
    int               pidfd; /* -1: none */
    bool              like;  /* it trains, or serves, as this rank does */
    atomic_bool       gone;
    atomic_bool       heard; /* a message came, on rank 0 */
    /* The comm thread's, on rank 0: */
    bool              posted, answering;
    struct ct_request request, answer;
    struct ct_pulse_view wire; /* times are ages */
    uint64_t          moved;   /* likewise: what it is answered */
};

struct dist_watch {
    struct ct_dist *dist; /* borrowed */
    int             rank, size, fd; /* among all, those that serve too */
    uint64_t        stall, warn; /* us */
    struct dist_page *mine;
    struct seat    *seat;
    bool           *remote; /* per rank: rank 0 hears of it by messages */
    /* The comm thread's: */
    bool              sending, hearing;
    struct ct_request sent, answer;
    struct ct_pulse_view out;
    uint64_t          next_send;
    uint64_t          age;   /* what rank 0 answers: since somebody moved */
    atomic_uint_least64_t moved; /* by that; 0: it has not answered */
    /* The watching thread's: */
    pthread_t thread;
    bool      runs;
    int       wake;
    uint64_t  next_warn; /* us of waiting at which the next line comes */
    uint64_t  next_record; /* likewise: records for an autopsy */
    unsigned  n_asked;     /* requests for these, of all of this host */
    struct ct_logbook_pen pen; /* the comm thread's */
    atomic_bool lost;
    pthread_mutex_t lock;
    char            why[512]; /* of `lost` */
};

static struct ct_pulse_view view_of(const struct dist_watch *w, int r)
{
    const struct seat *s = &w->seat[r];

    return ct_pulse_view(s->page ? &s->page->pulse : &s->copy);
}

/* Those who serve run no collectives with those who train. */
static bool known(const struct dist_watch *w, int r)
{
    return w->seat[r].like && (w->seat[r].page || w->seat[r].heard);
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* "rank 2 (pid 77 on node3)". */
static const char *name_of(const struct dist_watch *w, int r, char *text,
                           size_t bytes)
{
    snprintf(text, bytes, "rank %d (pid %d on %s)", r, w->seat[r].card.pid,
             w->seat[r].card.host);
    return text;
}

/* ---- who is waited for */

struct culprit {
    int      rank;    /* -1: nobody stands out */
    int      n;       /* as many as it */
    bool     silent;
    uint64_t changed; /* when the latest of them moved on */
};

/* Those who have begun the fewest collectives and do not wait for others. */
static struct culprit find_culprit(const struct dist_watch *w, uint64_t now)
{
    struct culprit c = { .rank = -1 };
    uint32_t least   = UINT32_MAX;

    for (int r = 0; r < w->size; r++)
        if (known(w, r) && view_of(w, r).sequence < least)
            least = view_of(w, r).sequence;
    for (int r = 0; r < w->size; r++) {
        struct ct_pulse_view v = view_of(w, r);
        bool silent = since(v.beat, now) > SILENT_US;

        if (!known(w, r) || v.sequence != least || (v.waiting && !silent))
            continue;
        if (c.rank < 0 || (silent && !c.silent))
            c.rank = r;
        c.n++;
        c.silent |= silent;
        c.changed = v.changed > c.changed ? v.changed : c.changed;
    }
    return c;
}

static void explain(const struct dist_watch *w, uint64_t waited, uint64_t now,
                    char *out, size_t bytes)
{
    struct culprit c = find_culprit(w, now);
    char who[128], where[128], more[64] = "";
    struct ct_pulse_view v;

    if (c.rank < 0) {
        v = ct_pulse_view(&w->mine->pulse);
        snprintf(out, bytes, "ranks have waited %.0f s for each other: rank "
                 "%d has no message from or to rank %d, in %s", 1e-6 *
                 (double)waited, w->rank, v.peer,
                 ct_pulse_text(&v, where, sizeof(where)));
        return;
    }
    v = view_of(w, c.rank);
    if (c.n > 1)
        snprintf(more, sizeof(more), " and %d more", c.n - 1);
    snprintf(out, bytes, "waiting %.0f s for %s%s: %s %s, for %.0f s",
             1e-6 * (double)waited, name_of(w, c.rank, who, sizeof(who)),
             more, c.silent ? "it gives no sign of life and was last in"
                            : "it is in",
             ct_pulse_text(&v, where, sizeof(where)),
             1e-6 * (double)since(v.changed, now));
}

/* How long the rank that has waited longest, of those seen, has waited. */
static uint64_t longest_wait(const struct dist_watch *w, uint64_t now)
{
    uint64_t most = 0;

    for (int r = 0; r < w->size; r++) {
        struct ct_pulse_view v = view_of(w, r);

        if (known(w, r) && v.waiting && since(v.waiting, now) > most)
            most = since(v.waiting, now);
    }
    return most;
}

/* ---- the watching thread */

/* Rank 0, or who comes after it on its host, speaks for all. */
static bool speaks(const struct dist_watch *w, uint64_t now)
{
    for (int r = 0; r < w->rank; r++)
        if (w->seat[r].page && !w->seat[r].gone &&
            since(view_of(w, r).beat, now) < SILENT_US)
            return false;
    return w->rank == 0 || w->seat[0].page;
}

/* This rank's, and those of ranks of this host that cannot do it: the dead,
 * and those that give no sign of life. */
static void write_records(const struct dist_watch *w, const char *why)
{
    const uint64_t now = ct_pulse_now();

    for (int r = 0; r < w->size; r++) {
        const struct seat *s = &w->seat[r];

        if (r == w->rank)
            dist_autopsy_write(s->page, why);
        else if (s->page && s->gone)
            dist_autopsy_write(s->page, "this rank has died");
        else if (s->page && since(view_of(w, r).beat, now) > SILENT_US)
            dist_autopsy_write(s->page, "this rank gives no sign of life");
    }
}

static void look_for_requests(struct dist_watch *w)
{
    unsigned n = 0;

    for (int r = 0; r < w->size; r++)
        n += w->seat[r].page ? atomic_load(&w->seat[r].page->asked) : 0;
    if (n != w->n_asked)
        write_records(w, "asked for");
    w->n_asked = n;
}

static void look_for_waits(struct dist_watch *w)
{
    uint64_t now = ct_pulse_now(), waited = longest_wait(w, now);
    char text[512];

    if (waited < w->warn)
        w->next_record = w->warn;
    if (waited >= w->next_record) {
        w->next_record = 2 * waited;
        explain(w, waited, now, text, sizeof(text));
        write_records(w, text);
    }

    if (waited < w->warn)
        w->next_warn = w->warn;
    if (waited < w->next_warn || !speaks(w, now))
        return;
    w->next_warn = 2 * waited;
    explain(w, waited, now, text, sizeof(text));
    if (w->rank == 0)
        CT_WARN("%s", text);
    else
        CT_ERROR("%s", text);
}

/* The first to live on a host tells of those who died there, if nobody else
 * does. */
static void note_gone(struct dist_watch *w, int r)
{
    struct ct_pulse_view v = view_of(w, r);
    bool first;
    char who[128], where[128];

    pthread_mutex_lock(&w->lock);
    if (!w->seat[r].gone && v.phase != CT_PULSE_LEAVING) {
        snprintf(w->why, sizeof(w->why), "%s has died in %s",
                 name_of(w, r, who, sizeof(who)),
                 ct_pulse_text(&v, where, sizeof(where)));
        first = !atomic_load(&w->seat[r].page->witnessed);
        for (int q = 0; q < w->rank; q++)
            first &= q == r || !w->seat[q].page || w->seat[q].gone;
        if (first)
            CT_ERROR("%s", w->why);
        dist_marks_add(&w->dist->marks, CT_MARK_LOST, r, v.iter, "%s", w->why);
        atomic_store(&w->lost, true);
    }
    w->seat[r].gone = true;
    pthread_mutex_unlock(&w->lock);
}

/* Waits up to `ms` for a process to end or for the wake; true: woken. */
static bool look_for_deaths(struct dist_watch *w, struct pollfd *fd, int ms)
{
    fd[0] = (struct pollfd){ .fd = w->wake, .events = POLLIN };
    for (int r = 0; r < w->size; r++)
        fd[r + 1] = (struct pollfd){
            .fd = w->seat[r].gone ? -1 : w->seat[r].pidfd, .events = POLLIN };
    if (poll(fd, (nfds_t)w->size + 1, ms) < 1)
        return false;
    for (int r = 0; r < w->size; r++)
        if (fd[r + 1].revents)
            note_gone(w, r);
    return fd[0].revents != 0;
}

static void *watch_main(void *arg)
{
    struct dist_watch *w = arg;
    struct pollfd *fd = ct_calloc((size_t)w->size + 1, sizeof(*fd), "watch");

    while (fd && !look_for_deaths(w, fd, LOOK_MS)) {
        atomic_store(&w->mine->pulse.beat, ct_pulse_now());
        atomic_store(&w->mine->pulse.sent, dist_bytes_sent(w->dist));
        atomic_store(&w->mine->pulse.memory, ct_process_memory());
        look_for_waits(w);
        look_for_requests(w);
    }
    ct_free(fd);
    return NULL;
}

/* Of all that are ended on this host, the first says where it stood: it is the
 * only one, or all are. */
static void tell_own_end(const struct dist_watch *w)
{
    struct ct_pulse_view v = view_of(w, w->rank);
    char who[128], where[128];

    for (int r = 0; r < w->rank; r++)
        if (w->seat[r].page && (w->seat[r].gone ||
                                atomic_load(&w->seat[r].page->ending)))
            return;
    CT_ERROR("%s is ended from outside in %s",
             name_of(w, w->rank, who, sizeof(who)),
             ct_pulse_text(&v, where, sizeof(where)));
}

void dist_watch_last_words(struct dist_watch *w)
{
    uint64_t now = ct_pulse_now();
    struct pollfd *fd;
    char who[128], where[128];

    if (!w || !(fd = ct_calloc((size_t)w->size + 1, sizeof(*fd), "watch")))
        return;
    atomic_store(&w->mine->ending, true);
    (void)look_for_deaths(w, fd, LAST_MS);
    ct_free(fd);
    write_records(w, atomic_load(&w->lost) ? w->why : "ended from outside");
    if (atomic_load(&w->lost))
        return;
    tell_own_end(w);
    if (!speaks(w, now))
        return;
    for (int r = 0; r < w->size; r++)
        if (w->seat[r].heard) {
            struct ct_pulse_view v = view_of(w, r);

            CT_ERROR("ended from outside; %s was last heard of %.1f s ago, in "
                     "%s", name_of(w, r, who, sizeof(who)),
                     1e-6 * (double)since(v.beat, now),
                     ct_pulse_text(&v, where, sizeof(where)));
        }
}

/* ---- the comm thread */

/* Messages hold ages, because hosts have clocks of their own. */
static void to_ages(struct ct_pulse_view *v, uint64_t now)
{
    v->changed = since(v->changed, now);
    v->waiting = v->waiting ? since(v->waiting, now) + 1 : 0;
    v->beat    = 0;
}

static void from_ages(struct ct_pulse_view *v, uint64_t now)
{
    v->changed = now - v->changed;
    v->waiting = v->waiting ? now - v->waiting : 0;
    v->beat    = now;
}

static void send_pulse(struct dist_watch *w, struct ct_transport *t,
                       uint64_t now)
{
    bool done = false;

    if (w->sending && t->ops->test(t, &w->sent, &done) == CT_OK && !done)
        return;
    w->sending = false;
    if (now < w->next_send)
        return;
    w->next_send = now + SEND_US;
    w->out       = ct_pulse_view(&w->mine->pulse);
    to_ages(&w->out, now);
    w->sending = t->ops->send(t, 0, TAG, &w->out, sizeof(w->out),
                              &w->sent) == CT_OK;
}

/* Rank 0's answer, which knows who moves on other hosts. */
static void hear_answer(struct dist_watch *w, struct ct_transport *t,
                        uint64_t now)
{
    bool done = false;

    if (w->hearing && t->ops->test(t, &w->answer, &done) == CT_OK && !done)
        return;
    if (done)
        atomic_store(&w->moved, since(w->age, now));
    w->hearing = t->ops->receive(t, 0, TAG_MOVED, &w->age, sizeof(w->age),
                                 &w->answer) == CT_OK;
}

/* How long ago the one that all wait for moved on. */
static uint64_t age_of_move(const struct dist_watch *w, uint64_t now)
{
    const struct culprit c = find_culprit(w, now);

    return c.rank >= 0 ? since(c.changed, now) : now;
}

static void answer_pulse(struct dist_watch *w, struct ct_transport *t, int r,
                         uint64_t now)
{
    struct seat *s = &w->seat[r];
    bool done      = false;

    if (s->answering && t->ops->test(t, &s->answer, &done) == CT_OK && !done)
        return;
    s->moved     = age_of_move(w, now);
    s->answering = t->ops->send(t, r, TAG_MOVED, &s->moved, sizeof(s->moved),
                                &s->answer) == CT_OK;
}

static void hear_pulses(struct dist_watch *w, struct ct_transport *t,
                        uint64_t now)
{
    for (int r = 1; r < w->size; r++) {
        struct seat *s = &w->seat[r];
        bool done      = false;

        if (!w->remote[r])
            continue;
        if (s->posted && t->ops->test(t, &s->request, &done) != CT_OK) {
            s->posted    = false;
            w->remote[r] = false; /* it is gone; others find out */
            continue;
        }
        if (s->posted && !done)
            continue;
        if (s->posted) {
            from_ages(&s->wire, now);
            ct_pulse_put(&s->copy, &s->wire);
            s->heard = true;
            answer_pulse(w, t, r, now);
        }
        s->posted = t->ops->receive(t, r, TAG, &s->wire, sizeof(s->wire),
                                    &s->request) == CT_OK;
    }
}

/* Rank 0, who knows more, may speak first. */
static uint64_t grace(const struct dist_watch *w)
{
    return w->stall < GRACE_US ? w->stall : GRACE_US;
}

/* Has the time come to give up?  A rank that still moves is waited for. */
static enum ct_status stalled(struct dist_watch *w, uint64_t now)
{
    const uint64_t waiting = atomic_load(&w->mine->pulse.waiting);
    const uint64_t waited  = waiting ? since(waiting, now) : 0;
    struct culprit c;
    char text[448];

    if (w->stall == 0 || waited < w->stall)
        return CT_OK;
    c = find_culprit(w, now);
    if (c.rank >= 0 && since(c.changed, now) < w->stall)
        return CT_OK;
    if (since(atomic_load(&w->moved), now) < w->stall)
        return CT_OK;
    if (!speaks(w, now) && waited < w->stall + grace(w))
        return CT_OK;
    explain(w, waited, now, text, sizeof(text));
    return ct_fail(CT_ECOMM, "rank %d: %s", w->rank, text);
}

static enum ct_status watch_judge(void *arg)
{
    struct dist_watch *w = arg;
    enum ct_status st;

    if (!atomic_load(&w->lost))
        return stalled(w, ct_pulse_now());
    pthread_mutex_lock(&w->lock);
    st = ct_fail(CT_ECOMM, "%s", w->why);
    pthread_mutex_unlock(&w->lock);
    return st;
}

static enum ct_status watch_tick(struct ct_comm *c, void *arg)
{
    struct dist_watch *w   = arg;
    struct ct_transport *t = w->dist->all->transport;
    uint64_t now           = ct_pulse_now();

    (void)c;
    if (w->rank == 0) {
        hear_pulses(w, t, now);
    } else if (w->remote[w->rank]) {
        send_pulse(w, t, now);
        hear_answer(w, t, now);
    }
    return watch_judge(w);
}

/* ---- beginning and end */

static struct dist_page *map_peer(const struct card *c)
{
    struct dist_page *page = dist_page_map(c->pid, c->fd);

    if (!page || page->nonce == c->nonce)
        return page;
    dist_page_unmap(page);
    return NULL;
}

int dist_watch_show(struct dist_watch *w)
{
    if (!w)
        return -1;
    atomic_store(&w->mine->witnessed, true);
    return w->fd;
}

static enum ct_status meet(struct dist_watch *w)
{
    const struct ct_place *place = &w->dist->all->place;
    const size_t n = (size_t)w->size;
    struct card mine = { .pid = (int32_t)getpid(), .fd = w->fd,
                         .nonce = w->mine->nonce }, *all = NULL;
    size_t *bytes = NULL;
    enum ct_status st;

    if (gethostname(mine.host, sizeof(mine.host) - 1) != 0)
        snprintf(mine.host, sizeof(mine.host), "unknown");
    CT_TRY_GOTO(ct_alloc(n, sizeof(*all), "watch", &all), st, out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*bytes), "watch", &bytes), st, out);
    for (size_t r = 0; r < n; r++)
        bytes[r] = sizeof(*all);
    CT_TRY_GOTO(dist_all_gather(w->dist, &mine, bytes, all), st, out);
    for (int r = 0; r < w->size; r++) {
        struct seat *s = &w->seat[r];

        s->card = all[r];
        if (r == w->rank)
            s->page = w->mine;
        else if (strcmp(s->card.host, mine.host) == 0 &&
                 ct_place_host(place, r) == ct_place_host(place, w->rank))
            s->page = map_peer(&s->card);
        if (s->page && s->card.pid != mine.pid)
            s->pidfd = (int)syscall(SYS_pidfd_open, s->card.pid, 0);
        s->like = (r >= w->dist->mode.n_workers) == w->dist->serves;
        w->remote[r] = !s->page;
    }
    st = ct_dist_broadcast(w->dist, w->remote, n * sizeof(*w->remote));
out:
    ct_free(all);
    ct_free(bytes);
    return st;
}

static void install(struct dist_watch *w, struct ct_comm *c)
{
    if (!c)
        return;
    c->tick        = watch_tick;
    c->tick_arg    = w;
    c->judge       = watch_judge;
    c->pulse       = &w->mine->pulse;
    c->pulse_first = w->rank - c->rank;
    c->pen         = &w->pen;
    c->channel     = (uint64_t)(c == w->dist->all    ? 1
                                : c == w->dist->comm ? 2 + w->dist->serves
                                                     : 4 + c->pulse_first);
    c->stall_after = 0; /* the watch knows better */
}

/* On the comm thread, whose these are. */
static enum ct_status install_job(struct ct_comm *c, void *arg)
{
    struct dist_watch *w = arg;
    struct ct_dist *d    = w->dist;

    install(w, d->all);
    install(w, d->group);
    install(w, c);
    c->counts = true; /* groups are not in step with each other */
    /* Who serves is among all until training ends, however long that takes;
     * those who train judge their waits. */
    if (d->serves)
        d->all->pulse = NULL;
    return CT_OK;
}

enum ct_status dist_watch_create(struct ct_dist *d, struct dist_watch **out)
{
    struct dist_watch *w;
    const double stall = d->options->stall, beat = d->options->heartbeat;
    const double warn  = stall > 0 && stall / 3 < beat ? stall / 3 : beat;

    CT_TRY(ct_alloc(1, sizeof(*w), "watch", &w));
    *out     = w;
    w->dist  = d;
    w->rank  = d->all->rank;
    w->size  = d->all->size;
    w->stall = (uint64_t)(1e6 * stall);
    w->warn  = w->next_warn = (uint64_t)(1e6 * warn);
    w->fd = w->wake = -1;
    pthread_mutex_init(&w->lock, NULL);
    CT_TRY(ct_alloc((size_t)w->size, sizeof(*w->seat), "watch", &w->seat));
    for (int r = 0; r < w->size; r++)
        w->seat[r].pidfd = -1;
    CT_TRY(ct_alloc((size_t)w->size, sizeof(*w->remote), "watch",
                    &w->remote));
    CT_TRY(dist_page_create(&w->fd, &w->mine));
    w->mine->rank = w->rank;
    w->mine->size = w->size;
    w->pen.book   = &w->mine->book;
    w->wake = eventfd(0, EFD_CLOEXEC);
    CT_TRY(meet(w));
    CT_TRY(ct_job_run(d->thread, install_job, w));
    if (w->wake < 0 || pthread_create(&w->thread, NULL, watch_main, w) != 0)
        return ct_fail(CT_ENOMEM, "cannot start the watching thread");
    w->runs = true;
    return CT_OK;
}

static bool has_died(const struct seat *s)
{
    struct pollfd p = { .fd = s->pidfd, .events = POLLIN };

    return s->gone || (s->pidfd >= 0 && poll(&p, 1, 0) > 0);
}

void dist_watch_hear_out(struct dist_watch *w)
{
    bool wait = false;

    for (int r = 0; w && r < w->size; r++)
        wait |= r != w->rank && w->seat[r].page && has_died(&w->seat[r]) &&
                atomic_load(&w->seat[r].page->witnessed);
    if (wait)
        usleep(WITNESS_US);
}

void dist_watch_stop(struct dist_watch *w)
{
    const uint64_t one = 1;

    if (!w || !w->runs)
        return;
    ct_pulse_set(&w->mine->pulse, CT_PULSE_LEAVING, NULL);
    if (write(w->wake, &one, sizeof(one)) < 0)
        CT_WARN("the watching thread does not hear");
    pthread_join(w->thread, NULL);
    w->runs = false;
}

static void uninstall(struct ct_comm *c)
{
    if (!c)
        return;
    c->tick  = NULL;
    c->judge = NULL;
    c->pulse = NULL;
    c->pen   = NULL;
}

void dist_watch_destroy(struct dist_watch *w)
{
    struct ct_transport *t;
    bool free_to_go = true;

    if (!w)
        return;
    t = w->dist->all->transport;
    dist_watch_stop(w);
    uninstall(w->dist->all);
    uninstall(w->dist->comm);
    uninstall(w->dist->group);
    if (w->sending)
        free_to_go &= t->ops->cancel(t, &w->sent);
    if (w->hearing)
        free_to_go &= t->ops->cancel(t, &w->answer);
    for (int r = 0; w->seat && r < w->size; r++) {
        struct seat *s = &w->seat[r];

        if (s->posted)
            free_to_go &= t->ops->cancel(t, &s->request);
        if (s->answering)
            free_to_go &= t->ops->cancel(t, &s->answer);
        if (s->page != w->mine)
            dist_page_unmap(s->page);
        if (s->pidfd >= 0)
            close(s->pidfd);
    }
    dist_page_destroy(w->fd, w->mine);
    if (w->wake >= 0)
        close(w->wake);
    pthread_mutex_destroy(&w->lock);
    if (!free_to_go) /* the transport may still read or write there */
        return;
    ct_free(w->remote);
    ct_free(w->seat);
    ct_free(w);
}

bool dist_watch_look(const struct dist_watch *w, int rank,
                     struct dist_look *out)
{
    const struct seat *s = w ? &w->seat[rank] : NULL;

    if (!s || (!s->page && !s->heard))
        return false;
    out->view = view_of(w, rank);
    out->pid  = s->card.pid;
    out->gone = s->gone;
    memcpy(out->host, s->card.host, sizeof(out->host));
    return true;
}

enum ct_status dist_watch_keep(struct dist_watch *w, const char *folder)
{
    return w ? dist_autopsy_keep(w->mine, folder) : CT_OK;
}

void dist_watch_record(const struct dist_watch *w, const char *why)
{
    if (w)
        write_records(w, why);
}

void dist_watch_ask(struct dist_watch *w)
{
    if (w)
        atomic_fetch_add(&w->mine->asked, 1);
}

struct ct_pulse *dist_watch_pulse(struct dist_watch *w)
{
    return w ? &w->mine->pulse : NULL;
}
