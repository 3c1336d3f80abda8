/* cost.c - what an exchange takes. */
#include "dist/cost.h"

double dist_bytes_dense(int size, const struct dist_matrix *g)
{
    return 2 * 4 * g->m * g->n * (size - 1) / size;
}

double dist_bytes_factors(int size, const struct dist_matrix *g)
{
    return 4 * g->k * (g->m + g->n) * (size - 1);
}

double dist_cost_dense(const struct dist_machine *w, int size,
                       const struct dist_matrix *g)
{
    return 2 * (size - 1) * w->alpha +
           w->beta * dist_bytes_dense(size, g) +
           w->gamma * 4 * g->m * g->n * (size - 1) / size +
           2 * g->m * g->n * g->k / w->flops;
}

double dist_cost_factors(const struct dist_machine *w, int size,
                         const struct dist_matrix *g)
{
    return (size - 1) * w->alpha + w->beta * dist_bytes_factors(size, g) +
           2 * g->m * g->n * g->k * size / w->flops;
}
