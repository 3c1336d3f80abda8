/* tensor_map.h - the driver's function that describes arrays to the copy
 * engine; for .cu files alone. */
#ifndef CT_DEVICE_CUDA_TENSOR_MAP_H
#define CT_DEVICE_CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime.h>

#include "device/cuda/cuda.h"

#if CUDART_VERSION >= 12050

typedef CUresult (*ct_encode_fn)(CUtensorMap *, CUtensorMapDataType,
                                 cuuint32_t, void *, const cuuint64_t *,
                                 const cuuint64_t *, const cuuint32_t *,
                                 const cuuint32_t *, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill);

/* NULL: the driver has none. */
static inline ct_encode_fn ct_find_encode(void)
{
    void *fn = NULL;
    cudaDriverEntryPointQueryResult found;

    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000,
                                         cudaEnableDefault,
                                         &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        return NULL;
    return (ct_encode_fn)fn;
}

/* A matrix of bfloat16, and the parts of 64 columns that are taken out of it
 * or brought back. */
static inline enum ct_status ct_describe(const struct ct_device *d,
                                         int64_t rows, int64_t columns,
                                         int part_rows, const void *at,
                                         CUtensorMap *out)
{
    const ct_encode_fn encode = ct_find_encode();
    const cuuint64_t size[2]  = { (cuuint64_t)columns, (cuuint64_t)rows };
    const cuuint64_t pitch[1] = { (cuuint64_t)columns * 2 };
    const cuuint32_t box[2]   = { 64, (cuuint32_t)part_rows };
    const cuuint32_t apart[2] = { 1, 1 };

    if (!encode ||
        encode(out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
               (void *)(uintptr_t)at, size, pitch, box, apart,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return ct_fail(CT_EDEVICE, "GPU %d: the driver does not describe the "
                       "matrices of a convolution", d->id);
    return CT_OK;
}

#endif
#endif
