/* axpy.h - what a Axpy layer keeps; see axpy.c. */
#ifndef CT_LAYERS_AXPY_H
#define CT_LAYERS_AXPY_H

#include "cortado/layer.h"

struct axpy {
    int64_t rows, inner; /* channels of all items, values of each */
};

#endif
