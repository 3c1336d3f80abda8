/* pooling.h - what a Pooling layer keeps; see pooling.c. */
#ifndef CT_LAYERS_POOLING_H
#define CT_LAYERS_POOLING_H

#include "cortado/layer.h"
#include "device/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pooling {
    struct ct_pool  pool;
    bool            global, floor;
    bool            strips; /* on a GPU: CORTADO_IMPL allows them */
    bool            relu;   /* absorbed, by maxima on a GPU */
    struct ct_blob *at;   /* places, 32-bit integers in a float blob */
    struct ct_blob *kept; /* x, for STOCHASTIC in the TEST phase */
    /* A convolution that has absorbed a ReLU and writes `top`, the bottom;
     * borrowed, or NULL. */
    struct ct_layer      *writer;
    const struct ct_blob *top;
    /* In this pass, windows that are not above 0 have no place, or dx of a mean
     * is masked. */
    bool masks;
};

/* Whether windows may be without a place, or dx masked, since it is masked for
 * the ReLU before anyway.  *db: where the sums of dx are to be added; NULL:
 * nowhere. */
bool pooling_masks(const struct ct_layer *l, const struct ct_io *io,
                   float **db);
/* The writer need not mask dx, or add up its channels. */
void pooling_masked(const struct ct_layer *l);

#ifdef __cplusplus
}
#endif

#endif
