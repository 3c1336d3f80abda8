/* rng.h - counter-based random numbers (Philox4x32-10).
 *
 * A draw is a pure function of (key, counter): no state to carry, nothing to
 * lock, the same on every rank and after every resume.  Keys name who draws
 * (seed and layer), counters name what for (sample and element).
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef CT_BASE_RNG_H
#define CT_BASE_RNG_H

#include <stdint.h>

/* For functions that kernels call too. */
#ifdef __CUDACC__
#define CT_HOST_DEVICE __host__ __device__
#else
#define CT_HOST_DEVICE
#endif

struct ct_philox {
    uint32_t v[4];
};

/* Four 32-bit words for the 64-bit key and 128-bit counter (hi, lo).  Inline,
 * so that loops over counters become vector code. */
CT_HOST_DEVICE static inline struct ct_philox ct_philox(uint64_t key,
                                                        uint64_t hi,
                                                        uint64_t lo)
{
    struct ct_philox out;
    const uint32_t m0 = 0xD2511F53u, m1 = 0xCD9E8D57u;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)lo, c1 = (uint32_t)(lo >> 32);
    uint32_t c2 = (uint32_t)hi, c3 = (uint32_t)(hi >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)m0 * c0, p1 = (uint64_t)m1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out.v[0] = c0;
    out.v[1] = c1;
    out.v[2] = c2;
    out.v[3] = c3;
    return out;
}

/* Word i of the stream (key, hi): the sequence a filler or mask walks. */
CT_HOST_DEVICE static inline uint32_t ct_philox_word(uint64_t key, uint64_t hi,
                                                      uint64_t i)
{
    return ct_philox(key, hi, i / 4).v[i % 4];
}

/* [0, 1) with 24 bits, and a standard normal by Box-Muller, for element i. */
CT_HOST_DEVICE static inline float ct_uniform(uint64_t key, uint64_t hi,
                                              uint64_t i)
{
    return (float)(ct_philox_word(key, hi, i) >> 8) * 0x1p-24f;
}
float ct_normal(uint64_t key, uint64_t hi, uint64_t i);

/* A key from a seed and a name, e.g. a layer's. */
uint64_t ct_key(uint64_t seed, const char *name);

/* A seed for runs that ask for none: from the system's entropy. */
uint64_t ct_entropy(void);

/* This process's own number.  Process ids are no names: ranks in containers of
 * their own can have the same.  Never 0. */
uint64_t ct_process_token(void);

#endif
