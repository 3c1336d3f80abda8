/* code_runs.h - the sum over ranks of runs that travel coded.
 *
 * Codes cannot be added on the wire, so the sum is made in floats:
 *
 *     owners   each rank owns a part of the run: it gets everyone's code of
 *              that part, adds them up with its own floats, and sends the
 *              sum, coded again, to all.  2 (P-1)/P code(n) bytes a rank
 *     gather   all get all codes and add them up.  (P-1) code(n) bytes
 *
 * Two ranks gather: the same bytes and one coding less.  More have owners.
 * All ranks decode the same codes in the same order and end with the same
 * bits. */
#ifndef CT_DIST_CODEC_CODE_RUNS_H
#define CT_DIST_CODEC_CODE_RUNS_H

#include "comm/comm.h"
#include "dist/codec/codec.h"

struct dist_run {
    const struct dist_codec_type *type;
    float           *x; /* becomes the sum */
    int64_t          n;
    float           *residual, *owner; /* NULL: none is kept; see below */
    uint8_t         *code;   /* dist_run_code_bytes() */
    uint8_t         *taken;  /* dist_run_taken_bytes() */
    size_t          *bytes;  /* one a rank */
    struct dist_draw draw;   /* hi: free in its 17 lowest bits */
};

/* The part that a rank owns: `owner`, the residual of its sums, is as long. */
struct dist_run_part {
    int64_t first, n;
};
struct dist_run_part dist_run_owned(int64_t n, int size, int rank);

size_t dist_run_code_bytes(const struct dist_codec_type *type, int64_t n,
                           int size);
size_t dist_run_taken_bytes(const struct dist_codec_type *type, int64_t n,
                            int size);
/* What a rank sends, to the byte. */
double dist_run_sends(const struct dist_codec_type *type, int64_t n, int rank,
                      int size);
CT_MUST_CHECK enum ct_status dist_run_sum(struct ct_comm *c,
                                          struct dist_run *run);

#endif
