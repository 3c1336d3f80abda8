/* newcomers.c - who stays of those that came together, where not all can
 * train. */
#include "elastic/newcomers.h"

/* Came it with that view, behind those of them that stay? */
static bool came(const struct elastic_view *v, uint64_t id, bool *behind,
                 int least)
{
    const int stay = least > v->n_full ? least : v->n_full + 1;
    int rank       = v->n - 1;

    while (rank >= v->n_full && v->id[rank] != id)
        rank--;
    *behind = rank >= stay;
    return v->n_full > 0 && rank >= v->n_full && v->n > stay;
}

bool newcomers_step_back(struct elastic_agreement *a,
                         const struct elastic_view *v)
{
    bool behind;

    if (a->ready != ELASTIC_NOTHING || /* it trains, maybe in a later view */
        !came(v, a->me, &behind, a->least))
        return false;
    if (behind && a->own.view.number == v->number)
        elastic_leave(a); /* a later view is another try */
    return true;
}
