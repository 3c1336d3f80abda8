/* absent.c - what a build without CUDA says when it is asked for a GPU. */
#include "cortado/device.h"

int ct_device_cuda_count(void)
{
    return 0;
}

enum ct_status ct_device_cuda_open(int id, enum ct_precision precision,
                                   const struct ct_device **out)
{
    (void)precision, (void)out;
    return ct_fail(CT_ENOTSUP, "GPU %d: this build has no GPU support; leave "
                   "out --gpu to run on the CPU", id);
}

void ct_device_close(const struct ct_device *d)
{
    (void)d;
}

const char *ct_device_name(const struct ct_device *d)
{
    (void)d;
    return "CPU";
}

enum ct_dtype ct_device_dtype(const struct ct_device *d)
{
    (void)d;
    return CT_F32;
}

bool ct_device_prefers_nhwc(const struct ct_device *d)
{
    (void)d;
    return false;
}
