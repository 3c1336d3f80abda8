/* reorg.h - what a Reorg layer keeps, and where values go; see reorg.c. */
#ifndef CT_LAYERS_REORG_H
#define CT_LAYERS_REORG_H

#include "base/rng.h"
#include "cortado/layer.h"

struct reorg {
    int64_t c, h, w; /* of an item of bottom 0 */
    int64_t stride;
    bool    reverse;
};

/* Where value i of an item, seen as c x h x w, lies in the same item seen as
 * c / s^2 x h s x w s. */
CT_HOST_DEVICE static inline int64_t reorg_wide(const struct reorg *r,
                                                int64_t i)
{
    const int64_t s = r->stride, few = r->c / (s * s);
    const int64_t x = i % r->w, y = i / r->w % r->h, k = i / r->w / r->h;
    const int64_t part = k / few;

    return ((k % few) * r->h * s + y * s + part / s) * r->w * s + x * s +
           part % s;
}

#endif
