/* coll.c - the table of sums and the choice among them. */
#include "comm/coll/coll.h"

#include <string.h>

#define CT_ALLREDUCE(file) extern const struct ct_allreduce_type ct_coll_##file;
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE

static const struct ct_allreduce_type *const types[CT_N_ALLREDUCE] = {
#define CT_ALLREDUCE(file) &ct_coll_##file,
#include "comm/coll/coll.def"
#undef CT_ALLREDUCE
};

/* Unless measured: inside a host through its memory.  Between hosts, below
 * this many bytes latency rules and the tree is best; above the second the
 * ring uses the wire best, while each of its 2(P-1) messages is worth its
 * latency. */
static const size_t tree_below = 64 << 10, ring_above = 1 << 20;
static const size_t ring_part  = 8 << 10;

const struct ct_allreduce_type *ct_allreduce_at(int i)
{
    return i >= 0 && i < CT_N_ALLREDUCE ? types[i] : NULL;
}

const struct ct_allreduce_type *ct_allreduce_find(const char *name)
{
    for (int i = 0; i < CT_N_ALLREDUCE; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

bool ct_allreduce_available(const struct ct_comm *c,
                            const struct ct_allreduce_type *type)
{
    return !type->available || type->available(c);
}

const struct ct_allreduce_type *ct_allreduce_choose(const struct ct_comm *c,
                                                    int64_t n)
{
    size_t bytes = (size_t)n * sizeof(float);

    for (int i = 0; i < c->n_choices; i++)
        if ((double)bytes <= c->choice[i].up_to_bytes)
            return c->choice[i].type;
    if (ct_allreduce_available(c, &ct_coll_shared))
        return &ct_coll_shared;
    if (bytes < tree_below)
        return &ct_coll_tree;
    if (c->place.n_hosts > 1 && c->place.n_hosts < c->size)
        return &ct_coll_hierarchical;
    return bytes < ring_above || bytes / (size_t)c->size < ring_part
               ? &ct_coll_halving
               : &ct_coll_ring;
}

enum ct_status ct_allreduce(struct ct_comm *c, float *x, int64_t n)
{
    const struct ct_allreduce_type *type = ct_allreduce_choose(c, n);
    enum ct_status st                    = type->run(c, x, n);

    /* All ranks have heard that they cannot share memory; x is untouched. */
    if (st == CT_ENOTSUP && type == &ct_coll_shared && c->place.no_window)
        return ct_allreduce_choose(c, n)->run(c, x, n);
    return st;
}
