/* secret.h - what the processes of a job know, and nobody else. */
#ifndef CT_ELASTIC_SECRET_H
#define CT_ELASTIC_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"
#include "elastic/seal.h"

/* Reads SEAL_SECRET_BYTES, as 64 hexadecimal digits, from a file that nobody
 * but its owner may read.  With `make` it is made where there is none.  Several
 * processes may do so at once: they all get the same.  "-" is a line of
 * standard input. */
CT_MUST_CHECK enum ct_status secret_read(const char *path, bool make,
                                         uint8_t out[SEAL_SECRET_BYTES]);
/* A line of standard input: the secret, then a blank and more, which may be
 * missing.  Not a byte is read of what follows. */
CT_MUST_CHECK enum ct_status secret_read_line(uint8_t out[SEAL_SECRET_BYTES],
                                              char *more, size_t bytes);
/* Where it is without another word: ~/.cortado/secret.  For the caller to
 * ct_free. */
CT_MUST_CHECK enum ct_status secret_default_path(char **out);

#endif
