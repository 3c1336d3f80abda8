/* heartbeat.c - ranks whose pulse rank 0 cannot map send it as messages.
 *
 * Nothing waits here; the next tick tests requests that are not done. */
#include "liveness/watch_inner.h"

enum {
    TAG       = CT_TAG_END - 1,
    TAG_MOVED = CT_TAG_END - 3,
    SEND_US   = 1000000 /* between two messages to rank 0 */
};

/* Messages have ages and not times, because hosts have different clocks. */
static void to_ages(struct ct_pulse_view *v, uint64_t now)
{
    v->changed = live_since(v->changed, now);
    v->waiting = v->waiting ? live_since(v->waiting, now) + 1 : 0;
    v->beat    = 0;
}

static void from_ages(struct ct_pulse_view *v, uint64_t now)
{
    v->changed = now - v->changed;
    v->waiting = v->waiting ? now - v->waiting : 0;
    v->beat    = now;
}

/* Tests a request; true: it has failed.  live_heartbeat_end() cancels it. */
static bool has_failed(struct ct_transport *t, struct ct_request *r, bool *done)
{
    return t->ops->test(t, r, done) != CT_OK;
}

static void send_pulse(struct live_watch *w, struct ct_transport *t,
                       uint64_t now)
{
    bool done = false;

    if (w->sending && (has_failed(t, &w->sent, &done) || !done))
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

/* Receives the answer of rank 0: how long ago the awaited rank, on any host,
 * made progress. */
static void hear_answer(struct live_watch *w, struct ct_transport *t,
                        uint64_t now)
{
    bool done = false;

    if (w->hearing && (has_failed(t, &w->answer, &done) || !done))
        return;
    if (done) {
        atomic_store(&w->moved, live_since(w->age, now));
        atomic_store(&w->answered, now);
    }
    w->hearing = t->ops->receive(t, 0, TAG_MOVED, &w->age, sizeof(w->age),
                                 &w->answer) == CT_OK;
}

static void answer_pulse(struct live_watch *w, struct ct_transport *t, int r,
                         uint64_t now)
{
    struct live_seat *s = &w->seat[r];
    bool done      = false;

    if (s->answering && (has_failed(t, &s->answer, &done) || !done))
        return;
    s->moved     = live_age_of_move(w, now);
    s->answering = t->ops->send(t, r, TAG_MOVED, &s->moved, sizeof(s->moved),
                                &s->answer) == CT_OK;
}

static void hear_pulses(struct live_watch *w, struct ct_transport *t,
                        uint64_t now)
{
    for (int r = 1; r < w->size; r++) {
        struct live_seat *s = &w->seat[r];
        bool done      = false;

        if (!w->remote[r])
            continue;
        if (s->posted && has_failed(t, &s->request, &done)) {
            w->remote[r] = false; /* it is gone; a wait will report it */
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

enum ct_status live_tick(struct ct_comm *c, void *arg)
{
    struct live_watch *w   = arg;
    struct ct_transport *t = w->config.all->transport;
    uint64_t now           = ct_pulse_now();

    (void)c;
    if (!atomic_load(&w->met)) {
        /* It is not known yet which ranks send pulses. */
    } else if (w->rank == 0) {
        hear_pulses(w, t, now);
    } else if (w->remote[w->rank]) {
        send_pulse(w, t, now);
        hear_answer(w, t, now);
    }
    return live_judge(w);
}

bool live_heartbeat_end(struct live_watch *w)
{
    struct ct_transport *t = w->config.all->transport;
    bool free_to_go        = true;

    if (w->sending)
        free_to_go &= t->ops->cancel(t, &w->sent);
    if (w->hearing)
        free_to_go &= t->ops->cancel(t, &w->answer);
    for (int r = 0; w->seat && r < w->size; r++) {
        struct live_seat *s = &w->seat[r];

        if (s->posted)
            free_to_go &= t->ops->cancel(t, &s->request);
        if (s->answering)
            free_to_go &= t->ops->cancel(t, &s->answer);
    }
    return free_to_go;
}
