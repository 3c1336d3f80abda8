/* peer.h - arrays on a device that other ranks of the host read there.
 *
 * A rank keeps an array in its GPU's memory and says where it is.  Others open
 * it and copy it, or add it to an array of theirs, without the CPU's memory
 * between: over the bus from GPU to GPU, or inside of one GPU that they share.
 * Ranks that are threads know each other's addresses; processes get them from
 * the driver.  On the CPU only threads can.
 *
 * Work runs on a stream of its own, beside what the device computes, and is
 * done when a call returns.  One thread uses it. */
#ifndef CT_DEVICE_PEER_H
#define CT_DEVICE_PEER_H

#include "cortado/device.h"

struct ct_near;

/* Where an array is; may be sent to another rank of the host. */
struct ct_near_address {
    int64_t process;
    int32_t device;
    int32_t exported; /* to other processes */
    float  *at;       /* for threads of the process */
    char    handle[64];
};

/* With an array of n floats. */
CT_MUST_CHECK enum ct_status ct_near_create(const struct ct_device *d,
                                            int64_t n, struct ct_near **out);
void ct_near_destroy(struct ct_near *w); /* takes NULL */
float *ct_near_array(const struct ct_near *w);
struct ct_near_address ct_near_address(const struct ct_near *w);

/* Another rank's array, to be read until it is closed.  CT_ENOTSUP where it
 * cannot be reached from here. */
CT_MUST_CHECK enum ct_status ct_near_open(struct ct_near *w,
                                          const struct ct_near_address *a,
                                          const float **out);
void ct_near_close(struct ct_near *w, const struct ct_near_address *a,
                   const float *x); /* takes NULL */

/* y = x; y += x. */
CT_MUST_CHECK enum ct_status ct_near_copy(struct ct_near *w, int64_t n,
                                          const float *x, float *y);
CT_MUST_CHECK enum ct_status ct_near_add(struct ct_near *w, int64_t n,
                                         const float *x, float *y);

/* The head of every kind's, and what a GPU does; cuda/near.cu, or
 * cuda/absent.c, where they are never called. */
struct ct_near {
    const struct ct_device *dev;
    float                  *array; /* owned */
};
#ifdef __cplusplus
extern "C" {
#endif
enum ct_status ct_cuda_near_create(const struct ct_device *d, int64_t n,
                                   struct ct_near **out);
void ct_cuda_near_destroy(struct ct_near *w);
void ct_cuda_near_export(const struct ct_near *w, struct ct_near_address *a);
enum ct_status ct_cuda_near_open(struct ct_near *w,
                                 const struct ct_near_address *a,
                                 const float **out);
void ct_cuda_near_close(struct ct_near *w, const float *x);
enum ct_status ct_cuda_near_run(struct ct_near *w, bool add, int64_t n,
                                const float *x, float *y);
#ifdef __cplusplus
}
#endif

#endif
