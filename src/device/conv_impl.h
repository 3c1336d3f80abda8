/* conv_impl.h - what an implementation of convolution provides. */
#ifndef CT_DEVICE_CONV_IMPL_H
#define CT_DEVICE_CONV_IMPL_H

#include "device/conv.h"

enum ct_conv_pass {
    CT_CONV_FORWARD, CT_CONV_DATA, CT_CONV_WEIGHTS, CT_CONV_PASSES
};

struct ct_conv_impl {
    const char *name;
    bool        shorts; /* on the CPU: it takes arrays of bfloat16, too */
    /* Sets c->state.  CT_ENOTSUP: not this description; the next one may.
     * destroy() follows in every case. */
    enum ct_status (*create)(struct ct_conv *c);
    void (*destroy)(struct ct_conv *c);
    /* Optional: whether it honours ct_conv.tiles.  NULL: no. */
    bool (*takes_tiles)(const struct ct_conv *c);
    /* Optional, with desc.packed: as ct_conv_pack(). */
    enum ct_status (*pack)(struct ct_conv *c, const float *w, bool *kept);
    /* As the functions in conv.h; never called for an empty batch. */
    enum ct_status (*forward)(struct ct_conv *c, const float *x,
                              const float *w, const float *b, float *y);
    enum ct_status (*backward_data)(struct ct_conv *c, const float *w,
                                    const float *dy, float *dx);
    /* Optional: as ct_conv_moments(). */
    bool (*moments)(struct ct_conv *c, const float *y, struct ct_moments *out);
    /* Optional: as ct_conv_backward_end(). */
    enum ct_status (*backward_end)(struct ct_conv *c, const float *w,
                                   const float *dy,
                                   const struct ct_conv_end *end,
                                   struct ct_moments *sums);
    bool writes; /* backward_weights honours ct_conv.write */
    /* dw is not NULL: a bias alone is the dispatcher's work. */
    enum ct_status (*backward_weights)(struct ct_conv *c, const float *x,
                                       const float *dy, float *dw, float *db);
};

/* The products are what every implementation needs to know. */
struct ct_conv {
    const struct ct_device    *dev;
    const struct ct_conv_impl *impl;
    struct ct_conv_desc        desc;
    int64_t                    out[CT_CONV_MAX];
    int64_t in_spatial, out_spatial, taps; /* products over the axes */
    int64_t in_group, out_group;           /* channels of one group */
    void   *state;                         /* the implementation's */
    char    why[128];                      /* it is this implementation */
    bool    write; /* gradients of weights are written, not added */
    bool    tiles; /* weights and their gradients come to it in tiles */
    bool    copies; /* the caller's are tiles, and it works on plain copies */
    float  *plain; /* both, for one that cannot have them so; owned */
    struct ct_conv *other; /* has another implementation; owned, or NULL */
    bool    others[CT_CONV_PASSES]; /* the passes that it runs */
    struct ct_workspace *work;             /* lent, or `own` */
    struct ct_workspace  own;
};

#ifdef CT_HAVE_ONEDNN
extern const struct ct_conv_impl ct_conv_onednn;
extern const struct ct_conv_impl ct_conv_winograd;
extern const struct ct_conv_impl ct_conv_tiles;
extern const struct ct_conv_impl ct_conv_cached;
#ifdef __x86_64__
extern const struct ct_conv_impl ct_conv_bf16;
extern const struct ct_conv_impl ct_conv_quarters;
extern const struct ct_conv_impl ct_conv_few;
#endif
#endif
#ifdef CT_HAVE_CUDA
extern const struct ct_conv_impl ct_conv_cudnn;
extern const struct ct_conv_impl ct_conv_whole;
extern const struct ct_conv_impl ct_conv_apart;
extern const struct ct_conv_impl ct_conv_strided;
extern const struct ct_conv_impl ct_conv_fold;
extern const struct ct_conv_impl ct_conv_wide;
extern const struct ct_conv_impl ct_conv_direct;
extern const struct ct_conv_impl ct_conv_slabs;
extern const struct ct_conv_impl ct_conv_patch;
extern const struct ct_conv_impl ct_conv_cuda_ref;
#endif
extern const struct ct_conv_impl ct_conv_amx;
extern const struct ct_conv_impl ct_conv_float32;
extern const struct ct_conv_impl ct_conv_gemm;
extern const struct ct_conv_impl ct_conv_ref;

/* What measuring prefers for each pass (cpu/conv_tune.h). */
struct ct_conv_choice {
    const struct ct_conv_impl *impl, *other; /* no other: NULL */
    bool                       others[CT_CONV_PASSES];
};

/* conv_other.c: has c run the passes of a choice by its other implementation,
 * in the same workspace.  CT_ENOTSUP, without a text: it does not take c. */
CT_MUST_CHECK enum ct_status ct_conv_set_other(
    struct ct_conv *c, const struct ct_conv_choice *choice);
void ct_conv_drop_other(struct ct_conv *c);

/* The one of the two that runs a pass. */
static inline struct ct_conv *ct_conv_of(struct ct_conv *c,
                                         enum ct_conv_pass pass)
{
    return c->other && c->others[pass] ? c->other : c;
}

static inline bool ct_conv_is_short(const struct ct_conv_desc *d)
{
    return d->src_type == CT_BF16 || d->dst_type == CT_BF16;
}

/* Whether an implementation knows the types of c; create() may still refuse. */
static inline bool ct_conv_may(const struct ct_conv *c,
                               const struct ct_conv_impl *impl)
{
    return c->dev->kind != CT_CPU || impl->shorts ||
           !ct_conv_is_short(&c->desc);
}

/* conv.c: db += the sums of dy, or =, as c->write has it; db may be NULL. */
CT_MUST_CHECK enum ct_status ct_conv_bias_gradient(const struct ct_conv *c,
                                                   const float *dy, float *db);

/* conv_tiles.c: for an implementation that takes tiles always: so it says; w in
 * tiles, and where gradients in tiles are made.  Both are at the start of the
 * workspace if the caller's are plain; to_plain() then adds the gradients to
 * dw, or writes them, as c->write has it. */
bool ct_conv_always_tiles(const struct ct_conv *c);
const float *ct_conv_in_tiles(const struct ct_conv *c, const float *w);
float *ct_conv_gradient_tiles(const struct ct_conv *c, float *dw);
void ct_conv_gradient_to_plain(const struct ct_conv *c, float *dw);
/* conv_tiles.c: w, or a plain copy of it where the implementation needs one;
 * and the gradient of the weights by way of one. */
const float *ct_conv_plain(const struct ct_conv *c, const float *w);
CT_MUST_CHECK enum ct_status ct_conv_tiled_gradient(struct ct_conv *c,
                                                    const float *x,
                                                    const float *dy, float *dw,
                                                    float *db);

/* y = max(y, 0), for an implementation that cannot do so on the way. */
void ct_conv_relu(const struct ct_conv *c, float *y);
/* For one whose max(NaN, 0) is 0: a net that has diverged must say so.  Whether
 * the n values of w are numbers, and y = NaN throughout. */
bool ct_conv_finite(int64_t n, const float *w);
void ct_conv_spoil(const struct ct_conv *c, float *y);

/* Without stride and dilation: whether some taps along an axis meet nothing but
 * padding.  Their gradient is 0; Winograd's rounding would make it something
 * that AdaGrad and its kin take for a direction. */
static inline bool ct_conv_has_idle_taps(const struct ct_conv_desc *d,
                                         int axis)
{
    return d->in[axis] + d->pad[axis] < d->kernel[axis];
}

#endif
