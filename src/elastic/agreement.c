/* agreement.c - which view comes next. */
#include "elastic/agreement.h"

#include <string.h>

/* A later round wins; in one round every member has a ballot of its own. */
static uint64_t ballot_of(uint32_t round, int rank)
{
    return (uint64_t)round << 16 | (uint64_t)(rank + 1);
}

static int rank_of(const struct elastic_view *v, uint64_t id)
{
    for (int r = 0; r < v->n; r++)
        if (v->id[r] == id)
            return r;
    return -1;
}

void elastic_init(struct elastic_agreement *a, uint64_t me,
                  elastic_send_fn send, void *arg)
{
    memset(a, 0, sizeof(*a));
    a->me    = me;
    a->rank  = -1;
    a->ready = ELASTIC_NOTHING;
    a->least = 1;
    a->most  = ELASTIC_MEMBERS;
    a->send  = send;
    a->arg   = arg;
}

static void consider(struct elastic_agreement *a);

/* Messages to this member itself are taken at once. */
static void tell(struct elastic_agreement *a, uint64_t to,
                 const struct elastic_message *m)
{
    if (to == a->me)
        elastic_receive(a, a->me, m);
    else
        a->send(a->arg, to, m);
}

static struct elastic_message about_view(const struct elastic_agreement *a,
                                         enum elastic_kind kind)
{
    return (struct elastic_message){ .kind = kind, .view = a->own.view.number };
}

static void tell_install(struct elastic_agreement *a, uint64_t to)
{
    struct elastic_message m = about_view(a, ELASTIC_INSTALL);

    m.next = a->own.view;
    tell(a, to, &m);
}

/* Whoever is in a later view answers with that. */
static void ask_for_view(struct elastic_agreement *a, uint64_t whom)
{
    const struct elastic_message m = about_view(a, ELASTIC_REFUSE);

    tell(a, whom, &m);
}

/* ---- Who is there. */

static bool lost(const struct elastic_peer *p)
{
    return p->dead || p->suspect;
}

uint64_t elastic_coordinator(const struct elastic_agreement *a)
{
    for (int r = 0; r < a->own.view.n; r++)
        if (r == a->rank || !lost(&a->peer[r]))
            return a->own.view.id[r];
    return 0;
}

/* More than half of those that are not certified dead, or half of them with
 * the first. */
static bool is_quorum(const struct elastic_agreement *a, bool accepted)
{
    int n = 0, living = 0, first = -1;

    for (int r = 0; r < a->own.view.n; r++) {
        const struct elastic_peer *p = &a->peer[r];

        if (p->dead)
            continue;
        living++;
        n += accepted ? p->accepted : p->promised;
        if (first < 0)
            first = r;
    }
    if (2 * n != living || living == 0)
        return 2 * n > living;
    return accepted ? a->peer[first].accepted : a->peer[first].promised;
}

bool elastic_lets_go(const struct elastic_agreement *a)
{
    int n = 0;

    for (int r = 0; r < a->own.view.n; r++)
        n += !lost(&a->peer[r]) && !a->peer[r].leaves;
    return n >= a->least;
}

/* Does one of those who stay have parameters, as far as this member knows?  All
 * do once an iteration of the view is summed up.  Where nobody has any there is
 * nothing to wait for. */
static bool keeps_parameters(const struct elastic_agreement *a)
{
    const struct elastic_view *v = &a->own.view;

    if (v->n_full == 0 || a->ready > v->base)
        return true;
    for (int r = 0; r < v->n; r++)
        if (!lost(&a->peer[r]) && !a->peer[r].leaves &&
            (r < v->n_full || a->peer[r].holds))
            return true;
    return false;
}

bool elastic_stays(const struct elastic_agreement *a, int r)
{
    const struct elastic_peer *p = &a->peer[r];

    return !lost(p) &&
           !(p->leaves && elastic_lets_go(a) && keeps_parameters(a));
}

static bool wants_change(const struct elastic_agreement *a)
{
    const bool lets_go = elastic_lets_go(a) && keeps_parameters(a);

    if (a->frozen || a->renews || (a->n_joiners > 0 && a->own.view.n < a->most))
        return true;
    for (int r = 0; r < a->own.view.n; r++)
        if (lost(&a->peer[r]) || (a->peer[r].leaves && lets_go))
            return true;
    return false;
}

/* ---- The coordinator's side. */

static void tell_ballot(struct elastic_agreement *a)
{
    const uint64_t ballot    = a->ballot;
    const bool asks          = a->asks;
    struct elastic_message m = about_view(a, asks ? ELASTIC_ACCEPT
                                                  : ELASTIC_PREPARE);

    m.ballot = ballot;
    if (asks)
        m.next = a->offer;
    for (int r = 0; r < a->own.view.n; r++) {
        const struct elastic_peer *p = &a->peer[r];

        if (!p->dead && !(asks ? p->accepted : p->promised))
            tell(a, a->own.view.id[r], &m);
        if (a->ballot != ballot || a->asks != asks)
            return; /* this member's own answer was the last that it needed */
    }
}

static void begin_ballot(struct elastic_agreement *a)
{
    a->ballot = ballot_of(++a->round, a->rank);
    a->asks   = false;
    a->heard  = a->left;
    a->offer  = a->left_next;
    for (int r = 0; r < a->own.view.n; r++)
        a->peer[r].promised = a->peer[r].accepted = false;
    tell_ballot(a);
}

/* The same of those who have promised, and said what they have.  Who only
 * serves never has any. */
static bool have_parameters(const struct elastic_agreement *a)
{
    bool stay = a->ready > a->own.view.base, leave = false;

    for (int r = 0; r < a->own.view.n; r++) {
        const struct elastic_peer *p = &a->peer[r];

        if (!p->promised || lost(p) || p->ready == ELASTIC_NOTHING)
            continue;
        stay |= !p->leaves;
        leave |= p->leaves;
    }
    return stay || !leave;
}

/* Members that promised, in their order: those with parameters first. */
static void list_members(const struct elastic_agreement *a,
                         struct elastic_view *v)
{
    const bool lets_go = elastic_lets_go(a) && have_parameters(a);

    for (int full = 1; full >= 0; full--) {
        for (int r = 0; r < a->own.view.n; r++) {
            const struct elastic_peer *p = &a->peer[r];

            if (!p->promised || lost(p) || (p->leaves && lets_go) ||
                (p->ready != ELASTIC_NOTHING) != (full == 1))
                continue;
            v->id[v->n++] = a->own.view.id[r];
            if (full && (v->base == ELASTIC_NOTHING || p->ready < v->base))
                v->base = p->ready;
        }
        if (full)
            v->n_full = v->n;
    }
}

/* What to offer where nobody has accepted anything yet. */
static void make_offer(struct elastic_agreement *a)
{
    struct elastic_view *v = &a->offer;

    memset(v, 0, sizeof(*v));
    v->number = a->own.view.number + 1;
    v->base   = ELASTIC_NOTHING;
    list_members(a, v);
    for (int i = 0; i < a->n_joiners && v->n < a->most; i++)
        if (rank_of(v, a->joiner[i]) < 0)
            v->id[v->n++] = a->joiner[i];
}

/* Everyone who is not lost has promised, and they are enough. */
static bool all_promised(const struct elastic_agreement *a)
{
    for (int r = 0; r < a->own.view.n; r++)
        if (!a->peer[r].promised && !lost(&a->peer[r]))
            return false;
    return is_quorum(a, false);
}

static void go_on(struct elastic_agreement *a)
{
    if (!a->ballot || a->asks || !all_promised(a))
        return;
    a->asks = true;
    if (!a->heard)
        make_offer(a);
    tell_ballot(a);
}

static void install(struct elastic_agreement *a, const struct elastic_view *v);

/* It may have been decided already, so it is what this ballot must offer. */
static void hear(struct elastic_agreement *a, uint64_t accepted,
                 const struct elastic_view *next)
{
    if (accepted <= a->heard)
        return;
    a->heard = accepted;
    a->offer = *next;
}

static void take_promise(struct elastic_agreement *a, int from,
                         const struct elastic_message *m)
{
    if (m->ballot != a->ballot || a->asks)
        return;
    a->peer[from].promised = true;
    a->peer[from].ready    = m->ready;
    hear(a, m->accepted, &m->next);
    go_on(a);
}

/* Once enough have accepted, the view is decided: all hear of it, those too
 * that are not in it. */
static void decide(struct elastic_agreement *a)
{
    const struct elastic_view old = a->own.view, decided = a->offer;

    if (!a->ballot || !a->asks || !is_quorum(a, true))
        return;
    install(a, &decided);
    for (int r = 0; r < old.n; r++)
        if (old.id[r] != a->me)
            tell_install(a, old.id[r]);
    for (int r = 0; r < decided.n; r++)
        if (decided.id[r] != a->me && rank_of(&old, decided.id[r]) < 0)
            tell_install(a, decided.id[r]);
    consider(a);
}

static void take_accepted(struct elastic_agreement *a, int from,
                          const struct elastic_message *m)
{
    if (m->ballot != a->ballot || !a->asks)
        return;
    a->peer[from].accepted = true;
    decide(a);
}

/* ---- A member's side. */

static void refuse(struct elastic_agreement *a, uint64_t to)
{
    struct elastic_message m = about_view(a, ELASTIC_REFUSE);

    m.ballot = a->own.promised;
    tell(a, to, &m);
}

/* A ballot that another member leads ends the one of this member. */
static void promise_to(struct elastic_agreement *a, uint64_t ballot)
{
    a->own.promised = ballot;
    a->frozen   = true;
    if (a->ballot != ballot)
        a->ballot = 0;
}

static void take_prepare(struct elastic_agreement *a, uint64_t from,
                         const struct elastic_message *m)
{
    struct elastic_message answer = about_view(a, ELASTIC_PROMISE);

    if (m->ballot < a->own.promised) {
        refuse(a, from);
        return;
    }
    promise_to(a, m->ballot);
    answer.ballot   = m->ballot;
    answer.ready    = a->ready;
    answer.accepted = a->own.accepted;
    answer.next     = a->own.next;
    tell(a, from, &answer);
}

static void take_accept(struct elastic_agreement *a, uint64_t from,
                        const struct elastic_message *m)
{
    struct elastic_message answer = about_view(a, ELASTIC_ACCEPTED);

    if (m->ballot < a->own.promised) {
        refuse(a, from);
        return;
    }
    promise_to(a, m->ballot);
    a->own.accepted   = m->ballot;
    a->own.next     = m->next;
    answer.ballot = m->ballot;
    tell(a, from, &answer);
}

static void forget_joiner(struct elastic_agreement *a, uint64_t id)
{
    int n = 0;

    for (int i = 0; i < a->n_joiners; i++)
        if (a->joiner[i] != id)
            a->joiner[n++] = a->joiner[i];
    a->n_joiners = n;
}

static void count_dead(struct elastic_agreement *a)
{
    for (int i = 0; i < ELASTIC_MEMBERS; i++) {
        const int r = a->grave[i] ? rank_of(&a->own.view, a->grave[i]) : -1;

        if (r >= 0 && r != a->rank)
            a->peer[r].dead = true;
    }
}

static void install(struct elastic_agreement *a, const struct elastic_view *v)
{
    a->own    = (struct elastic_will){ .view = *v };
    a->rank   = rank_of(v, a->me);
    a->ready  = a->rank >= 0 && a->rank < v->n_full ? v->base
                                                    : ELASTIC_NOTHING;
    a->frozen = a->renews = false;
    a->ballot = a->left = 0;
    memset(a->peer, 0, sizeof(a->peer));
    if (a->rank >= 0)
        a->peer[a->rank].leaves = a->leaves;
    for (int r = 0; r < v->n; r++)
        forget_joiner(a, v->id[r]);
    count_dead(a);
}

void elastic_found(struct elastic_agreement *a)
{
    const struct elastic_view first = {
        .number = 1, .n = 1, .n_full = 1, .id = { a->me } };

    install(a, &first);
}

/* ---- What happens. */

/* Begins a ballot where this member is the one to do so. */
static void consider(struct elastic_agreement *a)
{
    if (a->rank < 0)
        return;
    go_on(a); /* a loss may be what it waited for */
    if (a->ballot || !wants_change(a) || elastic_coordinator(a) != a->me)
        return;
    begin_ballot(a);
}

static void see_round(struct elastic_agreement *a, uint64_t ballot)
{
    if (ballot >> 16 > a->round)
        a->round = (uint32_t)(ballot >> 16);
}

/* What a member of this view was bound by when it died. */
static void take_will(struct elastic_agreement *a,
                      const struct elastic_will *will)
{
    see_round(a, will->promised);
    if (will->promised > a->ballot)
        a->ballot = 0; /* as if it had refused */
    if (will->accepted > a->left) {
        a->left      = will->accepted;
        a->left_next = will->next;
    }
    if (a->ballot && !a->asks)
        hear(a, a->left, &a->left_next);
}

/* A member without a view may hear of a death before the last message of the
 * dead, which can bring its first view.  What the dead were bound by counts
 * then, too.  The caller sees to it that all of them were of one job. */
static void keep_will(struct elastic_agreement *a,
                      const struct elastic_will *will)
{
    struct elastic_will *w = &a->unread;

    if (will->view.number > w->view.number) {
        *w = *will;
    } else if (will->view.number == w->view.number) {
        if (will->promised > w->promised)
            w->promised = will->promised;
        if (will->accepted > w->accepted) {
            w->accepted = will->accepted;
            w->next     = will->next;
        }
    }
}

/* Who waits to be taken in wants a view that has it, and that is not past. */
static void take_first_view(struct elastic_agreement *a,
                            const struct elastic_view *v)
{
    const struct elastic_will unread = a->unread;

    if (rank_of(v, a->me) < 0 || v->number < unread.view.number)
        return;
    memset(&a->unread, 0, sizeof(a->unread));
    install(a, v);
    if (v->number == unread.view.number)
        take_will(a, &unread);
    consider(a);
}

bool elastic_has_ended(const struct elastic_agreement *a, uint64_t id)
{
    for (int i = 0; i < ELASTIC_MEMBERS; i++)
        if (a->grave[i] == id)
            return true;
    return false;
}

void elastic_dead(struct elastic_agreement *a, uint64_t id,
                  const struct elastic_will *will)
{
    if (elastic_has_ended(a, id))
        return;
    a->grave[a->n_graves++ % ELASTIC_MEMBERS] = id;
    forget_joiner(a, id);
    if (will->view.number > a->own.view.number && a->own.view.number > 0)
        install(a, &will->view); /* nobody else may know of it */
    if (a->own.view.number == 0)
        keep_will(a, will);
    else if (will->view.number == a->own.view.number)
        take_will(a, will);
    count_dead(a);
    decide(a); /* fewer are enough now */
    consider(a);
}

void elastic_suspect(struct elastic_agreement *a, uint64_t id, bool suspect)
{
    const int r = rank_of(&a->own.view, id);

    if (r < 0 || r == a->rank)
        return;
    a->peer[r].suspect = suspect;
    consider(a);
}

/* Those who ask this member ask the coordinator through it. */
static void pass_joiners_on(struct elastic_agreement *a)
{
    const uint64_t to        = elastic_coordinator(a);
    struct elastic_message m = about_view(a, ELASTIC_JOIN);

    for (int i = 0; i < a->n_joiners && to != a->me; i++) {
        m.about = a->joiner[i];
        tell(a, to, &m);
    }
}

/* Whether that one is new among those who ask. */
static bool note_joiner(struct elastic_agreement *a, uint64_t id)
{
    if (rank_of(&a->own.view, id) >= 0) { /* it has not heard */
        tell_install(a, id);
        return false;
    }
    for (int i = 0; i < a->n_joiners; i++)
        if (a->joiner[i] == id)
            return false;
    if (a->rank < 0 || a->n_joiners == ELASTIC_MEMBERS)
        return false;
    a->joiner[a->n_joiners++] = id;
    return true;
}

void elastic_join_all(struct elastic_agreement *a, const uint64_t *id, int n)
{
    bool any = false;

    for (int i = 0; i < n; i++)
        any |= note_joiner(a, id[i]);
    if (!any)
        return;
    pass_joiners_on(a);
    consider(a);
}

void elastic_join(struct elastic_agreement *a, uint64_t id)
{
    elastic_join_all(a, &id, 1);
}

void elastic_dismiss(struct elastic_agreement *a, uint64_t id)
{
    forget_joiner(a, id);
}

static void take_leave(struct elastic_agreement *a, uint64_t id)
{
    const int r = rank_of(&a->own.view, id);

    if (r < 0)
        return;
    a->peer[r].leaves = true;
    consider(a);
}

void elastic_leave(struct elastic_agreement *a)
{
    struct elastic_message m = about_view(a, ELASTIC_LEAVE);

    a->leaves = true;
    m.about = a->me;
    for (int r = 0; r < a->own.view.n; r++)
        if (!a->peer[r].dead && r != a->rank)
            tell(a, a->own.view.id[r], &m);
    take_leave(a, a->me);
}

/* Somebody may wait for it to leave. */
static void tell_holding(struct elastic_agreement *a)
{
    const struct elastic_view *v   = &a->own.view;
    const uint64_t to              = elastic_coordinator(a);
    const struct elastic_message m = about_view(a, ELASTIC_HOLDS);

    if (a->rank < v->n_full || a->ready == ELASTIC_NOTHING || a->frozen)
        return;
    for (int r = 0; r < v->n; r++)
        if (a->peer[r].leaves) {
            tell(a, to, &m);
            return;
        }
}

void elastic_renew(struct elastic_agreement *a)
{
    const uint64_t to              = elastic_coordinator(a);
    const struct elastic_message m = about_view(a, ELASTIC_RENEW);

    if (a->rank < 0)
        return;
    a->renews = true;
    if (to != a->me && !a->frozen)
        tell(a, to, &m);
    consider(a);
}

void elastic_retry(struct elastic_agreement *a)
{
    if (a->rank < 0)
        return;
    if (a->ballot)
        tell_ballot(a);
    else
        consider(a);
    if (wants_change(a))
        for (int r = 0; r < a->own.view.n; r++)
            if (r != a->rank && !a->peer[r].dead)
                ask_for_view(a, a->own.view.id[r]);
    pass_joiners_on(a);
    if (a->rank >= 0 && a->leaves)
        elastic_leave(a);
    if (a->rank >= 0 && a->renews)
        elastic_renew(a);
    if (a->rank >= 0)
        tell_holding(a);
}

bool elastic_ready(struct elastic_agreement *a, int iter)
{
    if (a->frozen || a->rank < 0)
        return false;
    a->ready = iter;
    return true;
}

/* Another member's message about this view. */
static void take(struct elastic_agreement *a, uint64_t from,
                 const struct elastic_message *m)
{
    const int r = rank_of(&a->own.view, from);

    if (r < 0 || a->rank < 0)
        return;
    see_round(a, m->ballot);
    switch (m->kind) {
    case ELASTIC_PREPARE:
        take_prepare(a, from, m);
        break;
    case ELASTIC_PROMISE:
        take_promise(a, r, m);
        break;
    case ELASTIC_REFUSE:
        if (m->ballot > a->ballot)
            a->ballot = 0; /* the next try is in a later round */
        break;
    case ELASTIC_ACCEPT:
        take_accept(a, from, m);
        break;
    case ELASTIC_ACCEPTED:
        take_accepted(a, r, m);
        break;
    case ELASTIC_RENEW:
        a->renews = true;
        consider(a);
        break;
    case ELASTIC_HOLDS:
        a->peer[r].holds = true;
        consider(a);
        break;
    default:
        break;
    }
}

void elastic_receive(struct elastic_agreement *a, uint64_t from,
                     const struct elastic_message *m)
{
    switch (m->kind) {
    case ELASTIC_JOIN:
        elastic_join(a, m->about);
        return;
    case ELASTIC_INSTALL:
        if (a->own.view.number == 0) {
            take_first_view(a, &m->next);
        } else if (m->next.number > a->own.view.number) {
            install(a, &m->next);
            consider(a);
        }
        return;
    default:
        break;
    }
    if (m->view < a->own.view.number)
        tell_install(a, from); /* it has not heard */
    else if (m->view > a->own.view.number)
        ask_for_view(a, from);
    else if (m->kind == ELASTIC_LEAVE)
        take_leave(a, m->about);
    else
        take(a, from, m);
}
