/* conv_way.h - the ways in which a GPU does one pass of a convolution.
 *
 *     whole    as it is described
 *     apart    groups by themselves, each with its channels packed together
 *     strided  the same, on the channels where they lie
 *     fold     a stride of s becomes s x s times the channels: x is cut into
 *              cells of s x s positions, and the kernel steps by one cell.
 *              Few channels fill the library's vectors this way.
 *     wide     channels of y filled up with zeros to a whole number of
 *              vectors: tensor cores are slow on an odd number of them
 *     direct   without cuDNN, for few input channels (conv_direct.h): forward
 *              and the weights' gradient, on arrays as they lie outside
 *     slabs    without cuDNN, the weights' gradient alone, in tf32: images
 *              become float16 by scales of their own (conv_scale.h), and sums
 *              are float32 (conv_slabs.h); in several forms
 *     patch    without cuDNN, for small convolutions of stride 1
 *              (conv_patch.h): all passes, on arrays as they lie outside; in
 *              several forms.  Weights lie inside for forward and data at once
 *     points   without cuDNN, forward alone, in bfloat16: kernels of one point
 *              (conv_points.h), which leave the sums of y's channels; where
 *              these are asked for, and in several forms
 *     ends     without cuDNN, the data's gradient alone, in bfloat16: the same
 *              kernels where a residual block ends (conv_ends.h), and where
 *              that is asked for; in several forms
 *
 * Forward may be `fused`: bias and ReLU are the engine's work then, and else a
 * pass of their own, or part of the one that takes y out.  An engine takes a
 * bias of the way's type, rounded to it as weights are.
 *
 * A way computes in one layout and one type, plain or NHWC.  What arrives in
 * another one, or is cut otherwise, is staged in scratch: brought in before
 * and taken out after.  Weights are always plain float32 outside. */
#ifndef CT_DEVICE_CUDA_CONV_WAY_H
#define CT_DEVICE_CUDA_CONV_WAY_H

#include "device/conv_impl.h"
#include "device/cuda/conv_kernels.h"
#include "device/cuda/conv_graph.h"

enum ct_conv_road {
    CT_CONV_WHOLE,
    CT_CONV_APART,
    CT_CONV_STRIDED,
    CT_CONV_FOLD,
    CT_CONV_WIDE,
    CT_CONV_DIRECT,
    CT_CONV_SLABS,
    CT_CONV_PATCH,
    CT_CONV_POINTS,
    CT_CONV_ENDS,
    CT_CONV_ROADS
};

struct ct_conv_way {
    enum ct_conv_road      road;
    bool                   fused;
    enum ct_layout         layout;
    enum ct_dtype          dtype;
    struct ct_conv_problem problem; /* of one run */
    int                    runs;
    int64_t                x_run, y_run, w_run; /* values from run to run */
    int64_t                n_x, n_y, n_w;       /* values inside */
    bool                   stage_x, stage_y, stage_w;
    struct ct_conv_cells   cells; /* how weights, and folded images, lie */
    size_t                 scratch; /* bytes that a way without cuDNN needs */
    int                    form;    /* of slabs, patches, points or ends */
    bool                   once;    /* images of slabs are read once */
    int64_t                slots;   /* of the sums of y, or of a block's end;
                                     * 0: it leaves none */
};

const char *ct_conv_road_name(enum ct_conv_road r);

/* CT_ENOTSUP: the road does not lead there. */
CT_MUST_CHECK enum ct_status ct_conv_way_make(const struct ct_conv *c,
                                              enum ct_pass pass,
                                              enum ct_conv_road road,
                                              bool fused,
                                              enum ct_layout layout,
                                              enum ct_dtype dtype,
                                              struct ct_conv_way *out);

/* Whether it has no engines of cuDNN. */
static inline bool ct_conv_road_is_ours(enum ct_conv_road r)
{
    return r == CT_CONV_DIRECT || r == CT_CONV_SLABS || r == CT_CONV_PATCH ||
           r == CT_CONV_POINTS || r == CT_CONV_ENDS;
}

/* How many forms a way of ours has for a pass. */
int ct_conv_road_forms(enum ct_conv_road r, enum ct_pass pass);

/* The same way in another form; CT_ENOTSUP: not in that one. */
CT_MUST_CHECK enum ct_status ct_conv_way_form(const struct ct_conv *c,
                                              int form,
                                              struct ct_conv_way *way);

/* Whether the sums of y, or of the end of a block, are asked for, and some way
 * leaves them; and which. */
bool ct_conv_sums_up(const struct ct_conv *c, enum ct_pass pass);
enum ct_conv_road ct_conv_sums_road(enum ct_pass pass);

/* Scratch for staging; the plan's own follows it.  x and y are the arrays of
 * the pass, or NULL: what is not aligned is staged too. */
size_t ct_conv_way_bytes(const struct ct_conv_way *way, const void *x,
                         const void *y);

/* Do both have the same weights inside? */
bool ct_conv_way_same_weights(const struct ct_conv_way *a,
                              const struct ct_conv_way *b);

/* Weights into `inside`, of n_w values. */
CT_MUST_CHECK enum ct_status ct_conv_way_weights(const struct ct_conv *c,
                                                 const struct ct_conv_way *way,
                                                 const float *w, void *inside);

/* Do both fold x into the same cells? */
bool ct_conv_way_same_cells(const struct ct_conv_way *a,
                            const struct ct_conv_way *b);

/* The passes.  `w` is inside already; `work` has what the way and the plan
 * ask for; a way without cuDNN has no plan.  Where `folded` is not NULL, it has
 * room for n_x values: forward leaves there what it makes of x, and a gradient
 * of the same cells finds it.  Sums of y go to `sums`, or where that is NULL
 * into scratch. */
CT_MUST_CHECK enum ct_status ct_conv_way_forward(
    const struct ct_conv *c, const struct ct_conv_way *way,
    const struct ct_conv_plan *plan, void *work, const void *x, const void *w,
    const float *b, void *y, void *folded, float *sums);
CT_MUST_CHECK enum ct_status ct_conv_way_data(
    const struct ct_conv *c, const struct ct_conv_way *way,
    const struct ct_conv_plan *plan, void *work, const void *w,
    const void *dy, void *dx);
/* By CT_CONV_ENDS; `sums` has room for two floats for each channel and slot. */
CT_MUST_CHECK enum ct_status ct_conv_way_end(const struct ct_conv *c,
                                             const struct ct_conv_way *way,
                                             const void *w, const void *dy,
                                             const struct ct_conv_end *end,
                                             float *sums);
/* Values of `scales`, which a gradient by slabs that reads images once finds
 * as its last pass left them; at first they may be anything.  0: none. */
size_t ct_conv_way_scales(const struct ct_conv_way *way);
/* dw += ...; scales that are NULL lie in `work`. */
CT_MUST_CHECK enum ct_status ct_conv_way_gradient(
    const struct ct_conv *c, const struct ct_conv_way *way,
    const struct ct_conv_plan *plan, void *work, const void *x,
    const void *dy, float *dw, const void *folded, uint32_t *scales);

#endif
