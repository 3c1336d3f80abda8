/* rng.c - what is drawn from Philox4x32-10. */
#include "base/rng.h"

#include <math.h>
#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

float ct_normal(uint64_t key, uint64_t hi, uint64_t i)
{
    struct ct_philox p = ct_philox(key, hi, i / 2);
    uint32_t a = p.v[i % 2 * 2], b = p.v[i % 2 * 2 + 1];
    double u = ((double)a + 1) * 0x1p-32, v = (double)b * 0x1p-32;

    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

uint64_t ct_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xCBF29CE484222325u ^ (seed * 0x9E3779B97F4A7C15u);

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    h ^= h >> 31; /* FNV-1a leaves the high bits of short names alike */
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ h >> 29;
}

uint64_t ct_entropy(void)
{
    uint64_t seed;
    struct timespec now;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
        return seed;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec;
}

uint64_t ct_process_token(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t token;
    static pid_t of; /* whose it is; a child gets its own */
    uint64_t mine;

    pthread_mutex_lock(&lock);
    if (of != getpid()) {
        of    = getpid();
        token = ct_entropy() | 1;
    }
    mine = token;
    pthread_mutex_unlock(&lock);
    return mine;
}
