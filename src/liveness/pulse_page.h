/* pulse_page.h - a rank's pulse, and its last collectives, in memory that other
 * processes of its host map.
 *
 * They can read it whatever the rank does, also after it has died. */
#ifndef CT_LIVENESS_PULSE_PAGE_H
#define CT_LIVENESS_PULSE_PAGE_H

#include "base/pulse.h"
#include "comm/logbook.h"
#include "cortado/status.h"

struct live_page {
    uint64_t        nonce; /* proves that it is the right one */
    struct ct_pulse pulse;
    atomic_bool     witnessed; /* a process beside the rank tells of its end */
    atomic_bool     ending;    /* from outside, and it tells of that itself */
    /* For an autopsy (record.h).  What stands before `keeps` is set once,
     * before it. */
    int               rank, size, pid;
    uint32_t          view; /* of ranks that come and go; 0: they stay */
    char              host[64];
    char              folder[512]; /* where records go; absolute */
    atomic_bool       keeps;       /* records are to be written */
    atomic_uint       asked;       /* so many times on this rank, for all */
    struct ct_logbook book;
};

/* This process's own; `fd` is what others map it by. */
CT_MUST_CHECK enum ct_status live_page_create(int *fd, struct live_page **out);
void live_page_destroy(int fd, struct live_page *p); /* takes -1 and NULL */

/* That of process `pid`, which knows it as `fd`; NULL where it cannot be had:
 * another host, another container, an end. */
struct live_page *live_page_map(int pid, int fd);
void live_page_unmap(struct live_page *p); /* takes NULL */

#endif
