/* hand_over.h - batches that a source makes in the very pass that takes them,
 * for a net on a GPU: HDF5Data, MemoryData.
 *
 *     source --> pinned host memory --copy stream--> GPU --kernel--> tops
 *
 * The source writes, and the copy runs, while the GPU is still at work on the
 * pass before: nothing waits for it.  Two places of host memory take turns, as
 * those on the GPU do (device/staging.h). */
#ifndef CT_LAYERS_HAND_OVER_H
#define CT_LAYERS_HAND_OVER_H

#include "cortado/layer.h"
#include "device/staging.h"

/* Zero it first; it is part of a layer's state, and ends with fini. */
struct ct_hand_over {
    const struct ct_device *dev;     /* NULL: nothing was handed over yet */
    struct ct_staging      *staging; /* owned */
    struct ct_span         *span;    /* owned; one a top */
    float                 **to;      /* owned; where begin() wants each top */
    float                  *place[2]; /* owned, pinned */
    size_t                  place_bytes[2];
    int                     turn;    /* the place to be written */
};

/* h->to[i] is room for the values of io->top[i], whose shape is set. */
CT_MUST_CHECK enum ct_status ct_hand_over_begin(struct ct_hand_over *h,
                                                const struct ct_layer *l,
                                                const struct ct_io *io);
/* What was written goes to the net's blobs, which take io's shapes. */
CT_MUST_CHECK enum ct_status ct_hand_over_end(struct ct_hand_over *h,
                                              const struct ct_io *io,
                                              struct ct_blob *const *top);
void ct_hand_over_fini(struct ct_hand_over *h);

/* For everyone who writes to a net's blobs: their shape, where it is another;
 * plain float32 values that are on the device. */
CT_MUST_CHECK enum ct_status ct_top_follow(struct ct_blob *top,
                                           struct ct_shape shape);
CT_MUST_CHECK enum ct_status ct_top_put(struct ct_blob *top, const void *from);

#endif
