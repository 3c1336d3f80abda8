/* trace_read.h - a trace file read back. */
#ifndef CT_OBSERVE_TRACE_READ_H
#define CT_OBSERVE_TRACE_READ_H

#include "observe/json.h"

struct trace_span {
    int64_t     start, end; /* ns from the first span of the file on */
    const char *name, *cat; /* of the file's text */
    uint64_t    exchange, job; /* 0: none */
    int         rank, tid;
};

/* A stretch of time in which one span is the innermost one of its thread. */
struct trace_stretch {
    int64_t                  start, end;
    const struct trace_span *span;
};

/* One rank's compute thread. */
struct trace_rank {
    struct trace_stretch *stretch; /* owned; in order, without overlap */
    int                   n;
};

struct trace_file {
    struct ct_json    *json; /* owned */
    struct trace_span *span; /* owned; by rank, thread and start */
    int                n;
    struct trace_rank *rank; /* owned */
    int                n_ranks;
    /* The spans that have one, in order, to search by; owned. */
    const struct trace_span **by_job, **by_exchange;
    int                       n_jobs, n_exchanges;
};

/* The caller frees `out` either way. */
CT_MUST_CHECK enum ct_status trace_file_read(const char *path,
                                             struct trace_file *out);
void trace_file_fini(struct trace_file *f);

/* All of these take the time of a search, not of the file's length.
 *
 * The span of that category and job on a rank's threads; NULL: none. */
const struct trace_span *trace_find_job(const struct trace_file *f, int rank,
                                        const char *cat, uint64_t job);
/* Who began last, of all that take part in the exchange; NULL: none. */
const struct trace_span *trace_find_last(const struct trace_file *f,
                                         const char *cat, uint64_t exchange);
/* The one of the same thread and category that ended last before `s`, which is
 * one of the file's, began; NULL: none. */
const struct trace_span *trace_find_before(const struct trace_file *f,
                                           const struct trace_span *s);

#endif
