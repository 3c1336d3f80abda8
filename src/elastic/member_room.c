/* member_room.c - whoever asks to be taken in waits until all are prepared.
 *
 *     who comes          asks to be taken in
 *     the coordinator    EXPECT     to all: the rank each is likely to have,
 *                                   among how many
 *     each of them       PREPARED   its nets for that place are there
 *     the coordinator    lets the agreement know who asks
 *
 * Where all who asked are gone before that, the coordinator withdraws its hint:
 * EXPECT of no ranks.
 *
 * Meanwhile the view trains on.  All of this is about time alone: the agreement
 * (agreement.h) hears of a request late, as it may by a slow network, and
 * decides as ever.  A hint that is lost, or does not come true, costs those who
 * had prepared for it, or had not, the time to build nets while others wait.
 * Any other reason for a view counts at once. */
#include <string.h>

#include "base/clock.h"
#include "elastic/bytes.h"
#include "elastic/member_inner.h"

/* Others who come with the first one are awaited a little; all of them wait for
 * those who prepare no longer than `most_seconds`, and then for the end of an
 * iteration. */
static const double quiet_seconds = 0.1, gather_seconds = 0.5,
                    most_seconds = 10, turn_seconds = 1;

enum { HINT_BYTES = 8 };

static bool leads(const struct elastic_member *m)
{
    return m->a.rank >= 0 && elastic_coordinator(&m->a) == m->a.me;
}

static void add(struct elastic_member *m, uint64_t id)
{
    struct elastic_room *r = &m->room;

    for (int i = 0; i < r->n; i++)
        if (r->id[i] == id)
            return;
    if (r->n == ELASTIC_MEMBERS)
        return;
    r->changed = ct_now();
    if (r->n == 0)
        r->since = r->changed;
    r->id[r->n++] = id;
}

/* Who is not reached any more asks again if it lives. */
static void forget_gone(struct elastic_member *m, double now)
{
    struct elastic_room *r = &m->room;
    int n                  = 0;

    for (int i = 0; i < r->n; i++) {
        const struct post_peer *q = post_find(&m->post, r->id[i]);

        if (q && q->open && now - q->heard <= m->config.suspect &&
            !member_is_in_view(m, r->id[i]))
            r->id[n++] = r->id[i];
    }
    if (n != r->n)
        r->changed = now;
    r->n = n;
}

/* ---- Hints. */

static void keep_hint(struct elastic_member *m, const struct elastic_hint *h)
{
    m->hint = *h;
    atomic_store(&m->hinted, m->heeds);
    if (!m->heeds && h->size > 0)
        room_prepared(m, h->number);
}

/* Of so many ranks; 0: of none, what was said does not hold. */
static void tell_hint(struct elastic_member *m, uint64_t to, int rank, int size)
{
    const struct elastic_room *r = &m->room;
    uint8_t letter[HINT_BYTES + 12];
    struct writer w = { letter };

    put(&w, r->hint, HINT_BYTES);
    put(&w, member_is_in_view(m, to) ? r->view : 0, 4);
    put(&w, (uint32_t)rank, 4);
    put(&w, (uint32_t)size, 4);
    if (to == m->a.me)
        keep_hint(m, &(struct elastic_hint){ r->hint, to, rank, size, { 0 } });
    else
        (void)!post_send(&m->post, to, POST_EXPECT, letter, sizeof(letter));
}

/* The job is full, and who was given hope of a place has none: it waits no
 * longer than others do. */
static void disappoint(struct elastic_member *m, uint64_t id)
{
    struct elastic_room *r = &m->room;

    for (int i = 0; i < r->n_expected; i++)
        if (r->expected[i] == id) {
            tell_hint(m, id, 0, 0);
            r->expected[i] = 0;
        }
}

void room_ask(struct elastic_member *m, uint64_t id)
{
    if (!leads(m) || member_is_in_view(m, id)) {
        elastic_join(&m->a, id);
        return;
    }
    add(m, id);
    if (m->a.own.view.n >= m->a.most)
        disappoint(m, id);
}

/* Of another coordinator than before it is another number, too. */
static void number_hint(struct elastic_member *m)
{
    struct elastic_room *r = &m->room;

    r->view = m->a.own.view.number;
    r->hint = (uint64_t)r->view << 32 | (uint32_t)(r->hint + 1);
}

static int n_stay(const struct elastic_member *m)
{
    int n = 0;

    for (int i = 0; i < m->a.own.view.n; i++)
        n += elastic_stays(&m->a, i);
    return n;
}

static int room_left(const struct elastic_member *m)
{
    const int n = m->a.most - n_stay(m);

    return n > 0 ? n : 0;
}

/* Members in their order, then those who come. */
static void expect(struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;
    struct elastic_room *r       = &m->room;

    for (int i = room_left(m); i < r->n; i++)
        disappoint(m, r->id[i]);
    r->n_expected = 0;
    for (int i = 0; i < v->n; i++)
        if (elastic_stays(&m->a, i))
            r->expected[r->n_expected++] = v->id[i];
    for (int i = 0; i < r->n && r->n_expected < m->a.most; i++)
        r->expected[r->n_expected++] = r->id[i];
    for (int i = 0; i < r->n_expected; i++)
        r->prepared[i] = false;
    number_hint(m);
    for (int i = 0; i < r->n_expected; i++)
        tell_hint(m, r->expected[i], i, r->n_expected);
}

/* Nobody comes any more: members need not keep what they have prepared. */
static void withdraw(struct elastic_member *m)
{
    struct elastic_room *r = &m->room;

    if (r->view == 0 || r->view != m->a.own.view.number)
        return;
    number_hint(m);
    for (int i = 0; i < r->n_expected; i++)
        if (member_is_in_view(m, r->expected[i]))
            tell_hint(m, r->expected[i], 0, 0);
    r->n_expected = 0;
    r->view       = 0;
}

void room_take_hint(struct elastic_member *m, const struct post_caller *from,
                    const uint8_t *body, size_t bytes)
{
    struct reader r       = { body, body + bytes, false };
    const uint64_t number = take(&r, HINT_BYTES);
    const uint32_t view   = (uint32_t)take(&r, 4);
    const uint64_t rank   = take(&r, 4), size = take(&r, 4);
    struct elastic_hint h = { number, from->id, (int)rank, (int)size, { 0 } };

    if (r.short_of || r.at != r.end || view != m->a.own.view.number ||
        number == 0 || size > ELASTIC_MEMBERS || from->id == 0 ||
        (size > 0 ? rank >= size : rank > 0))
        return;
    memcpy(h.job, from->job, sizeof(h.job));
    keep_hint(m, &h);
}

bool room_expects(struct elastic_member *m, struct elastic_place *out)
{
    if (!atomic_exchange(&m->hinted, false))
        return false;
    *out = (struct elastic_place){ .hint = m->hint.number,
                                   .rank = m->hint.rank,
                                   .size = m->hint.size };
    return true;
}

/* ---- Who is prepared. */

static void note_prepared(struct elastic_member *m, uint64_t id, uint64_t hint)
{
    struct elastic_room *r = &m->room;

    for (int i = 0; i < r->n_expected && hint == r->hint; i++)
        if (r->expected[i] == id)
            r->prepared[i] = true;
}

void room_prepared(struct elastic_member *m, uint64_t hint)
{
    uint8_t letter[HINT_BYTES];
    struct writer w = { letter };

    if (hint != m->hint.number)
        return;
    put(&w, hint, HINT_BYTES);
    if (m->hint.from == m->a.me)
        note_prepared(m, m->a.me, hint);
    else
        (void)!post_send(&m->post, m->hint.from, POST_PREPARED, letter,
                         sizeof(letter));
}

void room_heed(struct elastic_member *m, bool hints)
{
    m->heeds = hints;
    if (!hints && atomic_exchange(&m->hinted, false) && m->hint.size > 0)
        room_prepared(m, m->hint.number);
}

void room_take_prepared(struct elastic_member *m, uint64_t from,
                        const uint8_t *body, size_t bytes)
{
    struct reader r     = { body, body + bytes, false };
    const uint64_t hint = take(&r, HINT_BYTES);

    if (!r.short_of)
        note_prepared(m, from, hint);
}

static bool all_prepared(const struct elastic_room *r)
{
    for (int i = 0; i < r->n_expected; i++)
        if (!r->prepared[i])
            return false;
    return true;
}

/* The hint speaks of the view and the room as they are now. */
static bool holds(const struct elastic_member *m)
{
    const struct elastic_room *r = &m->room;
    int n                        = n_stay(m);

    if (r->view != m->a.own.view.number)
        return false;
    for (int i = 0; i < r->n && n < m->a.most; i++)
        if (r->expected[n++] != r->id[i] || n > r->n_expected)
            return false;
    return n == r->n_expected;
}

static void let_in(struct elastic_member *m)
{
    const int n = m->room.n;

    m->room.n    = 0;
    m->room.view = 0;
    atomic_store(&m->all_wait, false);
    elastic_join_all(&m->a, m->room.id, n);
}

/* There is room, and nothing else under way. */
static bool is_open(const struct elastic_member *m)
{
    return m->room.n > 0 && leads(m) && !m->a.frozen &&
           m->a.own.view.n < m->a.most;
}

/* Between two iterations nothing has to be done again. */
void room_turn(struct elastic_member *m)
{
    if (!atomic_exchange(&m->all_wait, false) || !is_open(m) || !holds(m))
        return;
    let_in(m);
    member_settle(m);
}

/* Those who came with this view have the parameters.  Until then nobody takes
 * hints, and who is let in would make them begin anew.  A view that reloads
 * takes none at all. */
static bool all_train(const struct elastic_member *m)
{
    const struct elastic_view *v = &m->a.own.view;

    return !m->heeds || v->n_full == 0 || v->n_full == v->n ||
           m->a.ready > v->base;
}

void room_mind(struct elastic_member *m, double now)
{
    struct elastic_room *r = &m->room;

    forget_gone(m, now);
    if (!leads(m))
        r->n = 0; /* they ask who does */
    else if (r->n == 0 && !m->a.frozen)
        withdraw(m);
    if (!is_open(m) || !all_train(m))
        r->since = now; /* from then on they can prepare */
    if (!is_open(m)) {
        atomic_store(&m->all_wait, false);
    } else if (m->a.own.view.n < m->config.least ||
               now - r->since > most_seconds) {
        let_in(m); /* nobody trains meanwhile, or somebody takes too long */
    } else if (!holds(m)) {
        if (now - r->changed > quiet_seconds || now - r->since > gather_seconds)
            expect(m);
        r->complete = 0;
    } else if (all_prepared(r)) {
        r->complete = r->complete > 0 ? r->complete : now;
        atomic_store(&m->all_wait, m->heeds);
        if (!m->heeds || now - r->complete > turn_seconds)
            let_in(m);
    }
}
