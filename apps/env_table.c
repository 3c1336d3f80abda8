/* env_table.c - every environment variable, in one table. */
#include "help.h"

/* clang-format off */
const struct env_info env_table[] = {
    { "OMP_NUM_THREADS", "N",
      "CPU threads per process, where --threads says nothing" },
    { "CORTADO_DISTRIBUTED", "0",
      "processes that a launcher started train apart, not together" },
    { "CORTADO_IMPL", "OP:NAME,...",
      "force implementations of operations, e.g. conv:gemm,pool:ref; + between "
      "names leaves several" },
    { "CORTADO_TUNE", "off | measure",
      "off: time no implementations, and ignore times of earlier runs; "
      "measure: time large convolutions as well as small ones" },
    { "CORTADO_CACHE", "none",
      "keep no measured times; otherwise they lie in $XDG_CACHE_HOME/cortado "
      "or ~/.cache/cortado" },
    { "CORTADO_CUDA_MEMORY", "host",
      "keep the arrays of a GPU in the host's memory, to look for faults" },
    { "CORTADO_LIBRARY", "FILE",
      "the shared library that the Python package loads" },
    { "CORTADO_BUILD", "FOLDER",
      "build folder in which the Python package looks for the library" },
    { "CORTADO_PLUGINS", "FILE:...",
      "shared objects to load layer types from" },
    { "CORTADO_PYTHON_PLUGIN", "FILE",
      "the plug-in that runs Python layers" },
    { "GLOG_minloglevel", "LEVEL",
      "default of --minloglevel; so for the other flags of the log: "
      "GLOG_log_dir, GLOG_logtostderr, ..." },
    { "TMPDIR", "FOLDER",
      "where a LevelDB on a read-only disk is copied to while it is read" },
};
/* clang-format on */

const int n_env_table = sizeof(env_table) / sizeof(env_table[0]);
