/* fake_nvml.c - a management library with one GPU, for test_nvml.c. */
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees);

static int the_gpu;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    *device = &the_gpu;
    return strcmp(bus, "0000:3b:00.0") == 0 ? 0 : 6;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees)
{
    *degrees = 61;
    return device == &the_gpu && sensor == 0 ? 0 : 2;
}
