/* chain.h - layers that images go through a few at a time.
 *
 * Where layer after layer takes the whole batch, what one writes has left the
 * caches when the next reads it, and all threads wait for each other after
 * each.  In a chain
 *
 *     first .. last      consecutive layers that take each image by itself
 *
 * a lane is a part of the batch, which one thread brings through all layers, a
 * group of images after the other, without waiting for anybody.
 *
 *     batch   | group 0 | group 1 | group 2 | group 3 | group 4 | 5 |
 *             '----- lane 0 ------'----- lane 1 ------' lane 2  '-3-'
 *
 * There are more lanes than threads, and they get smaller.  Whoever is free
 * takes the next one: a thread whose core is slow at the moment takes fewer,
 * and at the end nobody waits for longer than the smallest takes.  Who takes
 * which does not show in the results: lanes add up by themselves.
 *
 * A group has twins of the layers (layers/twin.h), which see the blobs' parts
 * that belong to its images; so the blobs are as ever for everybody else.
 * What only the chain itself reads, in one pass, lies in the thread's own
 * memory, a group large, and is not in memory as a whole: gradients, mostly.
 * Lane 0 adds to the gradients of parameters, the others to sums of their own,
 * which are added at the end.
 *
 * A chain runs at the turn of its last layer, forward and backward, like a
 * group of fused layers (fuse.c), and all hooks are called as ever.
 *
 * A chain that has all layers with a gradient, the losses included, turns: in
 * a pass of which both halves are asked for at once (ct_net_forward_paired) a
 * group goes forward and right away backward, and threads wait for each other
 * once.  What is between its layers is then in no memory but the threads'.
 *
 *     lane   forward 3, backward 3, forward 2, backward 2, forward 1, ...
 *
 * Asked for a backward pass by itself, such a chain makes its forward pass
 * again on the way. */
#ifndef CT_NET_CHAIN_H
#define CT_NET_CHAIN_H

#include "net/net_inner.h"

enum { CHAIN_ERROR = 512 };

/* A layer of the chain, with those that it has absorbed. */
struct chain_unit {
    int head, last;   /* layers of the net */
    int *bottom, *top; /* into the chain's blobs; owned */
    int n_bottom, n_top;
    const struct ct_parts *parts; /* NULL: it needs none */
};

/* A bottom of which a unit reads a copy in another layout. */
struct chain_shadow {
    int unit, bottom;
};

/* What a thread has to run lanes with. */
struct chain_hand {
    struct ct_workspace work;
    struct ct_buffer   *values; /* what the batch has no place for */
};

/* A part of the batch.  While the chain runs, touched by the thread alone that
 * has taken it. */
struct chain_lane {
    struct ct_run       run;  /* the net's, with `work` in place of its own */
    struct ct_workspace work; /* its memory is that of the hand that has it */
    struct ct_buffer   *sums; /* of parameters' gradients; NULL: lane 0 */
    int                 first, end; /* groups */
    int                 bad;   /* unit that net_chain_look() found; -1 */
    enum ct_status      status;     /* of the last pass, with its text */
    char                error[CHAIN_ERROR];
};

/* Some images, and the twins that take them, one a unit. */
struct chain_group {
    int64_t           first, n;
    struct ct_blob  **view; /* per blob of the chain; owned */
    struct ct_blob  **shadow; /* per shadow of the chain; owned */
    struct ct_layer **twin; /* owned */
    struct ct_blob ***bottom, ***top; /* per unit; borrowed from view */
};

struct net_chain {
    int      first, last;
    bool     turns;         /* forward and backward are one */
    int64_t  batch, size;   /* images: all, and of a group at most */
    int64_t  least;         /* of a lane, where there is a choice */
    int      n_hand, n_lane, n_group, n_unit, n_blob, n_shadow;
    struct chain_unit  *unit;
    struct chain_shadow *shadow;
    int                *blob;  /* ids */
    uint32_t           *seen;  /* their versions when the lanes were made */
    size_t             *place; /* data and diff of each, in a lane's values */
    size_t              value_bytes, sum_bytes; /* of a hand; of a lane */
    struct chain_hand  *hand;
    struct chain_lane  *lane;
    struct chain_group *group;
};

#define CHAIN_NOWHERE SIZE_MAX

/* chain_cut.c: lanes, their groups, and a hand for each thread. */
CT_MUST_CHECK enum ct_status net_chain_cut(struct ct_net *net,
                                           struct net_chain *c);
/* To create and tune a lane's layers it needs memory to work with: hand 0's,
 * which may grow.  Then every hand has as much. */
void net_chain_lend(const struct chain_hand *hand, struct chain_lane *lane);
void net_chain_return(struct chain_hand *hand, struct chain_lane *lane);
CT_MUST_CHECK enum ct_status net_chain_level(struct net_chain *c);

/* chain_make.c: what runs a chain; made for the shapes that its blobs have. */
CT_MUST_CHECK enum ct_status net_lanes_make(struct ct_net *net,
                                            struct net_chain *c);
void net_lanes_drop(struct net_chain *c);

/* What unit u of a group is given. */
struct ct_io net_chain_io(const struct ct_net *net, const struct net_chain *c,
                          const struct chain_group *g, int u);
/* Floats of a parameter's gradient among a lane's sums. */
size_t net_chain_floats(const struct ct_blob *b);

/* memory.c: at[2 * id + diff] is where a hand keeps the tensors that live only
 * while the chain runs, and *total what they take. */
CT_MUST_CHECK enum ct_status net_lane_places(struct ct_net *net,
                                             const struct net_chain *c,
                                             size_t *at, size_t *total);

#endif
