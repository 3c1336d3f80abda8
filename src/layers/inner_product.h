/* inner_product.h - what an InnerProduct layer keeps; see inner_product.c. */
#ifndef CT_LAYERS_INNER_PRODUCT_H
#define CT_LAYERS_INNER_PRODUCT_H

#include "cortado/layer.h"
#include "device/ip.h"
#include "device/workspace.h"
#include "layers/fold.h"

enum { CT_IP_X, CT_IP_W, CT_IP_DY, CT_IP_SHORTS };

struct inner_product {
    struct ct_ip    ip;
    struct ct_fold  fold; /* layers behind it, in nets that only run forward */
    int             axis;
    struct ct_workspace own; /* for slices, where the net lends none */
    bool            relu; /* absorbed */
    bool            sinks; /* there are times when it has a sink */
    /* On a GPU in the 16-bit precisions: x and W of the forward pass and dy,
     * as the products take them. */
    struct ct_blob *shorts[CT_IP_SHORTS];
    bool            rounds; /* they are in use */
};

#endif
