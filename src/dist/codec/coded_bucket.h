/* coded_bucket.h - a bucket that a codec encodes (a wire).
 *
 *     arena:   | riders | w2      | b2 | w1            | b1 |
 *     dense:   | riders | b2 | b1 |        summed as floats
 *     coded:   | w2 | w1 |                 summed by the codec
 *
 * The riders (loss, requests) and parameters that the codec does not encode
 * keep every bit.  The comm thread owns a wire while its bucket is summed, the
 * solver's thread otherwise. */
#ifndef CT_DIST_CODEC_CODED_BUCKET_H
#define CT_DIST_CODEC_CODED_BUCKET_H

#include "comm/comm.h"
#include "cortado/net.h"
#include "dist/codec/code_runs.h"

struct ct_dist;

/* Consecutive values of the arena: a parameter, or the riders. */
struct dist_piece {
    size_t  first; /* in the arena */
    int64_t n, rows, cols;
    int64_t at;    /* index in `dense` or `coded` */
    bool    is_coded;
};

struct dist_wire {
    struct ct_dist          *dist;
    const struct dist_codec *codec;
    size_t                   first; /* of the bucket, in the arena */
    struct dist_piece       *piece;
    int                      n_pieces;
    bool                     pushed; /* for a push to a server, not for a sum of
                                      * ranks */
    float  *dense, *coded;
    int64_t n_dense, n_coded;
    /* What this rank keeps between iterations; NULL: the codec does not use it.
     * All arrays but `owner` and `basis` are laid out as `coded`. */
    float  *residual;
    float  *velocity; /* topk: momentum of each value */
    float  *owner;    /* residual of the sums that this rank owns */
    float  *basis;    /* powersgd: Q of each piece, in order */
    int64_t n_basis;
    float  *waited;   /* managed: steps since each slice travelled */
    /* Scratch. */
    uint8_t  *code, *taken;
    float    *work;
    uint32_t *index;
    size_t   *bytes; /* one per rank */
};

struct dist_wires {
    struct dist_codec codec; /* the plan's, with the schedule of this
                              * training */
    /* One per bucket, or per slice of servers; NULL: nothing is encoded. */
    struct dist_wire *wire;
    int               n;
    int64_t           n_values; /* number of values of all gradients */
    /* Partial updates (managed.h): returns the tokens of rank 0; NULL: no
     * limit.  `share` of the slices travels in this step. */
    double          (*tokens)(void *arg);
    void             *tokens_arg;
    double            share;
};

/* Creates one wire per bucket if the plan encodes buckets. */
CT_MUST_CHECK enum ct_status dist_wires_init(struct ct_dist *d,
                                             const struct ct_net *net);
/* Creates one wire per slice of d->ps.table, with residuals on ranks that
 * train. */
CT_MUST_CHECK enum ct_status dist_wires_init_slices(struct ct_dist *d,
                                                    const struct ct_net *net);
void dist_wires_fini(struct ct_dist *d);

/* The codec of a parameter of the attached net; NULL: not encoded. */
const char *dist_wires_codec(const struct ct_dist *d, int param);

/* The code of a slice for a server: the dense floats, then the codec's code of
 * the others. push encodes x times `times`; add decodes a code and adds it to
 * n_dense dense and n_coded coded floats. */
size_t dist_wire_push_bytes(const struct dist_wire *w, int64_t iter);
void dist_wire_push(struct dist_wire *w, int64_t iter, float times,
                    const float *x, void *code);
CT_MUST_CHECK enum ct_status dist_wire_add(const struct dist_wire *w,
                                           int64_t iter, const void *code,
                                           float *dense, float *coded);

/* Replaces x, the bucket in the arena, by its sum over ranks. */
CT_MUST_CHECK enum ct_status dist_wire_sum(struct ct_comm *c,
                                           struct dist_wire *w, float *x);

/* The parameters to encode n floats of a wire. */
struct dist_run dist_wire_run(const struct dist_wire *w, float *x, int64_t n);

#endif
