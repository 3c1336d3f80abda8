/* seal.h - two processes that know a secret talk, and nobody else hears or is
 * heard.
 *
 *     caller      hello    a number drawn, and proof of the secret
 *     answerer    answer   another number, proof that covers both; a header
 *     caller      begin    a header
 *     both        frames   each sealed with a key of this talk and direction
 *
 * Whoever does not know the secret is told nothing, not even that somebody is
 * there.  Bytes of another talk, or in another order, open nothing. */
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
    SEAL_EXTRA_BYTES  = 17, /* that a sealed frame is longer */
    SEAL_STATE_BYTES  = 64
};

/* One end of a talk; embedded. */
struct elastic_seal {
    uint8_t number[2][SEAL_NUMBER_BYTES]; /* the caller's, the answerer's */
    bool    caller;
    _Alignas(16) uint8_t out[SEAL_STATE_BYTES];
    _Alignas(16) uint8_t in[SEAL_STATE_BYTES];
};

/* Once in a process; CT_ENOTSUP: this build has no libsodium. */
CT_MUST_CHECK enum ct_status seal_init(void);

/* Random bytes that nobody can guess. */
void seal_draw(void *out, size_t bytes);

/* The caller: writes SEAL_HELLO_BYTES. */
void seal_hello(struct elastic_seal *s, const uint8_t *secret, uint8_t *out);
/* The answerer: reads them, writes SEAL_ANSWER_BYTES.  False: no such
 * secret. */
bool seal_answer(struct elastic_seal *s, const uint8_t *secret,
                 const uint8_t *hello, uint8_t *out);
/* The caller: reads those, writes SEAL_HEADER_BYTES. */
bool seal_begin(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *answer, uint8_t *out);
/* The answerer: reads those. */
bool seal_begun(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *header);

/* bytes + SEAL_EXTRA_BYTES to out; in other memory than data. */
void seal_close(struct elastic_seal *s, const void *data, size_t bytes,
                uint8_t *out);
/* bytes - SEAL_EXTRA_BYTES to out.  False: nobody who knows the secret sent
 * these, here. */
bool seal_open(struct elastic_seal *s, const uint8_t *data, size_t bytes,
               uint8_t *out);

#endif
