/* nvml.h - what NVIDIA's management library knows of GPUs.  It is opened at
 * run time; where it is not installed nothing is known. */
#ifndef CT_DEVICE_NVML_H
#define CT_DEVICE_NVML_H

#include <stdbool.h>
#include <stddef.h>

struct ct_nvml;

/* `file` is the library, NULL the system's.  NULL: there is none. */
struct ct_nvml *ct_nvml_open(const char *file);
void ct_nvml_close(struct ct_nvml *n); /* takes NULL */

/* Degrees Celsius of the GPU at a PCI address, such as "0000:3b:00.0"; 0:
 * unknown.  Takes NULL. */
int ct_nvml_temperature(const struct ct_nvml *n, const char *bus);

/* The PCI address of a GPU of this process; false: there is no such GPU. */
bool ct_device_cuda_bus(int id, char *out, size_t bytes);

#endif
