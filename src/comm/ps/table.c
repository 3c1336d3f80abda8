/* table.c - deals slices to servers. */
#include "comm/ps/table.h"

#include <stdlib.h>

#include "base/mem.h"

static void add_slice(struct ct_ps_table *t, size_t first, size_t end)
{
    t->slice[t->n++] = (struct ct_ps_slice){ first, end - first, 0 };
    if (end - first > t->longest)
        t->longest = end - first;
}

static int longest_first(const void *a, const void *b)
{
    const struct ct_ps_slice *x = *(struct ct_ps_slice *const *)a;
    const struct ct_ps_slice *y = *(struct ct_ps_slice *const *)b;

    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Deals the longest slices first, each to the server with the fewest floats. */
static enum ct_status share_out(struct ct_ps_table *t)
{
    struct ct_ps_slice **order = NULL;

    CT_TRY(ct_alloc((size_t)t->n + 1, sizeof(*order), "slices", &order));
    for (int i = 0; i < t->n; i++)
        order[i] = &t->slice[i];
    qsort(order, (size_t)t->n, sizeof(struct ct_ps_slice *), longest_first);
    for (int i = 0; i < t->n; i++) {
        int least = 0;

        for (int s = 1; s < t->n_servers; s++)
            least = t->load[s] < t->load[least] ? s : least;
        order[i]->server = least;
        t->load[least] += order[i]->n;
        t->n_of[least]++;
    }
    ct_free(order);
    return CT_OK;
}

enum ct_status ct_ps_table_init(struct ct_ps_table *t, const size_t *border,
                                int n_borders, int n_servers)
{
    enum ct_status st;

    *t = (struct ct_ps_table){ .n_servers = n_servers };
    CT_ASSERT(n_borders > 0 && n_servers > 0);
    CT_TRY_GOTO(ct_alloc((size_t)n_borders, sizeof(*t->slice), "slices",
                         &t->slice), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)n_servers, sizeof(*t->n_of), "slices",
                         &t->n_of), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)n_servers, sizeof(*t->load), "slices",
                         &t->load), st, out);
    for (int i = 0; i + 1 < n_borders; i++)
        add_slice(t, border[i], border[i + 1]);
    CT_TRY_GOTO(share_out(t), st, out);
out:
    if (st != CT_OK)
        ct_ps_table_fini(t);
    return st;
}

void ct_ps_table_fini(struct ct_ps_table *t)
{
    ct_free(t->slice);
    ct_free(t->n_of);
    ct_free(t->load);
    *t = (struct ct_ps_table){ 0 };
}
