/* env_table.c - every environment variable, in one table. */
#include "help.h"

/* clang-format off */
const struct env_info env_table[] = {
    { "OMP_NUM_THREADS", "N",
      "CPU threads per process, where --threads says nothing" },
    { "OMP_PROC_BIND", "...",
      "OpenMP's: if this, OMP_PLACES or GOMP_CPU_AFFINITY is set, cortado "
      "leaves it to OpenMP where threads run" },
    { "GOMP_SPINCOUNT", "N",
      "libgomp's: how often a thread that waits for others looks before it "
      "sleeps; where neither this nor OMP_WAIT_POLICY is set, it sleeps sooner "
      "while other processes use the same cores" },
    { "DNNL_MAX_CPU_ISA", "WORD",
      "oneDNN's: the newest instructions that it may use, e.g. AVX2" },
    { "OPENBLAS_CORETYPE", "WORD",
      "OpenBLAS's: the CPU that it takes this one for, e.g. SkylakeX; where "
      "this is not set and OpenBLAS is older than the CPU, oneDNN multiplies "
      "in its place" },
    { "CORTADO_DISTRIBUTED", "0",
      "processes that a launcher started train apart, not together" },
    { "CORTADO_LOCAL_RANK", "N",
      "which of the ranks of its machine a program is that 'cortado launch' "
      "started, from 0" },
    { "CORTADO_HANDED", "N",
      "where that program finds its place in the job; 'cortado launch' sets "
      "it" },
    { "CORTADO_IMPL", "KEY:VALUE,...",
      "force implementations, e.g. conv:gemm,pool:ref; + between values allows "
      "several; 'cortado impl' lists them" },
    { "CORTADO_TUNE", "off | measure",
      "off: time no implementations, and ignore times of earlier runs; "
      "measure: time large convolutions as well as small ones" },
    { "CORTADO_CACHE", "none",
      "keep no measured times" },
    { "XDG_CACHE_HOME", "FOLDER",
      "measured times lie in its folder cortado; default $HOME/.cache" },
    { "CORTADO_CUDA_MEMORY", "host",
      "keep the arrays of a GPU in the host's memory, to look for faults" },
    { "CORTADO_LIBRARY", "FILE",
      "the shared library that the Python package loads" },
    { "CORTADO_BUILD", "FOLDER",
      "build folder in which the Python package looks for the library" },
    { "CORTADO_CMAKE", "OPTIONS",
      "options for CMake when 'pip install ./python' builds the library" },
    { "CORTADO_PLUGINS", "FILE:...",
      "shared objects to load layer types from" },
    { "CORTADO_PYTHON_PLUGIN", "FILE",
      "the plug-in that runs Python layers" },
    { "VIRTUAL_ENV", "FOLDER",
      "Python layers run in this virtual environment" },
    { "GLOG_minloglevel", "LEVEL", "default of --minloglevel" },
    { "GLOG_stderrthreshold", "LEVEL", "default of --stderrthreshold" },
    { "GLOG_log_dir", "FOLDER", "default of --log_dir" },
    { "GLOG_logtostderr", "1", "default of --logtostderr" },
    { "GLOG_alsologtostderr", "1", "default of --alsologtostderr" },
    { "GLOG_colorlogtostderr", "1", "default of --colorlogtostderr" },
    { "GLOG_log_prefix", "0", "default of --log_prefix" },
    { "TMPDIR", "FOLDER",
      "where a LevelDB on a read-only disk is copied to while it is read, and "
      "where log files go if --log_dir names no folder; default /tmp" },
    { "OMPI_MCA_oob_tcp_keepalive_time", "SECONDS",
      "Open MPI's: silence of a host after which it is asked for a sign of "
      "life; 'cortado launch --mpi' sets 10 where it is not set" },
    { "OMPI_MCA_oob_tcp_keepalive_intvl", "SECONDS",
      "Open MPI's: between two such questions; 5 there" },
    { "OMPI_MCA_oob_tcp_keepalive_probes", "N",
      "Open MPI's: so many without an answer, and the host is lost; 3 there" },
    { "OMPI_COMM_WORLD_SIZE", "N",
      "set by Open MPI's mpirun, with OMPI_COMM_WORLD_RANK: this process is "
      "one of N ranks" },
    { "PMI_SIZE", "N",
      "set by the mpiexec of MPICH and by srun --mpi=pmi2, with PMI_RANK, "
      "PMI_FD, MPI_LOCALNRANKS, HYDI_CONTROL_FD: one of N ranks" },
    { "PMIX_RANK", "N", "set by PMIx launchers: this process is rank N" },
    { "SLURM_STEP_NUM_TASKS", "N",
      "set by srun, with SLURM_PROCID: one of N ranks" },
    { "SLURM_JOB_ID", "N",
      "set in a job of Slurm: 'cortado launch' reaches other hosts by srun, "
      "not by ssh" },
    { "MV2_COMM_WORLD_SIZE", "N",
      "set by MVAPICH's mpiexec, with MV2_COMM_WORLD_RANK: one of N ranks" },
    { "JSM_NAMESPACE_SIZE", "N",
      "set by jsrun, with JSM_NAMESPACE_RANK: one of N ranks" },
    { "FLUX_JOB_SIZE", "N",
      "set by flux run, with FLUX_TASK_RANK: one of N ranks" },
    { "CORTADO_INTERFACE", "NAME",
      "the network interface whose addresses ranks that come and go tell each "
      "other; default all" },
    { "UCX_TLS", "LIST",
      "UCX's transports; where it is not set, cortado sets ^cma" },
    { "OMPI_MCA_btl_tcp_eager_limit", "BYTES",
      "Open MPI's message sizes over TCP; where this, "
      "OMPI_MCA_btl_tcp_rndv_eager_limit or OMPI_MCA_btl_tcp_max_send_size is "
      "not set, cortado sets it to 300000 or 400000" },
    { "OMPI_ALLOW_RUN_AS_ROOT", "1",
      "set for --ranks, with OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, where it is not "
      "set: mpirun works for root" },
    { "CORTADO", "FILE",
      "examples: the program; default $BUILD/cortado, or the installed one" },
    { "BUILD", "FOLDER", "examples: the build folder; default build" },
    { "CORTADO_DATA", "FOLDER", "examples: a local copy of the data" },
    { "CORTADO_OFFLINE", "1", "examples: download nothing" },
    { "CORTADO_SHORT", "1",
      "examples: train for a few iterations on a few images" },
    { "RANKS", "N", "examples: train on N ranks, where an example can" },
    { "OMP_WAIT_POLICY", "WORD",
      "OpenMP's: with passive, threads that wait leave the processor to others "
      "at once; the examples set it where it is not set" },
};
/* clang-format on */

const int n_env_table = sizeof(env_table) / sizeof(env_table[0]);
