/* will_page.h - what a member is bound by, in memory that outlives it.
 *
 * A member writes down what it promises before it says so, together with the
 * cards of those whom its death concerns.  Whoever sees it end reads that: its
 * agent, which made the page and handed it down, or another member of its host,
 * which maps it by its process.
 *
 * A member can be killed between any two stores, so there are two places, and
 * a number that says which is whole. */
#ifndef CT_ELASTIC_WILL_PAGE_H
#define CT_ELASTIC_WILL_PAGE_H

#include <stdatomic.h>

#include "elastic/agreement.h"
#include "elastic/card.h"
#include "elastic/post.h"
#include "elastic/wire.h"

/* Of both places of the page: a will, and cards of members of its views. */
enum {
    WILL_BYTES  = ELASTIC_WIRE_BYTES + 8,
    CARDS_BYTES = ELASTIC_MEMBERS * (CARD_WIRE_BYTES + 2)
};

struct will_place {
    uint32_t will_bytes, cards_bytes;
    uint8_t  job[POST_JOB_BYTES]; /* that it is bound in */
    uint8_t  will[WILL_BYTES];
    uint8_t  cards[CARDS_BYTES]; /* each after its length, u16 */
};

struct will_page {
    atomic_uint       n_written; /* the last is place[n_written % 2] */
    _Atomic(uint64_t) id;        /* whose it is; 0: nobody's yet */
    _Atomic(int32_t)  iter;      /* iterations that it was ready for */
    atomic_bool       over;      /* it said, or heard, that the job is */
    struct will_place place[2];
};

/* A page, and the file that others map it by; it is not closed on exec(). */
CT_MUST_CHECK enum ct_status will_page_create(int *fd, struct will_page **out);
/* The same page, of this process's file or of process `pid`'s; NULL: it cannot
 * be had. */
struct will_page *will_page_map(int fd);
struct will_page *will_page_map_of(uint32_t pid, uint32_t fd);
void will_page_unmap(struct will_page *p); /* takes NULL */

/* The next writing: fill it in, then it counts. */
struct will_place *will_page_next(struct will_page *p);
void will_page_publish(struct will_page *p);
/* The last one; of a process that has ended, or of this one. */
const struct will_place *will_page_last(const struct will_page *p);

#endif
