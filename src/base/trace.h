/* trace.h - spans of time that a process records while it is asked to.
 *
 *     uint64_t start = ct_trace_begin();
 *     ... work ...
 *     ct_trace_end(start, CT_TRACE_FORWARD, layer->name);
 *
 * While nothing is recorded, begin is one relaxed load and end one comparison.
 * Each thread writes to a block of its own without locks; a full block drops
 * what follows and counts it.  Names are copied once and shared.
 *
 * The recorder belongs to the process, because every room writes to it: it is
 * the one piece of state here that no context carries. */
#ifndef CT_BASE_TRACE_H
#define CT_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum ct_trace_kind {
    CT_TRACE_ITERATION,
    CT_TRACE_FORWARD,
    CT_TRACE_BACKWARD,
    CT_TRACE_DATA,     /* the forward pass of a source */
    CT_TRACE_UPDATE,   /* of parameters */
    CT_TRACE_WAIT,     /* for peers, for the comm thread or for a GPU */
    CT_TRACE_SEND,     /* a bucket is handed over; short */
    CT_TRACE_REDUCE,   /* it is summed or moved between ranks */
    CT_TRACE_CODEC,    /* gradients are coded or decoded */
    CT_TRACE_COPY,     /* between the CPU's memory and a GPU's */
    CT_TRACE_GRAPH,    /* a recorded pass is given to a GPU */
    CT_TRACE_PREFETCH, /* samples are read and transformed */
    CT_TRACE_TEST,
    CT_TRACE_SNAPSHOT,
    CT_TRACE_N_KINDS
};

/* What a span is about, besides its name.  0 means: nothing. */
struct ct_trace_about {
    int64_t  bytes;
    uint64_t exchange; /* ranks that take part in it give the same number */
    uint64_t job;      /* of the comm thread, in this process */
};

/* Times are nanoseconds of the monotonic clock, which is one for a host. */
struct ct_trace_event {
    uint64_t start, end;
    struct ct_trace_about about;
    uint32_t name; /* an offset into the part's names */
    uint32_t kind;
};

extern atomic_bool ct_trace_recording;

uint64_t ct_trace_now(void);
/* Adds the span from `start` until now to this thread's block. */
void ct_trace_add(uint64_t start, enum ct_trace_kind kind, const char *name,
                  const struct ct_trace_about *about);

static inline uint64_t ct_trace_begin(void)
{
    return __builtin_expect(atomic_load_explicit(&ct_trace_recording,
                                                 memory_order_relaxed), 0)
               ? ct_trace_now()
               : 0;
}

static inline void ct_trace_end(uint64_t start, enum ct_trace_kind kind,
                                const char *name)
{
    if (__builtin_expect(start != 0, 0))
        ct_trace_add(start, kind, name, NULL);
}

static inline void ct_trace_end_about(uint64_t start, enum ct_trace_kind kind,
                                      const char *name,
                                      struct ct_trace_about about)
{
    if (__builtin_expect(start != 0, 0))
        ct_trace_add(start, kind, name, &about);
}

/* What this thread is called in traces; copied, cut at 31 bytes. */
void ct_trace_thread(const char *name);

/* Starts recording; what was recorded before is forgotten.  Only after stop
 * and pack, on one thread of the process. */
void ct_trace_start(void);
void ct_trace_stop(void);

/* What was recorded, as bytes that another process reads:
 *
 *     struct ct_trace_part | struct ct_trace_track, its events | ... | names
 */
struct ct_trace_part {
    uint32_t magic, n_tracks;
    int32_t  rank, pid;
    char     host[64];
    uint64_t n_names;   /* bytes; each name ends in a zero */
    uint64_t n_dropped; /* events for which a block had no space */
    /* Added to a time of this part, it is rank 0's; and by how much that may
     * be wrong.  0 for ranks of one host. */
    int64_t  clock_offset, clock_error;
};
struct ct_trace_track {
    char     name[32];
    uint64_t n_events;
};
enum { CT_TRACE_MAGIC = 0x43545231 };

/* Adds the bytes to `out`; on one thread, after stop. */
void ct_trace_pack(int rank, struct ct_text *out);

#endif
