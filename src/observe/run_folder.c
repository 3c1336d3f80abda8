/* run_folder.c - whether a run is alive. */
#include "observe/run_folder.h"

#include <math.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "observe/output.h"

/* Longer than any pause between two writes of times.json, in seconds. */
static const double most_silent = 30;

/* When a file was written, in seconds since 1970; 0: there is none. */
static double written(const char *folder, const char *name)
{
    char *path       = ct_path_join(folder, name);
    struct stat st   = { 0 };
    const bool found = path && lstat(path, &st) == 0 && S_ISREG(st.st_mode);

    ct_free(path);
    return found ? (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec
                 : 0;
}

bool ct_run_is_alive(const char *folder, double now)
{
    return now - fmax(written(folder, "times.json"),
                      written(folder, "run.json")) < most_silent;
}
