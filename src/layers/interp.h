/* interp.h - what a Interp layer keeps; see interp.c. */
#ifndef CT_LAYERS_INTERP_H
#define CT_LAYERS_INTERP_H

#include "cortado/layer.h"

struct interp {
    int64_t         planes, h_in, w_in; /* of the whole input */
    int64_t         crop, h, w;         /* of the part that is resized */
    int64_t         h_out, w_out;
    struct ct_blob *left, *part; /* a column's left neighbour and its share, for
                                  * the CPU */
};

#endif
