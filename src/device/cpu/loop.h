/* loop.h - parallel loops on the CPU; the only place that names OpenMP.
 *
 *     CT_FOR_EACH(i, n)            elements: vectorised, split over threads
 *         y[i] = x[i] > 0 ? x[i] : 0;
 *     CT_FOR_ROWS(r, n, work)      items of `work` elements each
 *         row(x + r * work);
 *
 * Both run on the calling thread alone when there is too little to share.
 * Bodies write to disjoint places; sums go through CT_SUM_EACH. */
#ifndef CT_DEVICE_CPU_LOOP_H
#define CT_DEVICE_CPU_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* Elements below which waking other threads costs more than it saves. */
enum { CT_GRAIN = 32768 };

/* Threads of the loops that this thread begins from now on, and of operations
 * that it creates; gives the number before.  Inside a loop there is one. */
int ct_cpu_team(int n);

/* spin.c: called now and then, in each pass; sees whether others use our cores
 * and has threads that wait sleep sooner then. */
void ct_cpu_look_around(void);
/* What it does where a thread had no core for this share of the time; and
 * whether threads sleep sooner. */
void ct_cpu_note_delay(double share);
bool ct_cpu_shares_cores(void);
/* What the system calls threads that are there for this alone, asleep. */
#define CT_CROWD_NAME "cortado-asleep"

#define CT_PRAGMA(x) _Pragma(#x)

#define CT_FOR_EACH(i, n)                                                    \
    CT_PRAGMA(omp parallel for simd schedule(static) if((n) > CT_GRAIN))     \
    for (int64_t i = 0; i < (n); i++)

#define CT_FOR_ROWS(i, n, work)                                              \
    CT_PRAGMA(omp parallel for schedule(static)                              \
              if((n) > 1 && (n) * (work) > CT_GRAIN))                        \
    for (int64_t i = 0; i < (n); i++)

/* CT_FOR_EACH with `sum` (a local double) added up over all iterations. */
#define CT_SUM_EACH(i, n, sum)                                               \
    CT_PRAGMA(omp parallel for simd schedule(static) reduction(+ : sum)      \
              if((n) > CT_GRAIN))                                            \
    for (int64_t i = 0; i < (n); i++)

#endif
