/* define.c - definitions of layers that work element by element, on rows, or
 * on shapes. */
#include "define.h"

#include <math.h>
#include <string.h>

#include "proto/params.h"

int define_axis(const struct tensor *t, int axis)
{
    return axis < 0 ? axis + t->shape.n_axes : axis;
}

int64_t define_count(const struct tensor *t, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to && i < t->shape.n_axes; i++)
        n *= t->shape.dim[i];
    return n;
}

/* ---- element by element ---- */

#define EACH(name, expression)                                               \
    static void name(const struct definition *d)                             \
    {                                                                        \
        for (int64_t i = 0; i < d->top->n; i++) {                            \
            const double x = d->bottom->v[i];                                \
                                                                             \
            d->top->v[i] = (expression);                                     \
        }                                                                    \
    }

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

EACH(absval, fabs(x))
EACH(bnll, log(1 + exp(-fabs(x))) + fmax(x, 0))
EACH(logistic, sigmoid(x))
EACH(hyperbolic, tanh(x))
EACH(relu6, fmin(fmax(x, 0), 6))
EACH(mish, x * tanh(log(1 + exp(-fabs(x))) + fmax(x, 0)))
EACH(copy, x)
EACH(relu, x > 0 ? x : x * (double)ct_relu_param(d->param)->negative_slope)
EACH(elu, x > 0 ? x : (double)ct_elu_param(d->param)->alpha * (exp(x) - 1))
EACH(swish, x * sigmoid(x * (double)ct_swish_param(d->param)->beta))
EACH(clip, fmin(fmax(x, (double)ct_clip_param(d->param)->min),
                (double)ct_clip_param(d->param)->max))
EACH(threshold,
     x > (double)ct_threshold_param(d->param)->threshold ? 1.0 : 0.0)
EACH(dropout, d->drawn->v[i] == 0 ? 0 : x / (1 - (double)
     ct_dropout_param(d->param)->dropout_ratio))

static void power(const struct definition *d)
{
    const Caffe__PowerParameter *p = ct_power_param(d->param);

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = pow((double)p->shift + (double)p->scale *
                           d->bottom->v[i], (double)p->power);
}

static void exponential(const struct definition *d)
{
    const Caffe__ExpParameter *p = ct_exp_param(d->param);
    const double base = p->base_ > 0 ? log((double)p->base_) : 1;

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = exp(base * ((double)p->shift + (double)p->scale *
                                   d->bottom->v[i]));
}

static void logarithm(const struct definition *d)
{
    const Caffe__LogParameter *p = ct_log_param(d->param);
    const double base = p->base_ > 0 ? log((double)p->base_) : 1;

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = log((double)p->shift + (double)p->scale *
                           d->bottom->v[i]) / base;
}

static void prelu(const struct definition *d)
{
    const int64_t c = define_dim(d->bottom, 1);
    const int64_t n = define_count(d->bottom, 2, 99);

    for (int64_t i = 0; i < d->top->n; i++) {
        const double x = d->bottom->v[i];

        d->top->v[i] = x > 0 ? x : x * d->blob->v[d->blob->n == 1
                                                      ? 0 : i / n % c];
    }
}

/* Factors over axes from `axis` on; the axes behind them share each. */
static int64_t factor_of(const struct tensor *x, const struct tensor *f,
                         int axis, int64_t i)
{
    return i / define_count(x, axis + f->shape.n_axes, 99) % f->n;
}

static void scale(const struct definition *d)
{
    const Caffe__ScaleParameter *p = ct_scale_param(d->param);
    const struct tensor *f = d->n_bottom > 1 ? &d->bottom[1] : d->blob;
    const struct tensor *b = p->bias_term ? &d->blob[d->n_bottom > 1 ? 0 : 1]
                                          : NULL;
    const int axis = define_axis(d->bottom, p->axis);

    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t k = factor_of(d->bottom, f, axis, i);

        d->top->v[i] = d->bottom->v[i] * f->v[k] + (b ? b->v[k] : 0);
    }
}

static void bias(const struct definition *d)
{
    const struct tensor *f = d->n_bottom > 1 ? &d->bottom[1] : d->blob;
    const int axis = define_axis(d->bottom, ct_bias_param(d->param)->axis);

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = d->bottom->v[i] +
                       f->v[factor_of(d->bottom, f, axis, i)];
}

/* ---- normalisation and rows ---- */

/* Of the values of channel k, where c channels of n values each take turns. */
static void moments(const double *v, int64_t all, int64_t n, int64_t c,
                    int64_t k, double *mean, double *var)
{
    const double m = (double)(all / c);

    *mean = *var = 0;
    for (int64_t i = 0; i < all; i++)
        *mean += i / n % c == k ? v[i] / m : 0;
    for (int64_t i = 0; i < all; i++)
        *var += i / n % c == k ? (v[i] - *mean) * (v[i] - *mean) / m : 0;
}

static void batch_norm(const struct definition *d)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(d->param);
    const struct tensor *x = d->bottom;
    const int64_t c = define_dim(x, 1), n = define_count(x, 2, 99);

    for (int64_t k = 0; k < c; k++) {
        double mean, var;

        moments(x->v, x->n, n, c, k, &mean, &var);
        if (p->use_global_stats) {
            const double by = d->blob[2].v[0] == 0 ? 0 : 1 / d->blob[2].v[0];

            mean = d->blob[0].v[k] * by;
            var  = d->blob[1].v[k] * by;
        }
        for (int64_t i = 0; i < x->n; i++)
            if (i / n % c == k)
                d->top->v[i] = (x->v[i] - mean) / sqrt(var + (double)p->eps);
    }
}

static void mvn(const struct definition *d)
{
    const Caffe__MVNParameter *p = ct_mvn_param(d->param);
    const struct tensor *x = d->bottom;
    const int64_t n = define_count(x, p->across_channels ? 1 : 2, 99);

    for (int64_t row = 0; row < x->n / n; row++) {
        const double *a = x->v + row * n;
        double mean, var;

        moments(a, n, n, 1, 0, &mean, &var);
        for (int64_t i = 0; i < n; i++)
            d->top->v[row * n + i] =
                (a[i] - mean) /
                (p->normalize_variance ? sqrt(var) + (double)p->eps : 1);
    }
}

static void group_norm(const struct definition *d)
{
    const Caffe__GroupNormParameter *p = ct_group_norm_param(d->param);
    const struct tensor *x = d->bottom;
    const int64_t n = define_count(x, 1, 99) / p->group_num;

    for (int64_t row = 0; row < x->n / n; row++) {
        const double *a = x->v + row * n;
        double mean, var;

        moments(a, n, n, 1, 0, &mean, &var);
        for (int64_t i = 0; i < n; i++)
            d->top->v[row * n + i] = (a[i] - mean) /
                                     sqrt(var + (double)p->eps);
    }
}

/* Statistics of the batch, blobs 0 and 1; eps as the dialect has it. */
static void bn(const struct definition *d)
{
    const Caffe__BNParameter *p = ct_bn_param(d->param);
    const double eps            = p->slope_filler ? (double)p->eps : 1e-9;
    const struct tensor *x      = d->bottom;
    const int64_t c = define_dim(x, 1), n = define_count(x, 2, 99);

    for (int64_t k = 0; k < c; k++) {
        double mean, var;

        moments(x->v, x->n, n, c, k, &mean, &var);
        for (int64_t i = 0; i < x->n; i++)
            if (i / n % c == k)
                d->top->v[i] = d->blob[0].v[k] * (x->v[i] - mean) /
                                   sqrt(var + eps) + d->blob[1].v[k];
    }
}

static void normalize(const struct definition *d)
{
    const Caffe__NormalizeParameter *p = ct_norm_param(d->param);
    const struct tensor *x = d->bottom;
    const int64_t c = define_dim(x, 1), n = define_count(x, 2, 99);

    for (int64_t i = 0; i < x->n; i++) {
        const int64_t item = i / (c * n), place = i % n;
        double sum = (double)p->eps;

        for (int64_t k = 0; k < c * n; k++)
            if (p->across_spatial || k % n == place)
                sum += pow(x->v[item * c * n + k], 2);
        d->top->v[i] = x->v[i] / sqrt(sum) *
                       d->blob->v[d->blob->n == 1 ? 0 : i / n % c];
    }
}

static void softmax(const struct definition *d)
{
    const struct tensor *x = d->bottom;
    const int axis  = define_axis(x, ct_softmax_param(d->param)->axis);
    const int64_t c = define_dim(x, axis);
    const int64_t n = define_count(x, axis + 1, 99);

    for (int64_t i = 0; i < x->n; i++) {
        const int64_t base = i / (c * n) * c * n + i % n;
        double sum = 0;

        for (int64_t k = 0; k < c; k++)
            sum += exp(x->v[base + k * n] - x->v[i]);
        d->top->v[i] = 1 / sum;
    }
}

static void inner_product(const struct definition *d)
{
    const Caffe__InnerProductParameter *p = ct_inner_product_param(d->param);
    const struct tensor *x = d->bottom, *w = d->blob;
    const int axis  = define_axis(x, p->axis);
    const int64_t k = define_count(x, axis, 99), n = p->num_output;

    for (int64_t row = 0; row < x->n / k; row++)
        for (int64_t o = 0; o < n; o++) {
            double sum = p->bias_term ? d->blob[1].v[o] : 0;

            for (int64_t i = 0; i < k; i++)
                sum += x->v[row * k + i] *
                       w->v[p->transpose ? i * n + o : o * k + i];
            d->top->v[row * n + o] = sum;
        }
}

static void embed(const struct definition *d)
{
    const Caffe__EmbedParameter *p = ct_embed_param(d->param);
    const int64_t n = p->num_output;

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] =
            d->blob->v[(int64_t)(d->bottom->v[i / n] + 0.5) * n + i % n] +
            (p->bias_term ? d->blob[1].v[i % n] : 0);
}

static void reduction(const struct definition *d)
{
    const Caffe__ReductionParameter *p = ct_reduction_param(d->param);
    const int axis  = define_axis(d->bottom, p->axis);
    const int64_t n = define_count(d->bottom, axis, 99);

    for (int64_t row = 0; row < d->top->n; row++) {
        double sum = 0;

        for (int64_t i = 0; i < n; i++) {
            const double x = d->bottom->v[row * n + i];

            switch (p->operation) {
            case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM:
                sum += fabs(x);
                break;
            case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ:
                sum += x * x;
                break;
            case CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN:
                sum += x / (double)n;
                break;
            default:
                sum += x;
            }
        }
        d->top->v[row] = sum * (double)p->coeff;
    }
}

/* ---- several bottoms ---- */

static void eltwise(const struct definition *d)
{
    const Caffe__EltwiseParameter *p = ct_eltwise_param(d->param);

    for (int64_t i = 0; i < d->top->n; i++) {
        double y = d->bottom->v[i];

        if (p->n_coeff > 0)
            y *= (double)p->coeff[0];
        for (int b = 1; b < d->n_bottom; b++) {
            const double x = d->bottom[b].v[i];

            if (p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD)
                y *= x;
            else if (p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX)
                y = fmax(y, x);
            else
                y += x * (p->n_coeff > 0 ? (double)p->coeff[b] : 1);
        }
        d->top->v[i] = y;
    }
}

static void axpy(const struct definition *d)
{
    const int64_t n = define_count(&d->bottom[1], 2, 99);

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = d->bottom[0].v[i / n] * d->bottom[1].v[i] +
                       d->bottom[2].v[i];
}

static void matmul(const struct definition *d)
{
    const Caffe__MatMulParameter *p = ct_matmul_param(d->param);
    const struct tensor *a = d->bottom, *b = d->bottom + 1, *c = d->top;
    const int last  = c->shape.n_axes - 1;
    const int64_t m = c->shape.dim[last - 1], n = c->shape.dim[last];
    const int64_t k = a->shape.dim[p->transpose_a ? last - 1 : last];

    for (int64_t i = 0; i < c->n; i++) {
        const int64_t of = i / (m * n), row = i / n % m, col = i % n;

        c->v[i] = 0;
        for (int64_t j = 0; j < k; j++)
            c->v[i] += a->v[of * m * k +
                            (p->transpose_a ? j * m + row : row * k + j)] *
                       b->v[of * k * n +
                            (p->transpose_b ? col * k + j : j * n + col)];
    }
}

/* ---- shapes ---- */

/* Images with a border of constant_values. */
static void pad(const struct definition *d)
{
    const Caffe__PadParameter *p = ct_pad_param(d->param);
    const int64_t h = define_dim(d->bottom, 2), w = define_dim(d->bottom, 3);
    const int64_t oh = define_dim(d->top, 2), ow = define_dim(d->top, 3);

    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t y = i / ow % oh - p->pad, x = i % ow - p->pad;

        d->top->v[i] = y < 0 || y >= h || x < 0 || x >= w
                           ? 0 : d->bottom->v[(i / (oh * ow) * h + y) * w + x];
    }
}

static void reorg(const struct definition *d)
{
    const int64_t s = ct_reorg_param(d->param)->stride;
    const int64_t c = define_dim(d->bottom, 1), h = define_dim(d->bottom, 2);
    const int64_t w = define_dim(d->bottom, 3), few = c / (s * s);

    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t item = i / (c * h * w), k = i / (h * w) % c;
        const int64_t row  = i / w % h * s + k / few / s;
        const int64_t col  = i % w * s + k / few % s;

        d->top->v[i] = d->bottom->v[item * c * h * w +
                                    (k % few * h * s + row) * w * s + col];
    }
}

static void split(const struct definition *d)
{
    for (int t = 0; t < d->n_top; t++)
        memcpy(d->top[t].v, d->bottom->v,
               (size_t)d->bottom->n * sizeof(double));
}

/* Runs of `axis` of each bottom one after the other, and the other way. */
static void concat(const struct definition *d)
{
    const int axis = define_axis(d->top, ct_concat_param(d->param)->axis);
    const int64_t outer = define_count(d->top, 0, axis);
    int64_t at = 0;

    for (int64_t o = 0; o < outer; o++)
        for (int b = 0; b < d->n_bottom; b++) {
            const int64_t n = d->bottom[b].n / outer;

            for (int64_t i = 0; i < n; i++)
                d->top->v[at++] = d->bottom[b].v[o * n + i];
        }
}

static void slice(const struct definition *d)
{
    const int axis = define_axis(d->bottom, ct_slice_param(d->param)->axis);
    const int64_t outer = define_count(d->bottom, 0, axis);
    int64_t at = 0;

    for (int64_t o = 0; o < outer; o++)
        for (int t = 0; t < d->n_top; t++) {
            const int64_t n = d->top[t].n / outer;

            for (int64_t i = 0; i < n; i++)
                d->top[t].v[o * n + i] = d->bottom->v[at++];
        }
}

static void tile(const struct definition *d)
{
    const Caffe__TileParameter *p = ct_tile_param(d->param);
    const int64_t n = define_count(d->bottom, define_axis(d->bottom, p->axis),
                                   99);

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] = d->bottom->v[i / (n * p->tiles) * n + i % n];
}

static void permute(const struct definition *d)
{
    const Caffe__PermuteParameter *p = ct_permute_param(d->param);
    const int axes = d->bottom->shape.n_axes;

    for (int64_t i = 0; i < d->top->n; i++) {
        int64_t left = i, from = 0;

        for (int a = axes - 1; a >= 0; a--) {
            const int was = (int)p->order[a]; /* all are named */

            from += left % d->top->shape.dim[a] *
                    define_count(d->bottom, was + 1, 99);
            left /= d->top->shape.dim[a];
        }
        d->top->v[i] = d->bottom->v[from];
    }
}

static void crop(const struct definition *d)
{
    const Caffe__CropParameter *p = ct_crop_param(d->param);
    const int first = define_axis(d->bottom, p->axis);

    for (int64_t i = 0; i < d->top->n; i++) {
        int64_t left = i, from = 0;

        for (int a = d->bottom->shape.n_axes - 1; a >= 0; a--) {
            int64_t at = left % d->top->shape.dim[a];

            if (a >= first && p->n_offset > 0)
                at += p->offset[p->n_offset == 1 ? 0 : a - first];
            from += at * define_count(d->bottom, a + 1, 99);
            left /= d->top->shape.dim[a];
        }
        d->top->v[i] = d->bottom->v[from];
    }
}

static void shuffle_channel(const struct definition *d)
{
    const int64_t c = define_dim(d->bottom, 1);
    const int64_t n = define_count(d->bottom, 2, 99);
    const int64_t g = ct_shuffle_channel_param(d->param)->group;

    for (int64_t i = 0; i < d->top->n; i++) {
        const int64_t to = i / n % c; /* = j g + group */

        d->top->v[i] = d->bottom->v[i / (n * c) * n * c +
                                    (to % g * (c / g) + to / g) * n + i % n];
    }
}

static void filter(const struct definition *d)
{
    const struct tensor *by = &d->bottom[d->n_bottom - 1];

    for (int t = 0; t < d->n_top; t++) {
        const int64_t n = define_count(&d->bottom[t], 1, 99);
        int64_t at = 0;

        for (int64_t i = 0; i < by->n; i++)
            for (int64_t k = 0; k < n && by->v[i] != 0; k++)
                d->top[t].v[at++] = d->bottom[t].v[i * n + k];
    }
}

static void batch_reindex(const struct definition *d)
{
    const int64_t n = define_count(d->bottom, 1, 99);

    for (int64_t i = 0; i < d->top->n; i++)
        d->top->v[i] =
            d->bottom->v[(int64_t)(d->bottom[1].v[i / n] + 0.5) * n + i % n];
}

static void parameter(const struct definition *d)
{
    memcpy(d->top->v, d->blob->v, (size_t)d->top->n * sizeof(double));
}

static void silence(const struct definition *d)
{
    (void)d;
}

static const struct define_entry plain[] = {
    { "AbsVal", absval },       { "BNLL", bnll },
    { "Sigmoid", logistic },    { "TanH", hyperbolic },
    { "ReLU", relu },           { "ReLU6", relu6 },
    { "ELU", elu },             { "Swish", swish },
    { "Clip", clip },           { "Threshold", threshold },
    { "Power", power },         { "Exp", exponential },
    { "Log", logarithm },       { "Dropout", dropout },
    { "PReLU", prelu },         { "Scale", scale },
    { "Bias", bias },           { "BatchNorm", batch_norm },
    { "MVN", mvn },             { "Normalize", normalize },
    { "Softmax", softmax },     { "InnerProduct", inner_product },
    { "Embed", embed },         { "Reduction", reduction },
    { "Eltwise", eltwise },     { "Axpy", axpy },
    { "Split", split },         { "Flatten", copy },
    { "Reshape", copy },        { "Concat", concat },
    { "Slice", slice },         { "Tile", tile },
    { "Permute", permute },     { "Crop", crop },
    { "ShuffleChannel", shuffle_channel },
    { "Filter", filter },       { "BatchReindex", batch_reindex },
    { "Parameter", parameter }, { "Silence", silence },
    { "Mish", mish },           { "GroupNorm", group_norm },
    { "BN", bn },               { "MatMul", matmul },
    { "Pad", pad },             { "Reorg", reorg },
    { NULL, NULL },
};

define_fn define_find(const char *type)
{
    const struct define_entry *const lists[] = { plain, define_windows,
                                                 define_losses, define_steps,
                                                 define_regions, define_boxes,
                                                 define_grids, define_python };

    for (int l = 0; l < 8; l++)
        for (const struct define_entry *e = lists[l]; e->type; e++)
            if (strcmp(e->type, type) == 0)
                return e->fn;
    return NULL;
}
