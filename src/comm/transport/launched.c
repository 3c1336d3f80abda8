/* launched.c - whether a launcher started this process as one of several.
 *
 * Launchers set environment variables, each its own.  Builds without MPI look
 * at them, too: ranks that cannot reach each other must not train as if they
 * were alone.  CORTADO_DISTRIBUTED=0 is for independent runs that are started
 * with a launcher. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport/transports.h"

static bool apart(void)
{
    const char *wish = getenv("CORTADO_DISTRIBUTED");

    return wish && strcmp(wish, "0") == 0;
}

int ct_launched_size(void)
{
    static const char *const name[] = {
        "OMPI_COMM_WORLD_SIZE", /* Open MPI's mpirun */
        "PMI_SIZE",             /* MPICH's and Intel's, srun --mpi=pmi2 */
        "MPI_LOCALNRANKS",      /* MPICH's, this host's part */
        "MV2_COMM_WORLD_SIZE",  /* MVAPICH's */
        "JSM_NAMESPACE_SIZE",   /* jsrun */
        "FLUX_JOB_SIZE",        /* flux run */
        "SLURM_STEP_NUM_TASKS", /* srun with any MPI, or none */
    };

    if (apart())
        return 0;
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        const char *value = getenv(name[i]);
        long n            = value ? strtol(value, NULL, 10) : 0;

        if (n > 0 && n < INT_MAX)
            return (int)n;
    }
    return 0;
}

int ct_launched_rank(void)
{
    static const char *const name[] = {
        "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
        "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK", "PMIX_RANK", "SLURM_PROCID",
    };

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        const char *value = getenv(name[i]);

        if (value)
            return (int)strtol(value, NULL, 10);
    }
    return 0;
}

bool ct_launched(void)
{
    const int n = ct_launched_size();

    /* A PMIx launcher may not set the number of ranks. */
    return n > 1 || (n == 0 && !apart() && getenv("PMIX_RANK"));
}
