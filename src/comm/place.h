/* place.h - the place of a rank: among all ranks, on its host, across hosts.
 *
 *     host 0: ranks 0 1 2     local numbers 0 1 2
 *     host 1: ranks 3 4       local numbers 0 1     (not even: 3 and 2)
 *
 * A place is small and is made when it is needed, even for machines that do not
 * exist (the cost model computes bytes on 10,000 ranks). */
#ifndef CT_COMM_PLACE_H
#define CT_COMM_PLACE_H

#include <stdbool.h>

struct ct_place {
    int        rank, size;
    const int *host;    /* borrowed; NULL: one host */
    int        n_hosts;
    int        local, n_local; /* this rank's number on its host; ranks there */
    bool       even;    /* every host has n_local ranks */
    bool       no_window;     /* ranks of a host must not share memory */
    bool       window_failed; /* an attempt to share memory has failed */
};

/* Some of the ranks, in the same order on all of them. */
struct ct_group {
    const int *rank; /* borrowed; rank[me] is this process */
    int        me, size;
};

/* The parent and the children of this rank in a tree over all ranks or over
 * those of one host. */
enum { CT_MOST_CHILDREN = 62 };
struct ct_tree {
    int parent; /* -1: this is the root */
    int n_child;
    int child[CT_MOST_CHILDREN]; /* nearest first: own host, small subtrees */
};

/* Host numbers from 0 up, in the order of the hosts' first ranks. */
void ct_place_number_hosts(int size, const int *host, int *out);

/* `host`: from ct_place_number_hosts(), or NULL. */
struct ct_place ct_place(int rank, int size, const int *host);
/* Whether ranks of a host may share memory and no attempt has failed. */
static inline bool ct_place_has_window(const struct ct_place *p)
{
    return !p->no_window && !p->window_failed;
}

int ct_place_host(const struct ct_place *p, int rank);
/* The rank with number `local` on `host`. */
int ct_place_rank(const struct ct_place *p, int host, int local);

/* A binomial tree on each host, and one between the first ranks of hosts. */
void ct_tree_init(struct ct_tree *t, const struct ct_place *p, int root);
/* The lines in which ranks get what only the first n_have ranks have: on a host
 * with such a rank behind the first of them; on all other hosts, one host after
 * the other, behind rank 0.  So what they get enters each host once. */
void ct_tree_init_lines(struct ct_tree *t, const struct ct_place *p,
                        int n_have);
/* A binomial tree on this host; its first rank is the root. */
void ct_tree_init_local(struct ct_tree *t, const struct ct_place *p);

#endif
