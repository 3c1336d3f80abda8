/* libs.h - NVIDIA's libraries, opened when a GPU is asked for.
 *
 * They are large, and few machines have them; the program must start without.
 * libs.def names each function once; ct_cuda_libs has a pointer for each:
 *
 *     libs->cudnnCreate(&handle)                                            */
#ifndef CT_DEVICE_CUDA_LIBS_H
#define CT_DEVICE_CUDA_LIBS_H

#include <cublasLt.h>
#include <cudnn.h>

#include "cortado/status.h"
#include "device/cuda/cuda.h"

struct ct_cuda_libs {
#define CT_LIB_FN(library, name) __typeof__(&name) name;
#include "device/cuda/libs.def"
#undef CT_LIB_FN
};

/* Opens them once; CT_ENOTFOUND names the file that is missing.  The table
 * lives for ever. */
CT_MUST_CHECK enum ct_status ct_cuda_libs(const struct ct_cuda_libs **out);

/* The status for what a cuDNN call returned. */
CT_MUST_CHECK enum ct_status ct_cudnn_check(const struct ct_device *d,
                                            cudnnStatus_t e, const char *what);
/* Calls a cuDNN function of the device's table and leaves on failure. */
#define CT_CUDNN(d, name, ...)                                               \
    CT_TRY(ct_cudnn_check((d), ct_cuda(d)->libs->name(__VA_ARGS__), #name))

/* device.c: choices of implementations, kept over runs. */
struct ct_choices;
CT_MUST_CHECK enum ct_status ct_cuda_choices(const struct ct_device *d,
                                             struct ct_choices **out);

#endif
