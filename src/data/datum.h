/* datum.h - Caffe's record of one sample, straight from and to the wire.
 *
 *     1 channels  2 height  3 width  4 data (bytes)  5 label
 *     6 float_data (repeated)  7 encoded
 *
 * Reading copies nothing: `data` points into the record. */
#ifndef CT_DATA_DATUM_H
#define CT_DATA_DATUM_H

#include "base/text.h"
#include "data/db.h"

struct ct_datum {
    int32_t         channels, height, width, label;
    bool            encoded; /* data is an image file */
    struct ct_bytes data;    /* C x H x W bytes, or the file */
    int64_t         n_floats;
    struct ct_bytes record;  /* what it was read from; borrowed */
};

/* Every length is checked: what this accepts can be read without another
 * look.  Unknown fields are passed over.  A datum that is not encoded has
 * channels x height x width bytes, or as many floats. */
CT_MUST_CHECK enum ct_status ct_datum_read(struct ct_bytes record,
                                           struct ct_datum *out);

/* The n_floats values of float_data, from any form the wire allows. */
void ct_datum_floats(const struct ct_datum *d, float *out);

/* Which fields ct_datum_write writes: those that Caffe's tools set. */
enum ct_datum_fields {
    CT_DATUM_SHAPE   = 1 << 0,
    CT_DATUM_LABEL   = 1 << 1,
    CT_DATUM_ENCODED = 1 << 2
};

/* Replaces what `out` held by the bytes of the message, fields in order of
 * their numbers; `data` when it has bytes, `floats` when there are any. */
CT_MUST_CHECK enum ct_status ct_datum_write(const struct ct_datum *d,
                                            unsigned fields,
                                            const float *floats,
                                            struct ct_text *out);
#endif
