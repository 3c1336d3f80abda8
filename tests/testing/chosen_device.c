/* chosen_device.c - the device under test. */
#include <stdlib.h>

#include "testing/test.h"

static void check(enum ct_status st)
{
    if (st == CT_OK)
        return;
    fprintf(stderr, "CORTADO_TEST_DEVICE: %s\n", ct_last_error());
    exit(1);
}

const struct ct_device *test_device(void)
{
    static const struct ct_device *device;
    const char *name            = getenv("CORTADO_TEST_DEVICE");
    enum ct_precision precision = CT_FP32;

    if (device)
        return device;
    if (name && strcmp(name, "cpu:bf16") == 0) {
        check(ct_device_cpu_open(CT_BF16_FORCED, &device));
        return device;
    }
    if (!name || strncmp(name, "cuda", 4) != 0)
        return device = ct_device_cpu();
    setenv("CORTADO_CUDA_MEMORY", "host", 1);
    if (name[4] == ':')
        check(ct_precision_parse(name + 5, &precision));
    check(ct_device_cuda_open(0, precision, &device));
    return device;
}
