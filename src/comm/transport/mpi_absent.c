/* mpi_absent.c - the transport `mpi` in a build without MPI.
 *
 * It has `launched`, so that --transport=auto selects it and fails: ranks that
 * cannot reach each other must not train as if they were alone. */
#include "comm/transport/transports.h"

static enum ct_status mpi_create(struct ct_transport **out)
{
    (void)out;
    return ct_fail(CT_ENOTSUP, "built without MPI: install libopenmpi-dev and "
                   "build again");
}

const struct ct_transport_type ct_transport_mpi = {
    .name     = "mpi",
    .about    = "processes of an MPI job",
    .create   = mpi_create,
    .launched = ct_launched,
};
