/* window.h - memory that all ranks of a host share, and waiting in it.
 *
 * Ranks that are processes map one anonymous file (memfd).  The system frees it
 * when the last process ends, for whatever reason.  Ranks that are threads use
 * plain memory.  The memory is zeroed at first.
 *
 * Ranks signal each other by atomic numbers that grow.  ct_window_wait waits
 * for them without taking a core from ranks that work: it spins for a moment,
 * yields for a while, then sleeps until a peer wakes it.  If a peer dies,
 * leaves or aborts, the wait fails and names it. */
#ifndef CT_COMM_WINDOW_H
#define CT_COMM_WINDOW_H

#include <pthread.h>

#include "comm/comm.h"

struct window_head;

/* Used by one thread of each rank.  If that is the comm thread, waits call
 * ct_comm.tick. */
struct ct_window {
    void               *memory; /* `bytes` long; aligned to a cache line */
    size_t              bytes;
    struct ct_group     local;  /* the ranks that share it; borrowed */
    struct ct_comm     *comm;   /* for waits and aborts, not for the memory;
                                 * borrowed */
    pthread_t           owner;  /* the thread of the comm */
    struct window_head *head;
    size_t              mapped_bytes;
    int                 fd;      /* -1: ranks are threads */
    bool                crowded; /* more ranks than cores */
    atomic_int          n_keepers;
    double              wait_seconds;
};

/* Memory for a window that is created later by the first rank of a host.  About
 * `bytes` bytes, which the system has allocated and zeroed already. */
struct ct_spare {
    int    fd;
    void  *memory; /* all of it, mapped */
    size_t bytes;
};
/* NULL: not available; windows work without it. */
struct ct_spare *ct_spare_create(size_t bytes);
void ct_spare_destroy(struct ct_spare *s); /* takes NULL */

/* All ranks call it on the thread that owns `c`.  CT_ENOTSUP on all ranks if
 * the ranks of some host cannot share memory.  Takes c->spare. */
CT_MUST_CHECK enum ct_status ct_window_create(struct ct_comm *c, size_t bytes,
                                              struct ct_window **out);
/* This rank will write (or read) all of these bytes: finds their memory at
 * once, not page by page, and in large pages, if the system can make them. */
void ct_window_reach(struct ct_window *w, const void *at, size_t bytes,
                     bool writes);
/* Takes NULL. Peers that still wait for this rank fail. */
void ct_window_destroy(struct ct_window *w);
/* The memory stays valid, also after destroy, until it was dropped as often as
 * kept. */
void ct_window_keep(struct ct_window *w);
void ct_window_drop(void *w);
/* A number that no other window has, the same on all its ranks. */
uint64_t ct_window_number(const struct ct_window *w);
/* Rank i of `local` cannot touch the memory any more, for certain: its process
 * has ended, or it has dropped the window. */
bool ct_window_is_free_of(const struct ct_window *w, int i);
/* Nobody needs these bytes any more: the system gets their pages back, while
 * this rank goes on. */
void ct_window_discard(struct ct_window *w, const void *at, size_t bytes);
/* Ends the waits of all peers, because this rank has failed. */
void ct_window_abort(struct ct_window *w);

/* The index in `local` of a rank that is still awaited; -1: none. */
typedef int (*ct_missing_fn)(void *arg);
/* Waits until `missing` returns -1.  It is called often and may do work. */
CT_MUST_CHECK enum ct_status ct_window_wait(struct ct_window *w,
                                            ct_missing_fn missing, void *arg);
/* Is any rank asleep?  Ask after the signal is stored (memory_order_seq_cst),
 * and ring if the signal may end a wait. */
bool ct_window_asleep(struct ct_window *w);
void ct_window_ring(struct ct_window *w);

#endif
