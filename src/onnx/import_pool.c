/* import_pool.c - pooling and resizing.
 *
 * Caffe's windows begin at -pad and reach to the end; how far ONNX pads there
 * only tells how many windows there are.  An average divides by what the other
 * one does not where pads count or do not count: a map of factors, a Scale
 * layer, makes up for that. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "device/pool.h"
#include "onnx/import.h"

struct side {
    int64_t in, kernel, stride, begin, end; /* pads */
    int64_t out;
};

static enum ct_status read_sides(struct onnx_import *m,
                                 const struct ct_shape *x, struct side s[2])
{
    const bool ceil = onnx_get_int(m, "ceil_mode", 0) != 0;
    const bool same = onnx_is_string(m, "auto_pad", "SAME_UPPER", "") ||
                      onnx_is_string(m, "auto_pad", "SAME_LOWER", "");
    int64_t kernel[2], stride[2] = { 1, 1 }, pads[4] = { 0 }, dilation[2];
    int n;

    if (x->n_axes != 4)
        return onnx_reject(m, "it pools %d axes, and Caffe takes images",
                           x->n_axes);
    CT_TRY(onnx_numbers(m, "kernel_shape", 0, 2, kernel, &n));
    if (n != 2)
        return onnx_reject(m, "its kernel has %d axes", n);
    CT_TRY(onnx_numbers(m, "strides", 0, 2, stride, &n));
    CT_TRY(onnx_numbers(m, "pads", 0, 4, pads, &n));
    CT_TRY(onnx_numbers(m, "dilations", 0, 2, dilation, &n));
    for (int i = 0; i < n; i++)
        if (dilation[i] != 1)
            return onnx_reject(m, "Caffe's pooling has no dilation");
    for (int i = 0; i < 2; i++) {
        int64_t all;

        s[i] = (struct side){ x->dim[2 + i], kernel[i], stride[i], pads[i],
                              pads[2 + i], 0 };
        if (kernel[i] < 1 || stride[i] < 1 || pads[i] < 0 ||
            pads[2 + i] < 0 || kernel[i] > 1 << 20 || stride[i] > 1 << 20 ||
            pads[i] >= kernel[i] || pads[2 + i] >= kernel[i] ||
            x->dim[2 + i] > 1 << 24)
            return onnx_reject(m, "its kernel, stride or pads make no sense");
        if (same) {
            s[i].out = (s[i].in + stride[i] - 1) / stride[i];
            all = (s[i].out - 1) * stride[i] + kernel[i] - s[i].in;
            all = all > 0 ? all : 0;
            s[i].begin = onnx_is_string(m, "auto_pad", "SAME_UPPER", "")
                             ? all / 2 : all - all / 2;
            s[i].end   = all - s[i].begin;
            continue;
        }
        all = s[i].in + s[i].begin + s[i].end - kernel[i];
        if (all < 0)
            return onnx_reject(m, "its kernel is larger than its input");
        s[i].out = (all + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
        /* A window that begins in the padding behind is dropped. */
        if (ceil && (s[i].out - 1) * stride[i] >= s[i].in + s[i].begin)
            s[i].out--;
    }
    return CT_OK;
}

/* Whether Caffe, rounding so, makes as many windows. */
static bool fits(const struct side s[2], bool floor)
{
    struct ct_pool p = { .h = s[0].in, .w = s[1].in,
                         .kernel_h = s[0].kernel, .kernel_w = s[1].kernel,
                         .stride_h = s[0].stride, .stride_w = s[1].stride,
                         .pad_h = s[0].begin, .pad_w = s[1].begin };

    ct_pool_shape(&p, floor);
    return p.out_h == s[0].out && p.out_w == s[1].out;
}

/* What window i divides by along a side, there and here. */
static double share(const struct side *s, int64_t i, bool counts_pads)
{
    const int64_t from = i * s->stride - s->begin, to = from + s->kernel;
    const int64_t ours_end = s->in + s->begin;
    const int64_t ours     = (to < ours_end ? to : ours_end) - from;
    const int64_t last  = counts_pads ? s->in + s->end : s->in;
    const int64_t begin = counts_pads || from > 0 ? from : 0;
    const int64_t theirs = (to < last ? to : last) - begin;

    return theirs > 0 ? (double)ours / (double)theirs : 1;
}

static enum ct_status average_map(struct onnx_import *m,
                                  const struct side s[2], const char *blob)
{
    const bool counts = onnx_get_int(m, "count_include_pad", 0) != 0;
    struct onnx_blob map = { CT_SHAPE(s[0].out, s[1].out), NULL };
    float *values = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)(s[0].out * s[1].out), sizeof(*values),
                    "onnx values", &values));
    for (int64_t i = 0; i < s[0].out; i++)
        for (int64_t j = 0; j < s[1].out; j++)
            values[i * s[1].out + j] = (float)(share(&s[0], i, counts) *
                                               share(&s[1], j, counts));
    map.value = values;
    st        = onnx_layer_end(
        m, &(struct onnx_made){ "Scale", ONNX_BLOBS(blob), 1, &map, 1 },
        "scale_param { axis: 2 num_axes: 2 }");
    ct_free(values);
    return st;
}

static bool needs_map(const struct onnx_import *m, const struct side s[2])
{
    const bool counts = onnx_get_int(m, "count_include_pad", 0) != 0;

    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < s[k].out; i++)
            if (share(&s[k], i, counts) != 1)
                return true;
    return false;
}

enum ct_status onnx_read_pool(struct onnx_import *m)
{
    const bool average = strcmp(m->node->op_type, "AveragePool") == 0;
    struct side s[2];
    struct onnx_value *x;
    const char *blob;
    char param[320];

    CT_TRY(onnx_input_blob(m, 0, &x));
    if (m->node->n_output > 1)
        return onnx_reject(m, "its indices count through all images");
    CT_TRY(read_sides(m, &x->shape, s));
    if (!fits(s, true) && !fits(s, false))
        return onnx_reject(m, "Caffe would make another number of windows of "
                           "these pads");
    snprintf(param, sizeof(param),
             "pooling_param { pool: %s kernel_h: %" PRId64 " kernel_w: %" PRId64
             " stride_h: %" PRId64 " stride_w: %" PRId64 " pad_h: %" PRId64
             " pad_w: %" PRId64 " round_mode: %s }", average ? "AVE" : "MAX",
             s[0].kernel, s[1].kernel, s[0].stride, s[1].stride, s[0].begin,
             s[1].begin, fits(s, true) ? "FLOOR" : "CEIL");
    if (!average || !needs_map(m, s))
        return onnx_layer_end(
            m, &(struct onnx_made){ "Pooling", ONNX_BLOBS(x->blob), 1, NULL,
                                    0 }, "%s", param);
    CT_TRY(onnx_layer_between(
        m, &(struct onnx_made){ "Pooling", ONNX_BLOBS(x->blob), 1, NULL, 0 },
        &blob, NULL, "%s", param));
    return average_map(m, s, blob);
}

enum ct_status onnx_read_pool_global(struct onnx_import *m)
{
    const bool max = strcmp(m->node->op_type, "GlobalMaxPool") == 0;
    struct onnx_value *x;

    CT_TRY(onnx_input_blob(m, 0, &x));
    return onnx_layer_end(
        m, &(struct onnx_made){ "Pooling", ONNX_BLOBS(x->blob), 1, NULL, 0 },
        "pooling_param { pool: %s global_pooling: true }",
        max ? "MAX" : "AVE");
}

enum ct_status onnx_read_roi_pool(struct onnx_import *m)
{
    struct onnx_value *x, *rois;
    int64_t size[2];
    int n;

    CT_TRY(onnx_numbers(m, "pooled_shape", 0, 2, size, &n));
    CT_TRY(onnx_input(m, 0, &x));
    CT_TRY(onnx_input(m, 1, &rois));
    if (n != 2 || !x || !rois || !x->blob || !rois->blob)
        return onnx_reject(m, "it takes two blobs and a pooled_shape");
    return onnx_layer_end(
        m, &(struct onnx_made){ "ROIPooling", ONNX_BLOBS(x->blob, rois->blob),
                                1, NULL, 0 },
        "roi_pooling_param { pooled_h: %" PRId64 " pooled_w: %" PRId64
        " spatial_scale: %.9g }", size[0], size[1],
        (double)onnx_get_float(m, "spatial_scale", 1));
}

/* The sizes that come out, from sizes or scales. */
static enum ct_status new_size(struct onnx_import *m, const struct ct_shape *x,
                               int64_t out[2])
{
    const bool old = strcmp(m->node->op_type, "Upsample") == 0 ||
                     m->opset < 11;
    const Onnx__AttributeProto *a = onnx_attribute(m, "scales");
    int64_t sizes[4];
    struct onnx_value *c = NULL;
    const float *scale   = NULL;
    int n = -1;

    if (x->n_axes != 4)
        return onnx_reject(m, "it resizes %d axes, and Caffe takes images",
                           x->n_axes);
    if (!old)
        CT_TRY(onnx_numbers(m, "", 3, 4, sizes, &n));
    if (n == 4) {
        if (sizes[0] != x->dim[0] || sizes[1] != x->dim[1])
            return onnx_reject(m, "it resizes the batch or the channels");
        out[0] = sizes[2];
        out[1] = sizes[3];
        return CT_OK;
    }
    if (a && a->n_floats == 4)
        scale = a->floats;
    else
        CT_TRY(onnx_input_floats(m, old ? 1 : 2, &c));
    if (c && ct_shape_count(&c->shape, 0, CT_END) == 4)
        scale = c->f;
    if (!scale || scale[0] != 1 || scale[1] != 1 ||
        !(scale[2] > 0 && scale[2] < 1e4f) ||
        !(scale[3] > 0 && scale[3] < 1e4f))
        return onnx_reject(m, "its scales must be four constants, of which "
                           "the first two are 1");
    for (int i = 0; i < 2; i++)
        out[i] = (int64_t)((float)x->dim[2 + i] * scale[2 + i] + 1e-4f);
    return CT_OK;
}

enum ct_status onnx_read_resize(struct onnx_import *m)
{
    const bool nearest = onnx_is_string(m, "mode", "nearest", "nearest");
    const bool linear  = onnx_is_string(m, "mode", "linear", "nearest");
    const bool corners = onnx_is_string(m, "coordinate_transformation_mode",
                                        "align_corners", "half_pixel");
    struct onnx_value *x;
    int64_t out[2] = { 0, 0 };

    CT_TRY(onnx_input_blob(m, 0, &x));
    CT_TRY(new_size(m, &x->shape, out));
    /* Before a layer makes tables of that size. */
    if (out[0] < 1 || out[1] < 1 || out[1] > ONNX_MOST_VALUES / out[0])
        return onnx_reject(m, "it resizes to %" PRId64 " x %" PRId64
                           " values, and 1 to %d are possible", out[0],
                           out[1], ONNX_MOST_VALUES);
    if (linear && corners)
        return onnx_layer_end(
            m, &(struct onnx_made){ "Interp", ONNX_BLOBS(x->blob), 1, NULL,
                                    0 },
            "interp_param { height: %" PRId64 " width: %" PRId64 " }", out[0],
            out[1]);
    /* A whole factor repeats values, in every way to count but corners. */
    if (nearest && !corners && out[0] % x->shape.dim[2] == 0 &&
        out[1] % x->shape.dim[3] == 0 && out[0] > 0 && out[1] > 0 &&
        (onnx_is_string(m, "coordinate_transformation_mode", "half_pixel",
                        "half_pixel") ||
         onnx_is_string(m, "nearest_mode", "floor", "round_prefer_floor") ||
         m->opset < 11))
        return onnx_layer_end(
            m, &(struct onnx_made){ "Upsample", ONNX_BLOBS(x->blob), 1, NULL,
                                    0 },
            "upsample_param { scale_h: %" PRId64 " scale_w: %" PRId64 " }",
            out[0] / x->shape.dim[2], out[1] / x->shape.dim[3]);
    return onnx_reject(m, "Caffe resizes linearly with aligned corners, or "
                       "repeats values a whole number of times");
}
