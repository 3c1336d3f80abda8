/* member_peers.c - whom a member knows, and who of them is silent. */
#include <string.h>

#include "base/clock.h"
#include "elastic/member_inner.h"

bool member_is_in_view(const struct elastic_member *m, uint64_t id)
{
    for (int r = 0; r < m->a.own.view.n; r++)
        if (m->a.own.view.id[r] == id)
            return true;
    return false;
}

/* ---- Who is learned of. */

static bool has_ended(void *arg, uint64_t id)
{
    const struct elastic_member *m = arg;

    return elastic_has_ended(&m->a, id);
}

static bool is_in(void *arg, uint64_t id)
{
    return member_is_in_view(arg, id);
}

static void on_learn(void *arg, struct post_peer *q)
{
    struct elastic_member *m = arg;

    neighbours_add(&m->neighbours, &m->post, &q->card);
    if (m->a.own.view.number == 0) /* its agent is to know whom to tell */
        memset(&m->written, 0xff, sizeof(m->written));
}

void member_learn_peers(struct post_config *c)
{
    c->learn = on_learn;
    c->ended = has_ended;
    c->is_in = is_in;
}

/* ---- Who is silent. */

/* Who asks to be taken in and is not heard any more asks again if it lives. */
static void dismiss_silent(struct elastic_member *m, double now)
{
    for (int i = m->a.n_joiners - 1; i >= 0; i--) {
        const struct post_peer *q = post_find(&m->post, m->a.joiner[i]);

        if (!q || !q->open || now - q->heard > m->config.suspect)
            elastic_dismiss(&m->a, m->a.joiner[i]);
    }
}

/* A process that is in no view, and was not heard for so long that it has given
 * the job up, may have ended where nobody could see it.  If it lives, e.g. on a
 * host that slept, it calls again, and is learned again: what it says on lines
 * that were open before would be of somebody unknown. */
static void forget_absent(struct elastic_member *m, double now)
{
    for (struct post_peer *q = m->post.peers, *next; q; q = next) {
        const uint64_t id = q->card.id;

        next = q->next;
        if (id == 0 || now - q->heard <= m->config.orphan || m->a.rank < 0 ||
            member_is_in_view(m, id))
            continue;
        post_forget(&m->post, id);
        post_hang_up(&m->post, id);
    }
}

/* Why a member of the view is taken for lost, or NULL.  Who is heard and
 * cannot be told anything is of no more use than who is silent. */
static const char *complaint(const struct elastic_member *m,
                             const struct post_peer *q, double now)
{
    const double most = m->config.suspect;
    double closed;

    if (!q) /* nobody may know any more where it is */
        return now - m->seen_since > most ? "is silent" : NULL;
    if (now - q->heard > most)
        return "is silent";
    if (q->open)
        return NULL;
    closed = q->closed > m->seen_since ? q->closed : m->seen_since;
    return q->refused || now - closed > most ? "is reached no more" : NULL;
}

/* Of those that are reached everybody has heard. */
static void tell_of_members(struct elastic_member *m)
{
    for (struct post_peer *q = m->post.peers; q; q = q->next)
        if (!q->open && member_is_in_view(m, q->card.id))
            post_tell_of(&m->post, q);
}

static void look_after(struct elastic_member *m, double now)
{
    const struct elastic_view *v = &m->a.own.view;
    const uint32_t number        = v->number;
    const double stood           = now - m->worked;

    m->worked = now;
    if (stood > 1)
        m->over_since += stood;
    if (m->seen != number) {
        m->seen_since = now;
        tell_of_members(m);
    }
    m->seen = number;
    for (struct post_peer *q = m->post.peers; q && stood > 1; q = q->next) {
        q->heard += stood; /* this process did, not the others */
        q->closed += stood;
    }
    for (int r = 0; r < v->n && m->a.rank >= 0 && number == v->number; r++) {
        struct post_peer *q = post_find(&m->post, v->id[r]);
        const char *why     = complaint(m, q, now);

        if (r == m->a.rank || m->a.peer[r].dead ||
            !why == !m->a.peer[r].suspect)
            continue;
        if (why)
            member_note(m, v->id[r], why);
        elastic_suspect(&m->a, v->id[r], why != NULL);
    }
}

void member_mind_peers(struct elastic_member *m, double now)
{
    look_after(m, now);
    dismiss_silent(m, now);
    forget_absent(m, now);
}
