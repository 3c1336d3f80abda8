/* coded_bucket.h - a bucket on a wire that codes it.
 *
 *     arena:   | riders | w2      | b2 | w1            | b1 |
 *     dense:   | riders | b2 | b1 |        summed as they are
 *     coded:   | w2 | w1 |                 summed by the codec
 *
 * The riders (loss, requests) and what the codec does not take keep every
 * bit.  A wire belongs to the comm thread while its bucket is under way, and
 * to the solver's otherwise. */
#ifndef CT_DIST_CODEC_CODED_BUCKET_H
#define CT_DIST_CODEC_CODED_BUCKET_H

#include "comm/comm.h"
#include "cortado/net.h"
#include "dist/codec/code_runs.h"

struct ct_dist;

/* Values of the arena that lie together: a parameter, or the riders. */
struct dist_piece {
    size_t  first; /* in the arena */
    int64_t n, rows, cols;
    int64_t at;    /* in `dense` or `coded` */
    bool    is_coded;
};

struct dist_wire {
    struct ct_dist          *dist;
    const struct dist_codec *codec;
    size_t                   first; /* of the bucket, in the arena */
    struct dist_piece       *piece;
    int                      n_pieces;
    bool                     pushed; /* to a server, not summed by ranks */
    float  *dense, *coded;
    int64_t n_dense, n_coded;
    /* What stays here: NULL where the codec keeps none.  All but `owner` and
     * `basis` lie as `coded` does. */
    float  *residual;
    float  *velocity; /* topk: momentum of each value */
    float  *owner;    /* residual of the sums that this rank owns */
    float  *basis;    /* powersgd: Q of each piece, one behind the other */
    int64_t n_basis;
    float  *waited;   /* managed: steps since each slice travelled */
    /* Scratch. */
    uint8_t  *code, *taken;
    float    *work;
    uint32_t *index;
    size_t   *bytes; /* one a rank */
};

struct dist_wires {
    struct dist_codec codec; /* the plan's, for as long as training takes */
    /* One a bucket, or slice of the servers'; NULL: nothing is coded. */
    struct dist_wire *wire;
    int               n;
    int64_t           n_values; /* of all gradients */
    /* Partial updates (managed.h): the tokens that rank 0 has; NULL: all is
     * sent.  `share` of the slices travels in this step. */
    double          (*tokens)(void *arg);
    void             *tokens_arg;
    double            share;
};

/* One a bucket, when the options name a codec and there are peers. */
CT_MUST_CHECK enum ct_status dist_wires_init(struct ct_dist *d,
                                             const struct ct_net *net);
/* One a slice of d->ps.table, with residuals on ranks that train. */
CT_MUST_CHECK enum ct_status dist_wires_init_slices(struct ct_dist *d,
                                                    const struct ct_net *net);
void dist_wires_fini(struct ct_dist *d);

/* The codec of this parameter of the attached net; NULL: none codes it. */
const char *dist_wires_codec(const struct ct_dist *d, int param);

/* A slice on its way to a server.  Its code: the dense floats, then what the
 * codec makes of the others; push writes it, of x times `times`, and add adds
 * it to such floats, n_dense and n_coded of them. */
size_t dist_wire_push_bytes(const struct dist_wire *w, int64_t iter);
void dist_wire_push(struct dist_wire *w, int64_t iter, float times,
                    const float *x, void *code);
CT_MUST_CHECK enum ct_status dist_wire_add(const struct dist_wire *w,
                                           int64_t iter, const void *code,
                                           float *dense, float *coded);

/* x, the bucket in the arena, becomes its sum over ranks. */
CT_MUST_CHECK enum ct_status dist_wire_sum(struct ct_comm *c,
                                           struct dist_wire *w, float *x);

/* The coding of `n` floats of a wire. */
struct dist_run dist_wire_run(const struct dist_wire *w, float *x, int64_t n);

#endif
