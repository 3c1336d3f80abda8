/* pulse_page.h - a rank's pulse, and its last collectives, in memory that other
 * processes of its host map.
 *
 * They can read it at any time, even after the rank has died. */
#ifndef CT_LIVENESS_PULSE_PAGE_H
#define CT_LIVENESS_PULSE_PAGE_H

#include "base/pulse.h"
#include "comm/logbook.h"
#include "cortado/status.h"

struct live_page {
    uint64_t        nonce; /* proves that this is the right page */
    struct ct_pulse pulse;
    atomic_bool     witnessed; /* the rank has a witness, which reports its
                                * end */
    atomic_bool     ending;    /* the rank is ended by a signal and reports it
                                * itself */
    /* For an autopsy (record.h).  Members before `keeps` are set once, before
     * it. */
    int               rank, size, pid;
    uint32_t          view; /* of an elastic job; 0: not elastic */
    char              host[64];
    char              folder[512]; /* of records; absolute path */
    atomic_bool       keeps;       /* records are written */
    atomic_uint       asked;       /* how often this rank was asked for records
                                    * of all ranks */
    struct ct_logbook book;
};

/* Creates the page of this process; others map it by `fd`. */
CT_MUST_CHECK enum ct_status live_page_create(int *fd, struct live_page **out);
void live_page_destroy(int fd, struct live_page *p); /* takes -1 and NULL */

/* Maps the page of process `pid`, which has it open as `fd`.  NULL: it cannot
 * be mapped, because the process is on another host, in another container, or
 * has ended. */
struct live_page *live_page_map(int pid, int fd);
void live_page_unmap(struct live_page *p); /* takes NULL */

#endif
