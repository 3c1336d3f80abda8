/* wgmma.h - Hopper's tensor cores and copy engine; for .cu files alone.
 *
 * A group of four warps multiplies tiles in shared memory, which the copy
 * engine brings there by itself: one thread asks for a box of a tensor, and a
 * barrier in shared memory opens when its bytes have come.  Only code for
 * sm_90a has the instructions; CT_HAS_WGMMA says whether this pass of the
 * compiler makes such code. */
#ifndef CT_DEVICE_CUDA_WGMMA_H
#define CT_DEVICE_CUDA_WGMMA_H

#include <cuda.h>
#include <stdint.h>

#include "device/cuda/kernel.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CT_HAS_WGMMA 1
#else
#define CT_HAS_WGMMA 0
#endif

#if CT_HAS_WGMMA

__device__ inline uint32_t ct_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ inline void ct_barrier_init(uint64_t *b, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(
                     ct_shared_address(b)),
                 "r"(arrivals));
}

/* Before others than this thread, and the copy engine, see new barriers. */
__device__ inline void ct_barriers_ready(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void ct_barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(
                     ct_shared_address(b))
                 : "memory");
}

/* Arrives, and has the barrier wait for `bytes` of the copy engine. */
__device__ inline void ct_barrier_expect(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     ct_shared_address(b)),
                 "r"(bytes)
                 : "memory");
}

/* Until the turn of this parity is over. */
__device__ inline void ct_barrier_wait(uint64_t *b, int parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(ct_shared_address(b)),
                 "r"(parity)
                 : "memory");
}

/* The same for about a second at most: a kernel that waits for what never comes
 * ends with an error. */
__device__ inline void ct_barrier_wait_long(uint64_t *b, int parity)
{
    asm volatile("{\n"
                 ".reg .pred over, late;\n"
                 ".reg .s64 since, at;\n"
                 "mov.u64 since, %%clock64;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra done;\n"
                 "mov.u64 at, %%clock64;\n"
                 "sub.s64 at, at, since;\n"
                 "setp.gt.s64 late, at, 2000000000;\n"
                 "@late trap;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(ct_shared_address(b)),
                 "r"(parity)
                 : "memory");
}

/* The stage of a ring at which a thread is, and the parity of its barriers'
 * turn. */
struct ct_stage {
    int at, parity;

    __device__ void next(int stages)
    {
        if (++at == stages) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* Until all of these n threads are there; barriers have numbers from 1 on. */
__device__ inline void ct_threads_meet(int barrier, int n)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(n) : "memory");
}

/* A box of a tensor with four axes, from these coordinates on, into `to`;
 * zeros stand for what lies outside. */
__device__ inline void ct_copy_box(void *to, const CUtensorMap *map,
                                   uint64_t *b, int c, int x, int y, int n)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
                     ct_shared_address(to)),
                 "l"(map), "r"(ct_shared_address(b)), "r"(c), "r"(x), "r"(y),
                 "r"(n)
                 : "memory");
}

/* The same of a matrix: columns from `column` on of rows from `row` on. */
__device__ inline void ct_copy_part(void *to, const CUtensorMap *map,
                                    uint64_t *b, int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     ct_shared_address(to)),
                 "l"(map), "r"(ct_shared_address(b)), "r"(column), "r"(row)
                 : "memory");
}

/* Back to the matrix; what lies outside of it is left away.  All who wrote to
 * `from` have called ct_writes_shown() and met before. */
__device__ inline void ct_store_part(const CUtensorMap *map, const void *from,
                                     int column, int row)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, "
                 "{%2, %3}], [%1];" ::"l"(map),
                 "r"(ct_shared_address(from)), "r"(column), "r"(row)
                 : "memory");
}

__device__ inline void ct_writes_shown(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void ct_stores_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until this thread's stores have read shared memory. */
__device__ inline void ct_stores_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Until they are done. */
__device__ inline void ct_stores_done(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* A tile of rows of 128 bytes, swizzled as the copy engine does it, in which a
 * row is a step of the sum: 64 values of the product's rows or columns, and the
 * next 64 `slab` bytes on. */
__device__ inline uint64_t ct_tile_of_rows(uint32_t address, int slab)
{
    const uint64_t swizzled = (uint64_t)1 << 62, eight_rows = 1024;

    return swizzled | (eight_rows >> 4) << 32 |
           (uint64_t)((uint32_t)slab >> 4) << 16 | (address & 0x3ffff) >> 4;
}

enum { CT_TILE_STEP = 16 * 128 / 16 }; /* to the next 16 rows, in a tile */

/* Such a tile in which a row is one of the product's rows or columns, and has
 * 64 steps of the sum. */
__device__ inline uint64_t ct_tile_of_steps(uint32_t address)
{
    const uint64_t swizzled = (uint64_t)1 << 62, eight_rows = 1024;

    return swizzled | (eight_rows >> 4) << 32 | (uint64_t)1 << 16 |
           (address & 0x3ffff) >> 4;
}

enum { CT_TILE_STEPS = 16 * 2 / 16 }; /* to the next 16 steps, in a tile */

__device__ inline void ct_products_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ inline void ct_products_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until all but the last N groups of products are done. */
template <int N>
__device__ inline void ct_products_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Registers of each thread of the four warps, from here on. */
template <int N>
__device__ inline void ct_registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ inline void ct_registers_less(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

#define CT_D8(i)                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]),              \
        "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define CT_D32(i) CT_D8(i), CT_D8(i + 8), CT_D8(i + 16), CT_D8(i + 24)
#define CT_NAMES_32                                                          \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
    "%30, %31"
#define CT_NAMES_64                                                          \
    CT_NAMES_32                                                              \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "    \
    "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, " \
    "%59, %60, %61, %62, %63"
#define CT_NAMES_96                                                          \
    CT_NAMES_64                                                              \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "    \
    "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, " \
    "%91, %92, %93, %94, %95"
#define CT_NAMES_128                                                         \
    CT_NAMES_96                                                              \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, " \
    "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "     \
    "%119, %120, %121, %122, %123, %124, %125, %126, %127"

/* d += a^T b: 64 rows, 64 S columns, 16 steps of a sum, of tiles of rows. */
template <typename T, int S>
struct ct_product;

/* d += a b^T: the same, of tiles of steps. */
template <typename T, int S>
struct ct_inner_product;

/* d += a b: the same, of a tile of steps and one of rows. */
template <typename T, int S>
struct ct_plain_product;

#define CT_PRODUCT(name, turned, T, type, S, columns, names, a_name, b_name, \
                   ...)                                                      \
    template <>                                                              \
    struct name<T, S> {                                                      \
        __device__ static void add(float (&d)[32 * S], uint64_t a,           \
                                   uint64_t b)                               \
        {                                                                    \
            asm volatile("wgmma.mma_async.sync.aligned.m64n" columns         \
                         "k16.f32." type "." type " {" names "}, " a_name    \
                         ", " b_name ", 1, 1, 1, " turned ";"                \
                         : __VA_ARGS__                                       \
                         : "l"(a), "l"(b));                                  \
        }                                                                    \
    };
#define CT_PRODUCTS(name, turned, T, type)                                   \
    CT_PRODUCT(name, turned, T, type, 1, "64", CT_NAMES_32, "%32", "%33",    \
               CT_D32(0))                                                    \
    CT_PRODUCT(name, turned, T, type, 2, "128", CT_NAMES_64, "%64", "%65",   \
               CT_D32(0), CT_D32(32))                                        \
    CT_PRODUCT(name, turned, T, type, 3, "192", CT_NAMES_96, "%96", "%97",   \
               CT_D32(0), CT_D32(32), CT_D32(64))                            \
    CT_PRODUCT(name, turned, T, type, 4, "256", CT_NAMES_128, "%128",        \
               "%129", CT_D32(0), CT_D32(32), CT_D32(64), CT_D32(96))

CT_PRODUCTS(ct_product, "1, 1", __half, "f16")
CT_PRODUCTS(ct_inner_product, "0, 0", __nv_bfloat16, "bf16")
CT_PRODUCTS(ct_plain_product, "0, 1", __nv_bfloat16, "bf16")

#endif
#endif
