/* mma.h - products of small tiles by tensor cores, one warp at a time; for .cu
 * files alone, on GPUs of compute capability 8.0 and later.
 *
 * A tile of A is 16 rows of 32 bytes, one of B 8 columns of 32 bytes: 8 values
 * of tf32, or 16 of 16 bits.  In its registers a lane has of A the words
 * lane % 4 and lane % 4 + 4 of rows lane / 4 and lane / 4 + 8, and of B the
 * same words of column lane / 4.  Of the sums, which are float32, it has
 * columns 2 (lane % 4) and the next, of the same two rows. */
#ifndef CT_DEVICE_CUDA_MMA_H
#define CT_DEVICE_CUDA_MMA_H

#include "device/cuda/kernel.h"

/* What factors are.  F32 stands for two numbers of tf32, whose sum is a float32
 * but for its last two bits: three products make one. */
enum ct_factor { CT_FACTOR_F32, CT_FACTOR_TF32, CT_FACTOR_BF16, CT_FACTOR_F16 };

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define CT_HAS_MMA 1
#else
#define CT_HAS_MMA 0
#endif

#if CT_HAS_MMA

/* The nearest number of tf32; NaN stays NaN. */
__device__ inline uint32_t ct_tf32(float v)
{
    uint32_t u;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(v));
    return u;
}

/* A float32 as a sum; what is not finite has a second number that is NaN. */
__device__ inline void ct_split(uint32_t v, uint32_t *high, uint32_t *low)
{
    *high = v & 0xffffe000u;
    *low  = ct_tf32(__uint_as_float(v) - __uint_as_float(*high));
}

__device__ inline uint32_t ct_shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* A tile of A; lane i has the address of 16 bytes: of row i % 16, the first
 * half or, from lane 16 on, the second. */
__device__ inline void ct_load_tile(uint32_t at, uint32_t (&a)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(at)
                 : "memory");
}

/* 16 bytes of global memory on their way into shared memory; what was asked
 * for has come after ct_copies_wait() and a barrier. */
__device__ inline void ct_copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(to), "l"(from)
                 : "memory");
}

__device__ inline void ct_copies_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#define CT_MMA(shape, type)                                                  \
    asm("mma.sync.aligned." shape ".row.col.f32." type "." type              \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "                \
        "{%0, %1, %2, %3};"                                                  \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/* c += a b; not for CT_FACTOR_F32. */
template <int FACTOR>
__device__ inline void ct_mma(float (&c)[4], const uint32_t (&a)[4],
                              const uint32_t *b)
{
    if (FACTOR == CT_FACTOR_BF16)
        CT_MMA("m16n8k16", "bf16");
    else if (FACTOR == CT_FACTOR_F16)
        CT_MMA("m16n8k16", "f16");
    else
        CT_MMA("m16n8k8", "tf32");
}

/* The same of factors that are sums, the small products first. */
__device__ inline void ct_mma_split(float (&c)[4], const uint32_t (&high)[4],
                                    const uint32_t (&low)[4],
                                    const uint32_t *b_high,
                                    const uint32_t *b_low)
{
    ct_mma<CT_FACTOR_TF32>(c, low, b_high);
    ct_mma<CT_FACTOR_TF32>(c, high, b_low);
    ct_mma<CT_FACTOR_TF32>(c, high, b_high);
}

#endif
#endif
