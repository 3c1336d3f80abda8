/* trace_file.h - what ranks recorded, as one file for Perfetto and
 * chrome://tracing, and read back in words.
 *
 * The file is Chrome's JSON: a process per rank, a track per thread, a slice
 * per span.  An arrow leads from the rank that came last to an exchange to the
 * ranks that waited for it.  docs/reference/trace.md describes it. */
#ifndef CT_OBSERVE_TRACE_FILE_H
#define CT_OBSERVE_TRACE_FILE_H

#include <stdio.h>

#include "solver/tracing.h"

/* The JSON of all ranks; part[r] is rank r's (ct_trace_pack). */
CT_MUST_CHECK enum ct_status ct_trace_json(const struct ct_text *part,
                                           int n_parts, struct ct_text *out);

/* Where traces go, for struct ct_tracing; embedded, the caller's. */
struct ct_trace_file {
    struct ct_tracing tracing;
    const char *folder; /* a file trace-ITERATION.json in it; borrowed */
    /* Optional, on rank 0: a trace is complete. */
    void (*written)(void *arg, const char *path);
    void *arg;
};
/* "FROM:COUNT", the iterations to record; NULL: none but on request, three at
 * a time. */
CT_MUST_CHECK enum ct_status ct_trace_file_init(struct ct_trace_file *f,
                                                const char *text,
                                                const char *folder);
/* Asks for a trace of the next iterations; on any thread or in a handler of
 * signals.  All ranks hear of it. */
void ct_trace_file_want(struct ct_trace_file *f);

/* Says in words what the time of an iteration in a trace file was spent on,
 * along its critical path; iteration -1: the longest one in the file. */
CT_MUST_CHECK enum ct_status ct_trace_explain(const char *path, int iteration,
                                              struct ct_text *out);

#endif
