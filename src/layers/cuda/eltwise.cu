/* eltwise.cu - Eltwise and Split on a GPU; formulas as in eltwise.c and
 * split.c.
 *
 * Up to LIST arrays are combined in one pass; where there are more, what comes
 * of them joins the next ones.  A sum that absorbed a ReLU is SUM_RELU in its
 * last pass; backward, with that or a Split, one pass adds up the gradients of
 * its tops and makes those of all its bottoms. */
#include "device/cuda/elementwise.h"
#include "layers/cuda/slots.h"
#include "layers/eltwise.h"
#include "proto/params.h"

enum { LIST = ELTWISE_LIST };
enum { SUM  = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM,
       PROD = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD,
       MAX  = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX, SUM_RELU };

struct list {
    const void *x[LIST];
    float       c[LIST]; /* SUM's coefficients */
    int         n, first; /* `first`: the number of x[0] among all, for MAX */
};

/* Takes value `v` of array `number` into the result. */
template <int OP>
__device__ static inline void join(float v, float c, int number, float *out,
                                   int32_t *winner)
{
    if (OP == SUM || OP == SUM_RELU) {
        *out += c * v;
    } else if (OP == PROD) {
        *out *= v;
    } else if (number == 1 ? !(*out > v) : v > *out) {
        *out    = v;
        *winner = number;
    }
}

/* Values [i, i + K) of N arrays, or of s.n where N is 0. */
template <int OP, int N, int K, typename T>
__device__ static inline void combine(const struct list &s, int64_t i, T *y,
                                      int32_t *winner)
{
    const ct_pack<K, T> first = ct_load_pack<K>((const T *)s.x[0] + i);
    ct_pack<K, int32_t> who   = {};
    ct_pack<K, T> out;
    float all[K];

    if (OP == MAX && s.first > 0) /* x[0] is y so far */
        who = ct_load_pack<K>(winner + i);
#pragma unroll
    for (int k = 0; k < K; k++)
        all[k] = OP == SUM || OP == SUM_RELU ? s.c[0] * ct_load(first.v + k)
                                             : ct_load(first.v + k);
#pragma unroll
    for (int a = 1; a < (N ? N : s.n); a++) {
        const ct_pack<K, T> v = ct_load_pack<K>((const T *)s.x[a] + i);

#pragma unroll
        for (int k = 0; k < K; k++)
            join<OP>(ct_load(v.v + k), s.c[a], s.first + a, all + k,
                     who.v + k);
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        ct_store(out.v + k, OP == SUM_RELU && all[k] < 0 ? 0 : all[k]);
    ct_store_pack<K>(y + i, out);
    if (OP == MAX)
        ct_store_pack<K>(winner + i, who);
}

template <int OP, int N, int K, typename T>
__global__ static void many(struct list s, int64_t n, T *y, int32_t *winner)
{
    CT_TURN();
    const int64_t packs = n / K;

    CT_KERNEL_EACH (i, packs)
        combine<OP, N, K>(s, i * K, y, winner);
    if (K > 1)
        CT_KERNEL_EACH (i, n - packs * K)
            combine<OP, N, 1>(s, packs * K + i, y, winner);
}

template <int OP, typename T>
static enum ct_status run(const struct ct_device *d, const struct list *s,
                          int64_t n, T *y, int32_t *winner)
{
    constexpr int K = 16 / sizeof(T);
    bool packs      = ct_aligned(y) && ct_aligned(winner);

    for (int a = 0; a < s->n; a++)
        packs &= ct_aligned(s->x[a]);
    if (packs && s->n == 2)
        return CT_LAUNCH(d, (n + K - 1) / K, (many<OP, 2, K, T>), *s, n, y,
                         winner);
    if (packs)
        return CT_LAUNCH(d, (n + K - 1) / K, (many<OP, 0, K, T>), *s, n, y,
                         winner);
    return CT_LAUNCH(d, n, (many<OP, 0, 1, T>), *s, n, y, winner);
}

template <typename T>
static enum ct_status run_as(const struct ct_device *d, int op,
                             const struct list *s, int64_t n, void *y,
                             int32_t *winner)
{
    if (op == SUM)
        return run<SUM>(d, s, n, (T *)y, winner);
    if (op == SUM_RELU)
        return run<SUM_RELU>(d, s, n, (T *)y, winner);
    if (op == PROD)
        return run<PROD>(d, s, n, (T *)y, winner);
    return run<MAX>(d, s, n, (T *)y, winner);
}

/* Adds one more array; a full list is combined into y, which begins the next
 * one. */
static enum ct_status take(const struct ct_device *d, int op,
                           enum ct_dtype type, int64_t n, const void *x,
                           float c, void *y, int32_t *winner, struct list *s)
{
    if (s->n == LIST) {
        CT_BY_TYPE(type, T, CT_TRY(run_as<T>(d, op, s, n, y, winner)));
        s->first += LIST - 1;
        s->n      = 1;
        s->x[0]   = y;
        s->c[0]   = 1;
    }
    s->x[s->n]   = x;
    s->c[s->n++] = c;
    return CT_OK;
}

static enum ct_status finish(const struct ct_device *d, int op,
                             enum ct_dtype type, int64_t n, void *y,
                             int32_t *winner, const struct list *s)
{
    if (s->n == 0)
        return ct_clear_values(d, n, type, y);
    if (s->n == 1 && s->c[0] == 1)
        return ct_copy_values(d, n, type, s->x[0], y);
    CT_BY_TYPE(type, T, return run_as<T>(d, op, s, n, y, winner));
}

static float coefficient(const Caffe__EltwiseParameter *p, int i)
{
    return p->n_coeff ? p->coeff[i] : 1;
}

extern "C" enum ct_status ct_cuda_eltwise_forward(struct ct_layer *l,
                                                  const struct ct_io *io)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(l->param);
    const struct eltwise *e = (const struct eltwise *)l->state;
    const struct ct_tensor *y = &io->top[0]->data;
    const int64_t n = ct_elements(io->top[0]);
    int32_t *winner = e->winner ? (int32_t *)ct_data(e->winner) : NULL;
    struct list s   = {};

    if (n == 0)
        return CT_OK;
    for (int i = 0; i < io->n_bottom; i++)
        CT_TRY(take(l->dev, e->op, y->dtype, n, ct_data(io->bottom[i]),
                    e->op == SUM ? coefficient(p, i) : 1, y->ptr, winner,
                    &s));
    return finish(l->dev, e->relu ? SUM_RELU : e->op, y->dtype, n, y->ptr,
                  winner, &s);
}

struct scaled {
    float c;
    __device__ float operator()(float dy) const { return c * dy; }
};

struct won {
    float k;
    __device__ float operator()(float dy, float winner) const
    {
        return winner == k ? dy : 0;
    }
};

/* dy times the other bottoms. */
static enum ct_status prod_backward(const struct ct_layer *l,
                                    const struct ct_io *io, int k, int64_t n)
{
    const struct ct_tensor *dx = &io->bottom[k]->diff;
    struct list s = {};

    CT_TRY(take(l->dev, PROD, dx->dtype, n, ct_diff(io->top[0]), 1, dx->ptr,
                NULL, &s));
    for (int i = 0; i < io->n_bottom; i++)
        if (i != k)
            CT_TRY(take(l->dev, PROD, dx->dtype, n, ct_data(io->bottom[i]), 1,
                        dx->ptr, NULL, &s));
    return finish(l->dev, PROD, dx->dtype, n, dx->ptr, NULL, &s);
}

static enum ct_status bottom_backward(const struct ct_layer *l,
                                      const struct ct_io *io, int k,
                                      int64_t n)
{
    const struct eltwise *e    = (const struct eltwise *)l->state;
    const struct ct_tensor *dx = &io->bottom[k]->diff;
    const struct ct_tensor *dy = &io->top[0]->diff;
    const float c = coefficient(ct_eltwise_param(l->param), k);

    if (e->op == PROD)
        return prod_backward(l, io, k, n);
    if (e->op == MAX)
        CT_BY_TYPE(dx->dtype, T,
                   return ct_map(l->dev, n, won{ (float)k }, (T *)dx->ptr,
                                 (const T *)dy->ptr,
                                 (const int32_t *)ct_data(e->winner)));
    if (c == 1)
        return ct_copy_values(l->dev, n, dx->dtype, dy->ptr, dx->ptr);
    CT_BY_TYPE(dx->dtype, T,
               return ct_map(l->dev, n, scaled{ c }, (T *)dx->ptr,
                             (const T *)dy->ptr));
}

/* What a sum does backward: dx_a = c_a g, with g the sum of all dy, where y is
 * above 0; y NULL: everywhere. */
struct grads {
    const void *dy[LIST], *y;
    void       *dx[LIST];
    float       c[LIST];
    int         n_dy, n;
};

/* Of N arrays dy, or of g.n_dy where N is 0; a dx may be one of them. */
template <int N, int K, typename T>
__device__ static inline void spread(const struct grads &g, int64_t i)
{
    ct_pack<K, T> v = {}, out;
    float sum[K] = {};

    if (g.y)
        v = ct_load_pack<K>((const T *)g.y + i);
#pragma unroll
    for (int a = 0; a < (N ? N : g.n_dy); a++) {
        const ct_pack<K, T> d = ct_load_pack<K>((const T *)g.dy[a] + i);

#pragma unroll
        for (int k = 0; k < K; k++)
            sum[k] += ct_load(d.v + k);
    }
    for (int a = 0; a < g.n; a++) {
#pragma unroll
        for (int k = 0; k < K; k++)
            ct_store(out.v + k, !g.y || ct_load(v.v + k) > 0
                                    ? g.c[a] * sum[k]
                                    : 0);
        ct_store_pack<K>((T *)g.dx[a] + i, out);
    }
}

template <int N, int K, typename T>
__global__ static void spread_all(struct grads g, int64_t n)
{
    CT_TURN();
    const int64_t packs = n / K;

    CT_KERNEL_EACH (i, packs)
        spread<N, K, T>(g, i * K);
    if (K > 1)
        CT_KERNEL_EACH (i, n - packs * K)
            spread<N, 1, T>(g, packs * K + i);
}

template <typename T>
static enum ct_status spread_run(const struct ct_device *d,
                                 const struct grads *g, int64_t n)
{
    constexpr int K = 16 / sizeof(T);
    bool packs      = ct_aligned(g->y);

    for (int a = 0; a < g->n_dy; a++)
        packs &= ct_aligned(g->dy[a]);
    for (int a = 0; a < g->n; a++)
        packs &= ct_aligned(g->dx[a]);
    if (packs && g->n_dy == 1)
        return CT_LAUNCH(d, (n + K - 1) / K, (spread_all<1, K, T>), *g, n);
    if (packs && g->n_dy == 2)
        return CT_LAUNCH(d, (n + K - 1) / K, (spread_all<2, K, T>), *g, n);
    if (packs)
        return CT_LAUNCH(d, (n + K - 1) / K, (spread_all<0, K, T>), *g, n);
    return CT_LAUNCH(d, n, (spread_all<0, 1, T>), *g, n);
}

/* Bottom 0, whose diff may be one of dy, comes last: the others read that.
 * Where others have the same place they have the same gradient. */
static enum ct_status sum_backward(const struct ct_layer *l,
                                   const struct ct_io *io, int64_t n)
{
    const struct eltwise *e = (const struct eltwise *)l->state;
    const enum ct_dtype type = io->top[0]->diff.dtype;
    struct grads g = {};

    g.y = e->relu ? ct_data(io->top[0]) : NULL;
    for (int t = 0; t < io->n_top; t++)
        if (ct_diff(io->top[t]))
            g.dy[g.n_dy++] = ct_diff(io->top[t]);
    for (int k = io->n_bottom - 1; k >= 0; k--) {
        if (!io->want_grad[k] || (k > 0 && io->want_grad[0] &&
                                  ct_diff(io->bottom[k]) ==
                                      ct_diff(io->bottom[0])))
            continue;
        g.dx[g.n]  = ct_diff(io->bottom[k]);
        g.c[g.n++] = coefficient(ct_eltwise_param(l->param), k);
        if (g.n < LIST)
            continue;
        CT_BY_TYPE(type, T, CT_TRY(spread_run<T>(l->dev, &g, n)));
        g.n = 0;
    }
    if (g.n == 0)
        return CT_OK;
    CT_BY_TYPE(type, T, return spread_run<T>(l->dev, &g, n));
}

extern "C" enum ct_status ct_cuda_eltwise_backward(struct ct_layer *l,
                                                   const struct ct_io *io)
{
    const struct eltwise *e = (const struct eltwise *)l->state;
    const int64_t n         = ct_elements(io->top[0]);

    if (n > 0 && (e->relu || e->split))
        return sum_backward(l, io, n);
    for (int k = 0; n > 0 && k < io->n_bottom; k++)
        if (io->want_grad[k])
            CT_TRY(bottom_backward(l, io, k, n));
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_split_forward(struct ct_layer *l,
                                                const struct ct_io *io)
{
    const struct ct_tensor *x = &io->bottom[0]->data;

    for (int i = 0; i < io->n_top; i++)
        CT_TRY(ct_copy_values(l->dev, ct_elements(io->bottom[0]), x->dtype,
                              x->ptr, ct_data(io->top[i])));
    return CT_OK;
}

extern "C" enum ct_status ct_cuda_split_backward(struct ct_layer *l,
                                                 const struct ct_io *io)
{
    const struct ct_tensor *dx = &io->bottom[0]->diff;
    const int64_t n            = ct_elements(io->bottom[0]);
    struct list s = {};

    if (!io->want_grad[0] || n == 0)
        return CT_OK;
    for (int i = 0; i < io->n_top; i++)
        if (ct_diff(io->top[i]))
            CT_TRY(take(l->dev, SUM, dx->dtype, n, ct_diff(io->top[i]), 1,
                        dx->ptr, NULL, &s));
    return finish(l->dev, SUM, dx->dtype, n, dx->ptr, NULL, &s);
}
