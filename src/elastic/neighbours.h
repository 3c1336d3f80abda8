/* neighbours.h - processes of this host, whose end the kernel reports. */
#ifndef CT_ELASTIC_NEIGHBOURS_H
#define CT_ELASTIC_NEIGHBOURS_H

#include "elastic/post.h"

struct neighbour;

/* Embedded; zero-initialised: empty. */
struct neighbours {
    struct neighbour *first;
};

struct will_place;
typedef void (*neighbour_end_fn)(void *arg, uint64_t id,
                                 const struct will_place *w);

/* Watches the process of a card through the post's descriptors.  Does nothing
 * if it is on another host or in another pid namespace. */
void neighbours_add(struct neighbours *n, struct post *p,
                    const struct elastic_card *c);
/* Handles an event of the post.  If it belongs to a neighbour, that process has
 * ended. */
void neighbours_look(struct neighbours *n, void *about, neighbour_end_fn end,
                     void *arg);
void neighbours_fini(struct neighbours *n);

#endif
