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

struct ct_peer_memory;

/* Where an array is; may be sent to another rank of the host. */
struct ct_peer_address {
    uint64_t process; /* ct_process_token(); a pid would not do */
    int32_t device;
    int32_t exported; /* to other processes */
    float  *at;       /* for threads of the process */
    char    handle[64];
};

/* With an array of n floats. */
CT_MUST_CHECK enum ct_status ct_peer_create(const struct ct_device *d,
                                            int64_t n,
                                            struct ct_peer_memory **out);
void ct_peer_destroy(struct ct_peer_memory *w); /* takes NULL */
float *ct_peer_array(const struct ct_peer_memory *w);
struct ct_peer_address ct_peer_address(const struct ct_peer_memory *w);

/* Another rank's array, to be read until it is closed.  CT_ENOTSUP where it
 * cannot be reached from here. */
CT_MUST_CHECK enum ct_status ct_peer_open(struct ct_peer_memory *w,
                                          const struct ct_peer_address *a,
                                          const float **out);
void ct_peer_close(struct ct_peer_memory *w, const struct ct_peer_address *a,
                   const float *x); /* takes NULL */

/* y = x; y += x. */
CT_MUST_CHECK enum ct_status ct_peer_copy(struct ct_peer_memory *w, int64_t n,
                                          const float *x, float *y);
CT_MUST_CHECK enum ct_status ct_peer_add(struct ct_peer_memory *w, int64_t n,
                                         const float *x, float *y);

/* The head of every kind's, and what a GPU does; cuda/peer.cu, or
 * cuda/absent.c, where they are never called. */
struct ct_peer_memory {
    const struct ct_device *dev;
    float                  *array; /* owned */
};
#ifdef __cplusplus
extern "C" {
#endif
enum ct_status ct_cuda_peer_create(const struct ct_device *d, int64_t n,
                                   struct ct_peer_memory **out);
void ct_cuda_peer_destroy(struct ct_peer_memory *w);
void ct_cuda_peer_export(const struct ct_peer_memory *w,
                         struct ct_peer_address *a);
enum ct_status ct_cuda_peer_open(struct ct_peer_memory *w,
                                 const struct ct_peer_address *a,
                                 const float **out);
void ct_cuda_peer_close(struct ct_peer_memory *w, const float *x);
enum ct_status ct_cuda_peer_run(struct ct_peer_memory *w, bool add, int64_t n,
                                const float *x, float *y);
#ifdef __cplusplus
}
#endif

#endif
