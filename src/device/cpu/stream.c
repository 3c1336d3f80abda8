/* stream.c - whole lines past the caches, with the widest stores there are. */
#include "device/cpu/stream.h"

#include <string.h>
#include <unistd.h>

enum { LINE = 64 / sizeof(float), USUAL_CACHE = 32 << 20 };

bool ct_stream_pays(size_t bytes)
{
#if defined(__x86_64__) && defined(_SC_LEVEL3_CACHE_SIZE)
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return bytes > (cache > 0 ? (size_t)cache : USUAL_CACHE);
#elif defined(__x86_64__)
    return bytes > USUAL_CACHE;
#else
    (void)bytes;
    return false;
#endif
}

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static void
lines_of_64(int64_t n, const float *from, float *to)
{
    for (int64_t i = 0; i < n; i += LINE)
        _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
}

static void lines_of_16(int64_t n, const float *from, float *to)
{
    for (int64_t i = 0; i < n; i += 4)
        _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
}

void ct_stream_copy(int64_t n, const float *from, float *to)
{
    const int64_t past = (int64_t)((uintptr_t)to / sizeof(float) % LINE);
    const int64_t head = past == 0 ? 0 : LINE - past < n ? LINE - past : n;
    const int64_t all  = (n - head) / LINE * LINE;

    memcpy(to, from, (size_t)head * sizeof(float));
    if (__builtin_cpu_supports("avx512f"))
        lines_of_64(all, from + head, to + head);
    else
        lines_of_16(all, from + head, to + head);
    memcpy(to + head + all, from + head + all,
           (size_t)(n - head - all) * sizeof(float));
    _mm_sfence(); /* an atomic store would not wait for them */
}
#else
void ct_stream_copy(int64_t n, const float *from, float *to)
{
    memcpy(to, from, (size_t)n * sizeof(float));
}
#endif
