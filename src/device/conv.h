/* conv.h - N-D convolution as an object: described, created, run many times.
 *
 *     y[n,o] = b[o] + sum over i, k of  w[o,i,k] x[n, i, s p + d k - pad]
 *
 *     x  batch, in_channels,  in...       w  out_channels, in_channels/group,
 *     y  batch, out_channels, out...         kernel...
 *
 * for every output position p, with zeros outside x; channels fall into
 * `group` independent parts.  Weights and bias are Caffe's plain floats, unless
 * weights are said to be tiles; x, dx have src_layout and y, dy dst_layout.
 *
 * With `sum` the product is added to what y holds, and with `relu` what is
 * below zero then becomes zero; the backward passes take the dy that is left
 * where y > 0.  With `packed` only forward runs, many times with weights that
 * ct_conv_pack() has seen before.  With `moments` somebody asks for the sums
 * of y's channels after a forward pass, and gets them where making them on the
 * way is faster than reading y again.  With `ends` the gradient of x may be
 * asked for as ct_conv_backward_end() has it.
 *
 * Deconvolution is the same object run backwards: its forward pass is
 * backward_data, its backward pass is forward, and x and dy change places in
 * backward_weights.
 *
 * create() allocates all that running needs, in `work` where that is given;
 * it is borrowed and outlives the object.  One object runs on one thread at a
 * time. */
#ifndef CT_DEVICE_CONV_H
#define CT_DEVICE_CONV_H

#include "cortado/device.h"
#include "cortado/shape.h"
#include "cortado/status.h"
#include "device/workspace.h"

enum { CT_CONV_MAX = CT_MAX_AXES - 1 };

/* Zero it first; the arrays are used up to n_spatial, which may be 0. */
struct ct_conv_desc {
    int            n_spatial;
    int64_t        batch, in_channels, out_channels, group;
    int64_t        in[CT_CONV_MAX], kernel[CT_CONV_MAX], stride[CT_CONV_MAX];
    int64_t        pad[CT_CONV_MAX], dilation[CT_CONV_MAX];
    bool           has_bias, sum, relu, packed;
    bool           moments; /* the sums of y's channels are of use */
    bool           ends;    /* x is a block's end: struct ct_conv_end */
    bool           untuned; /* what was measured plays no part */
    bool           forward_only; /* no backward passes follow */
    bool           transposed; /* a deconvolution's: run backwards */
    enum ct_layout src_layout, dst_layout;
    enum ct_dtype  src_type, dst_type;
};

bool ct_conv_desc_equal(const struct ct_conv_desc *a,
                        const struct ct_conv_desc *b);

/* Output positions along one axis; below 1 when the kernel does not fit. */
int64_t ct_conv_out(const struct ct_conv_desc *d, int axis);

/* Multiply-adds of one forward pass. */
double ct_conv_macs(const struct ct_conv_desc *d);

struct ct_conv;

/* Whether convolutions on this kind of device know sum and packed; relu they
 * know on all. */
bool ct_conv_finishes(const struct ct_device *dev);

/* Refuses kernels that do not fit and groups that do not divide; otherwise
 * what was measured to be the fastest does the work, or the first
 * implementation that accepts the description. */
CT_MUST_CHECK enum ct_status ct_conv_create(const struct ct_device *dev,
                                            const struct ct_conv_desc *desc,
                                            struct ct_workspace *work,
                                            struct ct_conv **out);
void ct_conv_destroy(struct ct_conv *c); /* takes NULL */

/* Before the first pass: measures what runs it best, where work->tuning has it
 * so (tuning.h), and changes to that. */
CT_MUST_CHECK enum ct_status ct_conv_tune(struct ct_conv *c);

const struct ct_conv_desc *ct_conv_description(const struct ct_conv *c);
const char *ct_conv_impl_name(const struct ct_conv *c);
/* Why it is that one, for people; "" where nobody asked. */
const char *ct_conv_why(const struct ct_conv *c);

/* Weights and their gradients are tiles (CT_TILES16) in the passes that follow,
 * or plain again: for two spatial axes, one group and channels in sixteens.
 * Whether that saves the implementation work; one that needs plain ones gets
 * copies, for which set_tiles() makes room once. */
bool ct_conv_takes_tiles(const struct ct_conv *c);
CT_MUST_CHECK enum ct_status ct_conv_set_tiles(struct ct_conv *c, bool tiles);

/* With `packed`: w is what the following forward passes have.  *kept: they do
 * not read it again, so it may go. */
CT_MUST_CHECK enum ct_status ct_conv_pack(struct ct_conv *c, const float *w,
                                          bool *kept);

/* y = ...; b is NULL unless has_bias. */
CT_MUST_CHECK enum ct_status ct_conv_forward(struct ct_conv *c, const float *x,
                                             const float *w, const float *b,
                                             float *y);
/* Sums over the channels of an array, in the device's memory: four floats for
 * each slot i of channel q, at part[4 (q slots + i)].  They are a number of
 * values, one of them or nearly, and the sums of their differences from that
 * and of the squares of these.  All slots of a channel together have all of its
 * values. */
struct ct_moments {
    const float *part;
    int64_t      slots;
};

/* Those that the last forward pass left of y, for one who asks; false: it left
 * none. */
bool ct_conv_moments(struct ct_conv *c, const float *y, struct ct_moments *out);
/* Where x is the end of a residual block, of a sum with BatchNorm and a ReLU,
 * that has a second reader: the gradient of the sum, and what BatchNorm needs
 * of it.  All arrays lie as x does.
 *
 *     e = dx + other where x > 0, else 0     sums of e and e (norm's x - mean)
 */
struct ct_conv_end {
    const void  *other; /* the gradient by the second reader */
    const void  *above; /* a bit for each x > 0 */
    const void  *x;     /* what BatchNorm read */
    const float *mean;  /* of its channels */
    void        *e;
};

/* e and its sums, two floats for each slot of a channel, at part[2 (q slots +
 * i)]: until the next backward pass.  part NULL: nothing was done, because dx
 * and a pass of its own are faster. */
CT_MUST_CHECK enum ct_status ct_conv_backward_end(
    struct ct_conv *c, const float *w, const float *dy,
    const struct ct_conv_end *end, struct ct_moments *sums);
/* dx = ... */
CT_MUST_CHECK enum ct_status ct_conv_backward_data(struct ct_conv *c,
                                                   const float *w,
                                                   const float *dy, float *dx);
/* dw += ..., db += ...; either may be NULL.  db needs has_bias. */
CT_MUST_CHECK enum ct_status ct_conv_backward_weights(struct ct_conv *c,
                                                      const float *x,
                                                      const float *dy,
                                                      float *dw, float *db);

/* dw = ..., db = ... */
CT_MUST_CHECK enum ct_status ct_conv_write_weights(struct ct_conv *c,
                                                   const float *x,
                                                   const float *dy, float *dw,
                                                   float *db);

/* A bias by itself.  y is batch x channels x spatial in
 * `layout`:  y[n,c,s] += b[c]  and  db[c] += sum over n, s of dy[n,c,s]. */
struct ct_bias_desc {
    int64_t        batch, channels, spatial;
    enum ct_layout layout;
    enum ct_dtype  dtype;
};

CT_MUST_CHECK enum ct_status ct_bias_forward(const struct ct_device *dev,
                                             const struct ct_bias_desc *d,
                                             const float *b, float *y);
CT_MUST_CHECK enum ct_status ct_bias_backward(const struct ct_device *dev,
                                              const struct ct_bias_desc *d,
                                              const float *dy, float *db);
/* For a ReLU behind it: dy = 0 where y is not above it, and db, where it is
 * not NULL, += the sums of what is left. */
CT_MUST_CHECK enum ct_status ct_bias_mask(const struct ct_device *dev,
                                          const struct ct_bias_desc *d,
                                          const float *y, float *dy,
                                          float *db);

#endif
