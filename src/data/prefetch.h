/* prefetch.h - threads that make batches ahead of the net.
 *
 * Workers take samples in order, load them side by side and write each to its
 * place in a batch; batches are delivered in order.  There are `n_batches`
 * buffers and no more, so workers wait when the net is slow.
 *
 *     free batches --> workers --> started batches, in order --> the net
 *          ^                                                       |
 *          +------------------- given back ------------------------+
 *
 * For a GPU samples may be left as the bytes they are, with what was drawn for
 * them: the transform is then made there.
 *
 * One thread consumes; it also creates, stops and destroys. */
#ifndef CT_DATA_PREFETCH_H
#define CT_DATA_PREFETCH_H

#include "core/buffer.h"
#include "data/annotation.h"
#include "data/feed.h"
#include "data/images.h"
#include "device/staging.h"

struct ct_batch;
struct ct_prefetch;

/* What a worker thread keeps from sample to sample. */
struct ct_worker {
    struct ct_record record;
    struct ct_codec  codec;
    struct ct_image  image, resized, part;
    struct ct_room   file, floats, augment;
    int64_t          epoch, sample; /* set by pick(), for load() */
    int64_t          number;        /* free for the loader */
    /* With config.objects: where load() leaves those of the sample; else
     * NULL. */
    struct ct_objects *objects;
    /* Where load() may leave pixels in place of values; or NULL. */
    unsigned char    *raw;
    struct ct_crop *window; /* of those; it says so in is_raw */
};

struct ct_loader_ops {
    /* The next sample, item `item` of its batch.  Calls come in order, one at
     * a time; what load() needs to know goes into the worker. */
    enum ct_status (*pick)(void *loader, struct ct_worker *w, int64_t item);
    /* The shape of the batch whose first sample was picked just now. */
    enum ct_status (*shape)(void *loader, struct ct_worker *w,
                            struct ct_shape *out);
    /* Any thread, many at a time: the sample's values, count(shape) / batch
     * of them, and its label.  Fails when they do not fit the shape. */
    enum ct_status (*load)(void *loader, struct ct_worker *w,
                           const struct ct_shape *shape, float *data,
                           float *label);
    /* Optional: all samples of `b` are loaded.  Makes labels of another shape
     * with ct_batch_labels(). */
    enum ct_status (*finish)(void *loader, const struct ct_prefetch *p,
                             struct ct_batch *b);
};

struct ct_batch {
    struct ct_shape   shape;       /* of the data */
    struct ct_shape   label_shape; /* shape.dim[0], or what finish() made */
    struct ct_buffer *data, *label; /* in the CPU's memory */
    /* With raw_bytes: samples as they are, and what was drawn for them. */
    struct ct_buffer *raw, *window;
    int64_t           n_raw; /* samples that are there, not in data */
    struct ct_objects *objects; /* with config.objects: one list a sample */
};

/* Is the net waiting for data, or the data for the net? */
struct ct_prefetch_stats {
    int64_t n_batches;   /* delivered */
    int64_t depth_sum;   /* batches ready at each delivery, added up */
    double  wait_s;      /* the net waited for a batch */
    double  idle_s;      /* the workers waited for room */
};

struct ct_prefetch_config {
    const struct ct_loader_ops *ops;
    void                       *loader;    /* borrowed */
    const char                 *name;      /* for messages; borrowed */
    struct ct_shape             shape;     /* of the first batch */
    int                         n_batches; /* made ahead, 1 or more */
    int                         n_threads; /* 0: by the machine */
    /* A worker that has loaded a sample: the others start with as much
     * memory, so that running takes no more.  Borrowed; may be NULL. */
    const struct ct_worker     *like;
    /* The GPU that batches go to: their memory is pinned, and a batch is
     * lent until the one after the next is.  NULL: none. */
    const struct ct_device     *gpu;
    size_t                      raw_bytes; /* of a sample; 0: values only */
    bool                        objects;   /* samples come with objects */
};

/* Starts the threads. */
CT_MUST_CHECK enum ct_status ct_prefetch_create(
    const struct ct_prefetch_config *config, struct ct_prefetch **out);
/* Stops at once, wherever the workers are.  Takes NULL. */
void ct_prefetch_destroy(struct ct_prefetch *p);

/* Whether some batch is complete, so that next() hardly waits. */
bool ct_prefetch_ready(struct ct_prefetch *p);
/* The next batch, borrowed until the next call.  A sample that could not be
 * loaded fails its batch, with the cause; so does every call after it. */
CT_MUST_CHECK enum ct_status ct_prefetch_next(struct ct_prefetch *p,
                                              const struct ct_batch **out);
struct ct_prefetch_stats ct_prefetch_stats(const struct ct_prefetch *p);

/* For finish(): labels of b get this shape, and room for it. */
CT_MUST_CHECK enum ct_status ct_batch_labels(const struct ct_prefetch *p,
                                             struct ct_batch *b,
                                             struct ct_shape shape);

void ct_worker_fini(struct ct_worker *w);

/* Put a batch into the tops: where a top owns its memory by taking the
 * batch's, which it then shares until the next batch; by a copy otherwise.
 * `label` may be NULL. */
CT_MUST_CHECK enum ct_status ct_batch_to_tops(const struct ct_batch *b,
                                              struct ct_blob *data,
                                              struct ct_blob *label);
#endif
