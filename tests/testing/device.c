/* device.c - the device under test. */
#include <stdlib.h>

#include "testing/test.h"

const struct ct_device *test_device(void)
{
    static const struct ct_device *device;
    const char *name            = getenv("CORTADO_TEST_DEVICE");
    enum ct_precision precision = CT_FP32;

    if (device)
        return device;
    if (!name || strncmp(name, "cuda", 4) != 0)
        return device = ct_device_cpu();
    setenv("CORTADO_CUDA_MEMORY", "host", 1);
    ASSERT_OK(name[4] == ':' ? ct_precision_parse(name + 5, &precision)
                             : CT_OK);
    ASSERT_OK(ct_device_cuda_open(0, precision, &device));
    return device;
}
