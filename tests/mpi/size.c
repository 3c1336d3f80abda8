/* size.c - exits 0 where this process is one of two.  The build asks with it
 * whether a launcher and its MPI fit together. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int size = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Finalize();
    return size != 2;
}
