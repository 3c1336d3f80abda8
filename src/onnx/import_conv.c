/* import_conv.c - operators with weights, and normalisation. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/import.h"

struct window {
    int     n; /* axes */
    int64_t kernel[CT_MAX_AXES], stride[CT_MAX_AXES], dilation[CT_MAX_AXES];
    int64_t before[CT_MAX_AXES], after[CT_MAX_AXES]; /* pads */
};

/* One list of the window; `otherwise` where it is left out. */
static enum ct_status read_list(struct onnx_import *m, const char *name, int n,
                                int64_t otherwise, int64_t *v)
{
    int got;

    CT_TRY(onnx_numbers(m, name, 0, CT_MAX_AXES, v, &got));
    for (int i = got < 0 ? 0 : n; i < n; i++)
        v[i] = otherwise;
    if (got >= 0 && got != n)
        return onnx_reject(m, "%s has %d numbers for %d axes", name, got, n);
    for (int i = 0; i < n; i++)
        if (v[i] < 0 || v[i] > 1 << 20)
            return onnx_reject(m, "%s has %" PRId64, name, v[i]);
    return CT_OK;
}

/* As many outputs as inputs over stride, rounded up. */
static void same_pads(const struct onnx_import *m, const struct ct_shape *x,
                      struct window *w)
{
    const bool upper = onnx_is_string(m, "auto_pad", "SAME_UPPER", "");

    for (int i = 0; i < w->n; i++) {
        const int64_t in = x->dim[2 + i], s = w->stride[i] ? w->stride[i] : 1;
        int64_t all = ((in + s - 1) / s - 1) * s +
                      (w->kernel[i] - 1) * w->dilation[i] + 1 - in;

        all          = all > 0 ? all : 0;
        w->before[i] = upper ? all / 2 : all - all / 2;
        w->after[i]  = all - w->before[i];
    }
}

static enum ct_status read_window(struct onnx_import *m,
                                  const struct ct_shape *x,
                                  const struct ct_shape *weight,
                                  struct window *w)
{
    int64_t pads[2 * CT_MAX_AXES];
    int n;

    w->n = x->n_axes - 2;
    if (w->n < 1 || weight->n_axes != x->n_axes)
        return onnx_reject(m, "its input has %d axes and its weights %d",
                           x->n_axes, weight->n_axes);
    for (int i = 0; i < w->n; i++)
        w->kernel[i] = weight->dim[2 + i];
    CT_TRY(read_list(m, "strides", w->n, 1, w->stride));
    CT_TRY(read_list(m, "dilations", w->n, 1, w->dilation));
    CT_TRY(onnx_numbers(m, "pads", 0, 2 * CT_MAX_AXES, pads, &n));
    if (n >= 0 && n != 2 * w->n)
        return onnx_reject(m, "%d pads for %d axes", n, w->n);
    for (int i = 0; i < w->n; i++) {
        w->before[i] = n < 0 ? 0 : pads[i];
        w->after[i]  = n < 0 ? 0 : pads[w->n + i];
        if (w->before[i] < 0 || w->after[i] < 0 || w->before[i] > 1 << 20 ||
            w->after[i] > 1 << 20)
            return onnx_reject(m, "pads of %" PRId64 " and %" PRId64,
                               w->before[i], w->after[i]);
    }
    if (onnx_is_string(m, "auto_pad", "SAME_UPPER", "") ||
        onnx_is_string(m, "auto_pad", "SAME_LOWER", ""))
        same_pads(m, x, w);
    return CT_OK;
}

/* Where the two sides differ, zeros are a layer of their own. */
static enum ct_status pad_apart(struct onnx_import *m, struct window *w,
                                const char **blob)
{
    char text[CT_MAX_AXES * 60] = "paddings: 0 paddings: 0 paddings: 0 "
                                  "paddings: 0";
    size_t at   = strlen(text);
    bool differ = false;

    for (int i = 0; i < w->n; i++) {
        differ |= w->before[i] != w->after[i];
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               " paddings: %" PRId64 " paddings: %" PRId64,
                               w->before[i], w->after[i]);
    }
    if (!differ)
        return CT_OK;
    for (int i = 0; i < w->n; i++)
        w->before[i] = w->after[i] = 0;
    return onnx_layer_between(
        m, &(struct onnx_made){ "Pad", ONNX_BLOBS(*blob), 1, NULL, 0 }, blob,
        NULL, "pad_param { %s }", text);
}

static void window_text(const struct window *w, char *to, size_t size)
{
    size_t at = 0;

    for (int i = 0; i < w->n && at < size; i++)
        at += (size_t)snprintf(to + at, size - at,
                               " kernel_size: %" PRId64 " stride: %" PRId64
                               " pad: %" PRId64 " dilation: %" PRId64,
                               w->kernel[i], w->stride[i], w->before[i],
                               w->dilation[i]);
}

enum ct_status onnx_read_conv(struct onnx_import *m)
{
    const bool turned   = strcmp(m->node->op_type, "ConvTranspose") == 0;
    const int64_t group = onnx_get_int(m, "group", 1);
    struct window w     = { 0 };
    struct onnx_value *x, *k, *b;
    struct onnx_blob blob[2];
    char text[CT_MAX_AXES * 90];
    const char *bottom;
    int64_t extra[CT_MAX_AXES], n_out;
    int n;

    CT_TRY(onnx_input_floats(m, 1, &k));
    CT_TRY(onnx_input_floats(m, 2, &b));
    CT_TRY(onnx_input(m, 0, &x));
    if (!x || !x->blob || !k || k->shape.n_axes < 3)
        return onnx_reject(m, "it takes a blob and constant weights");
    CT_TRY(read_window(m, &x->shape, &k->shape, &w));
    if (group < 1 || group > k->shape.dim[0])
        return onnx_reject(m, "%" PRId64 " groups", group);
    CT_TRY(onnx_numbers(m, "output_padding", 0, CT_MAX_AXES, extra, &n));
    for (int i = 0; i < n; i++)
        if (extra[i] != 0)
            return onnx_reject(m, "Caffe has no output_padding");
    if (turned && onnx_attribute(m, "output_shape"))
        return onnx_reject(m, "Caffe has no output_shape; give pads");
    n_out   = turned ? k->shape.dim[1] * group : k->shape.dim[0];
    blob[0] = (struct onnx_blob){ k->shape, k->f };
    if (b)
        blob[1] = (struct onnx_blob){ b->shape, b->f };
    bottom = x->blob;
    for (int i = 0; turned && i < w.n; i++)
        if (w.before[i] != w.after[i])
            return onnx_reject(m, "its pads differ on the two sides");
    CT_TRY(pad_apart(m, &w, &bottom));
    window_text(&w, text, sizeof(text));
    return onnx_layer_end(
        m, &(struct onnx_made){ turned ? "Deconvolution" : "Convolution",
                                ONNX_BLOBS(bottom), 1, blob, b ? 2 : 1 },
        "convolution_param { num_output: %" PRId64 " group: %" PRId64
        " bias_term: %s%s }", n_out, group, b ? "true" : "false", text);
}

/* n x k rows of B, scaled by alpha; ct_free'd by the caller. */
static enum ct_status rows_of(const struct onnx_value *b, bool turned,
                              float alpha, float **out)
{
    const int64_t n = b->shape.dim[turned ? 0 : 1];
    const int64_t k = b->shape.dim[turned ? 1 : 0];

    CT_TRY(ct_alloc((size_t)(n * k), sizeof(**out), "onnx values", out));
    for (int64_t o = 0; o < n; o++)
        for (int64_t i = 0; i < k; i++)
            (*out)[o * k + i] =
                alpha * (turned ? b->f[o * k + i] : b->f[i * n + o]);
    return CT_OK;
}

/* The bias as n values; ct_free'd by the caller. */
static enum ct_status bias_of(struct onnx_import *m,
                              const struct onnx_value *c, int64_t n,
                              float beta, float **out)
{
    const int64_t count = ct_shape_count(&c->shape, 0, CT_END);

    if (count != 1 && (count != n ||
                       c->shape.dim[c->shape.n_axes - 1] != n))
        return onnx_reject(m, "C has %" PRId64 " values, and %" PRId64
                           " columns come out", count, n);
    CT_TRY(ct_alloc((size_t)n, sizeof(**out), "onnx values", out));
    for (int64_t i = 0; i < n; i++)
        (*out)[i] = beta * c->f[count == 1 ? 0 : i];
    return CT_OK;
}

static enum ct_status inner_product(struct onnx_import *m,
                                    const struct onnx_value *x,
                                    const struct onnx_value *b, bool turned,
                                    const struct onnx_value *c)
{
    const int64_t n = b->shape.dim[turned ? 0 : 1];
    const int64_t k = b->shape.dim[turned ? 1 : 0];
    const char *bottom = x->blob;
    const int axis = x->shape.n_axes - 1;
    struct onnx_blob blob[2] = { { CT_SHAPE(n, k), NULL },
                                 { CT_SHAPE(n), NULL } };
    float *rows = NULL, *bias = NULL;
    enum ct_status st;

    CT_TRY_GOTO(rows_of(b, turned, onnx_get_float(m, "alpha", 1), &rows), st,
                out);
    if (c)
        CT_TRY_GOTO(bias_of(m, c, n, onnx_get_float(m, "beta", 1), &bias), st,
                    out);
    blob[0].value = rows;
    blob[1].value = bias;
    st = onnx_layer_end(
        m, &(struct onnx_made){ "InnerProduct", ONNX_BLOBS(bottom), 1, blob,
                                bias ? 2 : 1 },
        "inner_product_param { num_output: %" PRId64 " axis: %d "
        "bias_term: %s }", n, axis, bias ? "true" : "false");
out:
    ct_free(rows);
    ct_free(bias);
    return st;
}

enum ct_status onnx_read_gemm(struct onnx_import *m)
{
    struct onnx_value *x, *b, *c;

    CT_TRY(onnx_input(m, 0, &x));
    CT_TRY(onnx_input_floats(m, 1, &b));
    CT_TRY(onnx_input_floats(m, 2, &c));
    if (!x || !x->blob || x->shape.n_axes != 2 || !b || b->shape.n_axes != 2)
        return onnx_reject(m, "it takes a blob of two axes and a constant "
                           "matrix");
    if (onnx_get_int(m, "transA", 0))
        return onnx_reject(m, "its first matrix is transposed");
    return inner_product(m, x, b, onnx_get_int(m, "transB", 0) != 0, c);
}

enum ct_status onnx_read_matmul(struct onnx_import *m)
{
    struct onnx_value *x, *b;

    CT_TRY(onnx_input(m, 0, &x));
    CT_TRY(onnx_input(m, 1, &b));
    if (!x || !b || !x->blob)
        return onnx_reject(m, "its first input must be a blob");
    if (b->blob)
        return onnx_layer_end(
            m, &(struct onnx_made){ "MatMul", ONNX_BLOBS(x->blob, b->blob), 1,
                                    NULL, 0 }, " ");
    if (!b->f || b->shape.n_axes != 2)
        return onnx_reject(m, "its second input must be a matrix of floats");
    return inner_product(m, x, b, false, NULL);
}

static bool all_are(const struct onnx_value *v, float what)
{
    for (int64_t i = 0; i < ct_shape_count(&v->shape, 0, CT_END); i++)
        if (v->f[i] != what)
            return false;
    return true;
}

/* A BatchNorm, and a Scale where it does anything. */
enum ct_status onnx_read_batch_norm(struct onnx_import *m)
{
    const float one = 1, eps = onnx_get_float(m, "epsilon", 1e-5f);
    struct onnx_value *v[5];
    struct onnx_blob norm[3], scale[2];
    const char *blob;

    for (size_t i = 1; i < 5; i++) {
        CT_TRY(onnx_input_floats(m, i, &v[i]));
        if (!v[i] || v[i]->shape.n_axes != 1)
            return onnx_reject(m, "input %zu must be one value per channel",
                               i);
    }
    CT_TRY(onnx_input(m, 0, &v[0]));
    if (!v[0] || !v[0]->blob)
        return onnx_reject(m, "its first input must be a blob");
    if (onnx_get_int(m, "training_mode", 0))
        return onnx_reject(m, "it normalises by the batch's own statistics");
    norm[0]  = (struct onnx_blob){ v[3]->shape, v[3]->f };
    norm[1]  = (struct onnx_blob){ v[4]->shape, v[4]->f };
    norm[2]  = (struct onnx_blob){ CT_SHAPE(1), &one };
    scale[0] = (struct onnx_blob){ v[1]->shape, v[1]->f };
    scale[1] = (struct onnx_blob){ v[2]->shape, v[2]->f };
    if (all_are(v[1], 1) && all_are(v[2], 0))
        return onnx_layer_end(
            m, &(struct onnx_made){ "BatchNorm", ONNX_BLOBS(v[0]->blob), 1,
                                    norm, 3 },
            "batch_norm_param { eps: %.9g }", (double)eps);
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "BatchNorm", ONNX_BLOBS(v[0]->blob), 1, norm,
                                3 },
        &blob, NULL, "batch_norm_param { eps: %.9g }", (double)eps));
    return onnx_layer_end(
        m, &(struct onnx_made){ "Scale", ONNX_BLOBS(blob), 1, scale, 2 },
        "scale_param { bias_term: true }");
}

enum ct_status onnx_read_instance_norm(struct onnx_import *m)
{
    struct onnx_value *x, *s, *b;
    struct onnx_blob scale[2];
    const char *blob;

    CT_TRY(onnx_input_floats(m, 1, &s));
    CT_TRY(onnx_input_floats(m, 2, &b));
    CT_TRY(onnx_input(m, 0, &x));
    if (!x || !x->blob || x->shape.n_axes < 3 || !s || !b)
        return onnx_reject(m, "it takes a blob, a scale and a bias");
    scale[0] = (struct onnx_blob){ s->shape, s->f };
    scale[1] = (struct onnx_blob){ b->shape, b->f };
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "GroupNorm", ONNX_BLOBS(x->blob), 1, NULL, 0 },
        &blob, NULL,
        "group_norm_param { group_num: %" PRId64 " eps: %.9g }",
        x->shape.dim[1], (double)onnx_get_float(m, "epsilon", 1e-5f)));
    return onnx_layer_end(
        m, &(struct onnx_made){ "Scale", ONNX_BLOBS(blob), 1, scale, 2 },
        "scale_param { bias_term: true }");
}

enum ct_status onnx_read_lrn(struct onnx_import *m)
{
    struct onnx_value *x;

    CT_TRY(onnx_input_blob(m, 0, &x));
    return onnx_layer_end(
        m, &(struct onnx_made){ "LRN", ONNX_BLOBS(x->blob), 1, NULL, 0 },
        "lrn_param { local_size: %" PRId64 " alpha: %.9g beta: %.9g k: %.9g }",
        onnx_get_int(m, "size", 5),
        (double)onnx_get_float(m, "alpha", 1e-4f),
        (double)onnx_get_float(m, "beta", .75f),
        (double)onnx_get_float(m, "bias", 1));
}
