/* block.c - a block of records. */
#include "dist/feed/block.h"

#include <string.h>

#include "base/mem.h"
#include "data/feed.h"

struct head {
    int64_t  epoch, index;
    uint32_t key, value;
};

void dist_block_fini(struct dist_block *b)
{
    ct_free(b->data);
    *b = (struct dist_block){ 0 };
}

enum ct_status dist_block_grow(struct dist_block *b, uint64_t bytes)
{
    char *more;

    if (bytes <= b->room)
        return CT_OK;
    if (bytes > SIZE_MAX / 4)
        return ct_fail(CT_ECOMM, "records of %llu bytes in one pass",
                       (unsigned long long)bytes);
    more = ct_malloc(2 * bytes, "records of a pass");
    if (!more)
        return CT_ENOMEM;
    if (b->bytes)
        memcpy(more, b->data, b->bytes);
    ct_free(b->data);
    b->data = more;
    b->room = 2 * bytes;
    return CT_OK;
}

enum ct_status dist_block_add(struct dist_block *b, const struct ct_record *r)
{
    const struct head h = { r->place.epoch, r->place.index,
                            (uint32_t)r->key.n, (uint32_t)r->value.n };
    char *to;

    if (r->key.n > UINT32_MAX || r->value.n > UINT32_MAX)
        return ct_fail(CT_ENOTSUP, "record %lld has more than 4 GB and cannot "
                       "be sent: use data: shared", (long long)r->place.index);
    CT_TRY(dist_block_grow(b, b->bytes + sizeof(h) + r->key.n + r->value.n));
    to = b->data + b->bytes;
    memcpy(to, &h, sizeof(h));
    memcpy(to + sizeof(h), r->key.ptr, r->key.n);
    memcpy(to + sizeof(h) + r->key.n, r->value.ptr, r->value.n);
    b->bytes += sizeof(h) + r->key.n + r->value.n;
    return CT_OK;
}

enum ct_status dist_block_next(const struct dist_block *b, size_t *at,
                               struct ct_record *out)
{
    size_t left = b->bytes - *at;
    const char *from;
    struct head h;

    if (left < sizeof(h))
        return ct_fail(CT_ECOMM, "rank 0 sent %zu bytes of records, and one "
                       "more is due at byte %zu", b->bytes, *at);
    from = b->data + *at;
    memcpy(&h, from, sizeof(h));
    from += sizeof(h);
    left -= sizeof(h);
    if (h.key > left || h.value > left - h.key)
        return ct_fail(CT_ECOMM, "rank 0 sent a record of %u and %u bytes at "
                       "byte %zu of %zu", (unsigned)h.key, (unsigned)h.value,
                       *at, b->bytes);
    out->place = (struct ct_sample){ h.epoch, h.index };
    out->key   = (struct ct_bytes){ from, h.key };
    out->value = (struct ct_bytes){ from + h.key, h.value };
    *at += sizeof(h) + h.key + h.value;
    return CT_OK;
}
