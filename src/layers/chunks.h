/* chunks.h - layers that take each value by itself, on bfloat16.
 *
 * Such a layer has functions for floats.  Where its blobs are bfloat16 they
 * begin with
 *
 *     if (ct_chunks_any(io))
 *         return ct_chunks_forward(l, io, relu_forward);
 *
 * which calls them again for one chunk of values after the other, with blobs of
 * floats that hold a chunk.  They have no state that belongs to a place, and
 * the type has CT_LAYER_BF16.  Chunks stay in the first cache. */
#ifndef CT_LAYERS_CHUNKS_H
#define CT_LAYERS_CHUNKS_H

#include "cortado/layer.h"

enum { CT_CHUNK_BLOBS = 8 }; /* bottoms, and tops, at most */

static inline bool ct_chunks_any(const struct ct_io *io)
{
    return io->bottom[0]->dev->kind == CT_CPU &&
           io->bottom[0]->data.dtype == CT_BF16;
}

/* Whether there are not too many of them. */
static inline bool ct_chunks_take(int n_bottom, int n_top)
{
    return n_bottom <= CT_CHUNK_BLOBS && n_top <= CT_CHUNK_BLOBS;
}

/* g = c (a + b) where y > 0, else 0, of n values of bfloat16.  b may be NULL,
 * and y: everywhere.  g may be a or b. */
void ct_gather_shorts(int64_t n, const float *a, const float *b,
                      const float *y, float c, float *g);

CT_MUST_CHECK enum ct_status ct_chunks_forward(struct ct_layer *l,
                                               const struct ct_io *io,
                                               ct_layer_fn forward);
CT_MUST_CHECK enum ct_status ct_chunks_backward(struct ct_layer *l,
                                                const struct ct_io *io,
                                                ct_layer_fn backward);

#endif
