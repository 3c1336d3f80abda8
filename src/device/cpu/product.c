/* product.c - sixteen sums in registers: eight rows of two vectors.
 *
 * Two loads of b and eight of single values feed sixteen multiply-adds, which
 * is less than the CPU can load, and enough to hide how long each takes. */
#include "device/cpu/product.h"

#include "device/cpu/simd.h"

enum { COLUMNS = CT_PRODUCT_COLUMNS, HALF = 16 };

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma")))

bool ct_product_runs(void)
{
    return __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
}
#else
#define WIDE

bool ct_product_runs(void)
{
    return false;
}
#endif

typedef float wide __attribute__((vector_size(64)));

#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define SUMS(r) wide left##r = { 0 }, right##r = { 0 };
#define MULTIPLY(r)                                                          \
    {                                                                        \
        const float x = a[(r) * row];                                        \
                                                                             \
        left##r += x * b0;                                                   \
        right##r += x * b1;                                                  \
    }
#define ADD_OLD(r)                                                           \
    left##r += *(const wide *)(c + (r) * COLUMNS);                           \
    right##r += *(const wide *)(c + (r) * COLUMNS + HALF);
#define STORE(r)                                                             \
    *(wide *)(c + (r) * COLUMNS)        = left##r;                           \
    *(wide *)(c + (r) * COLUMNS + HALF) = right##r;

#define PRODUCT(row_step, k_step)                                            \
    const int64_t row = (row_step), next = (k_step);                         \
                                                                             \
    EACH_ROW(SUMS)                                                           \
    for (int64_t k = 0; k < n; k++, a += next, b += COLUMNS) {               \
        const wide b0 = *(const wide *)b, b1 = *(const wide *)(b + HALF);    \
                                                                             \
        EACH_ROW(MULTIPLY)                                                   \
    }                                                                        \
    if (add) {                                                               \
        EACH_ROW(ADD_OLD)                                                    \
    }                                                                        \
    EACH_ROW(STORE)

WIDE void ct_product_rows(int64_t n, const float *a, int64_t step,
                          const float *b, bool add, float *c)
{
    PRODUCT(step, 1)
}

WIDE void ct_product_columns(int64_t n, const float *a, int64_t step,
                             const float *b, bool add, float *c)
{
    PRODUCT(1, step)
}
