/* recurrent.h - what RNN and LSTM share.
 *
 * Bottoms are x (T x N x ...), cont (T x N), then x_static (N x ...) where
 * there is one, then with expose_hidden the initial states (1 x N x H each).
 * A step t of every kind of layer first makes, for its G rows of gates,
 *
 *     g_t = x_t W_x^T + b + x_static W_s^T + hc_t W_h^T
 *     hc_t = cont_t h_{t-1}
 *
 * x: T N x I   W_x: G x I   b: G   W_s: G x S   W_h: G x H   hc: T N x H
 * The products with x and x_static are made for all steps at once, as are all
 * gradients of weights; W_h is packed once for the T products with it.
 * cont_t is 0 where a new sequence begins in a stream, and 1 elsewhere.
 *
 * Without expose_hidden the first state is the last one of the pass before,
 * at first 0, as in Caffe.  Gradients stop at the ends of a pass: the states
 * that come in get zero, and what arrives at the states that go out is not
 * used, as in Caffe.  Parameters that are frozen get gradients like others, as
 * in Caffe, whose unrolled net knows nothing of lr_mult. */
#ifndef CT_LAYERS_RECURRENT_H
#define CT_LAYERS_RECURRENT_H

#include "cortado/layer.h"
#include "device/ip.h"

enum { CT_RECURRENT_STATES = 2 };

struct ct_recurrent {
    int64_t t, n, i, s, h, g; /* T, N, I, S, H, G of the head */
    int     n_states;         /* 1 (h) or 2 (h and c) */
    bool    exposed, has_static;
    int     w_x, b, w_s, w_h; /* numbers of the layer's blobs */
    struct ct_ip input;       /* x W_x^T of all steps, and its gradients */
    struct ct_ip state_part;  /* hc_t W_h^T of one step, added; W_h packed */
    struct ct_ip state_grad;  /* W_h's gradient from all steps */
    struct ct_blob *gates;    /* T x N x G: g_t, then what becomes of it */
    struct ct_blob *dgates;   /* T x N x G */
    struct ct_blob *hc;       /* T x N x H */
    struct ct_blob *fixed;    /* N x G: the part of x_static */
    struct ct_blob *dh;       /* N x H: from step t + 1 to step t */
    struct ct_blob *state[CT_RECURRENT_STATES]; /* N x H: kept over passes */
};

/* Reads recurrent_param, checks bottoms and tops, adds W_x, b, [W_s,] W_h of
 * `gates_a_unit` H rows each and the scratch. */
CT_MUST_CHECK enum ct_status ct_recurrent_setup(struct ct_layer *l,
                                                const struct ct_io *io,
                                                struct ct_recurrent *r,
                                                int n_states,
                                                int gates_a_unit);
/* Shapes of all tops and of the scratch. */
CT_MUST_CHECK enum ct_status ct_recurrent_reshape(struct ct_layer *l,
                                                  const struct ct_io *io,
                                                  struct ct_recurrent *r);

void ct_recurrent_fini(struct ct_recurrent *r);
/* State i that is kept over passes; NULL: there are not so many, or the
 * bottoms bring them in. */
struct ct_blob *ct_recurrent_carried(const struct ct_recurrent *r, int i);

/* Where state k begins this pass (N x H). */
const float *ct_recurrent_first(const struct ct_io *io,
                                const struct ct_recurrent *r, int k);
/* Where state k ends it: keeps `last`, and copies it to its top. */
CT_MUST_CHECK enum ct_status ct_recurrent_last(struct ct_layer *l,
                                               const struct ct_io *io,
                                               struct ct_recurrent *r, int k,
                                               const float *last);

/* Forward: the part of g that needs no state; then for each t hc_t and its
 * product, given h_{t-1}.  The bias and `fixed` are left to the caller, who
 * reads every g anyway. */
CT_MUST_CHECK enum ct_status ct_recurrent_inputs(struct ct_layer *l,
                                                 const struct ct_io *io,
                                                 struct ct_recurrent *r);
CT_MUST_CHECK enum ct_status ct_recurrent_step(struct ct_layer *l,
                                               const struct ct_io *io,
                                               struct ct_recurrent *r,
                                               int64_t t,
                                               const float *before);

/* Backward: dh of step t - 1 from dgates of step t; and, when all dgates are
 * there, the gradients of blobs (ADDED) and bottoms (written). */
CT_MUST_CHECK enum ct_status ct_recurrent_step_back(struct ct_layer *l,
                                                    const struct ct_io *io,
                                                    struct ct_recurrent *r,
                                                    int64_t t);
CT_MUST_CHECK enum ct_status ct_recurrent_finish(struct ct_layer *l,
                                                 const struct ct_io *io,
                                                 struct ct_recurrent *r);

/* Multiply-adds of one forward pass. */
double ct_recurrent_macs(const struct ct_recurrent *r);

#endif
