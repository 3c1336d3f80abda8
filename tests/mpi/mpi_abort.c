/* mpi_abort.c - a rank that ends the job while its comm thread waits in MPI.
 *
 *     mpiexec -n 2 mpi_abort
 *
 * MPI was promised one thread at a time.  Its calls come by here: MPI_Abort
 * prints whether another thread was inside of MPI then.  With MPICH the
 * launcher may end the job without it. */
#include <mpi.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/coll/coll.h"
#include "dist/engine.h"

static atomic_int n_inside;

static void nap(long ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/* Takes so long that somebody who does not look meets it. */
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    int code;

    atomic_fetch_add(&n_inside, 1);
    nap(20);
    code = PMPI_Test(request, flag, status);
    atomic_fetch_sub(&n_inside, 1);
    return code;
}

int MPI_Abort(MPI_Comm comm, int code)
{
    const char *text = atomic_load(&n_inside) ? "aborts beside MPI_Test\n"
                                              : "aborts alone\n";

    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        return MPI_ERR_OTHER;
    nap(200); /* the launcher reads it */
    return PMPI_Abort(comm, code);
}

static enum ct_status barrier_job(struct ct_comm *c, void *arg)
{
    (void)arg;
    return ct_barrier(c);
}

int main(void)
{
    struct ct_job job = { .run = barrier_job };
    struct ct_dist *d = NULL;

    if (ct_dist_create(NULL, &d) != CT_OK || !d)
        return 2;
    if (ct_dist_rank(d) == 0) /* does not come */
        nap(80000);
    ct_job_submit(d->view.thread, &job);
    nap(500);
    ct_dist_abort(d, 1);
    return 3;
}
