/* bench.h - the kinds of records that are read, and the two ways to read
 * them: through a Data layer, and as plainly as a program can. */
#ifndef BENCH_DATA_BENCH_H
#define BENCH_DATA_BENCH_H

#include "base/text.h"
#include "cortado/status.h"
#include "data/db.h"

struct bench_set {
    const char *name;
    int         side;      /* images are 3 x side x side */
    int         crop;      /* 0: the whole; else with mirror */
    bool        jpeg;
    int         n_records, batch;
};

/* A set on disk: an LMDB, and its pixels or image files one after the other
 * in a flat file. */
struct bench_files {
    const struct bench_set *set;
    struct ct_text          db, flat;
    size_t                 *at; /* n_records + 1 offsets in the flat file */
};

/* Makes both files below `folder`, unless they are there. */
CT_MUST_CHECK enum ct_status bench_files_make(const struct bench_set *set,
                                              const char *folder,
                                              struct bench_files *out);
void bench_files_fini(struct bench_files *f);

enum { BENCH_PREFETCH = 4, BENCH_MOST_THREADS = 64 };

/* Seconds on the wall, or of all threads of this process together. */
struct bench_time {
    double wall, cpu;
};
struct bench_time bench_now(void);

/* Records a second over about `seconds` on the wall, by `n_threads` threads.
 * `by_cpu`: what they would be if no thread ever had to wait for a core. */
CT_MUST_CHECK enum ct_status bench_layer(const struct bench_files *f,
                                         int n_threads, double seconds,
                                         bool by_cpu, double *rate);
CT_MUST_CHECK enum ct_status bench_bound(const struct bench_files *f,
                                         int n_threads, double seconds,
                                         bool by_cpu, double *rate);
#endif
