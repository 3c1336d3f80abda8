/* bytes.h - numbers as little-endian bytes, for everything that members tell
 * each other. */
#ifndef CT_ELASTIC_BYTES_H
#define CT_ELASTIC_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cortado/status.h"

/* Who writes has room enough. */
struct writer {
    uint8_t *at;
};

static inline void put(struct writer *w, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *w->at++ = (uint8_t)(x >> 8 * i);
}

static inline void put_bytes(struct writer *w, const void *data, size_t bytes)
{
    memcpy(w->at, data, bytes);
    w->at += bytes;
}

/* Who reads may be given anything: what is not there reads as 0. */
struct reader {
    const uint8_t *at, *end;
    bool           short_of; /* some bytes */
};

static inline uint64_t take(struct reader *r, int bytes)
{
    uint64_t x = 0;

    if (r->end - r->at < bytes) {
        r->short_of = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)*r->at++ << 8 * i;
    return x;
}

static inline void take_bytes(struct reader *r, void *out, size_t bytes)
{
    if ((size_t)(r->end - r->at) < bytes) {
        r->short_of = true;
        memset(out, 0, bytes);
        return;
    }
    memcpy(out, r->at, bytes);
    r->at += bytes;
}

/* All of it was read, and no more than there was. */
static inline enum ct_status reader_end(const struct reader *r,
                                        const char *what)
{
    return !r->short_of && r->at == r->end
               ? CT_OK
               : ct_fail(CT_EPARSE, "%s of another length than it says", what);
}

#endif
