/* slots.h - the CUDA side of layer types.
 *
 * A type T of layers.def that has one is listed in layers/cuda/layers.def;
 * its functions are ct_cuda_T_forward and ct_cuda_T_backward, in a .cu file of
 * this folder.  The type's own file fills its slots:
 *
 *     .forward  = { relu_forward, CT_CUDA_FN(relu_forward) },
 *
 * which leaves them empty in a build without CUDA. */
#ifndef CT_LAYERS_CUDA_SLOTS_H
#define CT_LAYERS_CUDA_SLOTS_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef CT_HAVE_CUDA
#define CT_CUDA_FN(name) ct_cuda_##name
#else
#define CT_CUDA_FN(name) NULL
#endif

#define CT_CUDA_LAYER(type)                                                  \
    enum ct_status ct_cuda_##type##_forward(struct ct_layer *l,              \
                                            const struct ct_io *io);         \
    enum ct_status ct_cuda_##type##_backward(struct ct_layer *l,             \
                                             const struct ct_io *io);
#include "layers/cuda/layers.def"
#undef CT_CUDA_LAYER

/* recurrent.c's: rows of x times their marks. */
enum ct_status ct_cuda_recurrent_mark(const struct ct_layer *l, int64_t rows,
                                      int64_t width, const float *cont,
                                      const float *x, float *y);

#ifdef __cplusplus
}
#endif
#endif
