/* seal_absent.c - a build without libsodium: no elastic jobs. */
#include <string.h>

#include "elastic/seal.h"

enum ct_status seal_init(void)
{
    return ct_fail(CT_ENOTSUP, "elastic jobs need libsodium, which this build "
                   "has not: install libsodium-dev and build again");
}

void seal_draw(void *out, size_t bytes)
{
    memset(out, 0, bytes);
}

void seal_hello(struct elastic_seal *s, const uint8_t *secret, uint8_t *out)
{
    (void)s;
    (void)secret;
    memset(out, 0, SEAL_HELLO_BYTES);
}

bool seal_answer(struct elastic_seal *s, const uint8_t *secret,
                 const uint8_t *hello, uint8_t *out)
{
    (void)s;
    (void)secret;
    (void)hello;
    (void)out;
    return false;
}

bool seal_begin(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *answer, uint8_t *out)
{
    (void)s;
    (void)secret;
    (void)answer;
    (void)out;
    return false;
}

bool seal_begun(struct elastic_seal *s, const uint8_t *secret,
                const uint8_t *header)
{
    (void)s;
    (void)secret;
    (void)header;
    return false;
}

void seal_close(struct elastic_seal *s, const void *data, size_t bytes,
                uint8_t *out)
{
    (void)s;
    (void)data;
    memset(out, 0, bytes + SEAL_EXTRA_BYTES);
}

bool seal_open(struct elastic_seal *s, const uint8_t *data, size_t bytes,
               uint8_t *out)
{
    (void)s;
    (void)data;
    (void)bytes;
    (void)out;
    return false;
}
