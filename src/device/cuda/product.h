/* product.h - a small matrix product by blocks that share its tiles; see
 * product.cu, and cuda.h for the one without. */
#ifndef CT_DEVICE_CUDA_PRODUCT_H
#define CT_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether that many blocks, 2 to 8, may have one tile. */
bool ct_cuda_product_shares(const struct ct_device *d,
                            const struct ct_cuda_gemm *g, int shares);
CT_MUST_CHECK enum ct_status ct_cuda_product_by(const struct ct_device *d,
                                                const struct ct_cuda_gemm *g,
                                                int shares, float alpha,
                                                const void *a, const void *b,
                                                float beta, void *c);

#ifdef __cplusplus
}
#endif
#endif
