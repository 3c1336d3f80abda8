/* test_nvml.c - temperatures out of a library that the build makes, and of
 * none. */
#include "device/nvml.h"

#include "testing/test.h"

TEST(nvml, a_gpu_has_the_temperature_that_the_library_tells)
{
    struct ct_nvml *n = ct_nvml_open(CT_TEST_BUILD "/tests/fake_nvml.so");

    ASSERT(n != NULL);
    ASSERT_INT(61, ct_nvml_temperature(n, "0000:3b:00.0"));
    ASSERT_INT(0, ct_nvml_temperature(n, "0000:01:00.0")); /* unknown */
    ct_nvml_close(n);
}

TEST(nvml, without_a_library_nothing_is_known)
{
    char bus[32];

    ASSERT(ct_nvml_open("/no/such/library.so") == NULL);
    /* A library, but another one. */
    ASSERT(ct_nvml_open(CT_TEST_BUILD "/tests/plugins/softsign.so") == NULL);
    ASSERT_INT(0, ct_nvml_temperature(NULL, "0000:3b:00.0"));
    ct_nvml_close(NULL);
    ASSERT(!ct_device_cuda_bus(1000, bus, sizeof(bus)));
}
