/* ps_message.h - the messages between workers and servers.
 *
 *     head      worker -> server   head of a push
 *     push      worker -> server   floats of one slice
 *     answer    server -> worker   head | floats of one slice
 *     pull      worker -> server   struct ct_ps_pull
 *
 * A worker pushes to a server in the order of the server's slices, one turn per
 * iteration.  Every push has one answer, in the same order.  So both ends know
 * the length of the next message.  Only this file packs and unpacks
 * payloads. */
#ifndef CT_COMM_PS_PS_MESSAGE_H
#define CT_COMM_PS_PS_MESSAGE_H

#include "comm/comm.h"

enum {
    CT_PS_WORDS        = 4,
    CT_PS_MOST_WORKERS = 256, /* bits of a mask; a limit for rounds only */
    CT_PS_MAGIC        = 0x43745073,
    /* Tags of the channels; others may use CT_PS_TAG_FREE and above. */
    CT_PS_TAG_HEAD     = CT_TAG_USER,
    CT_PS_TAG_PUSH,
    CT_PS_TAG_ANSWER,
    CT_PS_TAG_PULL,
    CT_PS_TAG_FREE
};

/* A set of workers: bit w % 64 of word w / 64. */
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
    uint64_t seq;   /* number of the message on its channel, from 0 */
    int64_t  clock; /* push: its iteration; answer: number of iterations that
                     * it contains */
    int32_t  slice, worker;
    float    weight; /* of a push in the mean; 1: that of an equal share */
    uint32_t what;   /* answer: 0: values or sum, i: history i - 1 */
    int64_t  word[CT_PS_WORDS]; /* for the caller's use */
    struct ct_ps_mask mask; /* answer, rounds: workers in the latest round */
    uint8_t  pad[128 - 104];
};
_Static_assert(sizeof(struct ct_ps_head) == 128, "floats behind it align");

/* Asks for all slices when their clock is at least `need` and the first `after`
 * pushes of this worker have been taken. */
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

/* A message is ct_ps_bytes(n) bytes: the head, then the payload. */
static inline struct ct_ps_head *ct_ps_head(void *message)
{
    return message;
}

void ct_ps_pack(void *message, const float *x, float weight, size_t n);
void ct_ps_unpack(const void *message, size_t n, float *out);
/* acc = scale times the payload; acc += scale times the payload. */
void ct_ps_set(const void *message, float scale, size_t n, float *acc);
void ct_ps_add(const void *message, float scale, size_t n, float *acc);
/* The floats of a message, for callers that pack in place. */
float *ct_ps_payload(void *message);

#endif
