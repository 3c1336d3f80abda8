/* nvml.c - NVIDIA's management library, opened at run time. */
#include "device/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/mem.h"

/* Results are 0 for success; a device is a pointer of the library's. */
struct ct_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *bus, void **device);
    int (*temperature)(void *device, int sensor, unsigned *degrees);
};

static bool take(void *library, const char *name, void *to)
{
    void *fn = dlsym(library, name);

    memcpy(to, &fn, sizeof(fn));
    return fn != NULL;
}

struct ct_nvml *ct_nvml_open(const char *file)
{
    void *library = dlopen(file ? file : "libnvidia-ml.so.1",
                           RTLD_NOW | RTLD_LOCAL);
    struct ct_nvml *n = library ? ct_calloc(1, sizeof(*n), "nvml") : NULL;

    if (n && take(library, "nvmlInit_v2", &n->init) &&
        take(library, "nvmlShutdown", &n->shutdown) &&
        take(library, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus) &&
        take(library, "nvmlDeviceGetTemperature", &n->temperature) &&
        n->init() == 0) {
        n->library = library;
        return n;
    }
    ct_free(n);
    if (library)
        dlclose(library);
    return NULL;
}

void ct_nvml_close(struct ct_nvml *n)
{
    if (!n)
        return;
    (void)n->shutdown();
    dlclose(n->library);
    ct_free(n);
}

int ct_nvml_temperature(const struct ct_nvml *n, const char *bus)
{
    enum { OF_THE_GPU = 0 };
    unsigned degrees = 0;
    void *device     = NULL;

    if (!n || n->by_bus(bus, &device) != 0 ||
        n->temperature(device, OF_THE_GPU, &degrees) != 0 || degrees > 200)
        return 0;
    return (int)degrees;
}
