/* place.c - hosts, local numbers and trees.
 *
 *     binomial tree over v = 0..n-1: the parent of v is v without its lowest
 *     set bit; its children are v + 1, v + 2, v + 4, ... below that bit. */
#include "comm/place.h"

#include <stddef.h>

void ct_place_number_hosts(int size, const int *host, int *out)
{
    int n = 0;

    for (int r = 0; r < size; r++) {
        int q = 0;

        while (host[q] != host[r])
            q++;
        out[r] = q < r ? out[q] : n++;
    }
}

int ct_place_host(const struct ct_place *p, int rank)
{
    return p->host ? p->host[rank] : 0;
}

static int place_count(const int *host, int from, int to, int which)
{
    int n = 0;

    for (int r = from; r < to; r++)
        n += host[r] == which;
    return n;
}

struct ct_place ct_place(int rank, int size, const int *host)
{
    struct ct_place p = { .rank = rank, .size = size, .host = host,
                          .n_hosts = 1, .local = rank, .n_local = size,
                          .even = true };

    if (!host)
        return p;
    for (int r = 0; r < size; r++)
        if (host[r] >= p.n_hosts)
            p.n_hosts = host[r] + 1;
    p.local   = place_count(host, 0, rank, host[rank]);
    p.n_local = p.local + place_count(host, rank, size, host[rank]);
    for (int h = 0; h < p.n_hosts && p.even; h++)
        p.even = place_count(host, 0, size, h) == p.n_local;
    return p;
}

int ct_place_rank(const struct ct_place *p, int host, int local)
{
    int r = 0;

    if (!p->host)
        return local;
    for (;; r++)
        if (p->host[r] == host && local-- == 0)
            return r;
}

static void tree_add(struct ct_tree *t, int child)
{
    t->child[t->n_child++] = child;
}

/* The lowest set bit of v; for v = 0 the first power of two not below n. */
static int low_bit(int v, int n)
{
    int bit = 1;

    while (bit < n && !(v & bit))
        bit <<= 1;
    return bit;
}

/* Sets the tree of this host.  Ranks are counted from `leader`, its root;
 * returns the count of this rank. */
static int tree_inside(struct ct_tree *t, const struct ct_place *p, int leader)
{
    const int n = p->n_local, host = ct_place_host(p, p->rank);
    const int v = (p->local - leader + n) % n, bit = low_bit(v, n);

    t->parent  = v ? ct_place_rank(p, host, (v - bit + leader) % n) : -1;
    t->n_child = 0;
    for (int b = 1; b < bit && v + b < n; b <<= 1)
        tree_add(t, ct_place_rank(p, host, (v + b + leader) % n));
    return v;
}

void ct_tree_init_local(struct ct_tree *t, const struct ct_place *p)
{
    (void)tree_inside(t, p, 0);
}

void ct_tree_init(struct ct_tree *t, const struct ct_place *p, int root)
{
    const int root_host = ct_place_host(p, root), n = p->n_hosts;
    const int host = ct_place_host(p, p->rank);
    const int u = (host - root_host + n) % n, bit = low_bit(u, n);
    int leader = 0;

    if (host == root_host)
        leader = p->host ? place_count(p->host, 0, root, host) : root;
    if (tree_inside(t, p, leader) != 0)
        return;
    if (u) {
        int up = (u - bit + root_host) % n;

        t->parent = up == root_host ? root : ct_place_rank(p, up, 0);
    }
    for (int b = 1; b < bit && u + b < n; b <<= 1)
        tree_add(t, ct_place_rank(p, (u + b + root_host) % n, 0));
}

/* The first of n ranks that is on this host; -1: none. */
static int first_on(const struct ct_place *p, int host, int n)
{
    int r = 0;

    while (r < n && ct_place_host(p, r) != host)
        r++;
    return r < n ? r : -1;
}

/* The ranks of a host that have nothing yet, behind rank `at`; returns the last
 * of them. */
static int line_up(struct ct_tree *t, const struct ct_place *p, int n_have,
                   int host, int at)
{
    for (int r = n_have; r < p->size; r++) {
        if (ct_place_host(p, r) != host)
            continue;
        if (r == p->rank)
            t->parent = at;
        if (at == p->rank)
            tree_add(t, r);
        at = r;
    }
    return at;
}

void ct_tree_init_lines(struct ct_tree *t, const struct ct_place *p,
                        int n_have)
{
    int last = 0;

    t->parent  = -1;
    t->n_child = 0;
    for (int h = 0; h < p->n_hosts; h++) {
        const int at = first_on(p, h, n_have);

        if (at >= 0)
            (void)line_up(t, p, n_have, h, at);
        else
            last = line_up(t, p, n_have, h, last);
    }
}
