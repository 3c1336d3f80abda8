/* net_inner.h - inside a net; shared by the passes that build it.
 *
 * Passes in this order, one file each:
 *     phase         removes layers whose rules do not fit the state
 *     add_splits    adds Split layers for blobs that are read twice
 *     build         creates, connects and sets up layers; shapes are known
 *     backward      finds the layers and bottoms that need a gradient
 *     params        shares parameters by name and lays them into two arenas
 *     part          separates in-place layers from bottoms that others need
 *     fuse          lets neighbours run as one
 *     layouts       chooses layouts, and converts where layers disagree
 *     chain         finds layers that images pass through in groups
 *     memory        gives activations memory by lifetime
 *     measure_impl  measures implementations
 * run.c runs the net. */
#ifndef CT_NET_NET_INNER_H
#define CT_NET_NET_INNER_H

#include "base/text.h"
#include "core/buffer.h"
#include "cortado/net.h"
#include "device/tuning.h"
#include "device/workspace.h"
#include "net/training.h"

struct net_chain;

/* One layer with its place in the net. */
struct net_layer {
    struct ct_layer *layer;
    struct ct_blob **bottom, **top;     /* borrowed from net->blob, shadow */
    struct ct_blob **shadow;            /* per bottom: plain copy; owned */
    /* For a layer on the CPU in a net on a GPU, otherwise NULL: */
    struct ct_blob **host_bottom, **host_top; /* copies in host memory; owned;
                                               * in place both have the same */
    struct ct_blob **gpu_top; /* the net's own tops; borrowed */
    const float    **put; /* per top: address to which it was copied last */
    int             *bottom_id, *top_id; /* indices into net->blob */
    int              n_bottom, n_top;
    uint32_t        *seen;              /* bottom versions at last reshape */
    bool            *want_grad;         /* per bottom */
    float           *loss_weight;       /* per top */
    int             *param_id;          /* per layer blob, into net->param */
    bool             needs_backward;
    int              first, last;       /* layers of its group; see fuse.c */
    struct net_chain *chain;            /* borrowed; NULL: none, see chain.h */
    /* In the first layer of a group: the layer of the group that reads another
     * blob, and the index of that bottom; NULL: none. */
    struct net_layer *joins;
    int              joins_bottom;
    /* In the first layer of a group: the group that writes its bottom, with
     * `joins`, and whose gradient it may end; NULL: none. */
    const struct net_layer *ends;
    struct ct_blob  *with[2];           /* with `joins`: bottoms of the group */
    bool             with_grad[2];      /* with `joins`: those with gradient */
    int              diff_top; /* with ALIAS_DIFF: the top with bottom 0's
                                * diff */
    bool             one_diff; /* the diffs of its bottoms are one array */
};

struct net_blob {
    struct ct_blob *blob; /* owned */
    char           *name; /* owned */
    int             stands_for; /* id of the prototxt's blob; see part.c */
    int             copy; /* a source's top: id of the copy that layers read;
                           * 0: they read the top */
    float           loss_weight;
    bool            needs_grad;
    bool            pinned; /* input, output or loss: its memory is not
                             * shared */
    bool            lane_data, lane_diff; /* in the memory of a chain's lanes */
};

struct ct_net {
    Caffe__NetParameter  *param; /* after phase and add_splits; owned */
    struct ct_net_options options;   /* its `training` is not used */
    struct ct_net_training training; /* copy of the one in the options */
    const struct ct_device *dev;
    struct ct_run         run;
    struct ct_workspace   work; /* shared by its layers */
    struct ct_tuning      tuning; /* of its implementations */
    struct net_layer     *layer;
    int                   n_layer;
    struct net_blob      *blob;
    int                   n_blob, n_named; /* the prototxt's n_named first */
    int                  *input, *output; /* blob ids */
    int                   n_input, n_output;
    struct ct_net_param  *params; /* shared ones once; owned */
    int                   n_params;
    struct ct_buffer     *arena_data, *arena_diff;
    size_t                arena_count;     /* floats */
    struct ct_buffer     *activations;
    struct ct_buffer     *cells; /* on the device: the pass number */
    /* Recorded passes (replay.c): without and with clearing of gradients, and
     * both with layer_done. */
    struct ct_graph      *graph[4];
    uint64_t              graph_stamp[4];
    struct ct_beacon     *beacon; /* sends the loss of a replayed pass */
    uint64_t              stamp;  /* shapes and addresses of the last pass */
    int                   n_same; /* passes before with the same stamp */
    bool                  no_replay;
    bool                  aside; /* memory is planned for the side lane */
    size_t                activation_bytes; /* with sharing by lifetime */
    size_t                unshared_bytes;   /* without sharing */
    const float          *loss_scale; /* on the device; borrowed; or NULL */
    struct ct_net_hooks   hooks;
    ct_net_fn             layer_done; /* set by the solver; may be NULL */
    void                 *layer_done_arg;
    ct_net_fn             layer_start; /* set by the solver; may be NULL */
    void                 *layer_start_arg;
    bool                  debug_info;
    bool                  fused; /* some layers run as one */
    bool                  met;   /* some layers work for the next (fuse.c) */
    bool                  packed; /* parameters are packed; see packed.c */
    struct net_chain    **chain; /* owned */
    int                   n_chain;
    bool                  no_chain; /* a caller reads single layers */
    bool                  hooked;   /* it does so by hooks, which may end */
    bool                  no_turn;  /* a caller reads the batch of a layer */
    bool                  paired;   /* a backward pass follows this one */
    bool                  came_back; /* this pass has computed the gradients of
                                      * chains, too */
};

/* precision_words.c: logs once which of NVIDIA's words have no effect. */
void net_precision_note(const struct ct_net *net);

/* add_splits.c: inserts Split layers into `param`. */
CT_MUST_CHECK enum ct_status net_split(Caffe__NetParameter *param);

/* build.c: sets layer, blob, input, output of a net from its param. */
CT_MUST_CHECK enum ct_status net_build(struct ct_net *net);

/* backward.c: sets needs_backward, want_grad, needs_grad. */
CT_MUST_CHECK enum ct_status net_backward_needs(struct ct_net *net);

/* params.c: sets params, shares them and makes the arenas. */
CT_MUST_CHECK enum ct_status net_params(struct ct_net *net);

/* build.c: adds a blob; memory.c gives it memory. */
CT_MUST_CHECK enum ct_status net_add_blob(struct ct_net *net,
                                          const char *name, int *out);

/* packed.c: whether parameter i can be packed. */
bool net_param_packs(const struct ct_net *net, int i);

/* part.c: separates in-place layers from bottoms that other layers need; only
 * layer i, which works in place on blob b. */
CT_MUST_CHECK enum ct_status net_part_all(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_part(struct ct_net *net, int i, int b);
/* For tops of source `l` that have a copy: the copy gets their shape; their
 * values, after forward; they get its gradient, after backward. */
CT_MUST_CHECK enum ct_status net_copies_shape(struct ct_net *net,
                                              const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_copies_fill(struct ct_net *net,
                                             const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_copies_back(struct ct_net *net,
                                             const struct net_layer *l);
/* Whether a layer after i works in place on blob b or on a view of it. */
bool net_overwritten(const struct ct_net *net, int b, int i);

/* fuse.c: sets first and last of every layer. */
CT_MUST_CHECK enum ct_status net_fuse(struct ct_net *net);
/* Every layer runs by itself again. */
CT_MUST_CHECK enum ct_status net_unfuse(struct ct_net *net);
/* replay.c: tells sources which of their tops may have unused rows at the
 * end. */
void net_mark_open_ended(struct ct_net *net);

/* ahead.c: in a pass that may use the side lane, at the beginning, before each
 * layer of the forward pass, and at the end. */
struct net_ahead {
    int next;   /* the first convolution that nothing was done for */
    int size;   /* of the next group of them */
    int wanted; /* before this layer the main lane waits */
};
CT_MUST_CHECK enum ct_status net_ahead_begin(struct ct_net *net,
                                             struct net_ahead *e);
CT_MUST_CHECK enum ct_status net_ahead_before(struct ct_net *net,
                                              struct net_ahead *e, int i);
CT_MUST_CHECK enum ct_status net_ahead_end(struct ct_net *net);

/* layouts.c: chooses layouts of blobs, and makes shadows where layers
 * disagree. */
CT_MUST_CHECK enum ct_status net_layouts(struct ct_net *net);

/* chain.c: finds chains for the shapes that there are, which chain_run.c
 * runs. */
CT_MUST_CHECK enum ct_status net_chains(struct ct_net *net);
void net_chains_drop(struct ct_net *net);
/* Every layer takes whole batches, until hooks are taken away again. */
CT_MUST_CHECK enum ct_status net_unchain(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_chain_again(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_chain_forward(struct ct_net *net,
                                               struct net_chain *c);
CT_MUST_CHECK enum ct_status net_chain_backward(struct ct_net *net,
                                                struct net_chain *c);
/* Forward again: the first layer whose output is not finite; -1: none. */
CT_MUST_CHECK enum ct_status net_chain_look(struct ct_net *net,
                                            struct net_chain *c, int *layer);
/* Whether it makes gradients in the forward pass. */
bool net_chain_turns(const struct net_chain *c);
/* The layers of its groups; and the one of the first group that runs in place
 * of `l`, or l's own. */
CT_MUST_CHECK enum ct_status net_chain_tune(struct net_chain *c);
const struct ct_layer *net_chain_twin(const struct net_layer *l);
/* The layers of the chain, from its first to its last. */
int net_chain_first(const struct net_chain *c);
int net_chain_last(const struct net_chain *c);
/* For ct_net_plan_text(). */
void net_chain_lines(struct ct_text *t, const struct ct_net *net);

/* memory.c: finds chains, gives every planned blob its memory and chains their
 * lanes; again after a reshape. */
CT_MUST_CHECK enum ct_status net_memory(struct ct_net *net);
/* The bytes of each blob's data and diff, two a blob, that a plan places (0:
 * elsewhere); and what a plan with other sizes would take together. */
CT_MUST_CHECK enum ct_status net_plan_sizes(struct ct_net *net, size_t *bytes);
CT_MUST_CHECK enum ct_status net_plan_total(struct ct_net *net,
                                            const size_t *bytes, size_t *out);

/* measure_impl.c: before building: whether measured choices are used for this
 * net; after building: measures. */
CT_MUST_CHECK enum ct_status net_tuning(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_tune(struct ct_net *net);

/* fit.c: predicts the memory of a net at any batch from two small batches.
 * `options` are those of the large net. */
struct net_fit;
CT_MUST_CHECK enum ct_status net_fit_create(
    const Caffe__NetParameter *param, const struct ct_net_options *options,
    struct net_fit **out);
void net_fit_destroy(struct net_fit *f); /* takes NULL */
CT_MUST_CHECK enum ct_status net_fit_bytes(const struct net_fit *f,
                                           int64_t batch, size_t *out);
/* The largest batch below `batch` that takes no more than `room` bytes. */
CT_MUST_CHECK enum ct_status net_fit_largest(const struct net_fit *f,
                                             size_t room, int64_t batch,
                                             int64_t *out);
/* After a net did not fit and was destroyed: adds to the error how much memory
 * it needs, how much there is, and which batch fits. */
CT_MUST_CHECK enum ct_status net_explain_memory(
    const Caffe__NetParameter *param, const struct ct_net_options *options);

/* bridge.c: layers that stay on the CPU while the net is on a GPU.  For other
 * layers these functions do nothing. */
const struct ct_device *net_layer_device(const struct ct_net *net,
                                         const Caffe__LayerParameter *p);
CT_MUST_CHECK enum ct_status net_bridge_wire(struct ct_net *net,
                                             struct net_layer *l);
/* Copies in host memory get the shapes of the net's bottoms; the net's tops get
 * the shapes of the copies. */
CT_MUST_CHECK enum ct_status net_bridge_bottoms(struct ct_net *net,
                                                struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_tops(struct ct_net *net,
                                             struct net_layer *l);
/* Copy values before and after each pass. */
CT_MUST_CHECK enum ct_status net_bridge_forward_in(struct ct_net *net,
                                                   struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_forward_out(struct ct_net *net,
                                                    struct net_layer *l);
/* Sources that write to the GPU themselves. */
bool net_bridge_is_direct(const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_direct(struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_backward_in(struct ct_net *net,
                                                    struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_backward_out(struct ct_net *net,
                                                     struct net_layer *l);
void net_bridge_fini(struct net_layer *l);

/* `st` if a device or a peer has failed, because then shapes or options are not
 * the cause. */
static inline enum ct_status net_status(enum ct_status st,
                                        enum ct_status otherwise)
{
    return st == CT_ENOMEM || st == CT_EDEVICE || st == CT_ECOMM ? st
                                                                : otherwise;
}

/* run.c: converts values of blob b between two layouts and types. */
CT_MUST_CHECK enum ct_status net_convert(const struct ct_blob *b,
                                         const struct ct_tensor *from,
                                         const struct ct_tensor *to);
/* Reshapes one layer, and keeps the versions of its bottoms in `seen`. */
CT_MUST_CHECK enum ct_status net_layer_reshape(struct ct_net *net,
                                               struct net_layer *l);
CT_MUST_CHECK enum ct_status net_forward_layer(struct ct_net *net, int i);
/* Whether the side lane may be used.  Not in the first pass, because operations
 * choose their implementation by measuring. */
static inline bool net_may_aside(const struct ct_net *net)
{
    return net->aside && net->n_same > 0;
}

static inline bool net_has_hooks(const struct ct_net *net)
{
    const struct ct_net_hooks *h = &net->hooks;

    return h->before_forward || h->after_forward || h->before_backward ||
           h->after_backward;
}

/* Sets the memory of tops that are views of their bottom. */
void net_layer_alias(const struct ct_net *net, struct net_layer *l);

static inline struct ct_io net_io(const struct net_layer *l)
{
    return (struct ct_io){ l->bottom, l->top, l->n_bottom, l->n_top,
                           l->want_grad };
}

/* The bottoms and tops of the layer that does the work of a group. */
static inline struct ct_io net_group_io(struct ct_net *net, int layer)
{
    struct net_layer *head      = &net->layer[net->layer[layer].first];
    const struct net_layer *end = &net->layer[net->layer[layer].last];

    if (head->joins) {
        head->with[0] = head->bottom[0];
        head->with[1] = head->joins->bottom[head->joins_bottom];
        head->with_grad[0] = head->want_grad[0];
        head->with_grad[1] = head->joins->want_grad[head->joins_bottom];
        return (struct ct_io){ head->with, end->top, 2, end->n_top,
                               head->with_grad };
    }
    return (struct ct_io){ head->bottom, end->top, head->n_bottom, end->n_top,
                           head->want_grad };
}

#endif
