/* peak.c - the CPU's fused multiply-add rate.
 *
 * Twelve independent accumulators hide the latency of the units; the best of
 * many short runs is what the machine can do when nobody disturbs it.  A run
 * is shorter than a scheduler's time slice. */
#include "device/peak.h"

#include <math.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/clock.h"
#include "cortado/device.h"

enum { ACCUMULATORS = 12, ROUNDS = 100000, RUNS = 100 };

#define PEAK_LOOP(width)                                                     \
    typedef float vec __attribute__((vector_size((width) * sizeof(float)))); \
    vec acc[ACCUMULATORS], a, b;                                             \
    float sum = 0;                                                           \
                                                                             \
    for (int i = 0; i < (width); i++) {                                      \
        a[i] = 0.999999f;                                                    \
        b[i] = 1e-7f;                                                        \
    }                                                                        \
    for (int j = 0; j < ACCUMULATORS; j++)                                   \
        acc[j] = b * (float)j;                                               \
    for (int r = 0; r < ROUNDS; r++) {                                       \
        _Pragma("GCC unroll 12") for (int j = 0; j < ACCUMULATORS; j++)      \
            acc[j] = acc[j] * a + b;                                         \
    }                                                                        \
    for (int j = 0; j < ACCUMULATORS; j++)                                   \
        sum += acc[j][0];                                                    \
    return sum

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) static float peak_avx512(void)
{
    PEAK_LOOP(16);
}

__attribute__((target("avx2,fma"), noinline)) static float peak_avx2(void)
{
    PEAK_LOOP(8);
}
#endif

__attribute__((noinline)) static float peak_plain(void)
{
    PEAK_LOOP(4);
}

struct unit {
    const char *name;
    int         width;
    float     (*run)(void);
};

static struct unit best_unit(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return (struct unit){ "AVX-512", 16, peak_avx512 };
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct unit){ "AVX2", 8, peak_avx2 };
#endif
    return (struct unit){ "plain", 4, peak_plain };
}

const char *ct_cpu_vector_name(void)
{
    return best_unit().name;
}

struct ct_peak ct_cpu_peak_flops(void)
{
    const struct unit unit = best_unit();
    const int n_threads    = ct_device_cpu_threads();
    const double flops     = 2.0 * unit.width * ACCUMULATORS * ROUNDS *
                             n_threads;
    double all = 0, least  = INFINITY;
    volatile float keep    = 0;

    for (int i = 0; i < RUNS; i++) {
        const double start = ct_now();
        double took;

#pragma omp parallel num_threads(n_threads)
        keep  = unit.run();
        took  = ct_now() - start;
        least = took < least ? took : least;
        all += took;
    }
    (void)keep;
    return (struct ct_peak){ .best = flops / least,
                             .mean = flops * RUNS / all };
}
