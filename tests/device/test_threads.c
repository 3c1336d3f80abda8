/* test_threads.c - with a thread a core, each keeps its core; threads that wait
 * give it up sooner while others use it. */
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "cortado/device.h"
#include "device/cpu/loop.h"
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

/* Threads of this process that are there to sleep. */
static int n_asleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;

    while (tasks && (e = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        f = fopen(path, "r");
        if (f && fgets(name, sizeof(name), f))
            n += strcmp(name, CT_CROWD_NAME "\n") == 0;
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return n;
}

/* Threads come and go when they come to it. */
static bool come_to(int least, int most)
{
    for (int i = 0; i < 10000; i++) {
        const int n = n_asleep();

        if (n >= least && n <= most)
            return true;
        usleep(1000);
    }
    return false;
}

static double sum_to(int64_t n)
{
    double sum = 0;

    CT_SUM_EACH (i, n, sum)
        sum += (double)i;
    return sum;
}

static void own_cores(void *unused)
{
    (void)unused;
    ct_cpu_note_delay(0);
    ct_device_cpu_set_threads(1);
}

/* Nobody has said how to wait, and there are threads to wait for. */
static void need_own_way(void)
{
#ifndef _OPENMP
    test_skip("one thread");
#endif
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    ct_device_cpu_set_threads(2);
    test_defer(own_cores, NULL);
}

TEST(threads, more_are_made_while_cores_are_shared)
{
    need_own_way();
    ASSERT(!ct_cpu_shares_cores());
    sum_to(10 * CT_GRAIN);
    ct_cpu_note_delay(0.5);
    ASSERT(ct_cpu_shares_cores());
    ASSERT(come_to(2, INT_MAX));
    ASSERT_FLOAT(4999950000.0, sum_to(100000), 1);
    ct_cpu_note_delay(0.05); /* neither: it stays as it is */
    ASSERT(ct_cpu_shares_cores());
    ASSERT_FLOAT(4999950000.0, sum_to(100000), 1);
    ct_cpu_note_delay(0);
    ASSERT(!ct_cpu_shares_cores());
    ASSERT(come_to(0, 0));
    ct_cpu_note_delay(0.05);
    ASSERT(!ct_cpu_shares_cores());
}

TEST(threads, who_says_how_to_wait_has_it_so)
{
    need_own_way();
    setenv("OMP_WAIT_POLICY", "active", 1);
    ct_cpu_note_delay(0.5);
    ASSERT(!ct_cpu_shares_cores());
    unsetenv("OMP_WAIT_POLICY");
    ct_device_cpu_set_threads(1); /* nobody waits */
    ct_cpu_note_delay(0.5);
    ASSERT(!ct_cpu_shares_cores());
}

/* The leak sanitizer takes what OpenMP's threads had, which are the parent's,
 * for lost. */
static void end_child(int status)
{
#ifdef __SANITIZE_ADDRESS__
    _exit(status);
#else
    exit(status);
#endif
}

/* Its threads stay with the process that made them. */
TEST(threads, a_forked_process_ends_without_them)
{
    pid_t child;
    int status = -1;

    need_own_way();
    ct_cpu_note_delay(0.5);
    ASSERT(ct_cpu_shares_cores());
    child = fork();
    if (child == 0)
        end_child(ct_cpu_shares_cores() ? 1 : 0);
    ASSERT(child > 0);
    ASSERT_INT(child, waitpid(child, &status, 0));
    ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
