/* elementwise.h - y[i] = f(a[i], b[i], ...), sixteen bytes of y a thread.
 *
 *     struct half { __device__ float operator()(float x) const { ... } };
 *     return ct_map(dev, n, half(), y, x);
 *
 * f is called with floats, whatever the arrays hold.  y may be one of them:
 * every value is read before its place is written. */
#ifndef CT_DEVICE_CUDA_ELEMENTWISE_H
#define CT_DEVICE_CUDA_ELEMENTWISE_H

#include "device/cuda/kernel.h"

/* K neighbours, moved as one. */
template <int K, typename T>
struct alignas(K * sizeof(T) < 16 ? K * sizeof(T) : 16) ct_pack {
    T v[K];
};

/* The words that a pack is moved by. */
template <int BYTES>
struct ct_word;
template <>
struct ct_word<16> { typedef uint4 type; };
template <>
struct ct_word<8> { typedef uint2 type; };
template <>
struct ct_word<4> { typedef uint32_t type; };
template <>
struct ct_word<2> { typedef uint16_t type; };
template <>
struct ct_word<1> { typedef uint8_t type; };

template <int K, typename T>
using ct_pack_word = typename ct_word<alignof(ct_pack<K, T>)>::type;

template <int K, typename T>
__device__ inline ct_pack<K, T> ct_load_pack(const T *p)
{
    typedef ct_pack_word<K, T> word;
    ct_pack<K, T> v;

#pragma unroll
    for (int i = 0; i < (int)(sizeof v / sizeof(word)); i++)
        reinterpret_cast<word *>(&v)[i] = reinterpret_cast<const word *>(p)[i];
    return v;
}

/* To global memory.  __stwb() is a plain store, but of the whole word: where
 * two packs are written in a row, compilers make single values of others. */
template <int K, typename T>
__device__ inline void ct_store_pack(T *p, const ct_pack<K, T> &v)
{
    typedef ct_pack_word<K, T> word;

#pragma unroll
    for (int i = 0; i < (int)(sizeof v / sizeof(word)); i++)
        __stwb(reinterpret_cast<word *>(p) + i,
               reinterpret_cast<const word *>(&v)[i]);
}

__device__ inline float ct_load(const uint8_t *p) { return *p; }
__device__ inline float ct_load(const int32_t *p) { return (float)*p; }

/* Whether packs may begin at p. */
static inline bool ct_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

template <int K, typename F, typename Y, typename... P>
__device__ inline void ct_map_pack(const F &f, Y *y, const P &...x)
{
    ct_pack<K, Y> out;

#pragma unroll
    for (int k = 0; k < K; k++)
        ct_store(out.v + k, f(ct_load(x.v + k)...));
    ct_store_pack<K>(y, out);
}

template <int K, typename F, typename Y, typename... X>
__global__ static void ct_map_kernel(int64_t n, F f, Y *y, const X *...x)
{
    CT_TURN();
    const int64_t packs = n / K, rest = packs * K;

    CT_KERNEL_EACH (i, packs)
        ct_map_pack<K>(f, y + i * K, ct_load_pack<K>(x + i * K)...);
    if (K > 1)
        CT_KERNEL_EACH (i, n - rest)
            ct_store(y + rest + i, f(ct_load(x + rest + i)...));
}

template <typename F, typename Y, typename... X>
static enum ct_status ct_map(const struct ct_device *d, int64_t n, F f, Y *y,
                             const X *...x)
{
    constexpr int K = 16 / sizeof(Y);

    if (n == 0)
        return CT_OK;
    if (ct_aligned(y) && (ct_aligned(x) && ...))
        return CT_LAUNCH(d, (n + K - 1) / K, (ct_map_kernel<K, F, Y, X...>), n,
                         f, y, x...);
    return CT_LAUNCH(d, n, (ct_map_kernel<1, F, Y, X...>), n, f, y, x...);
}

/* y = x, n values of a type. */
static inline enum ct_status ct_copy_values(const struct ct_device *d,
                                            int64_t n, enum ct_dtype type,
                                            const void *x, void *y)
{
    if (n == 0 || x == y)
        return CT_OK;
    return ct_cuda_check(d, cudaMemcpyAsync(y, x, (size_t)n *
                                            ct_dtype_bytes(type),
                                            cudaMemcpyDefault,
                                            ct_cuda_stream(d)), "copy");
}

/* y = 0, n values of a type: zero is zero bits in all of them. */
static inline enum ct_status ct_clear_values(const struct ct_device *d,
                                             int64_t n, enum ct_dtype type,
                                             void *y)
{
    if (n == 0)
        return CT_OK;
    return ct_cuda_check(d, cudaMemsetAsync(y, 0, (size_t)n *
                                            ct_dtype_bytes(type),
                                            ct_cuda_stream(d)), "clear");
}

#endif
