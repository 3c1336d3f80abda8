/* ps_message.c - floats in and out of messages. */
#include "comm/ps/ps_message.h"

#include <string.h>

float *ct_ps_payload(void *message)
{
    return (float *)((char *)message + sizeof(struct ct_ps_head));
}

static const float *payload(const void *message)
{
    return (const float *)((const char *)message + sizeof(struct ct_ps_head));
}

void ct_ps_pack(void *message, const float *x, float weight, size_t n)
{
    float *restrict to = ct_ps_payload(message);

    if (weight == 1) {
        memcpy(to, x, n * sizeof(*to));
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = weight * x[i];
}

void ct_ps_unpack(const void *message, size_t n, float *out)
{
    memcpy(out, payload(message), n * sizeof(*out));
}

void ct_ps_set(const void *message, float scale, size_t n, float *acc)
{
    const float *restrict x = payload(message);

    if (scale == 1) {
        memcpy(acc, x, n * sizeof(*acc));
        return;
    }
    for (size_t i = 0; i < n; i++)
        acc[i] = scale * x[i];
}

void ct_ps_add(const void *message, float scale, size_t n, float *acc)
{
    const float *restrict x = payload(message);

    if (scale == 1) {
        ct_comm_add((int64_t)n, x, acc);
        return;
    }
    for (size_t i = 0; i < n; i++)
        acc[i] += scale * x[i];
}
