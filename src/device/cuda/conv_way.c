/* conv_way.c - the ways in which a GPU does one pass of a convolution. */
#include "device/cuda/conv_way.h"

#include "device/cuda/conv_direct.h"
#include "device/cuda/conv_ends.h"
#include "device/cuda/conv_patch.h"
#include "device/cuda/conv_points.h"
#include "device/cuda/conv_scale.h"
#include "device/cuda/conv_slabs.h"
#include "device/impl.h"

enum { MOST_FOLDED = 256, FEW_CHANNELS = 4, MOST_RUNS = 16, LEAST_APART = 16 };

const char *ct_conv_road_name(enum ct_conv_road r)
{
    static const char *const name[CT_CONV_ROADS] = {
        [CT_CONV_WHOLE]   = "whole",
        [CT_CONV_APART]   = "apart",
        [CT_CONV_STRIDED] = "strided",
        [CT_CONV_FOLD]    = "fold",
        [CT_CONV_WIDE]    = "wide",
        [CT_CONV_DIRECT]  = "direct",
        [CT_CONV_SLABS]   = "slabs",
        [CT_CONV_PATCH]   = "patch",
        [CT_CONV_POINTS]  = "points",
        [CT_CONV_ENDS]    = "ends",
    };

    return name[r];
}

static size_t round_up(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Steps of an array with channels innermost, or in their place. */
static void set_steps(const int64_t *dim, int n, enum ct_layout layout,
                      int64_t *step)
{
    int64_t all = 1;

    if (layout == CT_NHWC) {
        step[1] = 1;
        all     = dim[1];
    }
    for (int i = n - 1; i >= 0; i--)
        if (i != 1 || layout != CT_NHWC) {
            step[i] = all;
            all *= dim[i];
        }
}

/* cuDNN wants two spatial axes at least. */
static void set_problem(const struct ct_conv *c, struct ct_conv_way *way)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_conv_problem *p    = &way->problem;
    const int n = d->n_spatial < 2 ? 2 : d->n_spatial, lead = n - d->n_spatial;

    p->n_spatial = n;
    p->x[0] = p->y[0] = d->batch;
    p->x[1]           = d->in_channels;
    p->y[1] = p->w[0] = d->out_channels;
    p->w[1]           = c->in_group;
    for (int i = 0; i < n; i++) {
        const int j = i - lead;

        p->x[2 + i]    = j < 0 ? 1 : d->in[j];
        p->y[2 + i]    = j < 0 ? 1 : c->out[j];
        p->w[2 + i]    = j < 0 ? 1 : d->kernel[j];
        p->pad[i]      = j < 0 ? 0 : d->pad[j];
        p->stride[i]   = j < 0 ? 1 : d->stride[j];
        p->dilation[i] = j < 0 ? 1 : d->dilation[j];
    }
    way->cells = (struct ct_conv_cells){
        .batch = d->batch, .channels = c->in_group,
        .s_h = 1, .s_w = 1, .inside = c->in_group,
        .outputs = d->out_channels, .outputs_inside = d->out_channels,
        .k_h = c->taps / p->w[1 + n], .k_w = p->w[1 + n],
    };
    way->cells.kc_h = way->cells.k_h;
    way->cells.kc_w = way->cells.k_w;
}

/* Groups become runs; strided ones keep the steps of the whole. */
static enum ct_status part(const struct ct_conv *c, struct ct_conv_way *way)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_conv_problem *p    = &way->problem;
    const int n                  = 2 + p->n_spatial;
    const bool strided           = way->road == CT_CONV_STRIDED;

    if (d->group < 2 || d->group > MOST_RUNS || c->in_group < LEAST_APART ||
        c->out_group < LEAST_APART || c->in_group % 8 || c->out_group % 8 ||
        d->src_layout != way->layout || d->dst_layout != way->layout ||
        d->src_type != way->dtype || d->dst_type != way->dtype)
        return CT_ENOTSUP;
    if (!strided && (way->layout != CT_NHWC || d->n_spatial != 2))
        return CT_ENOTSUP;
    p->x[1]   = c->in_group;
    p->y[1]   = p->w[0] = c->out_group;
    way->runs = (int)d->group;
    if (strided) {
        /* From group to group: channels, or whole planes of them. */
        way->x_run = c->in_group * p->x_step[1];
        way->y_run = c->out_group * p->y_step[1];
    } else {
        set_steps(p->x, n, way->layout, p->x_step);
        set_steps(p->y, n, way->layout, p->y_step);
        way->x_run = way->n_x / d->group;
        way->y_run = way->n_y / d->group;
    }
    way->w_run   = way->n_w / d->group;
    way->stage_x = way->stage_y = !strided;
    return CT_OK;
}

/* Cells start at the padding's edge, so that output p's kernel starts in cell
 * p; cells that no output reads are left out. */
static enum ct_status fold(const struct ct_conv *c, struct ct_conv_way *way)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_conv_problem *p    = &way->problem;
    struct ct_conv_cells *f      = &way->cells;
    const int64_t vector         = way->dtype == CT_F32 ? 4 : 8;

    if (p->pass == CT_BACKWARD || d->n_spatial != 2 || d->group != 1 ||
        way->layout != CT_NHWC || d->in_channels > FEW_CHANNELS ||
        d->dilation[0] != 1 || d->dilation[1] != 1)
        return CT_ENOTSUP;
    f->s_h    = d->stride[0] < d->kernel[0] ? d->stride[0] : d->kernel[0];
    f->s_w    = d->stride[1] < d->kernel[1] ? d->stride[1] : d->kernel[1];
    f->inside = f->s_h * f->s_w * d->in_channels;
    f->inside = (f->inside + vector - 1) / vector * vector;
    /* A stride beyond the kernel would leave gaps between cells. */
    if (f->s_h != d->stride[0] || f->s_w != d->stride[1] ||
        f->inside > MOST_FOLDED)
        return CT_ENOTSUP;
    f->height = d->in[0], f->width = d->in[1];
    f->pad_h = d->pad[0], f->pad_w = d->pad[1];
    f->kc_h = (f->k_h + f->s_h - 1) / f->s_h;
    f->kc_w = (f->k_w + f->s_w - 1) / f->s_w;
    f->rows    = c->out[0] - 1 + f->kc_h;
    f->columns = c->out[1] - 1 + f->kc_w;
    f->layout  = d->src_layout;
    p->x[1] = p->w[1] = f->inside;
    p->x[2] = f->rows, p->x[3] = f->columns;
    p->w[2] = f->kc_h, p->w[3] = f->kc_w;
    for (int i = 0; i < 2; i++) {
        p->pad[i]    = 0;
        p->stride[i] = 1;
    }
    set_steps(p->x, 4, CT_NHWC, p->x_step);
    set_steps(p->w, 4, CT_NHWC, p->w_step);
    way->n_x     = d->batch * f->rows * f->columns * f->inside;
    way->n_w     = d->out_channels * f->kc_h * f->kc_w * f->inside;
    way->stage_x = true;
    return way->n_x <= INT32_MAX ? CT_OK : CT_ENOTSUP;
}

/* Channels of y that are no whole number of vectors become one. */
static enum ct_status widen(const struct ct_conv *c, struct ct_conv_way *way)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_conv_problem *p    = &way->problem;
    const int64_t vector         = way->dtype == CT_F32 ? 4 : 8;
    const int64_t wide = (d->out_channels + vector - 1) / vector * vector;

    if (d->n_spatial != 2 || d->group != 1 || way->layout != CT_NHWC ||
        wide == d->out_channels || d->dst_layout != way->layout ||
        d->dst_type != way->dtype)
        return CT_ENOTSUP;
    p->y[1] = p->w[0] = way->cells.outputs_inside = wide;
    set_steps(p->y, 4, CT_NHWC, p->y_step);
    way->n_y     = d->batch * wide * c->out_spatial;
    way->n_w     = wide * c->in_group * c->taps;
    way->stage_y = true;
    return way->n_y <= INT32_MAX && way->n_w <= INT32_MAX ? CT_OK
                                                          : CT_ENOTSUP;
}

/* Arrays are taken as they lie, with the bias and ReLU of forward. */
static enum ct_status direct(const struct ct_conv *c, struct ct_conv_way *way)
{
    way->stage_x = way->stage_y = false;
    return way->layout == CT_PLAIN && way->dtype == CT_F32 && !way->fused &&
                   ct_cuda_direct_takes(c, way->problem.pass, &way->scratch)
               ? CT_OK
               : CT_ENOTSUP;
}

/* float32 images are scaled into float16, where tf32 is allowed.  Those of 16
 * bits have cuDNN, which is the faster one there. */
static enum ct_status slabs(const struct ct_conv *c, struct ct_conv_way *way)
{
    const struct ct_conv_desc *d = &c->desc;

    if (way->problem.pass != CT_BACKWARD_WEIGHTS || way->fused ||
        way->problem.strict || way->layout != CT_NHWC ||
        way->dtype != CT_F16 || d->src_layout != CT_NHWC ||
        d->dst_layout != CT_NHWC || d->src_type != CT_F32 ||
        d->dst_type != CT_F32)
        return CT_ENOTSUP;
    way->stage_w = false;
    way->once    = ct_impl_allowed("scale", "once");
    return ct_conv_way_form(c, 0, way);
}

/* As direct, but for the order of weights. */
static enum ct_status patch(const struct ct_conv *c, struct ct_conv_way *way)
{
    if (way->layout != CT_PLAIN || way->dtype != CT_F32 || way->fused)
        return CT_ENOTSUP;
    way->stage_x = way->stage_y = false;
    way->stage_w = true;
    for (int i = 0; i < ct_patch_forms(way->problem.pass); i++)
        if (ct_conv_way_form(c, i, way) == CT_OK)
            return CT_OK;
    return CT_ENOTSUP;
}

int ct_conv_road_forms(enum ct_conv_road r, enum ct_pass pass)
{
    switch (r) {
    case CT_CONV_SLABS:
        return CT_SLABS_FORMS;
    case CT_CONV_POINTS:
        return CT_POINTS_FORMS;
    case CT_CONV_ENDS:
        return CT_ENDS_FORMS;
    case CT_CONV_PATCH:
        return ct_patch_forms(pass);
    default:
        return 1;
    }
}

/* Points or ends, in the first form that takes it. */
static enum ct_status sums(const struct ct_conv *c, struct ct_conv_way *way)
{
    const enum ct_pass pass = way->problem.pass;
    const bool asked = pass == CT_FORWARD    ? c->desc.moments
                       : pass == CT_BACKWARD ? c->desc.ends
                                             : false;
    enum ct_status st = CT_ENOTSUP;

    if (!asked || way->road != ct_conv_sums_road(pass) || way->fused ||
        way->layout != CT_NHWC || way->dtype != CT_BF16)
        return CT_ENOTSUP;
    for (int i = 0; i < ct_conv_road_forms(way->road, pass) &&
                    st == CT_ENOTSUP; i++)
        st = ct_conv_way_form(c, i, way);
    return st;
}

enum ct_conv_road ct_conv_sums_road(enum ct_pass pass)
{
    return pass == CT_FORWARD ? CT_CONV_POINTS : CT_CONV_ENDS;
}

bool ct_conv_sums_up(const struct ct_conv *c, enum ct_pass pass)
{
    struct ct_conv_way way;

    return ct_conv_way_make(c, pass, ct_conv_sums_road(pass), false, CT_NHWC,
                            CT_BF16, &way) == CT_OK;
}

static bool sums_form(const struct ct_conv *c, struct ct_conv_way *way)
{
    const bool forward = way->problem.pass == CT_FORWARD;
    const int64_t n    = forward ? 4 * c->desc.out_channels
                                 : 2 * c->desc.in_channels;

    if (forward ? !ct_cuda_points_takes(c, way->form, &way->slots)
                : !ct_cuda_ends_takes(c, way->form, &way->slots))
        return false;
    way->scratch = (size_t)(way->slots * n) * sizeof(float);
    return true;
}

enum ct_status ct_conv_way_form(const struct ct_conv *c, int form,
                                struct ct_conv_way *way)
{
    const enum ct_pass pass = way->problem.pass;
    bool takes              = form >= 0 &&
                 form < ct_conv_road_forms(way->road, pass);

    way->form = form;
    if (takes && way->road == CT_CONV_PATCH)
        takes = ct_cuda_patch_takes(c, pass, form, &way->n_w, &way->scratch);
    else if (takes && (way->road == CT_CONV_POINTS ||
                       way->road == CT_CONV_ENDS))
        takes = sums_form(c, way);
    else if (takes && way->road == CT_CONV_SLABS)
        takes = ct_cuda_slabs_takes(c, form, &way->scratch);
    return takes ? CT_OK : CT_ENOTSUP;
}

enum ct_status ct_conv_way_make(const struct ct_conv *c, enum ct_pass pass,
                                enum ct_conv_road road, bool fused,
                                enum ct_layout layout, enum ct_dtype dtype,
                                struct ct_conv_way *out)
{
    const struct ct_conv_desc *d = &c->desc;
    struct ct_conv_problem *p    = &out->problem;
    enum ct_status st            = CT_OK;

    *out = (struct ct_conv_way){ .road = road, .fused = fused,
                                 .layout = layout, .dtype = dtype, .runs = 1 };
    if (layout == CT_NHWC && d->n_spatial != 2)
        return CT_ENOTSUP;
    p->pass   = pass;
    p->dtype  = dtype;
    p->strict = ct_cuda(c->dev)->precision == CT_FP32;
    set_problem(c, out);
    set_steps(p->x, 2 + p->n_spatial, layout, p->x_step);
    set_steps(p->y, 2 + p->n_spatial, layout, p->y_step);
    set_steps(p->w, 2 + p->n_spatial, layout, p->w_step);
    out->n_x     = d->batch * d->in_channels * c->in_spatial;
    out->n_y     = d->batch * d->out_channels * c->out_spatial;
    out->n_w     = d->out_channels * c->in_group * c->taps;
    out->stage_x = d->src_layout != layout || d->src_type != dtype;
    out->stage_y = d->dst_layout != layout || d->dst_type != dtype;
    out->stage_w = layout != CT_PLAIN || dtype != CT_F32;
    if (road == CT_CONV_APART || road == CT_CONV_STRIDED)
        st = part(c, out);
    else if (road == CT_CONV_FOLD)
        st = fold(c, out);
    else if (road == CT_CONV_WIDE)
        st = widen(c, out);
    else if (road == CT_CONV_DIRECT)
        st = direct(c, out);
    else if (road == CT_CONV_SLABS)
        st = slabs(c, out);
    else if (road == CT_CONV_PATCH)
        st = patch(c, out);
    else if (road == CT_CONV_POINTS || road == CT_CONV_ENDS)
        st = sums(c, out);
    p->bias = fused;
    p->relu = fused && d->relu;
    return fused && (pass != CT_FORWARD || !d->has_bias || out->stage_y ||
                     out->runs > 1)
               ? CT_ENOTSUP
               : st;
}

bool ct_conv_way_same_weights(const struct ct_conv_way *a,
                              const struct ct_conv_way *b)
{
    return (a->road == CT_CONV_PATCH) == (b->road == CT_CONV_PATCH) &&
           a->layout == b->layout && a->dtype == b->dtype &&
           a->cells.s_h == b->cells.s_h && a->cells.s_w == b->cells.s_w &&
           a->cells.inside == b->cells.inside &&
           a->cells.outputs_inside == b->cells.outputs_inside;
}

bool ct_conv_way_same_cells(const struct ct_conv_way *a,
                            const struct ct_conv_way *b)
{
    return a->road == CT_CONV_FOLD && b->road == CT_CONV_FOLD &&
           ct_conv_way_same_weights(a, b) && a->n_x == b->n_x;
}

/* cuDNN is told that arrays are aligned; what lies askew is staged too. */
static bool askew(const void *p)
{
    return (uintptr_t)p % CT_CONV_ALIGN != 0;
}

/* Staged arrays lie behind each other: x, y, the gradient of w, which never
 * goes straight out of an engine, a bias in the engine's type, and by what
 * channels were scaled.  The plan's scratch, or the way's, is last. */
struct places {
    char *x, *y, *w, *b, *largest, *rest;
};

static size_t bytes_of(const struct ct_conv_way *way, bool needed, int64_t n)
{
    return needed ? round_up((size_t)n * ct_dtype_bytes(way->dtype)) : 0;
}

/* Of slabs: the largest values of channels of x and of y, and those of the
 * pass before. */
static size_t scales_of(const struct ct_conv_way *way)
{
    return way->road == CT_CONV_SLABS
               ? 2 * (size_t)(way->problem.x[1] + way->problem.y[1])
               : 0;
}

size_t ct_conv_way_scales(const struct ct_conv_way *way)
{
    return way->once ? scales_of(way) : 0;
}

static struct places places_in(const struct ct_conv_way *way, const void *x,
                               const void *y, char *work)
{
    const bool ours = ct_conv_road_is_ours(way->road);
    const bool w    = way->problem.pass == CT_BACKWARD_WEIGHTS && !ours;
    struct places p;

    p.x    = work;
    p.y    = p.x + bytes_of(way, way->stage_x || askew(x), way->n_x);
    p.w    = p.y + bytes_of(way, way->stage_y || askew(y), way->n_y);
    p.b    = p.w + bytes_of(way, w, way->n_w);
    p.largest = p.b + (way->fused ? round_up((size_t)way->problem.y[1] *
                                             sizeof(float))
                                  : 0);
    p.rest = p.largest + round_up(scales_of(way) * sizeof(uint32_t));
    return p;
}

size_t ct_conv_way_bytes(const struct ct_conv_way *way, const void *x,
                         const void *y)
{
    char base;
    struct places p = places_in(way, x, y, &base);

    return way->road == CT_CONV_DIRECT || way->road == CT_CONV_PATCH
               ? way->scratch
               : (size_t)(p.rest - &base) + way->scratch;
}

/* x or dy as the way has it; `room` is where it goes if it must. */
static enum ct_status bring_in(const struct ct_conv *c,
                               const struct ct_conv_way *way, bool is_x,
                               const void *from, void *room, const void **out)
{
    const struct ct_conv_desc *d = &c->desc;
    const bool stage  = (is_x ? way->stage_x : way->stage_y) || askew(from);
    const int64_t ch  = is_x ? d->in_channels : d->out_channels;
    const int64_t n   = is_x ? c->in_spatial : c->out_spatial;

    *out = stage ? room : from;
    if (!stage)
        return CT_OK;
    if (is_x && way->road == CT_CONV_FOLD)
        return ct_cuda_conv_fold(c->dev, &way->cells, d->src_type, from,
                                 way->dtype, room);
    if (way->road == CT_CONV_APART)
        return ct_cuda_conv_part(c->dev, d->batch * n, way->runs,
                                 ch / way->runs, way->dtype, from, room);
    if (!is_x && way->road == CT_CONV_WIDE)
        return ct_cuda_conv_widen(c->dev, d->batch * n, ch,
                                  way->cells.outputs_inside, way->dtype, from,
                                  room);
    return ct_cuda_layout_convert(c->dev, d->batch, ch, n,
                                  is_x ? d->src_layout : d->dst_layout,
                                  is_x ? d->src_type : d->dst_type, from,
                                  way->layout, way->dtype, room);
}

/* Back out, dx or y; y with its bias and ReLU, where they are not done yet. */
static enum ct_status take_out(const struct ct_conv *c,
                               const struct ct_conv_way *way, bool is_x,
                               const void *from, const float *b, void *to)
{
    const struct ct_conv_desc *d   = &c->desc;
    const bool relu                = d->relu && !is_x && !way->fused;
    const int64_t ch = is_x ? d->in_channels : d->out_channels;
    const int64_t n  = is_x ? c->in_spatial : c->out_spatial;
    const struct ct_bias_desc bias = { d->batch, ch, n, d->dst_layout,
                                       d->dst_type };

    if (from != to && way->road == CT_CONV_APART)
        return ct_cuda_conv_join(c->dev, d->batch * n, way->runs,
                                 ch / way->runs, way->dtype, from, b, relu,
                                 to);
    if (!is_x && way->road == CT_CONV_WIDE)
        return ct_cuda_conv_narrow(c->dev, d->batch * n, ch,
                                   way->cells.outputs_inside, way->dtype,
                                   from, b, relu, to);
    if (from != to)
        CT_TRY(ct_cuda_layout_convert(c->dev, d->batch, ch, n, way->layout,
                                      way->dtype, from,
                                      is_x ? d->src_layout : d->dst_layout,
                                      is_x ? d->src_type : d->dst_type, to));
    return is_x ? CT_OK : ct_cuda_conv_finish(c->dev, &bias, b, relu, to);
}

static enum ct_status run(const struct ct_conv *c,
                          const struct ct_conv_way *way,
                          const struct ct_conv_plan *plan, const void *x,
                          const void *w, const void *b, const void *y,
                          void *rest)
{
    const int64_t one = (int64_t)ct_dtype_bytes(way->dtype);

    for (int i = 0; i < way->runs; i++)
        CT_TRY(ct_conv_plan_run(c->dev, plan,
                                (const char *)x + i * way->x_run * one,
                                (const char *)w + i * way->w_run * one, b,
                                (const char *)y + i * way->y_run * one, rest));
    return CT_OK;
}

enum ct_status ct_conv_way_weights(const struct ct_conv *c,
                                   const struct ct_conv_way *way,
                                   const float *w, void *inside)
{
    if (way->road == CT_CONV_PATCH)
        return ct_cuda_patch_weights(c, w, inside);
    if (way->layout == CT_PLAIN)
        return ct_cuda_convert(c->dev, way->n_w, CT_F32, w, way->dtype,
                               inside);
    return ct_cuda_weights_in(c->dev, &way->cells, w, way->dtype, inside);
}

enum ct_status ct_conv_way_forward(const struct ct_conv *c,
                                   const struct ct_conv_way *way,
                                   const struct ct_conv_plan *plan, void *work,
                                   const void *x, const void *w,
                                   const float *b, void *y, void *folded,
                                   float *sums)
{
    const struct places p = places_in(way, x, y, work);
    void *yi              = way->stage_y || askew(y) ? p.y : y;
    const void *xi, *bi = way->fused ? b : NULL;

    if (way->road == CT_CONV_DIRECT)
        return ct_cuda_direct_forward(c, x, w, b, y);
    if (way->road == CT_CONV_PATCH)
        return ct_cuda_patch_forward(c, way->form, x, w, b, y);
    CT_TRY(bring_in(c, way, true, x, folded ? folded : p.x, &xi));
    if (way->fused && (way->dtype != CT_F32 || askew(b))) {
        CT_TRY(ct_cuda_convert(c->dev, way->problem.y[1], CT_F32, b,
                               way->dtype, p.b));
        bi = p.b;
    }
    if (way->road == CT_CONV_POINTS)
        CT_TRY(ct_cuda_points_forward(c, way->form, xi, w, yi,
                                      sums ? sums
                                           : (float *)(void *)p.rest));
    else
        CT_TRY(run(c, way, plan, xi, w, bi, yi, p.rest));
    return take_out(c, way, false, yi, way->fused ? NULL : b, y);
}

enum ct_status ct_conv_way_data(const struct ct_conv *c,
                                const struct ct_conv_way *way,
                                const struct ct_conv_plan *plan, void *work,
                                const void *w, const void *dy, void *dx)
{
    const struct places p = places_in(way, dx, dy, work);
    void *xi              = way->stage_x || askew(dx) ? p.x : dx;
    const void *yi;

    if (way->road == CT_CONV_PATCH)
        return ct_cuda_patch_data(c, way->form, dy, w, dx);
    CT_TRY(bring_in(c, way, false, dy, p.y, &yi));
    CT_TRY(run(c, way, plan, xi, w, NULL, yi, p.rest));
    return take_out(c, way, true, xi, NULL, dx);
}

enum ct_status ct_conv_way_end(const struct ct_conv *c,
                               const struct ct_conv_way *way, const void *w,
                               const void *dy, const struct ct_conv_end *end,
                               float *sums)
{
    return ct_cuda_ends_data(c, way->form, dy, w, end, sums);
}

/* Images in float16, and the gradient of them. */
static enum ct_status slabs_gradient(const struct ct_conv *c,
                                     const struct ct_conv_way *way,
                                     const struct places *p, const void *x,
                                     const void *dy, float *dw,
                                     uint32_t *scales)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t channels       = d->in_channels + d->out_channels;
    uint32_t *largest = scales ? scales : (uint32_t *)(void *)p->largest;
    uint32_t *before  = way->once ? largest + channels : NULL;

    if (before)
        CT_TRY(ct_cuda_scale_begin(c->dev, channels, largest, before));
    CT_TRY(ct_cuda_scale_in(c->dev, d->batch * c->in_spatial, d->in_channels,
                            x, largest, before, p->x));
    CT_TRY(ct_cuda_scale_in(c->dev, d->batch * c->out_spatial,
                            d->out_channels, dy, largest + d->in_channels,
                            before ? before + d->in_channels : NULL, p->y));
    return ct_cuda_slabs_gradient(c, way->form, p->x, p->y, largest,
                                  (float *)(void *)p->rest, dw);
}

enum ct_status ct_conv_way_gradient(const struct ct_conv *c,
                                    const struct ct_conv_way *way,
                                    const struct ct_conv_plan *plan,
                                    void *work, const void *x, const void *dy,
                                    float *dw, const void *folded,
                                    uint32_t *scales)
{
    const struct places p = places_in(way, x, dy, work);
    const void *xi = folded, *yi;

    if (way->road == CT_CONV_DIRECT)
        return ct_cuda_direct_gradient(c, x, dy, work, dw);
    if (way->road == CT_CONV_PATCH)
        return ct_cuda_sums_gradient(c, way->form, x, dy, work, dw);
    if (way->road == CT_CONV_SLABS)
        return slabs_gradient(c, way, &p, x, dy, dw, scales);
    if (!folded)
        CT_TRY(bring_in(c, way, true, x, p.x, &xi));
    CT_TRY(bring_in(c, way, false, dy, p.y, &yi));
    CT_TRY(run(c, way, plan, xi, p.w, NULL, yi, p.rest));
    return ct_cuda_weights_add(c->dev, &way->cells, way->layout, way->dtype,
                               p.w, dw);
}
