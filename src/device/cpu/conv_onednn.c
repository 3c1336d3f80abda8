/* conv_onednn.c - convolution by oneDNN's direct kernels, 1-D to 3-D.
 *
 * Each pass is a primitive to which arrays come through reorders where they do
 * not lie as it wants (onednn_pass.h).  The passes run one after the other, so
 * they share buffers and scratchpad, which lie in the workspace.
 *
 * A sum and a ReLU that end the forward pass are the primitive's work where it
 * can do them, else the reorder's and a pass of ours.  oneDNN's ReLU turns NaN
 * into 0, so weights that are not finite are looked for; where they are more
 * than the outputs, a ReLU of our own costs less.  Packed weights lie in memory
 * of their own, as the primitive likes them.
 *
 * Arrays that the description calls blocked or NHWC are given to oneDNN as
 * they are; where it has no fast kernel for them it may choose here too.  What
 * it could only do with its own slow reference is left to the next in line.
 *
 * Blocks of 16 channels are filled up with zeros that are multiplied like the
 * rest.  Where that is much, as with LeNet's 20 and 50 channels, oneDNN works
 * on NHWC arrays instead: its kernels for them stop at the last channel, and
 * the reorders cost less than the zeros.
 *
 * Where an array is bfloat16, so are the factors of all products; gradients of
 * weights come out as floats, and weights are rounded on their way in.
 *
 * "winograd" is the same with F(4x4, 3x3): tiles of 6 x 6 inputs are brought to
 * another basis, where 36 products make the 16 outputs that take 144 directly.
 * Results differ from the direct ones by about 1e-6 of the largest value.
 * oneDNN has it for AVX-512, up to version 2.  Arrays of bfloat16 are converted
 * for it, because the basis needs the digits of floats. */
#ifdef CT_HAVE_ONEDNN
#include <string.h>

#include "base/mem.h"
#include "device/conv_impl.h"
#include "device/cpu/onednn_pass.h"
#include "device/cpu/tiles16.h"
#include "device/kernels.h"
#include "device/layout.h"

enum { MUCH_WORK = 1 << 20 }; /* see pays_in_floats() */

/* What oneDNN is offered as the layout of activations. */
enum offer { AS_THEY_ARE, FREE_CHOICE, CHANNELS_LAST };

struct onednn_state {
    struct ct_pass      forward, backward_data, backward_weights;
    struct ct_arrays    user, offer; /* the caller's, and what it is offered */
    struct ct_md        gradient; /* of weights, as it is offered: floats */
    struct ct_pass_room room;   /* buffers are parts of the workspace */
    const float        *placed; /* where that lay when they were set */
    bool                clamps; /* a ReLU is left to us */
    bool                hides;  /* it is not, and NaN would not be seen */
    bool                spoilt; /* and packed weights are no numbers */
    float              *packed; /* weights as forward takes them; owned */
};

static void onednn_clear(struct onednn_state *s)
{
    ct_pass_fini(&s->forward);
    ct_pass_fini(&s->backward_data);
    ct_pass_fini(&s->backward_weights);
    ct_arrays_fini(&s->user);
    ct_arrays_fini(&s->offer);
    ct_md_fini(&s->gradient);
    ct_free(s->packed);
    memset(s, 0, sizeof(*s));
}

static void onednn_destroy(struct ct_conv *c)
{
    if (c->state)
        onednn_clear(c->state);
    ct_free(c->state);
}

/* n, channels, spatial sizes. */
static int activation_dims(const struct ct_conv *c, bool src, int64_t *dims)
{
    const struct ct_conv_desc *d = &c->desc;

    dims[0] = d->batch;
    dims[1] = src ? d->in_channels : d->out_channels;
    for (int i = 0; i < d->n_spatial; i++)
        dims[2 + i] = src ? d->in[i] : c->out[i];
    return 2 + d->n_spatial;
}

/* oneDNN's weights have an axis more when there are groups. */
static int weight_dims(const struct ct_conv *c, int64_t *dims)
{
    const struct ct_conv_desc *d = &c->desc;
    int n = 0;

    if (d->group > 1)
        dims[n++] = d->group;
    dims[n++] = c->out_group;
    dims[n++] = c->in_group;
    for (int i = 0; i < d->n_spatial; i++)
        dims[n++] = d->kernel[i];
    return n;
}

static enum ct_status describe_offer(struct ct_md *m, int n,
                                     const int64_t *dims,
                                     enum ct_layout layout, enum offer offer,
                                     enum ct_dtype dtype)
{
    if (offer == CHANNELS_LAST)
        return ct_md_typed(m, n, dims, CT_NHWC, dtype);
    if (offer == FREE_CHOICE || layout == CT_PLAIN)
        return ct_md_any(m, n, dims, dtype);
    return ct_md_typed(m, n, dims, layout, dtype);
}

/* Winograd's basis needs the digits of a float32. */
static enum ct_dtype type_of(const struct ct_conv *c,
                             dnnl_alg_kind_t algorithm)
{
    return ct_conv_is_short(&c->desc) && algorithm == dnnl_convolution_direct
               ? CT_BF16
               : CT_F32;
}

static enum ct_status describe(struct ct_conv *c, enum offer offer,
                               enum ct_dtype type)
{
    struct onednn_state *s       = c->state;
    const struct ct_conv_desc *d = &c->desc;
    int64_t dims[6];
    int n = activation_dims(c, true, dims);

    CT_TRY(ct_md_typed(&s->user.src, n, dims, d->src_layout, d->src_type));
    CT_TRY(describe_offer(&s->offer.src, n, dims, d->src_layout, offer, type));
    n = activation_dims(c, false, dims);
    CT_TRY(ct_md_typed(&s->user.dst, n, dims, d->dst_layout, d->dst_type));
    CT_TRY(describe_offer(&s->offer.dst, n, dims, d->dst_layout, offer, type));
    n = weight_dims(c, dims);
    CT_TRY(ct_md_layout(&s->user.weights, n, dims, CT_PLAIN));
    CT_TRY(ct_md_any(&s->offer.weights, n, dims, type));
    CT_TRY(ct_md_any(&s->gradient, n, dims, CT_F32));
    if (n == 4 && d->n_spatial == 2 && dims[0] % CT_TILE_SIDE == 0 &&
        dims[1] % CT_TILE_SIDE == 0)
        CT_TRY(ct_md_tiles(&s->user.tiles, dims));
    if (d->has_bias) {
        CT_TRY(ct_md_layout(&s->user.bias, 1, &d->out_channels, CT_PLAIN));
        CT_TRY(ct_md_layout(&s->offer.bias, 1, &d->out_channels, CT_PLAIN));
        s->room.bytes[BIAS] = ct_md_bytes(&s->user.bias);
    }
    return CT_OK;
}

static enum ct_status edge_init(struct onednn_state *s, struct ct_pass *p,
                                int i, int arg, dnnl_query_t what,
                                enum ct_buffer_of buffer,
                                enum ct_direction direction)
{
    return ct_pass_edge(&s->room, &s->user, p, i, arg, what, buffer,
                        direction);
}

/* The primitive, with what ends it as far as it can. */
static enum ct_status forward_prim(struct onednn_state *s,
                                   const struct ct_pd_window *w)
{
    dnnl_primitive_desc_t pd;
    struct ct_md dst = { 0 };
    bool straight;

    CT_TRY(ct_pd_conv_forward(&pd, &s->offer.src, &s->offer.weights,
                              &s->offer.bias, &s->offer.dst, w));
    CT_TRY(ct_pass_init(&s->room, &s->forward, pd));
    if (!w->add)
        return CT_OK;
    /* What it adds to must lie where it writes. */
    CT_TRY(ct_md_query(&dst, s->forward.prim.pd, dnnl_query_dst_md, 0));
    straight = ct_md_equal(&dst, &s->user.dst);
    ct_md_fini(&dst);
    return straight ? CT_OK : CT_ENOTSUP;
}

static enum ct_status forward_init(struct onednn_state *s,
                                   const struct ct_pd_window *w)
{
    struct ct_pd_window ends = *w;
    struct ct_pass *p           = &s->forward;
    enum ct_status st        = forward_prim(s, &ends);

    if (st == CT_ENOTSUP && (w->add || w->relu)) {
        ct_pass_fini(p);
        ends.add = ends.relu = false;
        st       = forward_prim(s, &ends);
    }
    CT_TRY(st);
    s->hides = ends.relu;
    if (s->room.bytes[BIAS])
        CT_TRY(ct_prim_arg_md(&p->prim, DNNL_ARG_BIAS, &s->user.bias));
    CT_TRY(edge_init(s, p, 0, DNNL_ARG_SRC, dnnl_query_src_md, SRC, IN));
    CT_TRY(edge_init(s, p, 1, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, WEIGHTS,
                     IN));
    return edge_init(s, p, 2, DNNL_ARG_DST, dnnl_query_dst_md, DST,
                     w->add && !ends.add ? ADD : OUT);
}

/* Weights that are there for long do not need the workspace. */
static enum ct_status pack_init(struct onednn_state *s)
{
    struct ct_edge *e = &s->forward.edge[1];

    if (e->straight)
        return CT_OK;
    CT_TRY(ct_alloc(1, s->room.bytes[WEIGHTS], "packed weights", &s->packed));
    s->room.bytes[WEIGHTS] = 0;
    CT_TRY(ct_prim_set(&s->forward.prim, e->arg, s->packed));
    return ct_prim_set(&e->reorder, DNNL_ARG_TO, s->packed);
}

static enum ct_status backward_data_init(struct onednn_state *s,
                                         const struct ct_pd_window *w)
{
    struct ct_pass *p = &s->backward_data;
    dnnl_primitive_desc_t pd;

    CT_TRY(ct_pd_conv_backward_data(&pd, &s->offer.src, &s->offer.weights,
                                    &s->offer.dst, w, s->forward.prim.pd));
    CT_TRY(ct_pass_init(&s->room, p, pd));
    CT_TRY(edge_init(s, p, 0, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, WEIGHTS,
                     IN));
    CT_TRY(edge_init(s, p, 1, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, DST,
                     IN));
    return edge_init(s, p, 2, DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, SRC,
                     OUT);
}

static enum ct_status backward_weights_init(struct onednn_state *s,
                                            const struct ct_pd_window *w)
{
    struct ct_pass *p = &s->backward_weights;
    dnnl_primitive_desc_t pd;

    CT_TRY(ct_pd_conv_backward_weights(&pd, &s->offer.src, &s->gradient,
                                       &s->offer.bias, &s->offer.dst, w,
                                       s->forward.prim.pd));
    CT_TRY(ct_pass_init(&s->room, p, pd));
    if (s->room.bytes[BIAS])
        CT_TRY(ct_prim_arg_md(&p->prim, DNNL_ARG_DIFF_BIAS, &s->user.bias));
    CT_TRY(edge_init(s, p, 0, DNNL_ARG_SRC, dnnl_query_src_md, SRC, IN));
    CT_TRY(edge_init(s, p, 1, DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, DST,
                     IN));
    return edge_init(s, p, 2, DNNL_ARG_DIFF_WEIGHTS,
                     dnnl_query_diff_weights_md, WEIGHTS, ADD);
}

/* Sets what lies in the workspace, again where that has moved. */
static enum ct_status place(struct ct_conv *c)
{
    struct onednn_state *s = c->state;
    float *at              = c->work->ptr;

    if (s->placed == at)
        return CT_OK;
    s->placed = at;
    for (int i = 0; i < N_BUFFERS; i++) {
        s->room.buffer[i] = at;
        at += s->room.bytes[i] / sizeof(*at);
    }
    CT_TRY(ct_pass_place(&s->room, &s->forward, s->packed));
    CT_TRY(ct_pass_place(&s->room, &s->backward_data, false));
    CT_TRY(ct_pass_place(&s->room, &s->backward_weights, false));
    return ct_prim_set(&s->backward_weights.prim, DNNL_ARG_DIFF_BIAS,
                       s->room.buffer[BIAS]);
}

static enum ct_status reserve(struct ct_conv *c)
{
    struct onednn_state *s = c->state;
    size_t total           = 0;

    for (int i = 0; i < N_BUFFERS; i++) {
        size_t *bytes = &s->room.bytes[i];

        *bytes = (*bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN;
        total += *bytes;
    }
    return ct_workspace_need(c->work, total);
}

static bool relu_pays(const struct ct_conv *c)
{
    return c->desc.packed || c->in_group * c->taps * 2 <=
                                 c->desc.batch * c->out_spatial;
}

static enum ct_status build(struct ct_conv *c, enum offer offer,
                            dnnl_alg_kind_t algorithm)
{
    struct onednn_state *s = c->state;
    struct ct_pd_window w  = { .algorithm    = algorithm,
                               .add          = c->desc.sum,
                               .relu         = c->desc.relu && relu_pays(c),
                               .forward_only = c->desc.packed };

    for (int i = 0; i < c->desc.n_spatial; i++) {
        w.stride[i]    = c->desc.stride[i];
        w.dilation[i]  = c->desc.dilation[i];
        w.pad_left[i]  = c->desc.pad[i];
        w.pad_right[i] = c->desc.pad[i];
    }
    CT_TRY(describe(c, offer, type_of(c, algorithm)));
    CT_TRY(forward_init(s, &w));
    s->clamps = c->desc.relu && !s->hides;
    if (c->desc.packed) {
        CT_TRY(pack_init(s));
        return reserve(c);
    }
    CT_TRY(backward_data_init(s, &w));
    CT_TRY(backward_weights_init(s, &w));
    return reserve(c);
}

/* How many times the products of two blocked arrays are those that count. */
static double padding(int64_t channels)
{
    int64_t block = ct_layout_block(ct_layout_blocked(), channels);

    return (double)((channels + block - 1) / block * block) /
           (double)channels;
}

static bool mostly_padding(const struct ct_conv *c)
{
    return !ct_conv_is_short(&c->desc) &&
           c->desc.group == 1 && c->desc.n_spatial == 2 &&
           c->desc.in_channels >= 8 &&
           padding(c->desc.in_channels) * padding(c->desc.out_channels) > 1.5;
}

static enum ct_status try_build(struct ct_conv *c, enum offer offer,
                                dnnl_alg_kind_t algorithm)
{
    enum ct_status st = build(c, offer, algorithm);

    if (st != CT_OK)
        onednn_clear(c->state);
    return st;
}

/* The state, empty, where oneDNN can have kernels at all. */
static enum ct_status onednn_start(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    if (d->n_spatial < 1 || d->n_spatial > 3 || d->batch == 0 ||
        c->in_spatial == 0)
        return CT_ENOTSUP;
    /* Beyond, its counts overflow, and it may divide by such a one, or count
     * up to it. */
    if (d->batch > INT32_MAX || c->in_spatial > INT32_MAX ||
        c->out_spatial > INT32_MAX || c->taps > INT32_MAX)
        return CT_ENOTSUP;
    for (int i = 0; i < d->n_spatial; i++)
        if (d->dilation[i] < 1)
            return CT_ENOTSUP;
    CT_TRY(ct_dnnl_start());
    return ct_alloc(1, sizeof(struct onednn_state), "convolution by oneDNN",
                    &c->state);
}

static enum ct_status direct_create(struct ct_conv *c)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    const struct ct_conv_desc *d = &c->desc;
    enum ct_status st;

    CT_TRY(onednn_start(c));
    st = mostly_padding(c) ? try_build(c, CHANNELS_LAST, direct) : CT_ENOTSUP;
    if (st == CT_ENOTSUP)
        st = try_build(c, AS_THEY_ARE, direct);
    if (st == CT_ENOTSUP &&
        (d->src_layout != CT_PLAIN || d->dst_layout != CT_PLAIN))
        st = try_build(c, FREE_CHOICE, direct);
    /* A size that oneDNN finds invalid is for the next in line, too. */
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

/* Of bfloat16 arrays: whether fewer products in float32, with both arrays
 * converted, take less time than all of them in bfloat16.  Products grow with
 * in x out channels, what is converted with in + out, and Winograd's method
 * wants many places; measured on Zen 4.  AMX is faster than any of this. */
static bool pays_in_floats(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    return !ct_cpu_has_amx() &&
           d->batch * c->out_spatial * d->in_channels * d->out_channels >=
               MUCH_WORK * (d->in_channels + d->out_channels);
}

static enum ct_status winograd_create(struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;
    enum ct_status st;

    if (d->n_spatial != 2 || d->group != 1 || mostly_padding(c) ||
        d->in_channels < 16 || d->out_channels < 16)
        return CT_ENOTSUP;
    for (int i = 0; i < 2; i++)
        if (d->kernel[i] != 3 || d->stride[i] != 1 || d->dilation[i] != 1 ||
            ct_conv_has_idle_taps(d, i))
            return CT_ENOTSUP;
    if (ct_conv_is_short(d) && !pays_in_floats(c))
        return CT_ENOTSUP;
    CT_TRY(onednn_start(c));
    st = try_build(c, ct_conv_is_short(d) ? FREE_CHOICE : AS_THEY_ARE,
                   dnnl_convolution_winograd);
    return st == CT_EDEVICE ? CT_ENOTSUP : st;
}

static bool weights_finite(const struct ct_conv *c, const float *w)
{
    return ct_conv_finite(c->desc.out_channels * c->in_group * c->taps, w);
}

static enum ct_status onednn_forward(struct ct_conv *c, const float *x,
                                     const float *w, const float *b, float *y)
{
    struct onednn_state *s        = c->state;
    const struct ct_pass_args run = { x, s->packed ? NULL : w, y, c->tiles,
                                      false };

    CT_TRY(place(c));
    if (b)
        CT_TRY(ct_prim_set(&s->forward.prim, DNNL_ARG_BIAS, b));
    CT_TRY(ct_pass_run(c, &s->room, &s->forward, &run));
    if (s->clamps)
        ct_conv_relu(c, y);
    if (s->hides && ((s->packed ? s->spoilt : !weights_finite(c, w)) ||
                     (b && !ct_conv_finite(c->desc.out_channels, b))))
        ct_conv_spoil(c, y);
    return CT_OK;
}

static enum ct_status onednn_pack(struct ct_conv *c, const float *w,
                                  bool *kept)
{
    struct onednn_state *s = c->state;
    struct ct_prim *into   = &s->forward.edge[1].reorder;

    *kept = s->packed != NULL;
    if (!s->packed)
        return CT_OK;
    s->spoilt = s->hides && !weights_finite(c, w);
    CT_TRY(place(c));
    CT_TRY(ct_prim_set(into, DNNL_ARG_FROM, w));
    return ct_prim_run(into);
}

static enum ct_status onednn_backward_data(struct ct_conv *c, const float *w,
                                           const float *dy, float *dx)
{
    struct onednn_state *s        = c->state;
    const struct ct_pass_args run = { w, dy, dx, c->tiles, false };

    CT_TRY(place(c));
    return ct_pass_run(c, &s->room, &s->backward_data, &run);
}

static enum ct_status onednn_backward_weights(struct ct_conv *c,
                                              const float *x, const float *dy,
                                              float *dw, float *db)
{
    struct onednn_state *s        = c->state;
    const struct ct_pass_args run = { x, dy, dw, c->tiles, c->write };

    CT_TRY(place(c));
    CT_TRY(ct_pass_run(c, &s->room, &s->backward_weights, &run));
    return db ? ct_axpby(c->dev, c->desc.out_channels, 1, s->room.buffer[BIAS],
                         c->write ? 0 : 1, db)
              : CT_OK;
}

static bool onednn_takes_tiles(const struct ct_conv *c)
{
    const struct onednn_state *s = c->state;

    return s->backward_weights.edge[N_EDGES - 1].tiles;
}

const struct ct_conv_impl ct_conv_onednn = {
    .name             = "onednn",
    .shorts           = true,
    .create           = direct_create,
    .destroy          = onednn_destroy,
    .pack             = onednn_pack,
    .takes_tiles      = onednn_takes_tiles,
    .forward          = onednn_forward,
    .backward_data    = onednn_backward_data,
    .writes           = true,
    .backward_weights = onednn_backward_weights,
};

const struct ct_conv_impl ct_conv_winograd = {
    .name             = "winograd",
    .shorts           = true,
    .create           = winograd_create,
    .destroy          = onednn_destroy,
    .pack             = onednn_pack,
    .takes_tiles      = onednn_takes_tiles,
    .forward          = onednn_forward,
    .backward_data    = onednn_backward_data,
    .writes           = true,
    .backward_weights = onednn_backward_weights,
};

#endif
