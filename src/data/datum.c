/* datum.c - the wire format of Datum, read and written by hand.
 *
 * A message is a run of fields, each a varint tag (number << 3 | type):
 *
 *     type 0  varint          type 2  varint length, bytes
 *     type 1  8 bytes         type 5  4 bytes                            */
#include "data/datum.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct wire {
    const unsigned char *at, *end;
};

struct field {
    uint32_t        number, type;
    uint64_t        varint;
    struct ct_bytes bytes; /* of every type but VARINT */
};

static bool wire_varint(struct wire *w, uint64_t *out)
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

static bool wire_field(struct wire *w, struct field *f)
{
    uint64_t tag, n;

    if (!wire_varint(w, &tag) || tag >> 3 == 0 || tag >> 32)
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->type   = tag & 7;
    switch (f->type) {
    case VARINT:
        return wire_varint(w, &f->varint);
    case FIXED64:
        n = 8;
        break;
    case FIXED32:
        n = 4;
        break;
    case BYTES:
        if (!wire_varint(w, &n))
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

static bool datum_take(struct ct_datum *d, const struct field *f)
{
    switch (f->number << 3 | f->type) {
    case 1 << 3 | VARINT:
        d->channels = (int32_t)f->varint;
        return true;
    case 2 << 3 | VARINT:
        d->height = (int32_t)f->varint;
        return true;
    case 3 << 3 | VARINT:
        d->width = (int32_t)f->varint;
        return true;
    case 4 << 3 | BYTES:
        d->data = f->bytes;
        return true;
    case 5 << 3 | VARINT:
        d->label = (int32_t)f->varint;
        return true;
    case 6 << 3 | FIXED32:
        d->n_floats++;
        return true;
    case 6 << 3 | BYTES:
        d->n_floats += (int64_t)(f->bytes.n / 4);
        return f->bytes.n % 4 == 0;
    case 7 << 3 | VARINT:
        d->encoded = f->varint != 0;
        return true;
    default:
        return f->number > 7; /* a known number with a wrong type */
    }
}

static enum ct_status datum_check(const struct ct_datum *d)
{
    int64_t count;

    if (d->encoded && d->data.n == 0)
        return ct_fail(CT_EPARSE, "an encoded datum without an image");
    if (d->encoded)
        return CT_OK;
    if (d->channels <= 0 || d->height <= 0 || d->width <= 0)
        return ct_fail(CT_EPARSE, "a datum of %d x %d x %d values",
                       d->channels, d->height, d->width);
    if (__builtin_mul_overflow((int64_t)d->channels * d->height,
                               (int64_t)d->width, &count))
        return ct_fail(CT_EPARSE, "a datum of %d x %d x %d values",
                       d->channels, d->height, d->width);
    if ((d->data.n ? (int64_t)d->data.n : d->n_floats) != count)
        return ct_fail(CT_EPARSE, "a datum of %d x %d x %d values holds %lld",
                       d->channels, d->height, d->width,
                       (long long)(d->data.n ? (int64_t)d->data.n
                                             : d->n_floats));
    return CT_OK;
}

enum ct_status ct_datum_read(struct ct_bytes record, struct ct_datum *out)
{
    struct wire w = { record.ptr, (const unsigned char *)record.ptr +
                                      record.n };
    struct field f = { 0 };

    *out = (struct ct_datum){ .record = record };
    while (w.at < w.end)
        if (!wire_field(&w, &f) || !datum_take(out, &f))
            return ct_fail(CT_EPARSE, "a record of %zu bytes that is no "
                           "datum", record.n);
    return datum_check(out);
}

void ct_datum_floats(const struct ct_datum *d, float *out)
{
    struct wire w = { d->record.ptr, (const unsigned char *)d->record.ptr +
                                         d->record.n };
    struct field f = { 0 };

    while (w.at < w.end && wire_field(&w, &f))
        if (f.number == 6) {
            memcpy(out, f.bytes.ptr, f.bytes.n);
            out += f.bytes.n / 4;
        }
}

static void put_varint(struct ct_text *t, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    ct_text_add_bytes(t, bytes, n);
}

static void put_int(struct ct_text *t, uint32_t number, int32_t value)
{
    put_varint(t, number << 3 | VARINT);
    put_varint(t, (uint64_t)(int64_t)value);
}

enum ct_status ct_datum_write(const struct ct_datum *d, unsigned fields,
                              const float *floats, struct ct_text *out)
{
    out->n_bytes = 0;
    if (fields & CT_DATUM_SHAPE) {
        put_int(out, 1, d->channels);
        put_int(out, 2, d->height);
        put_int(out, 3, d->width);
    }
    if (d->data.n) {
        put_varint(out, 4 << 3 | BYTES);
        put_varint(out, d->data.n);
        ct_text_add_bytes(out, d->data.ptr, d->data.n);
    }
    if (fields & CT_DATUM_LABEL)
        put_int(out, 5, d->label);
    for (int64_t i = 0; floats && i < d->n_floats; i++) {
        put_varint(out, 6 << 3 | FIXED32);
        ct_text_add_bytes(out, &floats[i], sizeof(floats[i]));
    }
    if (fields & CT_DATUM_ENCODED)
        put_int(out, 7, d->encoded);
    return out->failed ? CT_ENOMEM : CT_OK;
}
