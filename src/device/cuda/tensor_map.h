/* tensor_map.h - the driver's function that describes arrays to the copy
 * engine; for .cu files alone. */
#ifndef CT_DEVICE_CUDA_TENSOR_MAP_H
#define CT_DEVICE_CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime.h>

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

#endif
#endif
