/* rounds.c - reports, decisions and heartbeats. */
#include "dist/servers/rounds.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"
#include "dist/engine.h"
#include "liveness/members.h"
#include "net/training.h"

enum {
    TAG_REPORT = CT_PS_TAG_FREE, /* server -> first server */
    TAG_DECISION,                /* first server -> server */
    TAG_BEAT,                    /* worker -> first server */
    BEATS = 4,                   /* beats in the time that makes a rank
                                  * suspect */
    FEW   = 3                    /* iterations needed to know the usual
                                  * duration */
};

/* The weight of the latest iteration in the usual duration. */
static const double newest = .2;

/* A report, or a decision: to close the iteration, or to let late ones in. */
struct note {
    int64_t           clock;
    uint64_t          n_decided; /* decisions before this note; if the number
                                  * differs, a report is out of date */
    struct ct_ps_mask got, late, alive;
};

/* A note that is being sent or received. */
struct message {
    struct note       note;
    struct ct_request request;
    bool              posted;
};

struct dist_round {
    struct ct_dist      *dist;
    int                  n_workers, n_servers;
    bool                 first; /* this is the first server */
    struct live_members  members; /* used by the first server */
    struct ct_ps_mask    alive;   /* from the latest decision */
    /* On the first server there is a message per server; on another server [0]
     * is exchanged with the first server.  All are owned. */
    struct message      *report, *decision;
    struct note         *known;    /* on the first server: last report of each
                                    * server; owned */
    struct note          told;     /* last report of this server */
    uint64_t             n_decided;
    float               *weight;   /* per worker: its samples; 1: an equal
                                    * share; owned */
    double               begun;    /* start of this iteration; 0: unknown */
    int                  n_in;     /* workers whose turn is complete */
    double               last_in;  /* time when the last turn was complete */
    double               usual;    /* usual duration of an iteration, in s */
    int                  n_usual;  /* iterations in that mean */
    struct message      *beat;     /* first server: per worker; on a worker:
                                    * [0]; owned */
    double               next_beat;
    bool                 warned;
    /* Used by the compute thread of rank 0: */
    struct live_members  seen;
    uint64_t             n_rounds, n_short;
    uint64_t             behind[CT_PS_MOST_WORKERS]; /* from the snapshot */
};

static struct ct_ps_mask mask_and(struct ct_ps_mask a,
                                  const struct ct_ps_mask *b)
{
    for (size_t i = 0; i < sizeof(a.bits) / sizeof(a.bits[0]); i++)
        a.bits[i] &= b->bits[i];
    return a;
}

static bool note_equal(const struct note *a, const struct note *b)
{
    return a->n_decided == b->n_decided &&
           memcmp(&a->got, &b->got, sizeof(a->got)) == 0 &&
           memcmp(&a->late, &b->late, sizeof(a->late)) == 0;
}

static bool is_empty(const struct ct_ps_mask *m)
{
    const struct ct_ps_mask none = { { 0 } };

    return memcmp(m, &none, sizeof(none)) == 0;
}

static int first_rank(const struct dist_round *r)
{
    return r->dist->ps.server_rank[0];
}

enum ct_status dist_round_create(struct ct_dist *d, struct dist_round **out)
{
    size_t n_servers = (size_t)d->plan->n_servers;
    size_t n_workers = (size_t)d->plan->n_groups;
    struct dist_round *r;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*r), "rounds", &r));
    r->dist      = d;
    r->n_workers = (int)n_workers;
    r->n_servers = (int)n_servers;
    r->first     = d->view.all->rank == first_rank(r);
    for (int w = 0; w < r->n_workers; w++)
        ct_ps_mask_add(&r->alive, w);
    CT_TRY_GOTO(live_members_init(&r->members, r->n_workers, ct_now()), st,
                out);
    CT_TRY_GOTO(live_members_init(&r->seen, r->n_workers, ct_now()), st, out);
    CT_TRY_GOTO(ct_alloc(n_servers, sizeof(*r->report), "rounds", &r->report),
                st, out);
    CT_TRY_GOTO(ct_alloc(n_servers, sizeof(*r->decision), "rounds",
                         &r->decision), st, out);
    CT_TRY_GOTO(ct_alloc(n_servers, sizeof(*r->known), "rounds", &r->known),
                st, out);
    CT_TRY_GOTO(ct_alloc(n_workers, sizeof(*r->beat), "rounds", &r->beat), st,
                out);
    CT_TRY_GOTO(ct_alloc(n_workers, sizeof(*r->weight), "rounds",
                         &r->weight), st, out);
    if (!d->view.serves)
        r->weight[d->ps.group] = d->ps.weight;
    CT_TRY_GOTO(dist_all_sum(d, r->weight, (int64_t)n_workers), st, out);
    for (size_t s = 0; s < n_servers; s++)
        r->known[s].n_decided = UINT64_MAX;
    r->told.n_decided = UINT64_MAX;
    *out              = r;
    return CT_OK;
out:
    dist_round_destroy(r);
    return st;
}

static bool take_back(struct dist_round *r, struct message *m, int n)
{
    bool all = true;

    for (int i = 0; m && i < n; i++)
        if (m[i].posted)
            all &= ct_comm_cancel(r->dist->view.all, &m[i].request);
    return all;
}

void dist_round_destroy(struct dist_round *r)
{
    if (!r)
        return;
    /* Memory that MPI may still write to is not freed. */
    if (take_back(r, r->report, r->n_servers))
        ct_free(r->report);
    if (take_back(r, r->decision, r->n_servers))
        ct_free(r->decision);
    if (take_back(r, r->beat, r->n_workers))
        ct_free(r->beat);
    ct_free(r->known);
    ct_free(r->weight);
    live_members_fini(&r->members);
    live_members_fini(&r->seen);
    ct_free(r);
}

static enum ct_status send_note(struct dist_round *r, struct message *m,
                                int to, int tag, const struct note *n)
{
    m->note   = *n;
    m->posted = true;
    return ct_comm_send(r->dist->view.all, to, tag, &m->note, sizeof(m->note),
                        &m->request);
}

/* *done: the note has arrived, or has been sent. */
static enum ct_status test_note(struct dist_round *r, struct message *m,
                                bool *done)
{
    *done = false;
    if (!m->posted)
        return CT_OK;
    CT_TRY(ct_comm_test(r->dist->view.all, &m->request, done));
    m->posted = !*done;
    return CT_OK;
}

static enum ct_status receive_note(struct dist_round *r, struct message *m,
                                   int from, int tag, bool *come)
{
    if (!m->posted)
        CT_TRY(ct_comm_receive(r->dist->view.all, from, tag, &m->note,
                               sizeof(m->note), &m->request));
    m->posted = true;
    return test_note(r, m, come);
}

/* ---- Heartbeats ---- */

static enum ct_status send_beat(struct dist_round *r)
{
    const struct note none = { 0 };
    bool gone;

    CT_TRY(test_note(r, &r->beat[0], &gone));
    if (r->beat[0].posted || ct_now() < r->next_beat)
        return CT_OK;
    r->next_beat = ct_now() + r->dist->options->heartbeat / BEATS;
    return send_note(r, &r->beat[0], first_rank(r), TAG_BEAT, &none);
}

static enum ct_status hear_beats(struct dist_round *r)
{
    const int *rank = r->dist->ps.worker_rank;
    double now      = ct_now();

    for (int w = 0; w < r->n_workers; w++) {
        bool come = rank[w] == r->dist->view.all->rank;

        if (!come)
            CT_TRY(receive_note(r, &r->beat[w], rank[w], TAG_BEAT, &come));
        if (come)
            live_members_heard(&r->members, w, now);
    }
    (void)live_members_silent(&r->members, now, r->dist->options->heartbeat);
    return CT_OK;
}

/* ---- Servers ---- */

static int count(const struct dist_round *r, const struct ct_ps_mask *m)
{
    int n = 0;

    for (int w = 0; w < r->n_workers; w++)
        n += ct_ps_mask_has(m, w);
    return n;
}

static bool is_over(const struct dist_round *r, double since, double now)
{
    const Caffe__DistributedParameter *o = r->dist->options;

    if (since == 0 || now - since < o->deadline)
        return false;
    return o->patience == 0 ||
           (r->n_usual >= FEW && now - r->begun >= o->patience * r->usual);
}

static void own_note(struct dist_round *r, struct note *out, bool *overdue)
{
    struct ct_ps_round round;
    double now = ct_now();
    int n;

    ct_ps_round(r->dist->ps.ps, &round);
    *out = (struct note){ round.clock, r->n_decided, round.got, round.late,
                          r->alive };
    n    = count(r, &round.got);
    if (n > r->n_in)
        r->last_in = now;
    r->n_in  = n;
    *overdue = is_over(r, round.since, now);
}

/* When an iteration closes: updates the usual duration. */
static void learn(struct dist_round *r)
{
    double took = r->last_in - r->begun;

    if (r->begun > 0 && took > 0) {
        r->usual = r->n_usual ? (1 - newest) * r->usual + newest * took : took;
        r->n_usual++;
    }
    r->begun = ct_now();
    r->n_in  = 0;
}

static bool all_in(const struct dist_round *r, const struct note *n)
{
    for (int w = 0; w < r->n_workers; w++)
        if (ct_ps_mask_has(&r->alive, w) && !ct_ps_mask_has(&n->got, w) &&
            !ct_ps_mask_has(&n->late, w))
            return false;
    return true;
}

static enum ct_status obey(struct dist_round *r, const struct note *n)
{
    r->n_decided++;
    r->alive = n->alive;
    if (!is_empty(&n->late))
        return ct_ps_rejoin(r->dist->ps.ps, &n->late);
    learn(r);
    return ct_ps_close(r->dist->ps.ps, &n->got);
}

/* Whether the iteration has taken so long that the first server may suspect a
 * worker, which this server cannot know. */
static bool is_long(const struct dist_round *r)
{
    struct ct_ps_round round;

    ct_ps_round(r->dist->ps.ps, &round);
    return round.since > 0 &&
           ct_now() - round.since >= r->dist->options->heartbeat;
}

static enum ct_status follow(struct dist_round *r)
{
    struct message *report = &r->report[0], *decision = &r->decision[0];
    struct note mine;
    bool overdue, done;

    CT_TRY(test_note(r, report, &done));
    own_note(r, &mine, &overdue);
    if (!report->posted && !note_equal(&mine, &r->told) &&
        (overdue || is_long(r) || all_in(r, &mine) ||
         !is_empty(&mine.late))) {
        r->told = mine;
        CT_TRY(send_note(r, report, first_rank(r), TAG_REPORT, &mine));
    }
    CT_TRY(receive_note(r, decision, first_rank(r), TAG_DECISION, &done));
    return done ? obey(r, &decision->note) : CT_OK;
}

/* ---- The first server ---- */

/* Makes the note that holds for all servers; *whole is false while a current
 * report is missing. */
static enum ct_status gather_notes(struct dist_round *r, struct note *n,
                                   bool *whole)
{
    const int *rank = r->dist->ps.server_rank;

    *whole = true;
    for (int s = 1; s < r->n_servers; s++) {
        bool done;

        CT_TRY(test_note(r, &r->decision[s], &done));
        CT_TRY(receive_note(r, &r->report[s], rank[s], TAG_REPORT, &done));
        if (done)
            r->known[s] = r->report[s].note;
        *whole &= r->known[s].n_decided == r->n_decided &&
                  !r->decision[s].posted;
        n->got  = mask_and(n->got, &r->known[s].got);
        n->late = mask_and(n->late, &r->known[s].late);
    }
    return CT_OK;
}

/* Whether the iteration may end with the workers that have pushed. */
static bool enough(struct dist_round *r, const struct note *n, bool overdue)
{
    int n_waited_for = 0;
    float in = 0, all = 0;

    for (int w = 0; w < r->n_workers; w++) {
        const bool got     = ct_ps_mask_has(&n->got, w);
        const bool suspect = live_members_is_suspect(&r->members, w);

        in += got ? r->weight[w] : 0;
        all += got || !suspect ? r->weight[w] : 0;
        n_waited_for += !got && !suspect;
    }
    if (!ct_ps_mask_has(&n->got, 0) || (n_waited_for > 0 && !overdue))
        return false;
    if (n_waited_for == 0 || in >= r->dist->options->quorum * all)
        return true;
    if (!r->warned)
        CT_WARN("iteration %" PRId64 ": the deadline is over and %.0f %% of "
                "the samples are in, less than the quorum; waiting", n->clock,
                100 * (double)(in / all));
    r->warned = true;
    return false;
}

/* Workers of the note took part.  If it closes the iteration, the others have
 * missed it. */
static void count_members(struct dist_round *r, const struct note *n)
{
    bool closes = is_empty(&n->late);
    double now  = ct_now();

    r->alive = (struct ct_ps_mask){ { 0 } };
    for (int w = 0; w < r->n_workers; w++) {
        if (ct_ps_mask_has(closes ? &n->got : &n->late, w))
            live_members_came(&r->members, w, now);
        else if (closes)
            live_members_missed(&r->members, w);
        if (!live_members_is_suspect(&r->members, w))
            ct_ps_mask_add(&r->alive, w);
    }
}

static enum ct_status refuse_late(const struct dist_round *r,
                                  const struct note *n)
{
    for (int w = 0; w < r->n_workers; w++)
        if (ct_ps_mask_has(&n->late, w) &&
            r->dist->plan->late == DIST_LATE_ERROR)
            return ct_fail(CT_ECOMM, "iteration %" PRId64 ": rank %d comes "
                           "after its deadline, and --late=error", n->clock,
                           r->dist->ps.worker_rank[w]);
    return CT_OK;
}

static enum ct_status lead(struct dist_round *r)
{
    struct note n;
    bool whole, overdue;

    CT_TRY(hear_beats(r));
    own_note(r, &n, &overdue);
    CT_TRY(gather_notes(r, &n, &whole));
    if (!whole || (is_empty(&n.late) && !enough(r, &n, overdue)))
        return CT_OK;
    CT_TRY(refuse_late(r, &n));
    r->warned = false;
    count_members(r, &n);
    n.alive = r->alive;
    for (int s = 1; s < r->n_servers; s++)
        CT_TRY(send_note(r, &r->decision[s], r->dist->ps.server_rank[s],
                         TAG_DECISION, &n));
    return obey(r, &n);
}

enum ct_status dist_round_progress(struct dist_round *r)
{
    if (r->first)
        return lead(r);
    if (ct_ps_worker(r->dist->ps.ps) >= 0)
        CT_TRY(send_beat(r));
    return ct_ps_serves(r->dist->ps.ps) ? follow(r) : CT_OK;
}

bool dist_round_suspects(const struct dist_round *r, int rank)
{
    for (int w = 0; w < r->n_workers; w++)
        if (r->dist->ps.worker_rank[w] == rank)
            return live_members_is_suspect(&r->members, w);
    return false;
}

/* ---- Workers ---- */

static void mark(struct dist_round *r, const struct ct_ps_head *h,
                 enum ct_mark_kind kind, int rank, const char *what)
{
    dist_marks_add(&r->dist->report.marks, kind, rank, (int)h->clock - 1,
                   "rank %d %s", rank, what);
}

/* Rank 0 logs which ranks are missing and which are back. */
static void tell(struct dist_round *r, const struct ct_ps_head *h)
{
    struct ct_text who = { 0 };
    int n_out = 0, n_news = 0; /* missing; missing and not suspect before */

    r->n_rounds++;
    for (int w = 0; w < r->n_workers; w++) {
        int rank = r->dist->ps.worker_rank[w];

        if (ct_ps_mask_has(&h->mask, w)) {
            if (live_members_came(&r->seen, w, 0)) {
                CT_WARN("Iteration %" PRId64 ": rank %d is back",
                        h->clock - 1, rank);
                mark(r, h, CT_MARK_BACK, rank, "is back");
            }
            continue;
        }
        ct_text_addf(&who, "%s%d", n_out++ ? ", " : "", rank);
        n_news += !live_members_is_suspect(&r->seen, w);
        if (live_members_missed(&r->seen, w)) {
            CT_WARN("Rank %d is suspect: it missed %d iterations in a row and "
                    "is not waited for until it comes back", rank,
                    (int)LIVE_MISSES);
            mark(r, h, CT_MARK_SUSPECT, rank, "is not waited for");
        }
    }
    r->n_short += n_out > 0;
    if (n_news && !who.failed)
        CT_WARN("Iteration %" PRId64 " went on without rank %s; mask "
                "%016" PRIx64, h->clock - 1, who.s, h->mask.bits[0]);
    ct_text_fini(&who);
}

enum ct_status dist_round_finish(struct dist_round *r,
                                 const struct ct_ps_head *latest, int *ahead,
                                 bool *again)
{
    struct ct_dist *d = r->dist;

    if (d->view.all->rank == 0)
        tell(r, latest);
    if (latest->clock == d->ps.clock + 1 &&
        ct_ps_mask_has(&latest->mask, ct_ps_worker(d->ps.ps)))
        return CT_OK;
    *ahead = (int)latest->clock;
    *again = d->plan->late == DIST_LATE_DISCARD;
    CT_WARN("rank %d is late with iteration %" PRId64 "; it continues at %d%s",
            d->view.all->rank, d->ps.clock, *ahead,
            *again ? " with the same samples" : "");
    return CT_OK;
}

/* The name has the number of workers, so that a snapshot of another number is
 * not used. */
static void lag_name(const struct dist_round *r, char *name, size_t bytes)
{
    snprintf(name, bytes, "batches_behind_of_%d", r->n_workers);
}

enum ct_status dist_round_save(const struct dist_round *r,
                               const struct ct_keep *keep)
{
    float lag[CT_PS_MOST_WORKERS];
    char name[64];
    bool any = false;

    for (int w = 0; w < r->n_workers; w++) {
        lag[w] = (float)(r->behind[w] +
                         live_members_n_missed(&r->seen, w));
        any |= lag[w] > 0;
    }
    if (!any || r->dist->view.all->rank != 0 ||
        r->dist->plan->late != DIST_LATE_DISCARD)
        return CT_OK;
    lag_name(r, name, sizeof(name));
    return keep->put(keep->arg, name, r->n_workers, lag);
}

enum ct_status dist_round_restore(struct dist_round *r,
                                  const struct ct_keep *keep)
{
    struct ct_net *net      = r->dist->net;
    const int me            = ct_ps_worker(r->dist->ps.ps);
    const uint64_t passes   = ct_net_n_passes(net);
    const uint64_t per_iter = (uint64_t)r->dist->trainer.iter_size;
    float lag[CT_PS_MOST_WORKERS];
    char name[64];
    bool found;

    lag_name(r, name, sizeof(name));
    CT_TRY(keep->get(keep->arg, name, r->n_workers, lag, &found));
    for (int w = 0; w < r->n_workers && found; w++) {
        if (!(lag[w] >= 0 && lag[w] <= (float)INT_MAX))
            return ct_fail(CT_EINVAL, "the snapshot is damaged: worker %d is "
                           "%g iterations behind", w, (double)lag[w]);
        r->behind[w] = (uint64_t)lag[w];
    }
    if (!found || me < 0 || r->behind[me] == 0)
        return CT_OK;
    if (r->behind[me] * per_iter > passes)
        return ct_fail(CT_EINVAL, "the snapshot is damaged: worker %d is %"
                       PRIu64 " iterations behind, and has made fewer", me,
                       r->behind[me]);
    return ct_net_seek(net, passes - r->behind[me] * per_iter);
}

void dist_round_report(const struct dist_round *r)
{
    if (r->dist->view.all->rank != 0 || r->n_rounds == 0)
        return;
    CT_INFO("%" PRIu64 " of %" PRIu64 " iterations went on without some rank",
            r->n_short, r->n_rounds);
    for (int w = 0; w < r->n_workers; w++) {
        const uint64_t n = live_members_n_missed(&r->seen, w);

        if (n > 0)
            CT_INFO("Rank %d was left out of %" PRIu64 " iterations",
                    r->dist->ps.worker_rank[w], n);
    }
}
