/* code_runs.h - sums encoded runs over ranks.
 *
 * Codes cannot be added, so ranks decode them and add floats:
 *
 *     owners   each rank owns a part of the run.  It receives the codes of that
 *              part from all ranks, adds them to its own floats, and sends the
 *              encoded sum to all: 2 (P-1)/P code(n) bytes per rank
 *     gather   every rank receives all codes and adds them: (P-1) code(n) bytes
 *
 * Two ranks gather, because that takes the same bytes and encodes once less.
 * More ranks use owners.  All ranks decode the same codes in the same order and
 * get the same bits. */
#ifndef CT_DIST_CODEC_CODE_RUNS_H
#define CT_DIST_CODEC_CODE_RUNS_H

#include "comm/comm.h"
#include "dist/codec/codec.h"

struct dist_run {
    const struct dist_codec_type *type;
    float           *x; /* becomes the sum */
    int64_t          n;
    float           *residual, *owner; /* NULL: not kept; owner: see struct
                                        * dist_run_part */
    uint8_t         *code;   /* dist_run_code_bytes() */
    uint8_t         *taken;  /* dist_run_taken_bytes() */
    size_t          *bytes;  /* one per rank */
    struct dist_draw draw;   /* the lowest 17 bits of hi must be 0 */
};

/* The part of a run that a rank owns.  `owner`, the residual of its sums, has
 * the same length. */
struct dist_run_part {
    int64_t first, n;
};
struct dist_run_part dist_run_owned(int64_t n, int size, int rank);

size_t dist_run_code_bytes(const struct dist_codec_type *type, int64_t n,
                           int size);
size_t dist_run_taken_bytes(const struct dist_codec_type *type, int64_t n,
                            int size);
/* The exact bytes that a rank sends. */
double dist_run_sends(const struct dist_codec_type *type, int64_t n, int rank,
                      int size);
CT_MUST_CHECK enum ct_status dist_run_sum(struct ct_comm *c,
                                          struct dist_run *run);

#endif
