/* shared.h - sums inside a host through memory that all its ranks see.
 *
 *     memory:  | rank 0's floats | rank 1's | ... | rank L-1's | the sums |
 *              | what the caller wants beside them |
 *
 * A rank writes its floats and posts a run of them.  When all have posted the
 * run, rank r adds up slice r of it over all ranks, in rank order, into the
 * sums; when all slices are added everybody reads them there.  So a run costs
 * two waits and no messages, whatever the number of ranks, and each sum has
 * one author, so all ranks read the same bits.
 *
 * In place of the sums a run may have any other work, in pieces.  Once all have
 * posted it, whoever comes by takes the next piece, so ranks that wait relieve
 * those that are slow, and the run is done when the last piece is.
 *
 * All ranks post the same runs in the same order.  A rank's floats are its own
 * again when their run has been waited for.  The sums of a run stay until this
 * rank posts the same floats again. */
#ifndef CT_COMM_SHARED_H
#define CT_COMM_SHARED_H

#include "comm/coll/transfer.h"
#include "comm/window.h"

enum { CT_SHARED_RUNS = 64 }; /* posted and not added up yet */

struct shared_line;
struct shared_pieces;
struct ct_shared;

/* One piece of a run's work. */
typedef enum ct_status (*ct_shared_fn)(struct ct_shared *s, void *arg,
                                       int64_t piece);

struct shared_run {
    const char    *label; /* borrowed */
    struct ct_part floats;
    ct_shared_fn   work; /* NULL: the floats are summed */
    void          *arg;
    int64_t        n_pieces;
    uint64_t       entry; /* of the logbook */
};

/* Used by one thread of each rank, which need not be the comm thread. */
struct ct_shared {
    struct ct_comm     *comm; /* borrowed; its counters alone are touched */
    struct ct_window   *window;
    struct shared_line *line; /* one a rank: what it has told the others */
    struct shared_pieces *pieces; /* of the latest runs, CT_SHARED_RUNS */
    float             **vector; /* the floats of each rank; owned */
    float              *sums, *more;
    /* Runs from the start on; `everywhere`: known to be posted by all. */
    uint64_t            n_posted, n_added, everywhere;
    uint64_t            n_noted; /* runs whose end the logbook has */
    struct shared_run   run[CT_SHARED_RUNS];
    /* Optional: when a slice is added up on this host, before others may
     * read it.  For sums between hosts; runs on the caller's thread. */
    enum ct_status    (*between)(struct ct_comm *c, float *x, int64_t n);
    enum ct_status      failed; /* of between, or of a work */
    uint32_t            number; /* of these sums among all, on all ranks */
};

/* All ranks call it, on the thread that owns `c`; see ct_window_create.  `more`
 * floats lie beside, as zeros. */
CT_MUST_CHECK enum ct_status ct_shared_create(struct ct_comm *c, int64_t n,
                                              int64_t more,
                                              struct ct_shared **out);
/* The same for floats that lie elsewhere, in memory that these ranks share and
 * that outlives *out: vector[i] is that of rank i of c->local; the list itself
 * is copied. */
CT_MUST_CHECK enum ct_status ct_shared_create_at(struct ct_comm *c,
                                                 float *const *vector,
                                                 float *sums,
                                                 struct ct_shared **out);
void ct_shared_destroy(struct ct_shared *s); /* takes NULL */

float *ct_shared_mine(const struct ct_shared *s); /* this rank's floats */
float *ct_shared_sums(const struct ct_shared *s);
float *ct_shared_more(const struct ct_shared *s); /* line-aligned */

/* Floats [first, first + n) are complete.  The label is for traces and the
 * logbook; borrowed.  The ticket is for the wait. */
CT_MUST_CHECK enum ct_status ct_shared_post(struct ct_shared *s,
                                            const char *label, int64_t first,
                                            int64_t n, uint64_t *ticket);

/* Other work in place of a sum. */
struct ct_shared_work {
    const char  *label; /* borrowed */
    ct_shared_fn run;
    void        *arg;
    int64_t      n_pieces;
    uint64_t     bytes; /* of this rank that others read for it */
};
CT_MUST_CHECK enum ct_status ct_shared_post_work(
    struct ct_shared *s, const struct ct_shared_work *work, uint64_t *ticket);
/* For such work: y = the sum of floats [first, first + n) over ranks. */
void ct_shared_add(const struct ct_shared *s, int64_t first, int64_t n,
                   float *y);
/* Adds up this rank's slices of what all have posted, or takes pieces of it;
 * waits for nobody. */
void ct_shared_progress(struct ct_shared *s);
bool ct_shared_done(struct ct_shared *s, uint64_t ticket);
/* Until the sums of that run, and of all before it, can be read; or its work
 * is done. */
CT_MUST_CHECK enum ct_status ct_shared_wait(struct ct_shared *s,
                                            uint64_t ticket);

/* Until all ranks have called it as often as this one; what was posted before
 * is summed meanwhile. */
CT_MUST_CHECK enum ct_status ct_shared_meet(struct ct_shared *s);

/* Which of n floats rank i of `size` adds up: whole lines of memory. */
struct ct_part ct_shared_slice(int64_t n, int size, int i);

/* x = the sum over the ranks of this host and what `between` makes of it, by
 * way of a window that `c` keeps.  For allreduce; on the comm thread. */
CT_MUST_CHECK enum ct_status ct_shared_run(
    struct ct_comm *c, float *x, int64_t n,
    enum ct_status (*between)(struct ct_comm *c, float *x, int64_t n));
/* Floats that ct_shared_run takes at a time. */
enum { CT_SHARED_SEGMENT = 512 << 10 };

#endif
