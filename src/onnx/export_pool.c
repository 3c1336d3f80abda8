/* export_pool.c - Pooling, SPP, ROIPooling, Interp, Upsample.
 *
 * Caffe rounds the number of windows up and may then drop the last one; the
 * runtimes disagree about that, so pads are written out, per side:
 *
 *     begin = pad      end = max(0, (out - 1) stride + kernel - in - pad)
 *
 * An average divides by the part of the window inside the padded image.  Some
 * runtimes do not count padding whatever count_include_pad says, so zeros are
 * a node of their own.  Where a window reaches beyond the padded image, a map
 * of factors makes up for that. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "layers/interp.h"
#include "layers/pooling.h"
#include "layers/roi_pooling.h"
#include "layers/spp.h"
#include "layers/upsample.h"
#include "onnx/export.h"
#include "proto/params.h"

/* One axis of the windows. */
struct axis {
    int64_t in, out, kernel, stride, pad;
};

static int64_t pad_end(const struct axis *a)
{
    int64_t end = (a->out - 1) * a->stride + a->kernel - a->in - a->pad;

    return end > 0 ? end : 0;
}

/* What an average of window i divides by, along this axis. */
static int64_t divisor(const struct axis *a, int64_t i)
{
    int64_t from = i * a->stride - a->pad, to = from + a->kernel;
    int64_t end = a->in + a->pad;

    return (to < end ? to : end) - from;
}

static const char *divisor_map(struct onnx_export *x,
                               const struct onnx_layer *l,
                               int64_t channels, const struct axis *h,
                               const struct axis *w)
{
    /* One for all channels would do, but not in every runtime. */
    const struct ct_shape shape = CT_SHAPE(channels, h->out, w->out);
    const char *name            = "";
    float *map                  = NULL;

    if (ct_alloc((size_t)(channels * h->out * w->out), sizeof(*map),
                 "onnx values", &map) != CT_OK) {
        x->graph.status = CT_ENOMEM;
        return name;
    }
    for (int64_t i = 0; i < channels * h->out; i++)
        for (int64_t j = 0; j < w->out; j++)
            map[i * w->out + j] =
                (float)(h->kernel * w->kernel) /
                (float)(divisor(h, i % h->out) * divisor(w, j));
    name = onnx_weight(x, l, "divisor", &shape, map);
    ct_free(map);
    return name;
}

/* `pads`: whether the node pads. */
static void pool_attributes(struct onnx_export *x, Onnx__NodeProto *n,
                            const struct axis *h, const struct axis *w,
                            bool pads)
{
    const int64_t kernel[] = { h->kernel, w->kernel };
    const int64_t stride[] = { h->stride, w->stride };
    const int64_t pad[]    = { h->pad, w->pad, pad_end(h), pad_end(w) };

    onnx_set_ints(&x->graph, n, "kernel_shape", 2, kernel);
    onnx_set_ints(&x->graph, n, "strides", 2, stride);
    if (pads)
        onnx_set_ints(&x->graph, n, "pads", 4, pad);
}

/* Without padding of the layer's own, what windows reach beyond the image
 * counts for nothing. */
static void average(struct onnx_export *x, const struct onnx_layer *l,
                    const struct axis *h, const struct axis *w,
                    const char *name, const char *out)
{
    const bool reaches = pad_end(h) > h->pad || pad_end(w) > w->pad;
    const bool padded  = h->pad > 0 || w->pad > 0;
    const int64_t pads[] = { 0, 0, h->pad,     w->pad,
                             0, 0, pad_end(h), pad_end(w) };
    const char *from = l->in[0], *mean = out;
    Onnx__NodeProto *n;

    if (padded)
        from = onnx_step(x, l, "Pad",
                         ONNX_IN(from, onnx_list(x, l, "pads", 8, pads)));
    if (reaches && padded)
        mean = onnx_part(x, l, "AveragePool");
    n = onnx_add(&x->graph, mean == out ? name : mean, "AveragePool",
                 ONNX_IN(from), mean);
    pool_attributes(x, n, h, w, !padded);
    if (mean != out)
        onnx_add(&x->graph, name, "Mul",
                 ONNX_IN(mean, divisor_map(x, l, l->io.bottom[0]->shape.dim[1],
                                           h, w)),
                 out);
}

/* Pooling of bottom 0 as the node `name` and the tensor `out`; *max is the
 * node of a MaxPool. */
static enum ct_status pool(struct onnx_export *x, const struct onnx_layer *l,
                           const struct ct_pool *p, const char *name,
                           const char *out, Onnx__NodeProto **max)
{
    const struct axis h = { p->h, p->out_h, p->kernel_h, p->stride_h,
                            p->pad_h };
    const struct axis w = { p->w, p->out_w, p->kernel_w, p->stride_w,
                            p->pad_w };
    Onnx__NodeProto *n;

    if ((h.out - 1) * h.stride >= h.in + h.pad ||
        (w.out - 1) * w.stride >= w.in + w.pad)
        return onnx_refuse(l, "its last window lies outside the image");
    if (p->average) {
        average(x, l, &h, &w, name, out);
        return CT_OK;
    }
    n = onnx_add(&x->graph, name, "MaxPool", ONNX_IN(l->in[0]), out);
    pool_attributes(x, n, &h, &w, true);
    if (max)
        *max = n;
    return CT_OK;
}

/* The second top: ONNX counts places through all images, Caffe in a plane. */
static void pool_mask(struct onnx_export *x, const struct onnx_layer *l,
                      const struct ct_pool *p, Onnx__NodeProto *max)
{
    const char *at         = onnx_part(x, l, "Indices");
    const int64_t plane[]  = { p->h * p->w };
    const char *in_plane;

    onnx_add_output(&x->graph, max, at);
    in_plane = onnx_step(x, l, "Mod",
                         ONNX_IN(at, onnx_list(x, l, "plane", 1, plane)));
    onnx_set_int(&x->graph,
                 onnx_add(&x->graph, onnx_part(x, l, "Cast"), "Cast",
                          ONNX_IN(in_plane), l->out[1]),
                 "to", ONNX_FLOAT);
    onnx_remember(x, l);
}

enum ct_status onnx_emit_pooling(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    const struct pooling *s = l->layer->state;
    Onnx__NodeProto *max    = NULL;

    if (ct_pooling_param(l->layer->param)->pool ==
        CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC)
        return onnx_refuse(l, "ONNX has no stochastic pooling");
    if (s->global && l->io.n_top == 1) {
        onnx_end(x, l, s->pool.average ? "GlobalAveragePool" : "GlobalMaxPool",
                 ONNX_IN(l->in[0]));
        return CT_OK;
    }
    CT_TRY(pool(x, l, &s->pool, l->name, l->out[0], &max));
    if (l->io.n_top > 1)
        pool_mask(x, l, &s->pool, max);
    else if (s->pool.average && (s->pool.pad_h > 0 || s->pool.pad_w > 0))
        onnx_remember(x, l);
    return CT_OK;
}

enum ct_status onnx_emit_spp(struct onnx_export *x, const struct onnx_layer *l)
{
    const struct spp *s                = l->layer->state;
    const char *part[SPP_LEVELS + 1]   = { NULL };
    Onnx__NodeProto *n;

    onnx_remember(x, l);
    if (s->height == 1)
        return pool(x, l, &s->level[0], l->name, l->out[0], NULL);
    for (int i = 0; i < s->height; i++) {
        const char *name = onnx_part(x, l, "Pool");

        CT_TRY(pool(x, l, &s->level[i], name, name, NULL));
        part[i] = onnx_step(x, l, "Flatten", ONNX_IN(name));
    }
    n = onnx_end(x, l, "Concat", part);
    onnx_set_int(&x->graph, n, "axis", 1);
    return CT_OK;
}

enum ct_status onnx_emit_roi_pooling(struct onnx_export *x,
                                     const struct onnx_layer *l)
{
    const struct roi_pooling *s = l->layer->state;
    const int64_t pooled[]      = { s->ph, s->pw };
    const char *rois            = l->in[1];
    Onnx__NodeProto *n;

    if (l->io.bottom[1]->shape.n_axes != 2)
        rois = onnx_step(x, l, "Flatten", ONNX_IN(rois));
    n = onnx_end(x, l, "MaxRoiPool", ONNX_IN(l->in[0], rois));
    onnx_set_ints(&x->graph, n, "pooled_shape", 2, pooled);
    onnx_set_float(&x->graph, n, "spatial_scale", s->scale);
    return CT_OK;
}

/* Elements [from, to) of axes 2 and 3. */
static const char *window(struct onnx_export *x, const struct onnx_layer *l,
                          const char *in, int64_t h, int64_t h_end, int64_t w,
                          int64_t w_end)
{
    const int64_t from[] = { h, w }, to[] = { h_end, w_end }, axes[] = { 2, 3 };
    const char *starts = onnx_list(x, l, "starts", 2, from);
    const char *ends   = onnx_list(x, l, "ends", 2, to);

    return onnx_step(x, l, "Slice",
                     ONNX_IN(in, starts, ends,
                             onnx_list(x, l, "axes", 2, axes)));
}

/* The sizes of top 0; with an open batch size the first is read off `in`. */
static const char *sizes(struct onnx_export *x, const struct onnx_layer *l,
                         const char *in)
{
    const int64_t zero[] = { 0 }, one[] = { 1 };
    const struct ct_shape *to = &l->io.top[0]->shape;
    const char *shape, *starts;
    Onnx__NodeProto *n;

    if (onnx_dim(x, l, true, 0, 0) >= 0)
        return onnx_list(x, l, "sizes", 4, to->dim);
    shape  = onnx_step(x, l, "Shape", ONNX_IN(in));
    starts = onnx_list(x, l, "starts", 1, zero);
    shape  = onnx_step(x, l, "Slice",
                       ONNX_IN(shape, starts, onnx_list(x, l, "ends", 1,
                                                        one)));
    starts = onnx_part(x, l, "Concat");
    n = onnx_add(&x->graph, starts, "Concat",
                 ONNX_IN(shape, onnx_list(x, l, "sizes", 3, to->dim + 1)),
                 starts);
    onnx_set_int(&x->graph, n, "axis", 0);
    return starts;
}

enum ct_status onnx_emit_interp(struct onnx_export *x,
                                const struct onnx_layer *l)
{
    const struct interp *s = l->layer->state;
    const char *from       = l->in[0];
    Onnx__NodeProto *n;

    if (s->h != s->h_in || s->w != s->w_in)
        from = window(x, l, from, s->crop, s->crop + s->h, s->crop,
                      s->crop + s->w);
    n = onnx_end(x, l, "Resize", ONNX_IN(from, "", "", sizes(x, l, from)));
    onnx_set_string(&x->graph, n, "mode", "linear");
    onnx_set_string(&x->graph, n, "coordinate_transformation_mode",
                    "align_corners");
    return CT_OK;
}

/* Un-pooling: Caffe's places count in a plane, ONNX's through all images. */
static enum ct_status unpool(struct onnx_export *x, const struct onnx_layer *l,
                             const struct upsample *u)
{
    const int64_t ones[] = { 1, 1 }, zeros[] = { 0, 0, 0, 0 };
    const struct ct_shape *to = &l->io.top[0]->shape;
    const struct ct_shape planes = CT_SHAPE(to->dim[0], to->dim[1], 1, 1);
    const char *at;
    float *first = NULL;
    Onnx__NodeProto *n;

    if (x->dynamic)
        return onnx_refuse(l, "places in all images are counted: give a batch "
                           "size");
    if ((double)to->dim[0] * (double)to->dim[1] * (double)u->h_out *
            (double)u->w_out > 16777216)
        return onnx_refuse(l, "its top has more than 2^24 values, which places "
                           "in floats cannot count");
    CT_TRY(ct_alloc((size_t)u->planes, sizeof(*first), "onnx values", &first));
    for (int64_t i = 0; i < u->planes; i++)
        first[i] = (float)(i * u->h_out * u->w_out);
    at = onnx_step(x, l, "Add",
                   ONNX_IN(l->in[1], onnx_weight(x, l, "first", &planes,
                                                 first)));
    ct_free(first);
    n  = onnx_add(&x->graph, onnx_part(x, l, "Cast"), "Cast", ONNX_IN(at),
                  onnx_part(x, l, "at"));
    onnx_set_int(&x->graph, n, "to", ONNX_INT64);
    at = n ? n->output[0] : "";
    n  = onnx_end(x, l, "MaxUnpool",
                  ONNX_IN(l->in[0], at, onnx_list(x, l, "sizes", 4, to->dim)));
    onnx_set_ints(&x->graph, n, "kernel_shape", 2, ones);
    onnx_set_ints(&x->graph, n, "pads", 4, zeros);
    onnx_remember(x, l);
    return CT_OK;
}

enum ct_status onnx_emit_upsample(struct onnx_export *x,
                                  const struct onnx_layer *l)
{
    const struct upsample *u = l->layer->state;
    const bool exact = u->h_out % u->h == 0 && u->w_out % u->w == 0;
    const int64_t sh = u->sized ? u->h_out / u->h : u->scale_h;
    const int64_t sw = u->sized ? u->w_out / u->w : u->scale_w;
    const float scales[] = { 1, 1, (float)sh, (float)sw };
    const bool whole = u->h * sh == u->h_out && u->w * sw == u->w_out;
    const char *factor, *out = l->out[0];
    Onnx__NodeProto *n;

    if (l->io.n_bottom > 1)
        return unpool(x, l, u);
    if (u->sized && !exact)
        return onnx_refuse(l, "%" PRId64 " x %" PRId64 " is no multiple of its "
                           "bottom's size", u->h_out, u->w_out);
    factor = onnx_weight(x, l, "scales", &CT_SHAPE(4), scales);
    if (!whole)
        out = onnx_part(x, l, "Resize");
    n = onnx_add(&x->graph, whole ? l->name : out, "Resize",
                 ONNX_IN(l->in[0], "", factor), out);
    onnx_set_string(&x->graph, n, "mode", "nearest");
    onnx_set_string(&x->graph, n, "nearest_mode", "floor");
    onnx_set_string(&x->graph, n, "coordinate_transformation_mode",
                    "asymmetric");
    if (!whole)
        onnx_add(&x->graph, l->name, "Identity",
                 ONNX_IN(window(x, l, out, 0, u->h_out, 0, u->w_out)),
                 l->out[0]);
    return CT_OK;
}
