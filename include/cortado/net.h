/* cortado/net.h - a net: layers and blobs, built from a prototxt, run forward
 * and backward.
 *
 * A net is used by one thread at a time; different nets by different threads.
 * Names, blobs and layers that these functions return belong to the net. */
#ifndef CT_NET_H
#define CT_NET_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_net;
struct ct_net_training; /* inside the library */

struct ct_net_options {
    const struct ct_device *device; /* NULL: the CPU */
    Caffe__Phase            phase;
    int                     level;
    const char *const      *stage;
    int                     n_stage;
    uint64_t                seed;
    int                     rank, size;   /* size 0: alone */
    bool                    deal_tests;   /* see struct ct_run */
    bool                    keep_blobs;   /* every blob readable after a pass */
    bool                    forward_only; /* no memory for gradients */
    bool                    fixed_params; /* changed by calls below alone */
    bool                    quiet; /* logs and measures nothing at build */
    const struct ct_net_training *training; /* a solver's; NULL: none */
};

/* Called before or after layer `layer` runs. */
typedef enum ct_status (*ct_net_fn)(struct ct_net *net, int layer, void *arg);

struct ct_net_hooks {
    ct_net_fn before_forward, after_forward, before_backward, after_backward;
    void     *arg;
};

/* One parameter of the net, owned by the first layer that has it. */
struct ct_net_param {
    struct ct_blob *blob;
    int             layer, index; /* blob `index` of layer `layer` */
    float           lr_mult, decay_mult;
    bool            has_lr_mult, has_decay_mult; /* given in the prototxt */
    int             n_sharers;
    size_t          offset; /* floats into the arenas */
};

/* The precision that a net's own words ask for (default_forward_type and
 * default_backward_type: FLOAT16 or BFLOAT16); CT_FP32 where they do not. */
CT_API enum ct_precision ct_net_precision(const Caffe__NetParameter *param);

/* Builds the net of `param` (already upgraded): filters by state, inserts
 * splits, sets up layers, shares parameters, plans memory.  The message is
 * copied. */
CT_API CT_MUST_CHECK enum ct_status ct_net_create(
    const Caffe__NetParameter *param, const struct ct_net_options *options,
    struct ct_net **out);
CT_API CT_MUST_CHECK enum ct_status ct_net_create_file(
    const char *path, const struct ct_net_options *options,
    struct ct_net **out);
CT_API void ct_net_destroy(struct ct_net *net); /* takes NULL */

/* Layers [from, to); ct_net_forward runs all.  *loss may be NULL. */
CT_API CT_MUST_CHECK enum ct_status ct_net_forward(struct ct_net *net,
                                                   double *loss);
CT_API CT_MUST_CHECK enum ct_status ct_net_forward_range(
    struct ct_net *net, int from, int to, double *loss);
/* Layers from `from` down to `to`, both included, as Caffe counts. */
CT_API CT_MUST_CHECK enum ct_status ct_net_backward(struct ct_net *net);
CT_API CT_MUST_CHECK enum ct_status ct_net_backward_range(struct ct_net *net,
                                                          int from, int to);
/* Both passes over all layers; on a GPU the quickest way to do them.  `fresh`:
 * the diffs of parameters are cleared before.  On return the loss is there;
 * a GPU may still be at work on the backward pass. */
CT_API CT_MUST_CHECK enum ct_status ct_net_forward_backward(
    struct ct_net *net, bool fresh, double *loss);
CT_API CT_MUST_CHECK enum ct_status ct_net_clear_diffs(struct ct_net *net);

/* After inputs changed shape: reshape every layer, plan memory again.
 * Forward does the first by itself where it must. */
CT_API CT_MUST_CHECK enum ct_status ct_net_reshape(struct ct_net *net);

/* Whether ranks can deal its batches out: every source can, and no pass needs
 * another.  Where not, *layer (may be NULL) is one that stands against it. */
CT_API bool ct_net_can_deal(const struct ct_net *net, int *layer);

CT_API const char *ct_net_name(const struct ct_net *net);
/* What it was built from, without the layers that its state leaves out. */
CT_API const Caffe__NetParameter *ct_net_param_message(
    const struct ct_net *net);
CT_API Caffe__Phase ct_net_phase(const struct ct_net *net);
CT_API int ct_net_n_layers(const struct ct_net *net);
CT_API struct ct_layer *ct_net_layer(const struct ct_net *net, int i);
/* -1 when there is none of that name. */
CT_API int ct_net_find_layer(const struct ct_net *net, const char *name);
CT_API struct ct_io ct_net_io(const struct ct_net *net, int layer);
CT_API bool ct_net_layer_needs_backward(const struct ct_net *net, int layer);
/* Neighbours may run as one, at the turn of the last of them: then what lies
 * between them is never written.  A layer alone is first and last. */
CT_API int ct_net_group_first(const struct ct_net *net, int layer);
CT_API int ct_net_group_last(const struct ct_net *net, int layer);

CT_API int ct_net_n_blobs(const struct ct_net *net);
CT_API struct ct_blob *ct_net_blob(const struct ct_net *net, int i);
CT_API const char *ct_net_blob_name(const struct ct_net *net, int i);
CT_API float ct_net_blob_loss_weight(const struct ct_net *net, int i);
CT_API int ct_net_find_blob(const struct ct_net *net, const char *name);
CT_API int ct_net_bottom_id(const struct ct_net *net, int layer, int i);
CT_API int ct_net_top_id(const struct ct_net *net, int layer, int i);
CT_API int ct_net_n_inputs(const struct ct_net *net);
CT_API int ct_net_input_id(const struct ct_net *net, int i);
CT_API int ct_net_n_outputs(const struct ct_net *net);
CT_API int ct_net_output_id(const struct ct_net *net, int i);

/* Learnable parameters, each once, in net order. */
CT_API int ct_net_n_params(const struct ct_net *net);
CT_API const struct ct_net_param *ct_net_param(const struct ct_net *net,
                                               int i);
/* The arenas they lie in, in floats, laid out alike; backward fills diffs front
 * to back.  The first few belong to no parameter. */
CT_API float *ct_net_arena_data(const struct ct_net *net);
CT_API float *ct_net_arena_diff(const struct ct_net *net);
CT_API size_t ct_net_arena_count(const struct ct_net *net);

/* Weights by layer name, from a caffemodel or an HDF5 file (told apart by
 * content).  Layers that the file lacks keep theirs. */
CT_API CT_MUST_CHECK enum ct_status ct_net_load(struct ct_net *net,
                                                const char *path);
CT_API CT_MUST_CHECK enum ct_status ct_net_copy_weights(
    struct ct_net *net, const Caffe__NetParameter *from, const char *source);
/* For nets of fixed_params, when others than the calls here wrote to them. */
CT_API void ct_net_params_changed(struct ct_net *net);
/* Use the weights of another net, by layer name; memory is shared. */
CT_API CT_MUST_CHECK enum ct_status ct_net_share_weights(
    struct ct_net *net, const struct ct_net *from);
CT_API CT_MUST_CHECK enum ct_status ct_net_save(const struct ct_net *net,
                                                const char *path,
                                                bool with_diff);
CT_API CT_MUST_CHECK enum ct_status ct_net_save_hdf5(const struct ct_net *net,
                                                     const char *path,
                                                     bool with_diff);
CT_API CT_MUST_CHECK enum ct_status ct_net_to_message(
    const struct ct_net *net, bool with_diff, Caffe__NetParameter **out);

/* Layer, type, output shape, parameters, multiply-adds, activation memory as
 * a table.  *out is ct_free'd by the caller. */
CT_API CT_MUST_CHECK enum ct_status ct_net_summary(const struct ct_net *net,
                                                   char **out);

/* Layouts of blobs, conversions between them, layers that run as one, and
 * where blobs lie in memory, as text.  *out is ct_free'd by the caller. */
CT_API CT_MUST_CHECK enum ct_status ct_net_plan_text(const struct ct_net *net,
                                                     char **out);

CT_API void ct_net_set_hooks(struct ct_net *net,
                             const struct ct_net_hooks *hooks);
CT_API void ct_net_set_debug_info(struct ct_net *net, bool on);

#ifdef __cplusplus
}
#endif
#endif
