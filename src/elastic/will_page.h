/* will_page.h - the promises of a member, in memory that outlives it.
 *
 * A member writes its promises here before it sends them, together with the
 * cards of the members that must know of its end.  The process that notices its
 * end reads them: its agent, which created the page, or another member of its
 * host, which maps the page through /proc.
 *
 * A member can be killed between any two stores.  Therefore there are two
 * places, and a number says which one is complete. */
#ifndef CT_ELASTIC_WILL_PAGE_H
#define CT_ELASTIC_WILL_PAGE_H

#include <stdatomic.h>

#include "elastic/agreement.h"
#include "elastic/card.h"
#include "elastic/post.h"
#include "elastic/wire.h"

/* Sizes in each place of the page: a will, and cards of members of its
 * views. */
enum {
    WILL_BYTES  = ELASTIC_WIRE_BYTES + 8,
    CARDS_BYTES = ELASTIC_MEMBERS * (CARD_WIRE_BYTES + 2)
};

struct will_place {
    uint32_t will_bytes, cards_bytes;
    uint8_t  job[POST_JOB_BYTES]; /* the job that the promises belong to */
    uint8_t  will[WILL_BYTES];
    uint8_t  cards[CARDS_BYTES]; /* each preceded by its length, u16 */
};

struct will_page {
    atomic_uint       n_written; /* the current one is place[n_written % 2] */
    _Atomic(uint64_t) id;        /* id of its member; 0: none yet */
    _Atomic(int32_t)  iter;      /* last iteration for which it was ready */
    atomic_int        over;      /* it has sent or received that the job is
                                  * over: enum post_end; 0: it has not */
    atomic_bool       waited;    /* it ended because there were not enough
                                  * others for too long */
    struct will_place place[2];
};

/* Creates a page and its file, which stays open across exec(). */
CT_MUST_CHECK enum ct_status will_page_create(int *fd, struct will_page **out);
/* Maps the page of a file of this process, or of process `pid`; NULL: not
 * possible. */
struct will_page *will_page_map(int fd);
struct will_page *will_page_map_of(uint32_t pid, uint32_t fd);
void will_page_unmap(struct will_page *p); /* takes NULL */

/* next: the place to fill in; publish: makes it the current one. */
struct will_place *will_page_next(struct will_page *p);
void will_page_publish(struct will_page *p);
/* The current place, of this process or of one that has ended. */
const struct will_place *will_page_last(const struct will_page *p);

#endif
