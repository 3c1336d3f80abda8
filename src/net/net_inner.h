/* net_inner.h - inside a net; shared by the passes that build it.
 *
 * Built in this order, one file a pass:
 *     filter   layers whose rules do not fit the state are dropped
 *     split    a blob read twice gets a Split layer
 *     build    layers are created, wired and set up; shapes are known
 *     backward which layers and bottoms need a gradient
 *     params   parameters are shared by name and laid into two arenas
 *     part     layers in place leave others what they need
 *     fuse     neighbours that one pass over memory can do run as one
 *     plan     layouts, and conversions where layers disagree
 *     chain    layers that images go through a few at a time
 *     memory   activations get memory by lifetime
 *     tune     implementations are measured
 * then run.c runs it. */
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
    struct ct_blob **shadow;            /* per bottom, plain copies; owned */
    /* The host's copies, for a layer that stays on the CPU while its net is
     * on a GPU; NULL elsewhere.  Owned; in place both lists name one. */
    struct ct_blob **host_bottom, **host_top;
    struct ct_blob **gpu_top; /* then, the net's own; borrowed */
    const float    **put; /* where each top was put last */
    int             *bottom_id, *top_id; /* indices into net->blob */
    int              n_bottom, n_top;
    uint32_t        *seen;              /* bottom versions at last reshape */
    bool            *want_grad;         /* per bottom */
    float           *loss_weight;       /* per top */
    int             *param_id;          /* per layer blob, into net->param */
    bool             needs_backward;
    int              first, last;       /* the group it runs in; see fuse.c */
    struct net_chain *chain;            /* borrowed; NULL: none, see chain.h */
    /* Of a group's first layer: a layer of the group that reads one more blob
     * and which bottom that is; NULL: none. */
    struct net_layer *joins;
    int              joins_bottom;
    struct ct_blob  *with[2];           /* then, the bottoms of the group */
    bool             with_grad[2];      /* and which of them want a gradient */
    int              diff_top; /* whose diff is bottom 0's, with ALIAS_DIFF */
    bool             one_diff; /* the diffs of its bottoms are one place */
};

struct net_blob {
    struct ct_blob *blob; /* owned */
    char           *name; /* owned */
    int             stands_for; /* the blob of the prototxt; see part.c */
    int             copy; /* of a source's top: what layers read; 0: the top */
    float           loss_weight;
    bool            needs_grad;
    bool            pinned; /* input, output or loss: memory of its own */
    bool            lane_data, lane_diff; /* a chain's lanes have it */
};

struct ct_net {
    Caffe__NetParameter  *param; /* filtered, split; owned */
    struct ct_net_options options;   /* without `training`: */
    struct ct_net_training training; /* a copy */
    const struct ct_device *dev;
    struct ct_run         run;
    struct ct_workspace   work; /* of its layers, in turn */
    struct ct_tuning      tuning; /* of their implementations */
    struct net_layer     *layer;
    int                   n_layer;
    struct net_blob      *blob;
    int                   n_blob, n_named; /* those of the prototxt first */
    int                  *input, *output; /* blob ids */
    int                   n_input, n_output;
    struct ct_net_param  *params; /* learnable, each once */
    int                   n_params;
    struct ct_buffer     *arena_data, *arena_diff;
    size_t                arena_count;     /* floats */
    struct ct_buffer     *activations;
    struct ct_buffer     *cells; /* on the device: the pass number */
    /* Recorded passes, without and with clearing the gradients, and both with
     * layer_done; replay.c. */
    struct ct_graph      *graph[4];
    uint64_t              graph_stamp[4];
    struct ct_beacon     *beacon; /* brings the loss of a replayed pass */
    uint64_t              stamp;  /* of shapes and places, at the last pass */
    int                   n_same; /* passes in a row that had it before */
    bool                  no_replay;
    bool                  aside; /* memory is planned for the side lane */
    size_t                activation_bytes; /* with sharing by lifetime */
    size_t                unshared_bytes;   /* without */
    const float          *loss_scale; /* on the device; NULL: none */
    struct ct_net_hooks   hooks;
    ct_net_fn             layer_done; /* the solver's; may be NULL */
    void                 *layer_done_arg;
    ct_net_fn             layer_start; /* likewise */
    void                 *layer_start_arg;
    bool                  debug_info;
    bool                  fused; /* some layers run as one */
    bool                  met;   /* some do more for the next (fuse.c) */
    bool                  packed; /* parameters are; see packed.c */
    struct net_chain    **chain; /* owned */
    int                   n_chain;
    bool                  no_chain; /* someone looks at single layers, */
    bool                  hooked;   /* by hooks, which may go */
    bool                  no_turn;  /* someone reads the batch of a layer */
    bool                  paired;   /* a backward pass follows this one */
    bool                  came_back; /* it has no gradient to make */
};

/* precision.c: says, once, which of NVIDIA's words are not followed. */
void net_precision_note(const struct ct_net *net);

/* split.c: inserts Split layers into `param`. */
CT_MUST_CHECK enum ct_status net_split(Caffe__NetParameter *param);

/* build.c: fills layer, blob, input, output of a net whose param is there. */
CT_MUST_CHECK enum ct_status net_build(struct ct_net *net);

/* backward.c: needs_backward, want_grad, needs_grad. */
CT_MUST_CHECK enum ct_status net_backward_needs(struct ct_net *net);

/* params.c: params, sharing, arenas. */
CT_MUST_CHECK enum ct_status net_params(struct ct_net *net);

/* build.c: a blob that the net plans memory for. */
CT_MUST_CHECK enum ct_status net_add_blob(struct ct_net *net,
                                          const char *name, int *out);

/* packed.c: whether parameter i would lie in tiles. */
bool net_param_packs(const struct ct_net *net, int i);

/* part.c: layers in place that would take from others what they need write to
 * another blob.  Or layer i alone, which works in place on blob b. */
CT_MUST_CHECK enum ct_status net_part_all(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_part(struct ct_net *net, int i, int b);
/* Tops of source `l` that have a copy: it takes their shape; it takes their
 * values, after forward; its gradient goes to them, after backward. */
CT_MUST_CHECK enum ct_status net_copies_shape(struct ct_net *net,
                                              const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_copies_fill(struct ct_net *net,
                                             const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_copies_back(struct ct_net *net,
                                             const struct net_layer *l);
/* Whether a layer after i works in place where blob b lies, perhaps on a view
 * of it. */
bool net_overwritten(const struct ct_net *net, int b, int i);

/* fuse.c: first and last of every layer. */
CT_MUST_CHECK enum ct_status net_fuse(struct ct_net *net);
/* Every layer for itself again. */
CT_MUST_CHECK enum ct_status net_unfuse(struct ct_net *net);
/* replay.c: tells sources which tops may have rows that mean nothing. */
void net_mark_open_ended(struct ct_net *net);

/* layouts.c: layouts of blobs, and shadows where layers disagree. */
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

/* tune.c: whether choices count for this net, before it is built; and what is
 * to be measured, at its end. */
CT_MUST_CHECK enum ct_status net_tuning(struct ct_net *net);
CT_MUST_CHECK enum ct_status net_tune(struct ct_net *net);

/* fit.c: how much memory a net takes at any batch, by those of two small
 * ones.  `options` are the large one's. */
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
/* After a net did not fit and is gone: says what it would take, what there is
 * and what would fit.  Keeps the message so far at its end. */
CT_MUST_CHECK enum ct_status net_explain_memory(
    const Caffe__NetParameter *param, const struct ct_net_options *options);

/* bridge.c: layers that stay on the CPU while the net is on a GPU.  The calls
 * do nothing for the others. */
const struct ct_device *net_layer_device(const struct ct_net *net,
                                         const Caffe__LayerParameter *p);
CT_MUST_CHECK enum ct_status net_bridge_wire(struct ct_net *net,
                                             struct net_layer *l);
/* Bottoms take the net's shapes; the net's blobs those of tops. */
CT_MUST_CHECK enum ct_status net_bridge_bottoms(struct ct_net *net,
                                                struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_tops(struct ct_net *net,
                                             struct net_layer *l);
/* Values before and after each pass. */
CT_MUST_CHECK enum ct_status net_bridge_forward_in(struct ct_net *net,
                                                   struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_forward_out(struct ct_net *net,
                                                    struct net_layer *l);
/* Sources that write to the GPU by themselves. */
bool net_bridge_is_direct(const struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_direct(struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_backward_in(struct ct_net *net,
                                                    struct net_layer *l);
CT_MUST_CHECK enum ct_status net_bridge_backward_out(struct ct_net *net,
                                                     struct net_layer *l);
void net_bridge_fini(struct net_layer *l);

/* `st`, where a device or a peer failed: that is not the fault of shapes or
 * words. */
static inline enum ct_status net_status(enum ct_status st,
                                        enum ct_status otherwise)
{
    return st == CT_ENOMEM || st == CT_EDEVICE || st == CT_ECOMM ? st
                                                                : otherwise;
}

/* run.c: the values of blob b from one of its layouts and types to another. */
CT_MUST_CHECK enum ct_status net_convert(const struct ct_blob *b,
                                         const struct ct_tensor *from,
                                         const struct ct_tensor *to);
/* Reshape of one layer, remembering what it saw. */
CT_MUST_CHECK enum ct_status net_layer_reshape(struct ct_net *net,
                                               struct net_layer *l);
CT_MUST_CHECK enum ct_status net_forward_layer(struct ct_net *net, int i);
/* Whether the side lane may be used: not in the first pass, where operations
 * measure how they are done best. */
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

/* Let tops that are views follow their bottom. */
void net_layer_alias(const struct ct_net *net, struct net_layer *l);

static inline struct ct_io net_io(const struct net_layer *l)
{
    return (struct ct_io){ l->bottom, l->top, l->n_bottom, l->n_top,
                           l->want_grad };
}

/* What the layer that does the work of a group is given. */
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
