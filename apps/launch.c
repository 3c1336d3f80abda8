/* launch.c - the same command line again, N times, by the right launcher.
 *
 * A machine may have several MPIs, and `mpirun` is only one of theirs.  Each
 * program that is found says who it belongs to; one of another MPI would start
 * N processes that know nothing of each other. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "comm/transport/transports.h"

enum { MOST_WORDS = 512, MOST_NAMES = 4 };

struct launcher {
    const char *mpi;     /* in the version of transport mpi */
    const char *says;    /* in what the launcher says of itself */
    const char *package;
    const char *name[MOST_NAMES];
    const char *flags[MOST_NAMES];
};

static const struct launcher launchers[] = {
    { "Open MPI", "Open", "openmpi-bin",
      { "mpirun.openmpi", "mpirun", "mpiexec", NULL },
      { "--oversubscribe", "--bind-to", "none", NULL } },
    { "MPICH", "HYDRA", "mpich",
      { "mpiexec.mpich", "mpiexec.hydra", "mpirun", "mpiexec" },
      { NULL } },
};

/* Does this program exist, and belong to that MPI? */
static bool belongs(const char *program, const char *says)
{
    char command[128], line[256];
    bool found = false;
    FILE *p;

    snprintf(command, sizeof(command), "%s --version 2>/dev/null", program);
    p = popen(command, "r");
    if (!p)
        return false;
    while (fgets(line, sizeof(line), p))
        found |= strstr(line, says) != NULL;
    return pclose(p) == 0 && found;
}

static enum ct_status find_launcher(const struct launcher **out,
                                    const char **program)
{
    char mpi[256];

    ct_transport_version(ct_transport_find("mpi"), mpi, sizeof(mpi));
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];

        if (!strstr(mpi, l->mpi))
            continue;
        for (int k = 0; k < MOST_NAMES && l->name[k]; k++)
            if (belongs(l->name[k], l->says)) {
                *out     = l;
                *program = l->name[k];
                return CT_OK;
            }
        return ct_fail(CT_ENOTFOUND, "--ranks: there is no launcher of %s; "
                       "install %s, or leave the flag out to use one rank",
                       mpi, l->package);
    }
    return ct_fail(CT_ENOTSUP, "--ranks: this build has no MPI whose launcher "
                   "is known (%s); start the ranks yourself", mpi);
}

void launch_await_turn(void)
{
    const int rank    = ct_launched_size() > 1 ? ct_launched_rank() : 0;
    const int tenths  = rank > 10 ? 10 : rank;
    struct timespec t = { 3, tenths * 90000000L };

    if (rank > 0)
        nanosleep(&t, NULL);
}

enum ct_status launch_ranks(int n)
{
    const struct launcher *l = NULL;
    const char *program = NULL, *call[MOST_WORDS];
    char count[16], self[4096], *words = NULL;
    ssize_t bytes  = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t n_bytes = 0, k = 0;

    if (bytes < 0)
        return ct_fail(CT_EIO, "cannot find this program's own file");
    self[bytes] = '\0';
    CT_TRY(find_launcher(&l, &program));
    CT_TRY(ct_file_read("/proc/self/cmdline", &words, &n_bytes));
    snprintf(count, sizeof(count), "%d", n);
    call[k++] = program;
    for (int i = 0; i < MOST_NAMES && l->flags[i]; i++)
        call[k++] = l->flags[i];
    call[k++] = "-n";
    call[k++] = count;
    call[k++] = self;
    for (size_t i = strlen(words) + 1; i < n_bytes && k < MOST_WORDS - 1;
         i += strlen(words + i) + 1)
        call[k++] = words + i;
    call[k] = NULL;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    execvp(program, (char *const *)(uintptr_t)call);
    ct_free(words);
    return ct_fail(CT_EIO, "--ranks=%d: cannot start %s", n, program);
}
