/* test_threads.c - with a thread a core, each keeps its core. */
#include <sched.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cortado/device.h"
#include "testing/test.h"

/* The cores that the last of n threads may use. */
static int cores_of_last(int n)
{
    int cores = 0;

    ct_device_cpu_set_threads(n);
#ifdef _OPENMP
#pragma omp parallel num_threads(n)
    if (omp_get_thread_num() == n - 1) {
        cpu_set_t mine;

        if (sched_getaffinity(0, sizeof(mine), &mine) == 0)
            cores = CPU_COUNT(&mine);
    }
#endif
    return cores;
}

static void one_thread(void *unused)
{
    (void)unused;
    ct_device_cpu_set_threads(1);
}

TEST(threads, each_keeps_a_core_where_there_is_one_for_each)
{
    cpu_set_t all;
    int n;

    ASSERT(sched_getaffinity(0, sizeof(all), &all) == 0);
    n = CPU_COUNT(&all);
    if (n < 2 || getenv("OMP_PROC_BIND") || getenv("OMP_PLACES"))
        test_skip("one core, or OpenMP is told where threads go");
    test_defer(one_thread, NULL);
    ASSERT_INT(1, cores_of_last(n));
    ASSERT_INT(n, cores_of_last(n + 1)); /* too many: free again */
    ASSERT(sched_getaffinity(0, sizeof(all), &all) == 0);
    ASSERT_INT(n, CPU_COUNT(&all)); /* who asked stays free */
}
