/* device_inner.h - what other rooms of the library ask of a device. */
#ifndef CT_DEVICE_INNER_H
#define CT_DEVICE_INNER_H

#include "cortado/device.h"

/* Whether this CPU has instructions for bfloat16. */
bool ct_device_cpu_has_bf16(void);
/* Gives scratch and memory that nobody uses back. */
void ct_device_trim(const struct ct_device *d);
/* Moves on when scratch that a recorded graph may use has moved. */
uint64_t ct_device_stamp(const struct ct_device *d);

#endif
