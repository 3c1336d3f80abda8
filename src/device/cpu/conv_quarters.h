/* conv_quarters.h - what the passes of convolution in quarters share. */
#ifndef CT_DEVICE_CPU_CONV_QUARTERS_H
#define CT_DEVICE_CPU_CONV_QUARTERS_H

#include "device/cpu/short_areas.h"
#include "device/cpu/tiles16.h"
#include "device/cpu/wino_bf16.h"

enum {
    CT_QUARTERS     = 4, /* at most */
    CT_QUARTER_TILE = CT_TILE_SIDE * CT_TILE_SIDE
};

/* A convolution that runs forward: the layer's, or that of its gradient. */
struct ct_quarter_way {
    struct ct_short_tiles in, out; /* alike but for rows and columns */
    int64_t  per_in, per_out;      /* tiles of an image */
    int64_t  n_parts;              /* quarters, and tiles that they move */
    int64_t  shift[CT_QUARTERS];
    bool     has[CT_SHORT_PLACES][CT_QUARTERS]; /* whether U is not zero */
    int64_t  bundle, chunks;       /* images; 32 outputs each */
    int32_t *where;                /* a bundle's tiles in V; owned */
    struct ct_short_at    v;
    struct ct_short_parts parts[CT_SHORT_PLACES];
    int64_t  u_plane, m_plane;     /* values, floats */
    int64_t  v_size, u_size, m_size;
};

/* The gradient of the weights; `where` counts pairs of values. */
struct ct_quarter_grad {
    int64_t  bundle, few, jobs;       /* pairs of images; inputs of a job */
    int32_t *where;                   /* owned */
    struct ct_short_at v, m;
    int64_t  du_plane;                /* floats */
    int64_t  v_size, m_size, du_size; /* values, of 32 outputs, floats */
};

struct ct_quarters {
    struct ct_quarter_way  forward, back;
    struct ct_quarter_grad weights;
    int64_t                workers;
};

/* Where the tiles of n images lie in V, times `step`; what lacks to whole rows
 * of a product is like the last.  The caller owns *out. */
CT_MUST_CHECK enum ct_status ct_quarter_where(const struct ct_quarter_way *w,
                                              int64_t n, int64_t step,
                                              int32_t **out);
/* How many of n images stay in the cache, with V of so many bytes each. */
int64_t ct_quarter_bundle(int64_t bytes, int64_t n);
/* Where tap t, of 3 x 3, of a quarter lies in a tile of weights; -1: none. */
int64_t ct_quarter_tap(const struct ct_conv *c, int64_t part, int64_t t);
/* The tile of weights from input block i to output block o of a group. */
int64_t ct_quarter_tile(const struct ct_conv *c, int64_t group, int64_t i,
                        int64_t o);

/* conv_quarters_weights.c; the forward way is there. */
CT_MUST_CHECK enum ct_status ct_quarter_grad_init(const struct ct_conv *c,
                                                  struct ct_quarters *s);
int64_t ct_quarter_grad_floats(const struct ct_quarters *s);
CT_MUST_CHECK enum ct_status ct_quarters_backward_weights(struct ct_conv *c,
                                                          const float *x,
                                                          const float *dy,
                                                          float *dw,
                                                          float *db);

#endif
