/* batch_reindex.h - what a BatchReindex layer keeps; see batch_reindex.c. */
#ifndef CT_LAYERS_BATCH_REINDEX_H
#define CT_LAYERS_BATCH_REINDEX_H

#include "cortado/layer.h"

struct batch_reindex {
    struct ct_blob *index; /* the list as int32_t, kept for backward */
};

#endif
