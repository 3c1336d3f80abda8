/* threads.c - how many threads the CPU's operations use, and on which cores.
 *
 * With a thread for every core that the process may use, each stays on its
 * own: a thread that the system moves leaves its cached data behind, and the
 * others wait for it at the end of a loop.  The calling thread stays free,
 * because threads that it makes later (readers of data, messages) start with
 * its cores.  With fewer threads than cores nothing is fixed: another process
 * might choose the same ones.  OpenMP's own variables win. */
#include <cblas.h>
#include <sched.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "base/cores.h"
#include "cortado/device.h"
#include "device/cpu/loop.h"

#ifdef _OPENMP
static bool told_where(void)
{
    return getenv("OMP_PROC_BIND") || getenv("OMP_PLACES") ||
           getenv("GOMP_CPU_AFFINITY");
}

/* The i-th core of `all`, alone. */
static cpu_set_t core_of(const cpu_set_t *all, int i)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, all) && i-- == 0)
            CPU_SET(core, &one);
    return one;
}

static void place(int n)
{
    cpu_set_t all;

    if (told_where() || sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
#pragma omp parallel num_threads(n)
    {
        const int i    = omp_get_thread_num();
        cpu_set_t mine = n == CPU_COUNT(&all) ? core_of(&all, i) : all;

        /* Where it is not allowed, the system goes on choosing. */
        if (i > 0)
            (void)sched_setaffinity(0, sizeof(mine), &mine);
    }
}
#endif

void ct_device_cpu_set_threads(int n)
{
#ifdef _OPENMP
    /* OpenMP may have bound this thread to one of the cores that it knows. */
    n = n > 0 ? n : ct_cores_of(omp_get_num_procs());
    omp_set_num_threads(n);
    if (n > 1)
        place(n);
#else
    n = 1;
#endif
    openblas_set_num_threads(n);
}

int ct_cpu_team(int n)
{
#ifdef _OPENMP
    const int before = omp_get_max_threads();

    omp_set_num_threads(n);
    return before;
#else
    (void)n;
    return 1;
#endif
}

int ct_device_cpu_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
