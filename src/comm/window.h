/* window.h - memory that all ranks of a host see, and waiting in it.
 *
 * Ranks that are processes map one file that has no name (memfd): the system
 * takes it back when the last of them ends, however it ends.  Ranks that are
 * threads share plain memory.  The bytes start as zeros.
 *
 * What ranks tell each other are atomic numbers that grow; ct_window_wait
 * waits for them without keeping a core from those who work: it spins for a
 * moment, gives its turn away for a while, then sleeps until a peer rings.  A
 * peer that dies, leaves or aborts meanwhile ends the wait with its name. */
#ifndef CT_COMM_WINDOW_H
#define CT_COMM_WINDOW_H

#include <pthread.h>

#include "comm/comm.h"

struct window_head;

/* Used by one thread of each rank, which need not be the comm thread; waits
 * of that one tick. */
struct ct_window {
    void               *memory; /* `bytes` long; line-aligned */
    size_t              bytes;
    struct ct_group     local;  /* the ranks that share it; borrowed */
    struct ct_comm     *comm;   /* for waits; borrowed */
    pthread_t           owner;  /* the comm's thread */
    struct window_head *head;
    size_t              mapped_bytes;
    int                 fd;      /* -1: ranks are threads */
    bool                crowded; /* more ranks than cores */
    atomic_int          n_keepers;
    double              wait_seconds;
};

/* Memory for a window that is made later, by the first rank of a host: so many
 * bytes, or about as many, that the system has found and cleared already. */
struct ct_spare {
    int    fd;
    void  *memory; /* all of it, mapped */
    size_t bytes;
};
/* NULL: there is none, and a window does without. */
struct ct_spare *ct_spare_create(size_t bytes);
void ct_spare_destroy(struct ct_spare *s); /* takes NULL */

/* All ranks call it, on the thread that owns `c`.  CT_ENOTSUP on all of them
 * where some host's ranks cannot share memory.  Takes c->spare. */
CT_MUST_CHECK enum ct_status ct_window_create(struct ct_comm *c, size_t bytes,
                                              struct ct_window **out);
/* Bytes of it that this rank is about to write, or to read, all of them: they
 * are mapped at once, not page by page. */
void ct_window_reach(const void *at, size_t bytes, bool writes);
/* Takes NULL.  A peer that still waits for this rank fails. */
void ct_window_destroy(struct ct_window *w);
/* The memory stays, also when the window is destroyed, until it is dropped as
 * often as it was kept. */
void ct_window_keep(struct ct_window *w);
void ct_window_drop(void *w);
/* Ends the waits of all peers: this rank cannot go on. */
void ct_window_abort(struct ct_window *w);

/* The index in `local` of a rank that is still missing; -1: all have come. */
typedef int (*ct_missing_fn)(void *arg);
/* Until nobody is missing.  `missing` is called often, and may work. */
CT_MUST_CHECK enum ct_status ct_window_wait(struct ct_window *w,
                                            ct_missing_fn missing, void *arg);
/* Does anybody sleep?  Ask after telling (memory_order_seq_cst), and ring if
 * what was told may end a wait. */
bool ct_window_asleep(struct ct_window *w);
void ct_window_ring(struct ct_window *w);

#endif
