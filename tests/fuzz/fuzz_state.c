/* fuzz_state.c - any bytes, behind an even one, as a solver's state in
 * protobuf's form.  Of HDF5, behind an odd one, only what ends at once is
 * tried: the library allocates what a damaged file asks for. */
#include "base/mem.h"
#include "cortado/log.h"
#include "fuzz_file.h"
#include "solver/state.h"

enum { MOST_HDF5 = 64 }; /* bytes: less than a superblock */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    Caffe__SolverState *m = NULL;
    const char *path;

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0 || (data[0] % 2 && n_bytes > MOST_HDF5))
        return 0;
    path = fuzz_file(data + 1, n_bytes - 1,
                     data[0] % 2 ? ".solverstate.h5" : ".solverstate");
    if (solver_state_read(path, &m) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    ct_message_free(m);
    unlink(path);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
