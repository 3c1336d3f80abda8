/* page.h - a rank's pulse, and its last collectives, in memory that other
 * processes of its host map.
 *
 * They can read it whatever the rank does, also after it has died. */
#ifndef CT_DIST_PAGE_H
#define CT_DIST_PAGE_H

#include "base/pulse.h"
#include "comm/logbook.h"
#include "cortado/status.h"

struct dist_page {
    uint64_t        nonce; /* proves that it is the right one */
    struct ct_pulse pulse;
    atomic_bool     witnessed; /* a process beside the rank tells of its end */
    atomic_bool     ending;    /* from outside, and it tells of that itself */
    /* For an autopsy (autopsy.h).  What stands before `keeps` is set once,
     * before it. */
    int               rank, size, pid;
    char              host[64];
    char              folder[512]; /* where records go; absolute */
    atomic_bool       keeps;       /* records are to be written */
    atomic_uint       asked;       /* so many times on this rank, for all */
    struct ct_logbook book;
};

/* This process's own; `fd` is what others map it by. */
CT_MUST_CHECK enum ct_status dist_page_create(int *fd, struct dist_page **out);
void dist_page_destroy(int fd, struct dist_page *p); /* takes -1 and NULL */

/* That of process `pid`, which knows it as `fd`; NULL where it cannot be had:
 * another host, another container, an end. */
struct dist_page *dist_page_map(int pid, int fd);
void dist_page_unmap(struct dist_page *p); /* takes NULL */

#endif
