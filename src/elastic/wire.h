/* wire.h - messages of the agreement as bytes.
 *
 * Little-endian, without padding:
 *
 *     view      number u32, base i32, n u32, n_full u32, then n ids u64
 *     message   kind u8, view u32, ballot u64, about u64, ready i32,
 *               accepted u64, then `next` as a view, where the kind has one
 *     will      view, promised u64, accepted u64, `next` as a view
 *
 * Readers check lengths, kinds, numbers of members and ids before they use a
 * message. */
#ifndef CT_ELASTIC_WIRE_H
#define CT_ELASTIC_WIRE_H

#include <stddef.h>

#include "cortado/status.h"
#include "elastic/agreement.h"

/* Most bytes of a message or will. */
enum { ELASTIC_WIRE_BYTES = 64 + 2 * (16 + 8 * ELASTIC_MEMBERS) };

/* Write at most ELASTIC_WIRE_BYTES; return the number of bytes. */
size_t elastic_message_write(const struct elastic_message *m, uint8_t *out);
size_t elastic_will_write(const struct elastic_will *w, uint8_t *out);

/* CT_EPARSE, with the reason, for bytes that this version does not write. */
CT_MUST_CHECK enum ct_status elastic_message_read(const uint8_t *data,
                                                  size_t bytes,
                                                  struct elastic_message *out);
CT_MUST_CHECK enum ct_status elastic_will_read(const uint8_t *data,
                                               size_t bytes,
                                               struct elastic_will *out);

#endif
