/* elastic.c - the exchange of an elastic job.
 *
 * An update follows only when every rank of the view has all sums; see
 * elastic/agreement.h.  So a view may end at any time, and the ranks of the
 * next view either all have the iteration or all repeat it. */
#include "dist/engine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/ps/ps_message.h"

/* Most marks for ranks that join or leave at once; one mark counts the
 * others. */
enum { MOST_TOLD = 8 };

enum ct_status dist_mark(struct ct_exchange *x)
{
    return dist_held_back_take(x->state);
}

enum ct_status dist_hold(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = x->state;

    if (d->elastic.held_back.pending)
        CT_TRY(dist_held_back_put(d));
    d->elastic.holds = true;
    return d->elastic.members->ready(d->elastic.members->arg, iter)
               ? CT_OK
               : ct_fail(CT_ECOMM, "view %u ended before iteration %d",
                         d->elastic.place.view, iter);
}

enum ct_status dist_commit(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = x->state;
    const float *sum;

    for (int i = 0; i < ct_net_n_params(d->net); i++)
        CT_TRY(x->ops->wait(x, i, &sum));
    CT_TRY(dist_hold(x, iter + 1));
    return x->job->meet(x);
}

enum ct_status dist_check_view(struct ct_exchange *x)
{
    const struct ct_comm *all = dist_of(x)->view.all;

    return all ? ct_transport_check(all->transport)
               : ct_fail(CT_ECOMM, "the view is over");
}

/* Processes that came may be too many, e.g. for a layer that takes no smaller
 * part of a batch.  All ranks find that alike; the last of them ends. */
static bool goes_on(const struct elastic_membership *m,
                    const struct ct_dist *d, enum ct_status st)
{
    return (st == CT_EINVAL || st == CT_ESHAPE || st == CT_ENOTSUP) &&
           !(d && d->elastic.unfit) && m->others_came &&
           m->others_came(m->arg);
}

bool dist_goes_on(struct ct_exchange *x, enum ct_status st)
{
    return goes_on(dist_of(x)->elastic.members, dist_of(x), st);
}

/* Who had the parameters would come back without them. */
bool dist_asks_again(const struct elastic_membership *m,
                     const struct ct_dist *d, enum ct_status st)
{
    return st == CT_ECOMM || (!(d && d->elastic.holds) && goes_on(m, d, st));
}

void dist_last(struct ct_exchange *x, int iter)
{
    const struct elastic_membership *m = dist_of(x)->elastic.members;

    if (m && m->last)
        m->last(m->arg, iter);
}

/* ---- Places. */

enum ct_status dist_check_elastic(const Caffe__DistributedParameter *o)
{
    const struct dist_facts one = { .size = 1, .n_hosts = 1, .elastic = true };
    struct dist_plan p;

    return dist_resolve(o, &one, &p);
}

static int less(int64_t a, int b)
{
    return b == 0 || a < b ? (int)a : b;
}

/* With `batch: global` each rank that trains takes a sample at least. */
int dist_most_ranks(const Caffe__DistributedParameter *o, int64_t batch)
{
    int most = 0;

    if (!o)
        return 0;
    if (o->canonical && o->parts > 0)
        most = o->parts;
    if (strcmp(o->batch, "global") == 0 && batch > 0 && batch < INT_MAX / 2)
        most = less(batch + o->servers, most);
    if (o->deadline > 0 || o->patience > 0)
        most = less(CT_PS_MOST_WORKERS + o->servers, most);
    return most;
}

/* What becomes of ranks that may share parameters is not known before, but they
 * do as a rule.  Roads that are learned may be those of factors later. */
static bool (*keeps_factors(const struct dist_plan *p))(
    const struct ct_net *net, int n_ranks)
{
    if (!p->factors)
        return NULL;
    if (p->road == DIST_ROAD_FACTORS)
        return dist_may_have_factors;
    if (p->road == DIST_ROAD_AUTO && p->shares_params)
        return dist_shares_factors;
    return p->learns ? dist_may_have_factors : NULL;
}

/* The facts of a likely place, if the number of hosts stays the same. */
static bool expect(const struct elastic_membership *m,
                   const Caffe__DistributedParameter *o, int n_hosts,
                   const struct elastic_place *place, struct ct_expected *out)
{
    const struct dist_facts facts = { .size = place->size, .n_hosts = n_hosts,
                                      .elastic = true };
    struct dist_plan p;

    if (dist_resolve(o, &facts, &p) != CT_OK || !p.commits)
        return false;
    *out = (struct ct_expected){
        .facts    = dist_facts_of(o, &p, place->rank, p.n_workers),
        .shares   = p.shares_params,
        .keeps_factors = keeps_factors(&p),
        .hint     = place->hint,
        .prepared = m->prepared,
        .arg      = m->arg };
    return true;
}

/* On the thread that prepares, of the rank that will be rank 0: what others
 * would wait for. */
static void get_ready(void *owner, int n_ranks, size_t n_floats, int n_arrays)
{
    if (n_ranks > 0)
        dist_auto_ahead(owner);
    dist_direct_reserve(owner, n_ranks, n_floats, n_arrays);
}

/* The first rank of a host reserves the shared memory. */
bool dist_expects(struct ct_exchange *x, struct ct_expected *out)
{
    const struct ct_dist *d            = dist_of(x);
    const struct elastic_membership *m = d->elastic.members;
    struct elastic_place place;

    if (!m->expects || !m->expects(m->arg, &place))
        return false;
    if (place.size == 0) {
        *out = (struct ct_expected){ .hint = place.hint };
        return true;
    }
    if (expect(m, d->options, d->facts->n_hosts, &place, out)) {
        if (out->shares && place.rank == 0)
            out->reserve = get_ready;
        out->owner = x->state;
        return true;
    }
    m->prepared(m->arg, place.hint);
    return false;
}

/* A process that waits prepares for its likely places. */
static enum ct_status await_place(const struct elastic_membership *m,
                                  const Caffe__DistributedParameter *options,
                                  const struct dist_preparer *p,
                                  struct elastic_place *out)
{
    struct ct_expected e;

    CT_TRY(m->next(m->arg, out));
    while (out->view == 0) {
        if (p && p->prepare && out->size > 0 &&
            expect(m, options, 1, out, &e))
            p->prepare(p->arg, &e);
        m->prepared(m->arg, out->hint);
        CT_TRY(m->next(m->arg, out));
    }
    return CT_OK;
}

enum ct_status dist_next_view(struct ct_exchange *x, struct ct_next_view *out)
{
    struct ct_dist *d           = x->state;
    struct elastic_place *place = &d->elastic.place;

    CT_TRY(await_place(d->elastic.members, d->options, NULL, place));
    if (d->view.thread) /* its remaining jobs fail */
        ct_comm_thread_rest(d->view.thread);
    /* The current iteration counts, and so does what its codecs hold back. */
    if (d->net && !d->elastic.held_back.pending &&
        place->rank < place->n_full && place->base == d->trainer.iter + 1)
        CT_TRY(dist_held_back_take(d));
    *out = (struct ct_next_view){
        .base = d->elastic.place.base,
        .full = d->elastic.place.rank < d->elastic.place.n_full,
        .lost = d->elastic.place.n_full == 0 };
    return CT_OK;
}

/* ---- Who came and went. */

void dist_crews_fini(struct ct_dist *d)
{
    ct_free(d->elastic.crew.process);
    ct_free(d->elastic.crew_before.process);
}

void dist_crew_lost(struct ct_dist *d, int rank)
{
    if (rank < d->elastic.crew.n)
        d->elastic.crew.process[rank].told = true;
}

enum ct_status dist_crew_note(struct ct_dist *d)
{
    const struct elastic_membership *m = d->elastic.members;
    struct dist_crew *crew             = &d->elastic.crew;
    const int n                        = d->view.all->size;

    if (!m || !m->id)
        return CT_OK;
    if (d->elastic.crew_before.process) /* no rank trained in the last view */
        ct_free(crew->process);
    else
        d->elastic.crew_before = *crew;
    *crew = (struct dist_crew){ 0 };
    CT_TRY(ct_alloc((size_t)n, sizeof(*crew->process), "crew",
                    &crew->process));
    crew->n = n;
    for (int r = 0; r < n; r++) {
        struct dist_process *p = &crew->process[r];

        p->id = m->id(m->arg, r);
        if (m->who && !m->who(m->arg, r, p->host, sizeof(p->host), &p->pid))
            p->host[0] = '\0';
    }
    return CT_OK;
}

static bool has(const struct dist_crew *crew, uint64_t id)
{
    for (int r = 0; r < crew->n; r++)
        if (crew->process[r].id == id)
            return true;
    return false;
}

/* Adds marks for the processes of `crew` that are not in `other`. */
static void mark_missing(struct ct_dist *d, const struct dist_crew *crew,
                         const struct dist_crew *other,
                         enum ct_mark_kind kind)
{
    const char *what = kind == CT_MARK_LOST ? "has gone" : "came";
    const int iter   = d->elastic.place.base < 0 ? 0 : d->elastic.place.base;
    char who[96];
    int n = 0;

    for (int r = 0; r < crew->n; r++) {
        const struct dist_process *p = &crew->process[r];

        if (!p->id || p->told || has(other, p->id))
            continue;
        if (p->host[0])
            snprintf(who, sizeof(who), " (process %d on %s)", p->pid, p->host);
        else
            who[0] = '\0';
        if (n++ < MOST_TOLD)
            dist_marks_add(&d->report.marks, kind, r, iter, "rank %d%s %s", r,
                           who, what);
    }
    if (n > MOST_TOLD)
        dist_marks_add(&d->report.marks, kind, -1, iter, "%d more %s",
                       n - MOST_TOLD, kind == CT_MARK_LOST ? "have gone"
                                                           : "came");
}

/* Processes of the first view have not joined a running job. */
static void mark_changes(struct ct_dist *d)
{
    struct dist_crew *before = &d->elastic.crew_before;

    if (before->process) {
        mark_missing(d, before, &d->elastic.crew, CT_MARK_LOST);
        if (d->elastic.place.base != 0)
            mark_missing(d, &d->elastic.crew, before, CT_MARK_JOINED);
    }
    ct_free(before->process);
    *before = (struct dist_crew){ 0 };
}

enum ct_status dist_enter_view(struct ct_exchange *x)
{
    struct ct_dist *d                  = x->state;
    const struct elastic_membership *m = d->elastic.members;

    CT_TRY(dist_change_view(d, m->open, m->arg));
    mark_changes(d);
    dist_marks_add(&d->report.marks, CT_MARK_VIEW, -1, d->elastic.place.base,
                   "%s", d->elastic.place.why);
    return CT_OK;
}

enum ct_status dist_create_elastic(const struct elastic_membership *members,
                                   const Caffe__DistributedParameter *options,
                                   const struct dist_preparer *preparer,
                                   struct ct_dist **out)
{
    struct elastic_place place;
    struct ct_transport *t;

    CT_TRY(await_place(members, options, preparer, &place));
    CT_TRY(members->open(members->arg, &t));
    return dist_create_at(t, &place, members, options, out);
}
