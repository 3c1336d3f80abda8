/* neighbours.h - processes of this host, whose end can be seen. */
#ifndef CT_ELASTIC_NEIGHBOURS_H
#define CT_ELASTIC_NEIGHBOURS_H

#include "elastic/post.h"

struct neighbour;

/* Embedded; zero-initialised is none. */
struct neighbours {
    struct neighbour *first;
};

struct will_place;
typedef void (*neighbour_end_fn)(void *arg, uint64_t id,
                                 const struct will_place *w);

/* Looks after the process of a card from now on, through the post's
 * descriptors.  Nothing happens where it is on another host, or in processes of
 * its own that are not seen from here. */
void neighbours_add(struct neighbours *n, struct post *p,
                    const struct elastic_card *c);
/* An event of the post: if it is a neighbour's, that one has ended. */
void neighbours_look(struct neighbours *n, void *about, neighbour_end_fn end,
                     void *arg);
void neighbours_fini(struct neighbours *n);

#endif
