/* watch.c - creates and destroys a watch; the watching thread. */
#include "liveness/watch.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "liveness/record.h"
#include "liveness/watch_inner.h"
#include "liveness/witness.h"

enum {
    LOOK_MS    = 200,     /* between two looks at the pulses */
    LAST_MS    = 100,     /* last words wait so long for news of a death */
    WITNESS_US = 300000,  /* time for a witness to report a death */
    STUCK_US   = 10000000 /* longest time of the comm thread in a transport
                           * after a death */
};

struct ct_pulse_view live_view_of(const struct live_watch *w, int r)
{
    const struct live_seat *s = &w->seat[r];

    return ct_pulse_view(s->page ? &s->page->pulse : &s->copy);
}

const char *live_name_of(const struct live_watch *w, int r, char *text,
                           size_t bytes)
{
    const struct live_card *c = &w->seat[r].card;

    if ((live_knows(w, r) || w->config.who) && c->pid > 0)
        snprintf(text, bytes, "rank %d (pid %d on %s)", r, c->pid, c->host);
    else
        snprintf(text, bytes, "rank %d", r);
    return text;
}

/* ---- the watching thread */

/* Writes the record of this rank, and those of ranks of this host that are dead
 * or silent and cannot write theirs. */
static void write_records(const struct live_watch *w, const char *why)
{
    const uint64_t now = ct_pulse_now();

    for (int r = 0; r < w->size; r++) {
        const struct live_seat *s = &w->seat[r];

        if (r == w->rank)
            live_record_write(s->page, why);
        else if (!live_knows(w, r) || live_has_gone_on(w, r))
            continue;
        else if (s->page && s->gone)
            live_record_write(s->page, "this rank has died");
        else if (s->page &&
                 live_since(live_view_of(w, r).beat, now) > LIVE_SILENT_US)
            live_record_write(s->page, "this rank gives no sign of life");
    }
}

static void look_for_requests(struct live_watch *w)
{
    const bool met = atomic_load(&w->met);
    unsigned n     = 0;

    atomic_store(&w->mine->asked, w->config.asked(w->config.arg));
    for (int r = 0; r < w->size; r++)
        if ((met || r == w->rank) && w->seat[r].page)
            n += atomic_load(&w->seat[r].page->asked);
    if (n != w->n_asked && met == w->counts_all)
        write_records(w, "asked for");
    w->n_asked    = n;
    w->counts_all = met;
}

static void look_for_waits(struct live_watch *w)
{
    uint64_t now = ct_pulse_now(), waited = live_longest_wait(w, now);
    char text[512];

    if (waited < w->warn)
        w->next_record = w->warn;
    if (waited >= w->next_record) {
        w->next_record = 2 * waited;
        live_explain(w, waited, now, text, sizeof(text));
        write_records(w, text);
    }

    if (waited < w->warn)
        w->next_warn = w->warn;
    if (waited < w->next_warn || !live_speaks(w, now))
        return;
    w->next_warn = 2 * waited;
    live_explain(w, waited, now, text, sizeof(text));
    if (w->rank == 0)
        CT_WARN("%s", text);
    else
        CT_ERROR("%s", text);
}

/* With the lock held: writes the text about a dead rank.  Its phase is known if
 * its page is mapped or, on rank 0, if it sent its pulse. */
static void write_why(struct live_watch *w, int r, const char *how)
{
    const struct live_seat *s = &w->seat[r];
    struct ct_pulse_view v    = live_view_of(w, r);
    char who[128], where[128];

    snprintf(w->why, sizeof(w->why), "%s %s%s%s",
             live_name_of(w, r, who, sizeof(who)), how,
             s->page || s->heard ? " in " : "",
             s->page || s->heard ? ct_pulse_text(&v, where, sizeof(where))
                                 : " at the start");
}

/* Notes that a rank has died.  Without a witness, the lowest living rank of its
 * host logs the death.  A death on another host is logged by the rank that
 * fails because of it. */
static void note_gone(struct live_watch *w, int r, const char *how)
{
    struct ct_pulse_view v = live_view_of(w, r);
    const struct live_page *page = w->seat[r].page;
    bool first;

    pthread_mutex_lock(&w->lock);
    if (!w->seat[r].gone && v.phase != CT_PULSE_LEAVING) {
        write_why(w, r, how);
        first = page && !atomic_load(&page->witnessed);
        for (int q = 0; q < w->rank; q++)
            first &= q == r || !w->seat[q].page || w->seat[q].gone;
        if (first)
            CT_ERROR("%s", w->why);
        w->config.lost(w->config.arg, r, v.iter, w->why);
        if (!atomic_load(&w->lost))
            w->lost_at = ct_pulse_now();
        atomic_store(&w->lost, true);
    }
    w->seat[r].gone = true;
    pthread_mutex_unlock(&w->lock);
}

/* Another thread may write it in this moment. */
static void copy_why(struct live_watch *w, char out[sizeof(w->why)])
{
    pthread_mutex_lock(&w->lock);
    memcpy(out, w->why, sizeof(w->why));
    pthread_mutex_unlock(&w->lock);
}

/* Indices of polled files; per rank there is its process or its line. */
enum { WAKE, LISTENER, RANKS };

static struct pollfd *make_polls(const struct live_watch *w)
{
    return ct_calloc((size_t)w->size + RANKS, sizeof(struct pollfd), "watch");
}

static void look_at_line(struct live_watch *w, int r)
{
    switch (live_line_look(&w->seat[r].line)) {
    case LIVE_LINE_WELL:
        break;
    case LIVE_LINE_ENDED:
        note_gone(w, r, "has died; it was last heard of");
        break;
    case LIVE_LINE_LOST:
        note_gone(w, r, "cannot be reached; it was last heard of");
        break;
    }
}

static void take_line(struct live_watch *w)
{
    struct live_line line;
    const int r = live_line_accept(w->listener, &w->offer, w->size, &line);

    if (r < 0)
        return;
    live_line_leave(&w->seat[r].line); /* of an earlier attempt of that rank */
    w->seat[r].line = line;
}

/* Waits up to `ms` for the end of a process or for the wake; true: woken.  Only
 * the watching thread sets `lines`, because it owns them. */
static bool look_for_deaths(struct live_watch *w, struct pollfd *fd, int ms,
                            bool lines)
{
    const int n  = atomic_load(&w->met) ? w->size : 0;

    fd[WAKE]     = (struct pollfd){ .fd = w->wake, .events = POLLIN };
    fd[LISTENER] = (struct pollfd){ .fd = lines && n > 0 ? w->listener : -1,
                                    .events = POLLIN };
    for (int r = 0; r < n; r++) {
        const struct live_seat *s = &w->seat[r];
        const int line            = lines ? s->line.fd : -1;

        fd[RANKS + r] = (struct pollfd){
            .fd = s->gone ? -1 : s->pidfd >= 0 ? s->pidfd : line,
            .events = POLLIN };
    }
    if (poll(fd, (nfds_t)n + RANKS, ms) < 1)
        return false;
    for (int r = 0; r < n; r++)
        if (fd[RANKS + r].revents && w->seat[r].pidfd >= 0)
            note_gone(w, r, "has died");
        else if (fd[RANKS + r].revents)
            look_at_line(w, r);
    if (fd[LISTENER].revents)
        take_line(w);
    return fd[WAKE].revents != 0;
}

/* The comm thread fails as soon as it learns of a death.  But Open MPI may not
 * return to it if it was writing to the rank that died.  Then this thread must
 * end the rank.  It first waits for a snapshot that is being written. */
static void end_if_stuck(struct live_watch *w)
{
    const uint64_t now  = ct_pulse_now();
    const uint64_t came = atomic_load(&w->came_by);
    char why[sizeof(w->why)];

    if (!atomic_load(&w->lost) || atomic_load(&w->told) ||
        live_view_of(w, w->rank).phase == CT_PULSE_SNAPSHOT ||
        live_since(w->lost_at > came ? w->lost_at : came, now) < STUCK_US ||
        ct_comm_thread_stats(w->config.thread).broken)
        return;
    copy_why(w, why);
    CT_ERROR("%s; the transport has not returned for %d s, and rank %d ends "
             "without it", why, STUCK_US / 1000000, w->rank);
    write_records(w, why);
    live_witness_see_abort();
    fflush(NULL);
    _exit(EXIT_FAILURE);
}

static void *watch_main(void *arg)
{
    struct live_watch *w = arg;
    struct pollfd *fd    = make_polls(w);
    bool lined           = false; /* connected to rank 0, if necessary */

    while (fd && !look_for_deaths(w, fd, LOOK_MS, true)) {
        if (!lined && atomic_load(&w->met)) {
            if (w->rank > 0 && w->remote[w->rank] && w->offer.n > 0)
                w->seat[0].line = live_line_connect(&w->offer, w->rank);
            lined = true;
        }
        atomic_store(&w->mine->pulse.beat, ct_pulse_now());
        atomic_store(&w->mine->pulse.sent, w->config.sent(w->config.arg));
        atomic_store(&w->mine->pulse.memory, ct_process_memory());
        look_for_waits(w);
        look_for_requests(w);
        end_if_stuck(w);
    }
    ct_free(fd);
    return NULL;
}

/* If several ranks of this host are ended, only the first one logs it. */
static void tell_own_end(const struct live_watch *w)
{
    struct ct_pulse_view v = live_view_of(w, w->rank);
    char who[128], where[128];

    for (int r = 0; r < w->rank && atomic_load(&w->met); r++)
        if (w->seat[r].page && (w->seat[r].gone ||
                                atomic_load(&w->seat[r].page->ending)))
            return;
    CT_ERROR("%s is ended from outside in %s",
             live_name_of(w, w->rank, who, sizeof(who)),
             ct_pulse_text(&v, where, sizeof(where)));
}

void live_watch_last_words(struct live_watch *w)
{
    uint64_t now = ct_pulse_now();
    struct pollfd *fd;
    char who[128], where[128], why[sizeof(w->why)];

    if (!w || !(fd = make_polls(w)))
        return;
    atomic_store(&w->mine->ending, true);
    (void)look_for_deaths(w, fd, LAST_MS, false);
    ct_free(fd);
    if (atomic_load(&w->lost)) {
        copy_why(w, why);
        write_records(w, why);
        return;
    }
    write_records(w, "ended from outside");
    tell_own_end(w);
    if (!live_speaks(w, now))
        return;
    for (int r = 0; r < w->size; r++)
        if (w->seat[r].heard) {
            struct ct_pulse_view v = live_view_of(w, r);

            CT_ERROR("ended from outside; %s was last heard of %.1f s ago, in "
                     "%s", live_name_of(w, r, who, sizeof(who)),
                     1e-6 * (double)live_since(v.beat, now),
                     ct_pulse_text(&v, where, sizeof(where)));
        }
}

/* ---- beginning and end */

int live_watch_show(struct live_watch *w)
{
    if (!w)
        return -1;
    atomic_store(&w->mine->witnessed, true);
    return w->fd;
}

static void install(struct live_watch *w, struct ct_comm *c)
{
    const bool serves = w->rank >= w->config.n_train;

    if (!c)
        return;
    c->tick        = live_tick;
    c->tick_arg    = w;
    c->judge       = live_judge;
    c->pulse       = &w->mine->pulse;
    c->pulse_first = w->rank - c->rank;
    c->pen         = &w->pen;
    c->channel     = (uint64_t)(c == w->config.all     ? 1
                                : c == w->config.alike ? 2 + serves
                                                       : 4 + c->pulse_first);
    c->stall_after = 0; /* live_judge() checks for stalls */
}

/* On the comm thread, which owns the comms. */
static enum ct_status install_job(struct ct_comm *c, void *arg)
{
    struct live_watch *w = arg;

    install(w, w->config.all);
    install(w, w->config.group);
    install(w, c);
    c->counts = true; /* `alike` counts, because groups are not in step */
    return CT_OK;
}

/* Fills the seats with what is known before ranks meet. */
static enum ct_status take_seats(struct live_watch *w)
{
    const size_t n         = (size_t)w->size;
    struct live_seat *mine;

    CT_TRY(ct_alloc(n, sizeof(*w->seat), "watch", &w->seat));
    for (int r = 0; r < w->size; r++) {
        struct live_card *c = &w->seat[r].card;
        int pid             = 0;

        w->seat[r].pidfd = w->seat[r].line.fd = -1;
        if (w->config.who && w->config.who(w->config.arg, r, c->host,
                                           sizeof(c->host), &pid))
            c->pid = pid;
    }
    CT_TRY(ct_alloc(n, sizeof(*w->remote), "watch", &w->remote));
    CT_TRY(live_page_create(&w->fd, &w->mine));
    mine       = &w->seat[w->rank];
    mine->page = w->mine;
    mine->like = true;
    mine->card = (struct live_card){ .pid = (int32_t)getpid(), .fd = w->fd,
                                     .nonce = w->mine->nonce };
    if (gethostname(mine->card.host, sizeof(mine->card.host) - 1) != 0)
        snprintf(mine->card.host, sizeof(mine->card.host), "unknown");
    w->mine->rank = w->rank;
    w->mine->size = w->size;
    w->mine->view = w->config.view;
    w->n_asked    = w->config.asked(w->config.arg);
    atomic_store(&w->mine->asked, w->n_asked); /* in earlier views */
    return CT_OK;
}

/* A failure is only a warning: an elastic job trains without records. */
static void keep_if_asked(struct live_watch *w)
{
    if (w->config.folder && live_watch_keep(w, w->config.folder) != CT_OK)
        CT_WARN("no records for an autopsy: %s", ct_last_error());
}

enum ct_status live_watch_create(const struct live_watch_config *config,
                                 struct live_watch **out)
{
    struct live_watch *w;
    const double stall = config->stall, beat = config->heartbeat;
    const double warn  = stall > 0 && stall / 3 < beat ? stall / 3 : beat;

    CT_TRY(ct_alloc(1, sizeof(*w), "watch", &w));
    *out     = w;
    w->config = *config;
    w->rank   = config->all->rank;
    w->size   = config->all->size;
    w->stall  = (uint64_t)(1e6 * stall);
    w->warn   = w->next_warn = (uint64_t)(1e6 * warn);
    w->fd = w->wake = w->listener = -1;
    pthread_mutex_init(&w->lock, NULL);
    CT_TRY(take_seats(w));
    keep_if_asked(w);
    w->pen.book = &w->mine->book;
    w->wake     = eventfd(0, EFD_CLOEXEC);
    CT_TRY(ct_job_run(config->thread, install_job, w));
    if (w->wake < 0 || pthread_create(&w->thread, NULL, watch_main, w) != 0)
        return ct_fail(CT_ENOMEM, "cannot start the watching thread");
    w->runs    = true;
    w->meeting = (struct ct_job){ .run = live_meet_job, .arg = w,
                                  .name = "meet" };
    ct_job_submit(config->thread, &w->meeting);
    return config->view > 0 ? CT_OK : ct_job_wait(&w->meeting);
}

static bool has_died(const struct live_seat *s)
{
    struct pollfd p = { .fd = s->pidfd, .events = POLLIN };

    return s->gone || (s->pidfd >= 0 && poll(&p, 1, 0) > 0);
}

void live_watch_hear_out(struct live_watch *w)
{
    bool wait = false;

    for (int r = 0; w && r < w->size; r++)
        wait |= r != w->rank && live_knows(w, r) && w->seat[r].page &&
                has_died(&w->seat[r]) &&
                atomic_load(&w->seat[r].page->witnessed);
    if (wait)
        usleep(WITNESS_US);
}

void live_watch_stop(struct live_watch *w)
{
    const uint64_t one = 1;

    if (!w || !w->runs)
        return;
    ct_pulse_set(&w->mine->pulse, CT_PULSE_LEAVING, NULL);
    if (write(w->wake, &one, sizeof(one)) < 0)
        CT_WARN("cannot wake the watching thread");
    pthread_join(w->thread, NULL);
    for (int r = 0; r < w->size; r++)
        live_line_leave(&w->seat[r].line);
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

void live_watch_destroy(struct live_watch *w)
{
    bool free_to_go;

    if (!w)
        return;
    live_watch_stop(w);
    uninstall(w->config.all);
    uninstall(w->config.alike);
    uninstall(w->config.group);
    free_to_go = live_heartbeat_end(w);
    for (int r = 0; w->seat && r < w->size; r++) {
        if (w->seat[r].page != w->mine)
            live_page_unmap(w->seat[r].page);
        if (w->seat[r].pidfd >= 0)
            close(w->seat[r].pidfd);
    }
    live_page_destroy(w->fd, w->mine);
    if (w->wake >= 0)
        close(w->wake);
    if (w->listener >= 0)
        close(w->listener);
    pthread_mutex_destroy(&w->lock);
    if (!free_to_go) /* the transport may still read or write there */
        return;
    ct_free(w->remote);
    ct_free(w->seat);
    ct_free(w);
}

bool live_watch_look(const struct live_watch *w, int rank,
                     struct live_look *out)
{
    const struct live_seat *s = w ? &w->seat[rank] : NULL;

    if (!s || !live_knows(w, rank) || (!s->page && !s->heard))
        return false;
    out->view = live_view_of(w, rank);
    out->pid  = s->card.pid;
    out->gone = s->gone;
    memcpy(out->host, s->card.host, sizeof(out->host));
    return true;
}

bool live_watch_has_lost(const struct live_watch *w)
{
    for (int r = 0; w && r < w->size; r++)
        if (atomic_load(&w->seat[r].gone))
            return true;
    return false;
}

enum ct_status live_watch_keep(struct live_watch *w, const char *folder)
{
    return w ? live_record_keep(w->mine, folder) : CT_OK;
}

void live_watch_record(const struct live_watch *w, const char *why)
{
    if (w)
        write_records(w, why);
}

struct ct_pulse *live_watch_pulse(struct live_watch *w)
{
    return w ? &w->mine->pulse : NULL;
}
