/* ps_message.h - what workers and servers send each other.
 *
 *     head      worker -> server   of a push
 *     push      worker -> server   floats of one slice
 *     answer    server -> worker   head | floats of one slice
 *     pull      worker -> server   struct ct_ps_pull
 *
 * A worker's pushes to a server come in the order of the server's slices, one
 * turn an iteration, and every push is answered once, in order; so both ends
 * know the length of what comes next.  Payloads are packed and unpacked here
 * and nowhere else: this is the place for another form of them. */
#ifndef CT_COMM_PS_PS_MESSAGE_H
#define CT_COMM_PS_PS_MESSAGE_H

#include "comm/comm.h"

enum {
    CT_PS_WORDS        = 4,
    CT_PS_MOST_WORKERS = 256, /* that a mask has room for; rounds */
    CT_PS_MAGIC        = 0x43745073,
    /* Tags of the channels; from CT_PS_TAG_FREE on they are others'. */
    CT_PS_TAG_HEAD     = CT_TAG_USER,
    CT_PS_TAG_PUSH,
    CT_PS_TAG_ANSWER,
    CT_PS_TAG_PULL,
    CT_PS_TAG_FREE
};

/* Which workers: bit w % 64 of word w / 64. */
struct ct_ps_mask {
    uint64_t bits[CT_PS_MOST_WORKERS / 64];
};

static inline bool ct_ps_mask_has(const struct ct_ps_mask *m, int w)
{
    return m->bits[w / 64] >> (w % 64) & 1;
}

static inline void ct_ps_mask_add(struct ct_ps_mask *m, int w)
{
    m->bits[w / 64] |= (uint64_t)1 << (w % 64);
}

struct ct_ps_head {
    uint32_t magic, epoch;
    uint64_t seq;   /* counts on its channel, from 0 */
    int64_t  clock; /* push: its iteration; answer: iterations that are in */
    int32_t  slice, worker;
    float    weight; /* of a push in the mean; 1: as much as an even share */
    uint32_t what;   /* answer: 0 the values or sum, i: history i - 1 */
    int64_t  word[CT_PS_WORDS]; /* free for the layer above */
    struct ct_ps_mask mask; /* rounds, answer: who is in the latest one */
    uint8_t  pad[128 - 104];
};
_Static_assert(sizeof(struct ct_ps_head) == 128, "floats behind it align");

/* Send all slices, as of clock `need`, after my first `after` pushes. */
struct ct_ps_pull {
    uint32_t magic, epoch;
    uint32_t what, pad;
    int64_t  need;
    uint64_t after;
};

/* Bytes of a push or answer of n floats. */
static inline size_t ct_ps_bytes(size_t n)
{
    return sizeof(struct ct_ps_head) + n * sizeof(float);
}

/* A message is memory of ct_ps_bytes(n): its head, and its payload. */
static inline struct ct_ps_head *ct_ps_head(void *message)
{
    return message;
}

void ct_ps_pack(void *message, const float *x, float weight, size_t n);
void ct_ps_unpack(const void *message, size_t n, float *out);
/* acc = or += scale times the payload. */
void ct_ps_set(const void *message, float scale, size_t n, float *acc);
void ct_ps_add(const void *message, float scale, size_t n, float *acc);
/* For who packs in place: where the floats lie. */
float *ct_ps_payload(void *message);

#endif
