/* fields.h - the fields of a message of the data, read where they lie and
 * written one after the other.
 *
 * A message is a run of fields, each a varint tag (number << 3 | type):
 *
 *     type 0  varint          type 2  varint length, bytes
 *     type 1  8 bytes         type 5  4 bytes                            */
#ifndef CT_DATA_FIELDS_H
#define CT_DATA_FIELDS_H

#include <stdbool.h>

#include "base/text.h"
#include "data/db.h"

enum { CT_VARINT = 0, CT_FIXED64 = 1, CT_BYTES = 2, CT_FIXED32 = 5 };

struct ct_fields {
    const unsigned char *at, *end;
};

struct ct_field {
    uint32_t        number, type;
    uint64_t        varint;
    struct ct_bytes bytes; /* of every type but CT_VARINT */
};

static inline struct ct_fields ct_fields_of(struct ct_bytes message)
{
    const unsigned char *at = message.ptr;

    return (struct ct_fields){ at, at + message.n };
}

static inline bool ct_field_varint(struct ct_fields *w, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        unsigned char byte = *w->at++;

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static inline bool ct_field_next(struct ct_fields *w, struct ct_field *f)
{
    uint64_t tag, n;

    if (!ct_field_varint(w, &tag) || tag >> 3 == 0 || tag >> 32)
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->type   = tag & 7;
    switch (f->type) {
    case CT_VARINT:
        return ct_field_varint(w, &f->varint);
    case CT_FIXED64:
        n = 8;
        break;
    case CT_FIXED32:
        n = 4;
        break;
    case CT_BYTES:
        if (!ct_field_varint(w, &n))
            return false;
        break;
    default:
        return false;
    }
    if (n > (uint64_t)(w->end - w->at))
        return false;
    f->bytes = (struct ct_bytes){ w->at, (size_t)n };
    w->at += n;
    return true;
}

static inline void ct_put_varint(struct ct_text *t, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    ct_text_add_bytes(t, bytes, n);
}

static inline void ct_put_int(struct ct_text *t, uint32_t number,
                              int32_t value)
{
    ct_put_varint(t, number << 3 | CT_VARINT);
    ct_put_varint(t, (uint64_t)(int64_t)value);
}

static inline void ct_put_float(struct ct_text *t, uint32_t number,
                                float value)
{
    ct_put_varint(t, number << 3 | CT_FIXED32);
    ct_text_add_bytes(t, &value, sizeof(value));
}

static inline void ct_put_bytes(struct ct_text *t, uint32_t number,
                                struct ct_bytes bytes)
{
    ct_put_varint(t, number << 3 | CT_BYTES);
    ct_put_varint(t, bytes.n);
    ct_text_add_bytes(t, bytes.ptr, bytes.n);
}

#endif
