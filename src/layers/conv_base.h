/* conv_base.h - what the layers of the convolution family share: reading
 * ConvolutionParameter, shapes, and the passes over all bottoms. */
#ifndef CT_LAYERS_CONV_BASE_H
#define CT_LAYERS_CONV_BASE_H

#include "cortado/layer.h"
#include "device/conv.h"
#include "device/impl.h"
#include "layers/fold.h"

enum ct_conv_kind {
    CT_CONV_PLAIN,      /* Convolution */
    CT_CONV_TRANSPOSED, /* Deconvolution: the object runs backwards */
    CT_CONV_DEPTHWISE   /* one group a channel, num_output may be left out */
};

/* A layer's state.  `desc` describes the convolution object, whose input is
 * the top when it runs backwards.  There is an object for each bottom, or
 * rather one object several times where the bottoms lie alike. */
struct ct_conv_layer {
    enum ct_conv_kind   kind;
    struct ct_conv_desc desc;
    int                 axis;     /* of channels */
    int64_t             channels; /* of bottoms */
    int64_t             num_output;
    bool                has_bias;
    struct ct_fold      fold;      /* see conv_fuse.c */
    bool                sum, relu; /* absorbed */
    /* Since forward another layer has masked the top's diff for the ReLU and
     * added up the gradient of the bias; see ct_conv_layer_masks(). */
    bool                masked;
    bool                moments;   /* the layer behind asks for them */
    struct ct_layer    *end; /* a BatchNorm whose gradient it ends, or NULL */
    /* One that takes the gradient of x for the positions alone that the kernel
     * reads, or NULL; and the object that makes that, without a stride. */
    struct ct_layer    *thin;
    struct ct_conv     *thin_conv; /* owned */
    struct ct_conv    **conv; /* owned, and what it points to */
    int                 n_conv;
};

enum { CT_CONV_WEIGHT, CT_CONV_BIAS };

/* The axis of channels and, in d, kernel, stride, pad and dilation of the
 * axes after it. */
CT_MUST_CHECK enum ct_status ct_conv_read_window(const struct ct_layer *l,
                                                 const struct ct_blob *bottom,
                                                 int *axis,
                                                 struct ct_conv_desc *d);

CT_MUST_CHECK enum ct_status ct_conv_layer_setup(struct ct_layer *l,
                                                 const struct ct_io *io,
                                                 enum ct_conv_kind kind);
/* The layer type's slots; forward and backward are for objects that run
 * forwards. */
enum ct_status ct_conv_layer_reshape(struct ct_layer *l,
                                     const struct ct_io *io);
enum ct_status ct_conv_layer_forward(struct ct_layer *l,
                                     const struct ct_io *io);
enum ct_status ct_conv_layer_backward(struct ct_layer *l,
                                      const struct ct_io *io);
bool ct_conv_layer_accepts(const struct ct_layer *l, const struct ct_io *io,
                           enum ct_layout layout);
enum ct_status ct_conv_layer_tune(struct ct_layer *l);
bool ct_conv_layer_rests(const struct ct_layer *l);
const char *ct_conv_layer_describe(const struct ct_layer *l, const char **why);
double ct_conv_layer_macs(const struct ct_layer *l, const struct ct_io *io);
void   ct_conv_layer_teardown(struct ct_layer *l);

/* conv_fuse.c: the slots of the type, what the convolution objects are given,
 * and dy = 0 where y is, for a ReLU; where that sums up the gradient of the
 * bias on its way, *db is NULL afterwards. */
bool ct_conv_layer_absorb(struct ct_layer *l, const struct ct_layer *next);
bool ct_conv_layer_meet(struct ct_layer *l, int i, struct ct_layer *writer,
                        const struct ct_blob *top, bool last);
CT_MUST_CHECK enum ct_status ct_conv_layer_weights(struct ct_layer *l,
                                                   const float **w,
                                                   const float **b);
CT_MUST_CHECK enum ct_status ct_conv_layer_mask(const struct ct_layer *l,
                                                const struct ct_blob *top,
                                                float **db);

/* Weights get the form that a pass wants before its turn: conv_ahead.h.  With
 * `begins` false no pass finds them any more. */
CT_MUST_CHECK enum ct_status ct_conv_layer_ahead(struct ct_layer *l,
                                                 enum ct_pass pass,
                                                 bool begins);

/* The state of a layer whose objects run forwards; NULL: it has no such. */
struct ct_conv_layer *ct_conv_layer_of(struct ct_layer *l);

/* For a layer that writes the diff of its only top in the backward pass: does
 * it mask that diff itself, with *db to be added to (NULL: none)?  Then
 * ct_conv_layer_masked() says that it is done. */
bool ct_conv_layer_masks(const struct ct_layer *l, float **db);
void ct_conv_layer_masked(struct ct_layer *l);

/* A type whose objects run forwards: all of them differ in name and setup. */
#define CT_CONV_TYPE(called, setup_fn)                                       \
    {                                                                        \
        .name       = called,                                                \
        .bottoms    = CT_AT_LEAST(1),                                        \
        .tops       = CT_AT_LEAST(1),                                        \
        .flags      = CT_LAYER_EQUAL_NUM | CT_LAYER_NO_TOP |                 \
                      CT_LAYER_OWN_LAYOUT | CT_LAYER_ASIDE |                 \
                      CT_LAYER_OVERWRITES | CT_LAYER_LEAVES_DIFF |           \
                      CT_LAYER_BY_ITEM | CT_LAYER_BF16,                      \
        .state_size = sizeof(struct ct_conv_layer),                          \
        .setup      = (setup_fn),                                            \
        .reshape    = ct_conv_layer_reshape,                                 \
        .forward    = CT_EVERY_DEVICE(ct_conv_layer_forward),                \
        .backward   = CT_EVERY_DEVICE(ct_conv_layer_backward),               \
        .accepts    = ct_conv_layer_accepts,                                 \
        .absorb     = ct_conv_layer_absorb,                                  \
        .meet       = ct_conv_layer_meet,                                    \
        .packs      = ct_conv_layer_rests,                                   \
        .tune       = ct_conv_layer_tune,                                    \
        .describe   = ct_conv_layer_describe,                                \
        .macs       = ct_conv_layer_macs,                                    \
        .teardown   = ct_conv_layer_teardown,                                \
    }

/* The gradient of blob i to add to; NULL when nobody wants it. */
float *ct_conv_layer_diff(const struct ct_layer *l, int i);

#endif
