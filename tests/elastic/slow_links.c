/* slow_links.c - loaded before a program: its list of network links takes as
 * long as the file $SLOW_LINKS is there. */
#include <dlfcn.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int getifaddrs(struct ifaddrs **out)
{
    const struct timespec nap = { 0, 10000000 };
    const char *path          = getenv("SLOW_LINKS");
    int (*real)(struct ifaddrs **) =
        (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");

    while (path && access(path, F_OK) == 0)
        nanosleep(&nap, NULL);
    return real(out);
}
