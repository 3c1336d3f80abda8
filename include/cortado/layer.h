/* cortado/layer.h - the layer plug-in interface.
 *
 * A layer TYPE is one const struct ct_layer_type, defined in one .c file and
 * named once in src/layers/layers.def.  A LAYER is one instance in one net. */
#ifndef CT_LAYER_H
#define CT_LAYER_H

#include "cortado/blob.h"
#include "cortado/device.h"
#include "cortado/proto.h"
#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_workspace; /* inside the library, as is: */
struct ct_dealing;

/* What one call may touch.  Borrowed: the net owns every blob named here and
 * has made it resident on layer->dev, so ct_data() and ct_diff() are plain
 * reads that never copy, allocate or fail. */
struct ct_io {
    struct ct_blob *const *bottom, *const *top;
    int                    n_bottom, n_top;
    const bool            *want_grad; /* per bottom; NULL before backward */
};

/* What a layer may ask of the same layer on the other ranks.  A function that
 * is NULL cannot be asked for. */
struct ct_peers {
    /* x becomes the sum over ranks, with the same bits on all; they call it
     * at the same point of their passes. */
    enum ct_status (*sum)(const struct ct_peers *p, double *x, int64_t n);
    void *arg;
};

/* What a whole net shares: who it is among the ranks, and where it stands.
 * Random draws are keyed by these, so they repeat after a resume and do not
 * depend on threads. */
struct ct_run {
    uint64_t seed;
    uint64_t pass;       /* forward passes of this net before this one */
    uint64_t *pass_on_device; /* `pass`, for kernels; NULL: none */
    int      rank, size; /* among the ranks that share one training run */
    struct ct_workspace *work; /* memory for layers in turn; NULL: their own */
    bool     aside;      /* gradients of parameters may run beside the rest */
    bool     forward_only; /* there are no backward passes */
    /* Layers may keep what they make of parameters until `params`, a count of
     * their changes, is another; else parameters may change at any time. */
    bool     fixed_params;
    uint64_t params;
    bool     own_data;   /* each trains on a source of its own */
    bool     deal_tests; /* they deal out test batches too, not only others */
    int      share;      /* batches that this rank takes in a row; 0: one */
    const struct ct_dealing *dealing; /* what else its sources read by, where
                                       * ranks train together; NULL: nothing */
    const struct ct_peers *peers; /* NULL: none */
    const struct ct_device *device; /* of the net; NULL: the CPU */
    bool     unfilled;   /* parameters get their values from elsewhere and begin
                          * as zeros: fillers do not run */
};

struct ct_layer {
    const struct ct_layer_type  *type;
    const Caffe__LayerParameter *param; /* parsed prototxt; borrowed */
    const char                  *name;  /* for messages; borrowed */
    const struct ct_device      *dev;   /* where this instance runs */
    const struct ct_run         *run;   /* the net's; borrowed */
    Caffe__Phase                 phase;
    unsigned                     flags; /* its type's; setup may add NO_... */
    uint64_t                     key;   /* of its random draws */
    struct ct_blob             **blob;  /* learned parameters; owned */
    bool                        *blob_wants_grad;
    int                          n_blob;
    struct ct_blob             **scratch; /* owned */
    int                          n_scratch;
    void                        *state; /* type->state_size zeroed bytes */
    bool                         absorbed; /* another layer does its work */
    /* With CT_LAYER_OVERWRITES, during backward: the diffs of blobs that want
     * one count as zero, all of them, and are written, not added to. */
    bool                         overwrites;
    /* Of a source, bit i: all who read top i are open_ended there. */
    unsigned                     may_pad;
    const struct ct_layer       *twin; /* whose parameters it uses; or NULL */
    /* With CT_LAYER_SINKS: where the gradient of blob 0 goes instead of its
     * diff; borrowed, NULL: nowhere. */
    const struct ct_sink        *sink;
};

/* A gradient as u^T v, what sufficient-factor broadcast sends instead of the
 * full u_cols x v_cols matrix.  Borrowed until the next backward. */
struct ct_factors {
    const float *u, *v;
    int64_t      rows, u_cols, v_cols;
};

/* Takes the gradient of a layer's blob 0 piece by piece, in any order and on
 * several threads: g holds values [first, first + n) of it. */
struct ct_sink {
    void (*take)(const struct ct_sink *s, int64_t first, int64_t n,
                 const float *g);
    void *arg;
};

struct ct_range { int min, max; };              /* max -1: no upper limit */
#define CT_EXACTLY(n)       { (n), (n) }
#define CT_AT_LEAST(n)      { (n), -1 }
#define CT_BETWEEN(a, b)    { (a), (b) }
#define CT_EVERY_DEVICE(fn) { [CT_CPU] = (fn), [CT_CUDA] = (fn) }

enum ct_layer_flags {
    CT_LAYER_INPLACE    = 1 << 0, /* top[0] may be bottom[0] */
    CT_LAYER_LOSS       = 1 << 1, /* loss_weight 1 on top 0; tops made up */
    CT_LAYER_EQUAL_NUM  = 1 << 2, /* as many tops as bottoms */
    /* Backward does not read this data, so its memory may be used again. */
    CT_LAYER_NO_BOTTOM  = 1 << 3,
    CT_LAYER_NO_TOP     = 1 << 4,
    /* Tops are views: their data lies in bottom[0]'s, and with ALIAS_DIFF
     * top[0]'s diff in bottom[0]'s.  A hint: forward and backward still work
     * when the pointers differ. */
    CT_LAYER_ALIAS_DATA = 1 << 5,
    CT_LAYER_ALIAS_DIFF = 1 << 6,
    CT_LAYER_SOURCE     = 1 << 7, /* brings data in: Input, Data, ... */
    CT_LAYER_DYNAMIC    = 1 << 8, /* forward may change the shape of tops */
    CT_LAYER_GRAD_FIRST = 1 << 9, /* only bottom 0 ever has a gradient */
    CT_LAYER_NO_GRAD    = 1 << 10, /* backward does not exist: Accuracy, ... */
    /* Layouts.  Neither flag: every blob is plain.  SAME: any layout, the same
     * for all bottoms and tops, and padding stays zero.  OWN: each bottom and
     * top may have its own; reshape reads them. */
    CT_LAYER_SAME_LAYOUT = 1 << 11,
    CT_LAYER_OWN_LAYOUT  = 1 << 12,
    /* Backward reads the bottom; in place forward keeps a copy of it.  A net
     * may give the bottom memory of its own instead. */
    CT_LAYER_KEEPS       = 1 << 13,
    CT_LAYER_DEALS       = 1 << 14, /* a source that ranks can share */
    /* A pass leaves something behind for the next, or outside of the net, so
     * passes cannot be dealt out to ranks. */
    CT_LAYER_CARRIES     = 1 << 15,
    /* Forward hands numbers to the host or waits for it, so that a step with
     * it cannot be captured as a graph. */
    CT_LAYER_NO_CAPTURE  = 1 << 16,
    /* Bottom 0's diff is top 0's, or made of it value by value: a net may
     * turn this into ALIAS_DIFF. */
    CT_LAYER_PASSES_DIFF = 1 << 17,
    CT_LAYER_STEADY      = 1 << 18, /* tops never change after the first pass */
    /* With ct_run.aside backward puts the gradients of parameters into a second
     * stream of the GPU: a net keeps bottom data and top diffs to the end of
     * the pass. */
    CT_LAYER_ASIDE       = 1 << 19,
    /* Tops but the first hold numbers that 16 bits cannot: they are plain
     * float32 always. */
    CT_LAYER_EXACT       = 1 << 20,
    /* Backward on the CPU honours ct_layer.overwrites; to the blob diffs of
     * other layers the net puts zeros first. */
    CT_LAYER_OVERWRITES  = 1 << 21,
    CT_LAYER_SINKS       = 1 << 22, /* it knows ct_layer.sink, on the CPU */
    /* Bottoms that want a gradient have the same one, value by value, and
     * backward still works when their diffs are one place. */
    CT_LAYER_ONE_DIFF    = 1 << 23,
    /* Backward leaves the diffs of tops as they are, unless it works in
     * place. */
    CT_LAYER_LEAVES_DIFF = 1 << 24,
    /* Each item of axis 0, the same in all bottoms and tops, is computed by
     * itself, and draws no random numbers: a net may run parts of the batch
     * through twins of the layer. */
    CT_LAYER_BY_ITEM     = 1 << 25,
    /* In place, forward keeps a copy of what backward needs of the bottom. */
    CT_LAYER_COPIES      = 1 << 26,
    /* In place, backward looks at signs alone, if at anything, and a value
     * whose sign is another than before has a gradient of 0. */
    CT_LAYER_KEEPS_SIGN  = 1 << 27,
    /* Backward needs the bottom and in place nobody keeps it: a net gives it
     * memory of its own. */
    CT_LAYER_APART       = 1 << 28,
    /* Each bottom may have any layout that accepts() takes, which reshape
     * reads; tops are plain. */
    CT_LAYER_PLAIN_TOPS  = 1 << 29,
    /* With a layout flag: on the CPU it takes NHWC blobs of bfloat16, too.
     * Others get float32. */
    CT_LAYER_BF16        = 1 << 30
};

typedef enum ct_status (*ct_layer_fn)(struct ct_layer *l,
                                      const struct ct_io *io);
struct ct_layer_type {
    const char     *name;        /* the prototxt `type` string, e.g. "ReLU" */
    struct ct_range bottoms, tops;
    unsigned        flags;       /* enum ct_layer_flags */
    unsigned        no_grad;     /* bit i: bottom i never has a gradient */
    unsigned        stops;       /* bit i: bottom i is taken for constant, even
                                  * where it depends on parameters */
    unsigned        open_ended;  /* bit i: rows of -1 at the end of bottom i
                                  * mean nothing */
    unsigned        statistics;  /* bit i: blob i is no parameter, but counts
                                  * what passes see; take_in adds to it */
    size_t          state_size;
    ct_layer_fn setup;     /* once: read param, add blobs; optional */
    ct_layer_fn reshape;   /* after setup, and when a bottom changes shape */
    /* Write top data; write bottom diff (where want_grad) and ADD to blob
     * diff (where blob_wants_grad).  No allocation.
     * NULL CT_CUDA slot: the CPU one runs, and net init says so, once. */
    ct_layer_fn forward[CT_DEVICE_KINDS], backward[CT_DEVICE_KINDS];
    /* Optional, for sources that stay on the CPU while their net is on a GPU:
     * in place of forward, writes to `top`, the net's own blobs, and gives
     * them and the host's (io->top) their shapes. */
    enum ct_status (*forward_to)(struct ct_layer *l, const struct ct_io *io,
                                 struct ct_blob *const *top);
    /* Optional.  CT_ENOTSUP: this blob's gradient has no factored form. */
    enum ct_status (*factors)(struct ct_layer *l, const struct ct_io *io,
                              int blob, struct ct_factors *out);
    /* Optional, for sources: continue as if n_passes batches were drawn. */
    enum ct_status (*seek)(struct ct_layer *l, uint64_t n_passes);
    /* Optional, with a layout flag: whether this instance takes `layout`,
     * given the shapes it has.  NULL: always. */
    bool (*accepts)(const struct ct_layer *l, const struct ct_io *io,
                    enum ct_layout layout);
    /* Optional: from now on do the work of `next` too, which alone reads this
     * layer's top: io->top is next's, and next does not run.  A `next` of two
     * bottoms: the other one is bottom 1 in io, top 0 may be the same place,
     * and unless the net is forward_only both want a gradient.  A Split:
     * io->top are its tops, whose data is one place and whose diffs add up.
     * False: cannot.  NULL: every layer for itself again.  Reshape follows. */
    bool (*absorb)(struct ct_layer *l, const struct ct_layer *next);
    /* Optional, when all have absorbed what they can: `writer` alone writes
     * `top`, which is bottom i, and nobody else reads it; or the writer ends in
     * a Split.  `last`: no other reader of that runs backward after this layer.
     * Writer NULL: that is no longer so.  True: one of both has more to do now,
     * and their reshape follows. */
    bool (*meet)(struct ct_layer *l, int i, struct ct_layer *writer,
                 const struct ct_blob *top, bool last);
    /* Optional: whether blob 0 had better lie in CT_TILES16, values and
     * gradients; forward and backward look where it lies.  CPU. */
    bool (*packs)(const struct ct_layer *l);
    /* Optional: before the first pass, measures what runs it best.  CPU. */
    enum ct_status (*tune)(struct ct_layer *l);
    /* Optional, for summaries: what runs it and why, or NULL. */
    const char *(*describe)(const struct ct_layer *l, const char **why);
    /* Optional: multiply-adds of one forward pass, for summaries. */
    double (*macs)(const struct ct_layer *l, const struct ct_io *io);
    /* Optional, for statistics that a TRAIN pass keeps in its blobs: with
     * ct_run.share a pass adds them to the blobs' diffs instead, and this
     * takes diff times scale in, once an iteration. */
    void (*take_in)(struct ct_layer *l, float scale);
    /* Optional, for what a pass leaves to the next and is no parameter, such
     * as the last state of an LSTM: number i of it, NULL behind the last.
     * Snapshots of a rank that trains alone keep it. */
    struct ct_blob *(*carried)(struct ct_layer *l, int i);
    /* Optional, for sources: samples of an epoch; 0: nobody has counted. */
    int64_t (*records)(const struct ct_layer *l);
    /* Optional: logs a line on how it went, when training ends. */
    void (*report)(const struct ct_layer *l);
    /* Optional, for state that is not a blob: descriptors, files, threads. */
    void (*teardown)(struct ct_layer *l);
};

/* Whether blob i of a layer counts what passes see; no update changes it. */
static inline bool ct_layer_is_statistic(const struct ct_layer *l, int i)
{
    return l->type->statistics >> i & 1;
}

/* For setup().  What they add is owned by the layer and freed with it.
 * A NULL filler is Caffe's default, constant 0.  Blobs that an earlier setup
 * or a net before this one provided are kept as they are. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_add_blob(
    struct ct_layer *l, struct ct_shape shape,
    const Caffe__FillerParameter *fill);
/* Scratch has data, no diff; give it a shape in setup or reshape. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_add_scratch(
    struct ct_layer *l, struct ct_blob **out);

/* Types by prototxt name; NULL when there is none.  i counts from 0 in
 * alphabetical order of file names. */
CT_API const struct ct_layer_type *ct_layer_find(const char *name);
CT_API const struct ct_layer_type *ct_layer_at(int i);
CT_API int ct_layer_n_types(void);

/* One layer by itself, for nets and tests: creates, counts bottoms and tops,
 * runs setup and reshape.  `param` and `run` outlive the layer. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_create(
    const Caffe__LayerParameter *param, const struct ct_device *dev,
    const struct ct_run *run, Caffe__Phase phase, struct ct_layer **out);
CT_API CT_MUST_CHECK enum ct_status ct_layer_setup(struct ct_layer *l,
                                                   const struct ct_io *io);
CT_API void ct_layer_destroy(struct ct_layer *l); /* takes NULL */

CT_API CT_MUST_CHECK enum ct_status ct_layer_forward(struct ct_layer *l,
                                                     const struct ct_io *io);
CT_API CT_MUST_CHECK enum ct_status ct_layer_backward(struct ct_layer *l,
                                                      const struct ct_io *io);

#ifdef __cplusplus
}
#endif
#endif
