/* vector.h - 16 bytes of an array at a time; for .cu files alone.
 *
 *     float v[CT_VECTOR(T)];
 *     ct_load16(x + i * CT_VECTOR(T), v);
 *
 * The address is a multiple of 16. */
#ifndef CT_DEVICE_CUDA_VECTOR_H
#define CT_DEVICE_CUDA_VECTOR_H

#include "device/cuda/kernel.h"

#define CT_VECTOR(T) (16 / (int)sizeof(T))

template <typename T>
__device__ inline void ct_load16(const T *p, float *v)
{
    const uint4 raw = *(const uint4 *)p;
    const T *from   = (const T *)&raw;

#pragma unroll
    for (int i = 0; i < CT_VECTOR(T); i++)
        v[i] = ct_load(from + i);
}

template <typename T>
__device__ inline void ct_store16(T *p, const float *v)
{
    uint4 raw;
    T *to = (T *)&raw;

#pragma unroll
    for (int i = 0; i < CT_VECTOR(T); i++)
        ct_store(to + i, v[i]);
    *(uint4 *)p = raw;
}

/* Can n values at p, in rows of `row`, be taken 16 bytes at a time? */
static inline bool ct_fits16(const void *p, enum ct_dtype type, int64_t row)
{
    return (uintptr_t)p % 16 == 0 &&
           row * (int64_t)ct_dtype_bytes(type) % 16 == 0;
}

#endif
