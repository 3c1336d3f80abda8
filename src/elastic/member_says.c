/* member_says.c - what a member tells of its job: the log's line of each
 * change, and answers to those who ask. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cortado/log.h"
#include "elastic/member_inner.h"

enum { NAMES = 3 }; /* of those who came; more than these are counted */

/* The line of a view waits so long for its ranks to train. */
static const double most_seconds = 5;

static int rank_in(const struct elastic_view *v, uint64_t id)
{
    for (int r = 0; r < v->n; r++)
        if (v->id[r] == id)
            return r;
    return -1;
}

const struct elastic_card *member_card_of(const struct elastic_member *m,
                                          uint64_t id)
{
    const struct post_peer *q = post_find(&m->post, id);

    return id == m->a.me ? &m->post.config.card : q ? &q->card : NULL;
}

void member_name_rank(const struct elastic_member *m,
                      const struct elastic_view *v, int r, char *out,
                      size_t bytes)
{
    const struct elastic_card *c = member_card_of(m, v->id[r]);

    if (c)
        snprintf(out, bytes, "rank %d (process %u on %s)", r, c->pid, c->host);
    else
        snprintf(out, bytes, "rank %d", r);
}

/* ---- What happened, for the log. */

/* "rank 2 (process 77 on a) ended; " */
static void put_event(const struct elastic_member *m, int rank,
                      const char *what, char *out, size_t bytes)
{
    char name[128];

    member_name_rank(m, &m->given, rank, name, sizeof(name));
    snprintf(out, bytes, "%s %s; ", name, what);
}

/* Of the view that this member trains in, what concerns nobody else, and once
 * each. */
void member_note(struct elastic_member *m, uint64_t id, const char *what)
{
    const int rank = rank_in(&m->given, id);
    const size_t n = strlen(m->events);

    if (rank < 0 || m->noted[rank])
        return;
    m->noted[rank] = true;
    if (m->since == 0)
        m->since = ct_now();
    put_event(m, rank, what, m->events + n, sizeof(m->events) - n);
}

/* The first who says so: the others may do so because of it. */
void member_note_cannot(struct elastic_member *m, uint64_t id, const char *why)
{
    const int rank = rank_in(&m->given, id);
    char what[160];

    if (rank < 0 || m->cannot[0])
        return;
    snprintf(what, sizeof(what), "cannot go on: %s", why);
    put_event(m, rank, what, m->cannot, sizeof(m->cannot));
}

/* Who is not in the next view and was not lost has left.  The last losses are
 * kept for those who ask.  Returns whether anybody has left. */
static bool note_gone(struct elastic_member *m)
{
    struct elastic_losses *l = &m->losses;
    const int n_left         = l->n_left;
    bool any                 = false;

    for (int r = 0; r < m->given.n; r++) {
        if (rank_in(&m->a.own.view, m->given.id[r]) >= 0)
            continue;
        any = true;
        l->n_lost += m->noted[r];
        l->n_left += !m->noted[r];
        member_note(m, m->given.id[r], "left");
    }
    if (any)
        snprintf(l->last[l->n_last++ % MEMBER_LOSSES], sizeof(l->last[0]),
                 "view %u: %.*s", m->a.own.view.number,
                 (int)strlen(m->events) - 2, m->events); /* not its "; " */
    return l->n_left > n_left;
}

/* Those who were not in the view before; "": nobody. */
static void name_new(const struct elastic_member *m, char *out, size_t bytes)
{
    const struct elastic_view *v = &m->a.own.view;
    size_t n                     = 0;
    int all                      = 0;

    out[0] = '\0';
    for (int r = 0; r < v->n && m->given.n > 0; r++) {
        char name[128];

        if (rank_in(&m->given, v->id[r]) >= 0 || ++all > NAMES)
            continue;
        member_name_rank(m, v, r, name, sizeof(name));
        n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "", name);
    }
    if (all > NAMES)
        n += (size_t)snprintf(out + n, bytes - n, " and %d more", all - NAMES);
    if (all > 0)
        snprintf(out + n, bytes - n, " came; ");
}

/* Who, why, what is next. */
void member_tell_view(struct elastic_member *m, struct elastic_place *out)
{
    const struct elastic_view *v = &m->a.own.view;
    char came[512], where[48] = "from the newest snapshot";

    out->left = note_gone(m);
    name_new(m, came, sizeof(came));
    if (v->base >= 0)
        snprintf(where, sizeof(where), "at iteration %d", v->base);
    if (!m->events[0] && !came[0])
        memcpy(m->events, m->cannot, sizeof(m->cannot));
    snprintf(out->why, sizeof(out->why), "%.140s%.140s%d rank(s) go on",
             m->events, came, v->n);
    snprintf(m->line, sizeof(m->line), "View %u: %s%s%d rank(s) go on %s",
             v->number, m->events, came, v->n, where);
    m->line_since = m->since;
    m->since      = 0;
    m->events[0]  = m->cannot[0] = '\0';
    memset(m->noted, 0, sizeof(m->noted));
}

/* When the ranks stopped training.  What they did after the last iteration that
 * counts is lost.  Who has done none here knows when the change began.  0:
 * nobody has trained. */
static double stopped_at(const struct elastic_member *m, bool trains)
{
    if (m->trained > 0)
        return m->trained;
    return trains && m->given.base <= 0 ? 0 : m->line_since;
}

void member_log_view(struct elastic_member *m, bool trains)
{
    const double since   = stopped_at(m, trains), stood = ct_now() - since;
    const bool is_short  = stood < 1;
    const char *at_least = trains ? "" : "more than ";

    if (!m->line[0])
        return;
    if (since == 0)
        CT_INFO("%s", m->line);
    else
        CT_INFO("%s; training stood for %s%.1f %s", m->line, at_least,
                is_short ? 1e3 * stood : stood, is_short ? "ms" : "s");
    m->line[0] = '\0';
}

/* A process that was suspended hears first whether others have gone on. */
void member_mind_line(struct elastic_member *m, double now)
{
    if (now - m->given_at > most_seconds && now - m->worked < 1)
        member_log_view(m, false);
}

/* ---- What it is. */

static const char *state_of(const struct elastic_peer *p)
{
    return p->dead      ? "ended"
           : p->suspect ? "silent"
           : p->leaves  ? "leaves"
                        : "trains";
}

static void describe_member(const struct elastic_member *m, int r, bool json,
                            struct ct_text *out)
{
    static const struct elastic_card nobody;
    const struct elastic_card *c = member_card_of(m, m->a.own.view.id[r]);

    if (!c)
        c = &nobody;
    ct_text_addf(out, json ? "%s{\"rank\": %d, \"host\": \"%s\", "
                             "\"process\": %u, \"state\": \"%s\"}"
                           : "%s%5d  %-20s  %8u  %s\n",
                 json && r > 0 ? ", " : "", r, c->host, c->pid,
                 state_of(&m->a.peer[r]));
}

/* Letters that would end a string of JSON are left out. */
static void add_quoted(struct ct_text *out, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= ' ' && *text != '"' && *text != '\\')
            ct_text_addf(out, "%c", *text);
}

/* The oldest of those that are kept first. */
static void describe_losses(const struct elastic_member *m, bool json,
                            struct ct_text *out)
{
    const struct elastic_losses *l = &m->losses;
    const int kept = l->n_last < MEMBER_LOSSES ? l->n_last : MEMBER_LOSSES;

    ct_text_addf(out, json ? "], \"lost\": %d, \"left\": %d, \"losses\": ["
                           : "%d lost and %d left, as far as the process that "
                             "answers saw it\n", l->n_lost, l->n_left);
    for (int i = l->n_last - kept; i < l->n_last; i++) {
        ct_text_add(out, !json                  ? "  "
                         : i > l->n_last - kept ? ", \""
                                                : "\"");
        add_quoted(out, l->last[i % MEMBER_LOSSES]);
        ct_text_add(out, json ? "\"" : "\n");
    }
    if (json)
        ct_text_add(out, "]}\n");
}

void member_call_roll(const struct elastic_member *m, struct ct_text *out)
{
    ct_text_add(out, "job ");
    for (int i = 0; i < POST_JOB_BYTES; i++)
        ct_text_addf(out, "%02x", m->post.job[i]);
    ct_text_add(out, "\n");
    for (int r = 0; r < m->a.own.view.n; r++) {
        const struct elastic_card *c = member_card_of(m, m->a.own.view.id[r]);

        if (c)
            ct_text_addf(out, "agent %016" PRIx64 ", door %d\n", c->agent,
                         ntohs(c->door));
    }
}

void member_describe(const struct elastic_member *m, bool json,
                     struct ct_text *out)
{
    const struct elastic_view *v = &m->a.own.view;

    ct_text_add(out, json ? "{\"job\": \"" : "job ");
    for (int i = 0; i < POST_JOB_BYTES; i++)
        ct_text_addf(out, "%02x", m->post.job[i]);
    ct_text_addf(out, json ? "\", \"view\": %u, \"iteration\": %d, "
                             "\"ranks\": %d, \"least\": %d, \"most\": "
                             "%d, \"waiting\": %d, \"members\": ["
                           : ", view %u, iteration %d\n%d rank(s), %d to %d, "
                             "and %d waiting\n rank  host                   "
                             "process  state\n",
                 v->number, m->a.ready, v->n, m->config.least, m->config.most,
                 m->a.n_joiners);
    for (int r = 0; r < v->n; r++)
        describe_member(m, r, json, out);
    describe_losses(m, json, out);
}
