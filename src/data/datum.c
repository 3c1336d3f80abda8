/* datum.c - the wire format of Datum, read and written by hand. */
#include "data/datum.h"

#include <string.h>

#include "data/fields.h"

static bool datum_take(struct ct_datum *d, const struct ct_field *f)
{
    switch (f->number << 3 | f->type) {
    case 1 << 3 | CT_VARINT:
        d->channels = (int32_t)f->varint;
        return true;
    case 2 << 3 | CT_VARINT:
        d->height = (int32_t)f->varint;
        return true;
    case 3 << 3 | CT_VARINT:
        d->width = (int32_t)f->varint;
        return true;
    case 4 << 3 | CT_BYTES:
        d->data = f->bytes;
        return true;
    case 5 << 3 | CT_VARINT:
        d->label = (int32_t)f->varint;
        return true;
    case 6 << 3 | CT_FIXED32:
        d->n_floats++;
        return true;
    case 6 << 3 | CT_BYTES:
        d->n_floats += (int64_t)(f->bytes.n / 4);
        return f->bytes.n % 4 == 0;
    case 7 << 3 | CT_VARINT:
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
    struct ct_fields w = ct_fields_of(record);
    struct ct_field f = { 0 };

    *out = (struct ct_datum){ .record = record };
    while (w.at < w.end)
        if (!ct_field_next(&w, &f) || !datum_take(out, &f))
            return ct_fail(CT_EPARSE, "a record of %zu bytes that is no "
                           "datum", record.n);
    return datum_check(out);
}

void ct_datum_floats(const struct ct_datum *d, float *out)
{
    struct ct_fields w = ct_fields_of(d->record);
    struct ct_field f = { 0 };

    while (w.at < w.end && ct_field_next(&w, &f))
        if (f.number == 6) {
            memcpy(out, f.bytes.ptr, f.bytes.n);
            out += f.bytes.n / 4;
        }
}

enum ct_status ct_datum_write(const struct ct_datum *d, unsigned fields,
                              const float *floats, struct ct_text *out)
{
    out->n_bytes = 0;
    if (fields & CT_DATUM_SHAPE) {
        ct_put_int(out, 1, d->channels);
        ct_put_int(out, 2, d->height);
        ct_put_int(out, 3, d->width);
    }
    if (d->data.n)
        ct_put_bytes(out, 4, d->data);
    if (fields & CT_DATUM_LABEL)
        ct_put_int(out, 5, d->label);
    for (int64_t i = 0; floats && i < d->n_floats; i++)
        ct_put_float(out, 6, floats[i]);
    if (fields & CT_DATUM_ENCODED)
        ct_put_int(out, 7, d->encoded);
    return out->failed ? CT_ENOMEM : CT_OK;
}
