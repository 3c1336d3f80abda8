/* batches.h - what the layers that prefetch have in common: Data, ImageData,
 * WindowData.
 *
 * Each keeps a struct ct_batches first in its state and brings a loader
 * (data/prefetch.h); these functions do the rest.  Threads start with the
 * first forward pass, so that a seek after a resume wastes nothing. */
#ifndef CT_LAYERS_BATCHES_H
#define CT_LAYERS_BATCHES_H

#include <stdatomic.h>

#include "cortado/layer.h"
#include "data/prefetch.h"
#include "data/transform.h"

struct ct_batches {
    struct ct_layer          *layer;
    struct ct_transform      *transform; /* owned */
    struct ct_prefetch       *prefetch;  /* owned; NULL: not started */
    struct ct_prefetch_config config;
    struct ct_worker          probe; /* loaded the first sample in setup */
    struct ct_shape           shape; /* of top 0: the first or latest batch */
    int64_t                   batch_size;
    struct ct_shard           shard;     /* of this rank */
    struct ct_pixels          size;      /* of the first sample */
    bool                      alone;     /* no batch may be taken early */
    struct ct_staging        *staging;   /* owned; to a GPU, or NULL */
    const struct ct_batch    *sent;      /* on its way there; or NULL */
    struct ct_span            span[3];   /* of it: labels, values, windows */
    void                     *mean;      /* there: an image, or values */
    bool                      skip;      /* on_error: SKIP */
    atomic_llong              n_skipped;
};

/* What setup starts with: the transform, the shard, the limits.  `prefetch`
 * batches are made ahead by `threads` threads (0: by the machine). */
CT_MUST_CHECK enum ct_status ct_batches_init(struct ct_layer *l,
                                             const struct ct_loader_ops *ops,
                                             int64_t batch_size,
                                             uint32_t prefetch,
                                             uint32_t threads, bool skip);
/* What it ends with: picks, measures and loads the first sample.  The caller
 * then puts its loader back to the start. */
CT_MUST_CHECK enum ct_status ct_batches_probe(struct ct_layer *l);

/* Slots of the layer type.  The loader is the layer's state. */
CT_MUST_CHECK enum ct_status ct_batches_reshape(struct ct_layer *l,
                                                const struct ct_io *io);
CT_MUST_CHECK enum ct_status ct_batches_forward(struct ct_layer *l,
                                                const struct ct_io *io);
/* For a net on a GPU: writes to its blobs, and starts to copy the batch that
 * comes next, which the net's work then hides. */
CT_MUST_CHECK enum ct_status ct_batches_forward_to(struct ct_layer *l,
                                                   const struct ct_io *io,
                                                   struct ct_blob *const *top);
/* Who waited for whom. */
void ct_batches_report(const struct ct_layer *l);
/* Before a loader is moved, and when the layer goes. */
void ct_batches_stop(struct ct_batches *b);
void ct_batches_fini(struct ct_batches *b);

/* For loaders.  Does the sample fit the batch: channels, and the size that
 * comes out; then the transform. */
CT_MUST_CHECK enum ct_status ct_batches_shape(struct ct_batches *b,
                                              const struct ct_pixels *size,
                                              struct ct_shape *out);
CT_MUST_CHECK enum ct_status ct_batches_run(struct ct_batches *b,
                                            struct ct_worker *w,
                                            const struct ct_pixels *in,
                                            const struct ct_shape *shape,
                                            float *data);
/* After a sample failed with `st`: true when it is a broken one and broken
 * ones are skipped; counts and logs it then.  `n_tries` of one sample end. */
bool ct_batches_skips(struct ct_batches *b, enum ct_status st, int n_tries);

/* Counters of a layer of one of the three types: whether the net waits for
 * the data or the data for the net, and how many samples were skipped. */
struct ct_prefetch_stats ct_batches_stats(const struct ct_layer *l,
                                          int64_t *n_skipped);
#endif
