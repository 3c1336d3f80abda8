/* kernels.h - whose arithmetic the CPU's results come from. */
#ifndef CT_DEVICE_KERNELS_H
#define CT_DEVICE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* "CPU, AVX-512, OpenBLAS 0.3.21 SkylakeX, oneDNN 2.7.2 isa ff".  Processes
 * where it differs may round differently. */
const char *ct_cpu_kernels(char *text, size_t bytes);

/* "CUDA 12.8, driver 12.8, cuDNN 9.8.0"; false: the device is no GPU. */
struct ct_device;
bool ct_cuda_kernels(const struct ct_device *d, char *text, size_t bytes);

/* Whether OpenBLAS has kernels for vectors as wide as this CPU's.  It goes by
 * models, and takes one that is newer than itself for the oldest. */
bool ct_cpu_blas_is_current(void);

/* Whether oneDNN multiplies matrices of bfloat16 in tiles of AMX. */
bool ct_cpu_has_amx(void);

#endif
