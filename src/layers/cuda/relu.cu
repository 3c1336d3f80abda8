/* relu.cu - the rectifiers on a GPU; formulas as in relu.c and relu6.c. */
#include "layers/cuda/neuron.h"

struct relu {
    float slope;
    __device__ float operator()(float x) const
    {
        return x > 0 ? x : slope * x;
    }
};

struct relu_grad {
    float slope;
    __device__ float operator()(float dy, float x) const
    {
        return x > 0 ? dy : slope * dy;
    }
};

struct relu6 {
    float slope;
    __device__ float operator()(float x) const
    {
        return x > 6 ? 6 : x > 0 ? x : slope * x;
    }
};

struct relu6_grad {
    float slope;
    __device__ float operator()(float dy, float x) const
    {
        return x >= 6 ? 0 : x > 0 ? dy : slope * dy;
    }
};

extern "C" enum ct_status ct_cuda_relu_forward(struct ct_layer *l,
                                               const struct ct_io *io)
{
    return neuron_forward(l, io,
                          relu{ ct_relu_param(l->param)->negative_slope });
}

extern "C" enum ct_status ct_cuda_relu_backward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    return neuron_backward(
        l, io, relu_grad{ ct_relu_param(l->param)->negative_slope },
        &io->bottom[0]->data);
}

extern "C" enum ct_status ct_cuda_relu6_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    return neuron_forward(l, io,
                          relu6{ ct_relu_param(l->param)->negative_slope });
}

extern "C" enum ct_status ct_cuda_relu6_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    return neuron_backward(
        l, io, relu6_grad{ ct_relu_param(l->param)->negative_slope },
        &io->bottom[0]->data);
}
