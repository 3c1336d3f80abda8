/* late_clock.c - loaded before a program: for this process, and no child of it,
 * as many seconds have passed as the file $LATE_CLOCK says. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef int (*clock_fn)(clockid_t clock, struct timespec *out);

static clock_fn real;
static pid_t own;

__attribute__((constructor)) static void begin(void)
{
    own = getpid();
}

static long late_by(void)
{
    const char *path = getenv("LATE_CLOCK");
    FILE *f          = path && own == getpid() ? fopen(path, "r") : NULL;
    long seconds     = 0;

    if (!f)
        return 0;
    if (fscanf(f, "%ld", &seconds) != 1)
        seconds = 0;
    fclose(f);
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int code;

    if (!real)
        real = (clock_fn)dlsym(RTLD_NEXT, "clock_gettime");
    code = real(clock, out);
    if (clock == CLOCK_MONOTONIC && own != 0)
        out->tv_sec += late_by();
    return code;
}
