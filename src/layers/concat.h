/* concat.h - what a Concat layer keeps; see concat.c. */
#ifndef CT_LAYERS_CONCAT_H
#define CT_LAYERS_CONCAT_H

#include "cortado/layer.h"

enum {
    CONCAT_TOPS    = 16, /* of a Split that is absorbed, at most */
    CONCAT_WRITERS = 8   /* that it knows: those of the first bottoms */
};

/* The convolution that writes a bottom, whose diff may be masked for it. */
struct concat_writer {
    struct ct_layer      *conv; /* borrowed; NULL: none */
    const struct ct_blob *top;  /* of it, the bottom; borrowed */
};

struct concat {
    int     axis;
    int64_t outer, inner; /* elements before and behind the axis */
    bool    whole;        /* all bottoms at once, where that fits; GPU */
    struct concat_writer writer[CONCAT_WRITERS];
};

#ifdef __cplusplus
extern "C" {
#endif

/* In the backward pass, while the diff of bottom i is written: whether it is to
 * be masked by the sign of the bottom, with the sums of its channels added to
 * *db (NULL: none); and afterwards, that this was done. */
bool ct_concat_masks(const struct ct_layer *l, const struct ct_io *io, int i,
                     float **db);
void ct_concat_masked(const struct ct_layer *l, int i);

#ifdef __cplusplus
}
#endif
#endif
