/* member_waits.c - whom a process without a place waits for, in words. */
#include <stdio.h>

#include "cortado/log.h"
#include "elastic/member_inner.h"

enum { NAMES = 3 }; /* more than these are counted */

static const double first_seconds = 5;

/* Has it still to answer the ballot that this member leads? */
static bool owes(const struct elastic_member *m, int r)
{
    const struct elastic_peer *p = &m->a.peer[r];

    return r != m->a.rank && !p->dead && !p->suspect &&
           !(m->a.asks ? p->accepted : p->promised);
}

/* All of those, the first few by name. */
static void put_debtors(const struct elastic_member *m, char *out,
                        size_t bytes)
{
    size_t n = 0;
    int all  = 0;

    out[0] = '\0';
    for (int r = 0; r < m->a.own.view.n; r++) {
        char name[128];

        if (!owes(m, r) || ++all > NAMES)
            continue;
        member_name_rank(m, &m->a.own.view, r, name, sizeof(name));
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", name);
    }
    if (all > NAMES)
        snprintf(out + n, bytes - n, " and %d more", all - NAMES);
    else if (all == 0)
        snprintf(out, bytes, "more than half of the others");
}

static int rank_of(const struct elastic_member *m, uint64_t id)
{
    for (int r = 0; r < m->a.own.view.n; r++)
        if (m->a.own.view.id[r] == id)
            return r;
    return -1;
}

static void describe(const struct elastic_member *m, char *out, size_t bytes)
{
    const struct elastic_view *v = &m->a.own.view;
    const int leads              = rank_of(m, elastic_coordinator(&m->a));
    char who[512];

    if (v->number == 0 || m->a.rank < 0) {
        snprintf(out, bytes, "the others of the job to take it in");
    } else if (m->a.ballot) {
        put_debtors(m, who, sizeof(who));
        snprintf(out, bytes, "%s to agree on view %u", who, v->number + 1);
    } else if (v->n < m->config.least) {
        snprintf(out, bytes, "the others of the job: it knows %d, and "
                 "training takes %d", v->n, m->config.least);
    } else if (m->a.frozen || v->number == m->given.number) {
        member_name_rank(m, v, leads, who, sizeof(who));
        snprintf(out, bytes, "%s to bring view %u about", who, v->number + 1);
    } else {
        snprintf(out, bytes, "word of where the others of view %u are",
                 v->number);
    }
}

/* In a view two processes speak: the one that leads may be what all wait
 * for. */
static bool speaks(const struct elastic_member *m)
{
    int n = 0;

    for (int r = 0; r < m->a.rank; r++)
        n += !m->a.peer[r].dead && !m->a.peer[r].suspect;
    return n < 2;
}

void member_say_wait(const struct elastic_member *m, double waited,
                     double *next)
{
    char text[640];

    if (*next == 0)
        *next = first_seconds;
    if (waited < *next)
        return;
    *next *= 2;
    if (!speaks(m))
        return;
    describe(m, text, sizeof(text));
    if (m->a.rank > 0) /* who logs nothing less */
        CT_ERROR("This process has waited %.0f s for %s", waited, text);
    else
        CT_WARN("This process has waited %.0f s for %s", waited, text);
}
