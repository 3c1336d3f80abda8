/* tile.h - what a Tile layer keeps; see tile.c. */
#ifndef CT_LAYERS_TILE_H
#define CT_LAYERS_TILE_H

#include "cortado/layer.h"

struct tile {
    int64_t outer, inner, tiles; /* inner: values from the axis on */
};

#endif
