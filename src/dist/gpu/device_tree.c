/* device_tree.c - sums along a tree in the memory of a host's GPUs. */
#include "dist/gpu/device_tree.h"

#include "base/mem.h"
#include "dist/engine.h"
#include "dist/gpu/peer_arrays.h"

struct dist_device_tree {
    struct dist_peer_arrays *all;
    const float            *diff; /* the net's, on the device; borrowed */
    struct ct_tree          tree;
};

enum ct_status dist_device_tree_create(struct ct_dist *d,
                                       const struct ct_net *net,
                                       struct dist_device_tree **out)
{
    struct dist_device_tree *t;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*t), "tree of GPUs", &t));
    ct_tree_init(&t->tree, &d->view.comm->place, 0);
    t->diff = ct_net_arena_diff(net);
    st      = dist_peer_arrays_create(d, "tree",
                                     (int64_t)ct_net_arena_count(net),
                                     &t->all);
    if (st == CT_OK && t->all)
        *out = t;
    else
        dist_device_tree_destroy(t);
    return st;
}

void dist_device_tree_destroy(struct dist_device_tree *t)
{
    if (!t)
        return;
    dist_peer_arrays_destroy(t->all);
    ct_free(t);
}

enum ct_status dist_device_tree_sum(struct dist_device_tree *t,
                                    struct ct_comm *c, float *x, int64_t n)
{
    const ptrdiff_t at = x - t->diff;
    struct ct_peer_memory *w  = t->all->memory;
    float *mine        = ct_peer_array(w) + at;
    int up, down, read;

    ct_comm_begin(c, "sum tree on GPUs", (uint64_t)n * sizeof(*x));
    up   = ct_comm_tag(c, 0);
    down = ct_comm_tag(c, 1);
    read = ct_comm_tag(c, 2);
    for (int i = 0; i < t->tree.n_child; i++)
        CT_TRY(dist_peer_hear(c, t->tree.child[i], up));
    CT_TRY(ct_peer_copy(w, n, x, mine));
    for (int i = 0; i < t->tree.n_child; i++)
        CT_TRY(ct_peer_add(w, n, t->all->of[t->tree.child[i]].x + at, mine));
    if (t->tree.parent >= 0) {
        CT_TRY(dist_peer_tell(c, t->tree.parent, up));
        CT_TRY(dist_peer_hear(c, t->tree.parent, down));
        CT_TRY(ct_peer_copy(w, n, t->all->of[t->tree.parent].x + at, mine));
        CT_TRY(dist_peer_tell(c, t->tree.parent, read));
    }
    for (int i = t->tree.n_child - 1; i >= 0; i--) /* farthest first */
        CT_TRY(dist_peer_tell(c, t->tree.child[i], down));
    CT_TRY(ct_peer_copy(w, n, mine, x));
    for (int i = 0; i < t->tree.n_child; i++)
        CT_TRY(dist_peer_hear(c, t->tree.child[i], read));
    return CT_OK;
}
