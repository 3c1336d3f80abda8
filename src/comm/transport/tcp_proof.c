/* tcp_proof.c - both sides of a connection prove that they know a key without
 * sending it.
 *
 * A tag is SipHash-2-4 (Aumasson, Bernstein 2012) of a message, with the key of
 * the end that is called.  Other members of the job got this key in sealed
 * messages.  Each side draws a random number for the connection, and tags
 * include it, so a recorded message cannot be replayed. */
#include <string.h>

#include "base/rng.h"
#include "comm/transport/tcp_parts.h"

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(struct sip *s, int rounds)
{
    while (rounds-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = turn(s->b, 13) ^ s->a;
        s->d = turn(s->d, 16) ^ s->c;
        s->a = turn(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = turn(s->b, 17) ^ s->c;
        s->d = turn(s->d, 21) ^ s->a;
        s->c = turn(s->c, 32);
    }
}

static uint64_t word_of(const uint8_t *from, size_t bytes)
{
    uint64_t word = 0;

    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)from[i] << 8 * i;
    return word;
}

uint64_t tcp_hash(const uint8_t *key, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    const uint64_t k = word_of(key, 8), l = word_of(key + 8, 8);
    struct sip s     = { k ^ 0x736f6d6570736575, l ^ 0x646f72616e646f6d,
                         k ^ 0x6c7967656e657261, l ^ 0x7465646279746573 };

    for (size_t left = bytes;; at += 8, left -= 8) {
        const bool last     = left < 8;
        const uint64_t word = word_of(at, last ? left : 8) |
                              (last ? (uint64_t)bytes << 56 : 0);

        s.d ^= word;
        mix(&s, 2);
        s.a ^= word;
        if (last)
            break;
    }
    s.c ^= 0xff;
    mix(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void tcp_draw(uint8_t *nonce)
{
    for (int i = 0; i < TCP_NONCE_BYTES; i += 8) {
        const uint64_t word = ct_entropy();

        memcpy(nonce + i, &word, sizeof(word));
    }
}

uint64_t tcp_tag(const uint8_t *key, enum tcp_word word,
                 const struct tcp_hello *h, const uint8_t *answer)
{
    uint8_t text[4 + 2 * TCP_NONCE_BYTES + 8] = { (uint8_t)word };

    memcpy(text + 4, h->nonce, TCP_NONCE_BYTES);
    if (answer)
        memcpy(text + 4 + TCP_NONCE_BYTES, answer, TCP_NONCE_BYTES);
    memcpy(text + 4 + 2 * TCP_NONCE_BYTES, &h->view, 4);
    memcpy(text + 8 + 2 * TCP_NONCE_BYTES, &h->rank, 4);
    return tcp_hash(key, text, sizeof(text));
}
