/* seal.h - encryption between two processes that know the job's secret.
 *
 *     caller      hello    a random number, and a proof of the secret
 *     answerer    answer   another number, a proof of both; a header
 *     caller      begin    a header
 *     both        frames   sealed with a key of this session and direction
 *
 * A peer that does not know the secret gets no answer.  Frames of another
 * session, or in another order, cannot be opened. */
#ifndef CT_ELASTIC_SEAL_H
#define CT_ELASTIC_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

enum {
    SEAL_SECRET_BYTES = 32,
    SEAL_NUMBER_BYTES = 32,
    SEAL_HEADER_BYTES = 24,
    SEAL_HELLO_BYTES  = 64,
    SEAL_ANSWER_BYTES = 64 + SEAL_HEADER_BYTES,
    SEAL_EXTRA_BYTES  = 17, /* added length of a sealed frame */
    SEAL_STATE_BYTES  = 64
};

/* One end of a session; embedded. */
struct elastic_seal {
    uint8_t number[2][SEAL_NUMBER_BYTES]; /* of the caller, of the answerer */
    bool    caller;
    _Alignas(16) uint8_t out[SEAL_STATE_BYTES];
    _Alignas(16) uint8_t in[SEAL_STATE_BYTES];
};

/* Call it once per process.  CT_ENOTSUP: built without libsodium. */
CT_MUST_CHECK enum ct_status seal_init(void);

/* Cryptographically secure random bytes. */
void seal_draw(void *out, size_t bytes);

/* The caller: writes SEAL_HELLO_BYTES. */
void seal_hello(struct elastic_seal *s, const uint8_t *secret, uint8_t *out);
/* The answerer: reads them, writes SEAL_ANSWER_BYTES. False: the caller does
 * not know the secret. */
bool seal_answer(struct elastic_seal *s, const uint8_t *secret,
                 const uint8_t *hello, uint8_t *out);
/* The caller: reads those, writes SEAL_HEADER_BYTES. */
bool seal_begin(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *answer, uint8_t *out);
/* The answerer: reads those. */
bool seal_begun(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *header);

/* Writes bytes + SEAL_EXTRA_BYTES to out, which must not overlap data. */
void seal_close(struct elastic_seal *s, const void *data, size_t bytes,
                uint8_t *out);
/* Writes bytes - SEAL_EXTRA_BYTES to out.  False: not a frame of this session,
 * or out of order. */
bool seal_open(struct elastic_seal *s, const uint8_t *data, size_t bytes,
               uint8_t *out);

#endif
