/* neuron.cu - layers that map each value by itself, on a GPU; formulas as in
 * their .c files. */
#include "layers/cuda/neuron.h"
#include "layers/exp.h"
#include "layers/log_layer.h"
#include "layers/mish.h"
#include "layers/swish.h"

__device__ static inline float sigmoid(float x)
{
    const float e = expf(-fabsf(x));

    return (x >= 0 ? 1 : e) / (1 + e);
}

struct absval {
    __device__ float operator()(float x) const { return fabsf(x); }
    __device__ float operator()(float dy, float x) const
    {
        return x > 0 ? dy : x < 0 ? -dy : 0;
    }
};

struct bnll {
    __device__ float operator()(float x) const
    {
        return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
    }
    __device__ float operator()(float dy, float y) const
    {
        return -dy * expm1f(-y);
    }
};

struct clip {
    float lo, hi;
    bool  strict; /* in place: a clipped value looks like one on the bound */

    __device__ float operator()(float x) const
    {
        const float v = x < hi ? x : hi;

        return v > lo ? v : lo;
    }
    __device__ float operator()(float dy, float x) const
    {
        return (strict ? x > lo && x < hi : x >= lo && x <= hi) ? dy : 0;
    }
};

struct elu {
    float alpha;

    __device__ float operator()(float x) const
    {
        return x > 0 ? x : alpha * expm1f(x);
    }
    __device__ float operator()(float dy, float x, float y) const
    {
        return x > 0 ? dy : dy * (y + alpha);
    }
};

struct exponential {
    float inner, outer;

    __device__ float operator()(float x) const
    {
        return outer * expf(inner * x);
    }
    __device__ float operator()(float dy, float y) const
    {
        return dy * y * inner;
    }
};

struct logarithm {
    float scale, shift, log_base;
    bool  from_y; /* in place: x is brought back */

    __device__ float operator()(float x) const
    {
        return 1 / log_base * logf(shift + scale * x);
    }
    __device__ float operator()(float dy, float x) const
    {
        const float of = dy * (scale / log_base);

        return from_y ? of * expf(-log_base * x) : of / (shift + scale * x);
    }
};

/* v^p, v = shift + scale x; its gradient by x and y. */
struct power {
    float power, scale, shift, at_zero; /* at_zero: 0^(power - 1) */

    __device__ float operator()(float x) const
    {
        const float v = shift + scale * x;

        return power == 1      ? v
               : power == 2    ? v * v
               : power == 0.5f ? sqrtf(v)
                               : powf(v, power);
    }
    __device__ float operator()(float dy, float x, float y) const
    {
        const float v = shift + scale * x, outer = power * scale;

        if (power == 2)
            return outer * dy * v;
        return outer * dy * (v != 0 ? y / v : at_zero);
    }
};

struct times {
    float by;
    __device__ float operator()(float dy) const { return by * dy; }
};

struct squash {
    __device__ float operator()(float x) const { return sigmoid(x); }
    __device__ float operator()(float dy, float y) const
    {
        return dy * y * (1 - y);
    }
};

struct tangent {
    __device__ float operator()(float x) const { return tanhf(x); }
    __device__ float operator()(float dy, float y) const
    {
        return dy * (1 - y * y);
    }
};

struct step {
    float bound;
    __device__ float operator()(float x) const { return x > bound ? 1 : 0; }
};

/* s of a Swish; then y by x and s; then dx by dy, y and s. */
struct swish_gate {
    float beta;
    __device__ float operator()(float x) const { return sigmoid(beta * x); }
};

struct swish_map {
    float beta;
    __device__ float operator()(float x, float s) const { return x * s; }
    __device__ float operator()(float dy, float y, float s) const
    {
        const float b = beta * y;

        return dy * (b + s * (1 - b));
    }
};

/* y' of a Mish by x; then y. */
struct mish_slope {
    __device__ static float gate(float x)
    {
        const float e = expf(x < 20 ? x : 20), q = e * (e + 2);

        return q / (q + 2);
    }
    __device__ float operator()(float x) const
    {
        const float t = gate(x);

        return t + x * sigmoid(x) * (1 - t * t);
    }
};

struct mish_map {
    __device__ float operator()(float x) const
    {
        return x * mish_slope::gate(x);
    }
    __device__ float operator()(float dy, float slope) const
    {
        return dy * slope;
    }
};

#define FORWARD(name)                                                        \
    extern "C" enum ct_status ct_cuda_##name##_forward(                      \
        struct ct_layer *l, const struct ct_io *io)
#define BACKWARD(name)                                                       \
    extern "C" enum ct_status ct_cuda_##name##_backward(                     \
        struct ct_layer *l, const struct ct_io *io)

FORWARD(absval)
{
    return neuron_forward(l, io, absval());
}

BACKWARD(absval)
{
    return neuron_backward(l, io, absval(), &io->bottom[0]->data);
}

FORWARD(bnll)
{
    return neuron_forward(l, io, bnll());
}

BACKWARD(bnll)
{
    return neuron_backward(l, io, bnll(), &io->top[0]->data);
}

FORWARD(clip)
{
    const Caffe__ClipParameter *p = ct_clip_param(l->param);

    return neuron_forward(l, io, clip{ p->min, p->max, false });
}

BACKWARD(clip)
{
    const Caffe__ClipParameter *p = ct_clip_param(l->param);

    return neuron_backward(l, io, clip{ p->min, p->max, in_place(io) },
                           &io->bottom[0]->data);
}

FORWARD(elu)
{
    return neuron_forward(l, io, elu{ ct_elu_param(l->param)->alpha });
}

BACKWARD(elu)
{
    return neuron_backward(l, io, elu{ ct_elu_param(l->param)->alpha },
                           &io->bottom[0]->data, &io->top[0]->data);
}

FORWARD(exp)
{
    const struct exp_layer *e = (const struct exp_layer *)l->state;

    return neuron_forward(l, io, exponential{ e->inner, e->outer });
}

BACKWARD(exp)
{
    const struct exp_layer *e = (const struct exp_layer *)l->state;

    return neuron_backward(l, io, exponential{ e->inner, e->outer },
                           &io->top[0]->data);
}

FORWARD(log)
{
    const struct log_layer *g = (const struct log_layer *)l->state;

    return neuron_forward(l, io, logarithm{ g->scale, g->shift, g->log_base,
                                            false });
}

BACKWARD(log)
{
    const struct log_layer *g = (const struct log_layer *)l->state;

    return neuron_backward(l, io, logarithm{ g->scale, g->shift, g->log_base,
                                             in_place(io) },
                           &io->bottom[0]->data);
}

FORWARD(power)
{
    const Caffe__PowerParameter *p = ct_power_param(l->param);

    if (p->power * p->scale == 0)
        return ct_cuda_fill(l->dev, io->top[0]->count,
                            p->power == 0 ? 1 : powf(p->shift, p->power),
                            ct_data(io->top[0]));
    return neuron_forward(l, io, power{ p->power, p->scale, p->shift, 0 });
}

BACKWARD(power)
{
    const Caffe__PowerParameter *p = ct_power_param(l->param);
    const int64_t n                = io->top[0]->count;

    if (!io->want_grad[0])
        return CT_OK;
    if (p->power * p->scale == 0)
        return ct_cuda_fill(l->dev, n, 0, ct_diff(io->bottom[0]));
    if (p->power == 1)
        return ct_map(l->dev, n, times{ p->scale }, ct_diff(io->bottom[0]),
                      (const float *)ct_diff(io->top[0]));
    if (in_place(io))
        return ct_fail(CT_ENOTSUP, "layer %s: a power of %g has no backward "
                       "pass in place; give its top another name", l->name,
                       (double)p->power);
    return neuron_backward(l, io, power{ p->power, p->scale, p->shift,
                                         powf(0, p->power - 1) },
                           &io->bottom[0]->data, &io->top[0]->data);
}

FORWARD(sigmoid)
{
    return neuron_forward(l, io, squash());
}

BACKWARD(sigmoid)
{
    return neuron_backward(l, io, squash(), &io->top[0]->data);
}

FORWARD(tanh)
{
    return neuron_forward(l, io, tangent());
}

BACKWARD(tanh)
{
    return neuron_backward(l, io, tangent(), &io->top[0]->data);
}

FORWARD(threshold)
{
    return neuron_forward(l, io,
                          step{ ct_threshold_param(l->param)->threshold });
}

FORWARD(swish)
{
    const struct swish *w     = (const struct swish *)l->state;
    const float beta          = ct_swish_param(l->param)->beta;
    const struct ct_tensor *x = &io->bottom[0]->data, *y = &io->top[0]->data;
    const int64_t n           = ct_elements(io->top[0]);
    float *s                  = ct_data(w->s);

    CT_BY_TYPE(x->dtype, T, {
        CT_TRY(ct_map(l->dev, n, swish_gate{ beta }, s, (const T *)x->ptr));
        return ct_map(l->dev, n, swish_map{ beta }, (T *)y->ptr,
                      (const T *)x->ptr, (const float *)s);
    });
}

BACKWARD(swish)
{
    const struct swish *w      = (const struct swish *)l->state;
    const float beta           = ct_swish_param(l->param)->beta;
    const struct ct_tensor *dx = &io->bottom[0]->diff;
    const struct ct_tensor *dy = &io->top[0]->diff, *y = &io->top[0]->data;

    if (!io->want_grad[0])
        return CT_OK;
    CT_BY_TYPE(y->dtype, T,
               return ct_map(l->dev, ct_elements(io->top[0]),
                             swish_map{ beta }, (T *)dx->ptr,
                             (const T *)dy->ptr, (const T *)y->ptr,
                             (const float *)ct_data(w->s)));
}

FORWARD(mish)
{
    const struct mish *m      = (const struct mish *)l->state;
    const struct ct_tensor *x = &io->bottom[0]->data;
    float *slope              = ct_data(m->slope);

    CT_BY_TYPE(x->dtype, T,
               CT_TRY(ct_map(l->dev, ct_elements(io->top[0]), mish_slope(),
                             slope, (const T *)x->ptr)));
    return neuron_forward(l, io, mish_map());
}

BACKWARD(mish)
{
    const struct mish *m       = (const struct mish *)l->state;
    const struct ct_tensor *dx = &io->bottom[0]->diff;
    const struct ct_tensor *dy = &io->top[0]->diff;

    if (!io->want_grad[0])
        return CT_OK;
    CT_BY_TYPE(dy->dtype, T,
               return ct_map(l->dev, ct_elements(io->top[0]), mish_map(),
                             (T *)dx->ptr, (const T *)dy->ptr,
                             (const float *)ct_data(m->slope)));
}
