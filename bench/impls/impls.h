/* impls.h - what the operations' benches share. */
#ifndef CT_BENCH_IMPLS_H
#define CT_BENCH_IMPLS_H

#include "cortado/device.h"
#include "device/impl.h"

enum { MAX_IMPLS = 8 };

typedef enum ct_status (*run_fn)(void *arg);

/* Prints one line: `run` with each of `impls`, ended by NULL, in `slot` of
 * `op`, where the chosen one is already. */
void compare(const char *what, const void *op, enum ct_pass pass,
             struct ct_impl_pass *slot, const struct ct_impl *const *impls,
             run_fn run, void *arg);

/* Seconds of one run, over runs that together take a turn. */
double turn(run_fn run, void *arg);

extern int bench_batch; /* --batch; convolutions alone heed it */

const char *layout_name(enum ct_layout layout);
/* n random values in [-1, 1]; free with ct_free(). */
float *values(int64_t n);
int64_t elements(int64_t n, int64_t c, int64_t inner, enum ct_layout layout);
/* Ends the program with the error's text. */
void must(enum ct_status st);

void bench_pool(void);
void bench_lrn(void);
void bench_norm(void);
void bench_softmax(void);
void bench_ip(void);
void bench_conv(void);

#endif
