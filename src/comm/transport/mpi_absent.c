/* mpi_absent.c - the answers of transport.h about MPI in a build without. */
#include <stdio.h>

#include "comm/transport.h"

enum ct_status ct_mpi_create(struct ct_transport **out)
{
    (void)out;
    return ct_fail(CT_ENOTSUP, "built without MPI: install libopenmpi-dev and "
                   "build again");
}

bool ct_mpi_left_open(void)
{
    return false;
}

const char *ct_mpi_version(char *text, size_t bytes)
{
    snprintf(text, bytes, "none");
    return text;
}

const char *ct_mpi_thread_level(void)
{
    return "none";
}

bool ct_mpi_takes_gpu_memory(void)
{
    return false;
}
