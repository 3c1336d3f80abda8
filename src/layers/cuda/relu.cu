/* relu.cu - the rectifier on a GPU; formulas and shapes as in relu.c. */
#include "device/cuda/kernel.h"
#include "layers/cuda/cuda.h"
#include "proto/params.h"

template <typename T>
__global__ static void relu(int64_t n, float slope, const T *x, T *y)
{
    CT_KERNEL_EACH (i, n) {
        const float v = ct_load(x + i);

        ct_store(y + i, v > 0 ? v : slope * v);
    }
}

template <typename T>
__global__ static void relu_grad(int64_t n, float slope, const T *x,
                                 const T *dy, T *dx)
{
    CT_KERNEL_EACH (i, n) {
        const float d = ct_load(dy + i);

        ct_store(dx + i, ct_load(x + i) > 0 ? d : slope * d);
    }
}

extern "C" enum ct_status ct_cuda_relu_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    const float slope         = ct_relu_param(l->param)->negative_slope;
    const struct ct_tensor *x = &io->bottom[0]->data;
    const int64_t n           = ct_elements(io->top[0]);

    CT_BY_TYPE(x->dtype, T,
               return CT_LAUNCH(l->dev, n, relu<T>, n, slope,
                                (const T *)x->ptr,
                                (T *)io->top[0]->data.ptr));
}

extern "C" enum ct_status ct_cuda_relu_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const float slope         = ct_relu_param(l->param)->negative_slope;
    const struct ct_tensor *x = &io->bottom[0]->data;
    const int64_t n           = ct_elements(io->top[0]);

    if (!io->want_grad[0])
        return CT_OK;
    CT_BY_TYPE(x->dtype, T,
               return CT_LAUNCH(l->dev, n, relu_grad<T>, n, slope,
                                (const T *)x->ptr,
                                (const T *)io->top[0]->diff.ptr,
                                (T *)io->bottom[0]->diff.ptr));
}
