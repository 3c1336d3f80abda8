/* elastic.c - an exchange whose ranks come and go.
 *
 * Sums become an update only when every rank of the view has all of them; see
 * elastic/agreement.h for what follows from that.  So a view may end at any
 * moment, and those who go on either all have the iteration or all do it
 * again. */
#include "dist/engine.h"

enum ct_status dist_mark(struct ct_exchange *x)
{
    return dist_held_back_take(x->state);
}

enum ct_status dist_hold(struct ct_exchange *x, int iter)
{
    struct ct_dist *d = x->state;

    if (d->elastic.held_back.pending)
        CT_TRY(dist_held_back_put(d));
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
    return d->host.shared ? dist_direct_meet(d) : x->job->meet(x);
}

void dist_last(struct ct_exchange *x, int iter)
{
    const struct elastic_membership *m = dist_of(x)->elastic.members;

    if (m && m->last)
        m->last(m->arg, iter);
}

enum ct_status dist_next_view(struct ct_exchange *x, struct ct_next_view *out)
{
    struct ct_dist *d           = x->state;
    struct elastic_place *place = &d->elastic.place;

    CT_TRY(d->elastic.members->next(d->elastic.members->arg, place));
    if (d->view.thread) /* what it still has fails by itself */
        ct_comm_thread_rest(d->view.thread);
    /* The iteration under way counts: so does what it left to hold back. */
    if (d->net && !d->elastic.held_back.pending &&
        place->rank < place->n_full && place->base == d->trainer.iter + 1)
        CT_TRY(dist_held_back_take(d));
    *out = (struct ct_next_view){
        .base = d->elastic.place.base,
        .full = d->elastic.place.rank < d->elastic.place.n_full,
        .lost = d->elastic.place.n_full == 0 };
    return CT_OK;
}

enum ct_status dist_enter_view(struct ct_exchange *x)
{
    struct ct_dist *d = x->state;
    struct ct_transport *t;

    CT_ASSERT(!d->net && !d->host.params_of); /* the solver has left */
    dist_view_close(d);
    CT_TRY(d->elastic.members->open(d->elastic.members->arg, &t));
    CT_TRY(dist_view_open(d, t));
    dist_marks_add(&d->report.marks, CT_MARK_VIEW, -1, d->elastic.place.base,
                   "%s", d->elastic.place.why);
    return CT_OK;
}

enum ct_status dist_create_elastic(const struct elastic_membership *members,
                                   const Caffe__DistributedParameter *options,
                                   struct ct_dist **out)
{
    struct elastic_place place;
    struct ct_transport *t;

    CT_TRY(members->next(members->arg, &place));
    CT_TRY(members->open(members->arg, &t));
    return dist_create_at(t, &place, members, options, out);
}
