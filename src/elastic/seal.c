/* seal.c - talks that nobody else hears, with libsodium. */
#include "elastic/seal.h"

#include <sodium.h>
#include <string.h>

typedef crypto_secretstream_xchacha20poly1305_state stream;

_Static_assert(sizeof(stream) <= SEAL_STATE_BYTES, "a stream has no room");
_Static_assert(crypto_secretstream_xchacha20poly1305_HEADERBYTES ==
               SEAL_HEADER_BYTES, "headers have another length");
_Static_assert(crypto_secretstream_xchacha20poly1305_ABYTES ==
               SEAL_EXTRA_BYTES, "sealed frames have another length");
_Static_assert(crypto_auth_BYTES + SEAL_NUMBER_BYTES == SEAL_HELLO_BYTES,
               "proofs have another length");
_Static_assert(crypto_auth_KEYBYTES == SEAL_SECRET_BYTES,
               "secrets have another length");

enum ct_status seal_init(void)
{
    return sodium_init() >= 0
               ? CT_OK
               : ct_fail(CT_EIO, "libsodium: the system gives no random "
                         "numbers");
}

void seal_draw(void *out, size_t bytes)
{
    randombytes_buf(out, bytes);
}

/* 32 bytes for one use: of the secret, a word and the numbers so far. */
static void derive(const struct elastic_seal *s, const uint8_t *secret,
                   const char *use, int n_numbers, uint8_t *out)
{
    crypto_generichash_state h;

    (void)!crypto_generichash_init(&h, secret, SEAL_SECRET_BYTES,
                                   crypto_auth_BYTES);
    (void)!crypto_generichash_update(&h, (const uint8_t *)use,
                                     strlen(use) + 1);
    for (int i = 0; i < n_numbers; i++)
        (void)!crypto_generichash_update(&h, s->number[i],
                                         SEAL_NUMBER_BYTES);
    (void)!crypto_generichash_final(&h, out, crypto_auth_BYTES);
}

static bool proves(const struct elastic_seal *s, const uint8_t *secret,
                   const char *use, int n_numbers, const uint8_t *proof)
{
    uint8_t right[crypto_auth_BYTES];

    derive(s, secret, use, n_numbers, right);
    return sodium_memcmp(right, proof, sizeof(right)) == 0;
}

static void begin_out(struct elastic_seal *s, const uint8_t *secret,
                      uint8_t *header)
{
    uint8_t key[crypto_secretstream_xchacha20poly1305_KEYBYTES];

    derive(s, secret, s->caller ? "cortado call" : "cortado return", 2, key);
    (void)!crypto_secretstream_xchacha20poly1305_init_push((stream *)s->out,
                                                           header, key);
    sodium_memzero(key, sizeof(key));
}

static bool begin_in(struct elastic_seal *s, const uint8_t *secret,
                     const uint8_t *header)
{
    uint8_t key[crypto_secretstream_xchacha20poly1305_KEYBYTES];
    int bad;

    derive(s, secret, s->caller ? "cortado return" : "cortado call", 2, key);
    bad = crypto_secretstream_xchacha20poly1305_init_pull((stream *)s->in,
                                                          header, key);
    sodium_memzero(key, sizeof(key));
    return bad == 0;
}

void seal_hello(struct elastic_seal *s, const uint8_t *secret, uint8_t *out)
{
    s->caller = true;
    seal_draw(s->number[0], SEAL_NUMBER_BYTES);
    memcpy(out, s->number[0], SEAL_NUMBER_BYTES);
    derive(s, secret, "cortado hello 1", 1, out + SEAL_NUMBER_BYTES);
}

bool seal_answer(struct elastic_seal *s, const uint8_t *secret,
                 const uint8_t *hello, uint8_t *out)
{
    s->caller = false;
    memcpy(s->number[0], hello, SEAL_NUMBER_BYTES);
    if (!proves(s, secret, "cortado hello 1", 1, hello + SEAL_NUMBER_BYTES))
        return false;
    seal_draw(s->number[1], SEAL_NUMBER_BYTES);
    memcpy(out, s->number[1], SEAL_NUMBER_BYTES);
    derive(s, secret, "cortado answer 1", 2, out + SEAL_NUMBER_BYTES);
    begin_out(s, secret, out + SEAL_HELLO_BYTES);
    return true;
}

bool seal_begin(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *answer, uint8_t *out)
{
    memcpy(s->number[1], answer, SEAL_NUMBER_BYTES);
    if (!proves(s, secret, "cortado answer 1", 2, answer + SEAL_NUMBER_BYTES))
        return false;
    begin_out(s, secret, out);
    return begin_in(s, secret, answer + SEAL_HELLO_BYTES);
}

bool seal_begun(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *header)
{
    return begin_in(s, secret, header);
}

void seal_close(struct elastic_seal *s, const void *data, size_t bytes,
                uint8_t *out)
{
    (void)!crypto_secretstream_xchacha20poly1305_push(
        (stream *)s->out, out, NULL, data, bytes, NULL, 0, 0);
}

bool seal_open(struct elastic_seal *s, const uint8_t *data, size_t bytes,
               uint8_t *out)
{
    return bytes >= SEAL_EXTRA_BYTES &&
           crypto_secretstream_xchacha20poly1305_pull(
               (stream *)s->in, out, NULL, NULL, data, bytes, NULL, 0) == 0;
}
