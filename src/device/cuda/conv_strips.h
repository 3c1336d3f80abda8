/* conv_strips.h - how a direct convolution is cut into blocks; for
 * conv_direct.cu alone.
 *
 * A strip is some output rows of one image, and the lines of x that they see.
 * How many rows it has depends on the shape alone. */
#ifndef CT_DEVICE_CUDA_CONV_STRIPS_H
#define CT_DEVICE_CUDA_CONV_STRIPS_H

extern "C" {
#include "device/conv_impl.h"
#include "device/impl.h"
}
#include "device/cuda/divide.h"
#include "device/cuda/kernel.h"

enum {
    ACROSS      = 4, /* output columns of a thread */
    OCTET       = 8, /* output channels of a thread */
    AHEAD       = 4, /* loads that a thread has under way */
    ANY_TAPS    = 4, /* of a kernel row at once, where its width is any */
    FEW         = 4, /* input channels */
    BUSY        = 128, /* threads that a block of forward should have */
    ROUNDS      = 4, /* quads of positions that each group should have */
    MOST_SHARED = 48 << 10
};

/* Sizes, and steps of arrays in values. */
struct ct_strips {
    int  batch, channels, outputs, height, width, out_h, out_w;
    int  k_h, k_w, s_h, s_w, pad_h, pad_w, taps; /* taps: of all channels */
    int  x_image, x_channel, x_row, x_column;
    int  y_image, y_channel, y_row, y_column;
    int  rows;    /* output rows of a strip */
    int  each;    /* strips of an image */
    int  quads;   /* of output columns, the last one filled up */
    int  octets;  /* of output channels, in a block */
    int  lines;   /* of a channel of x, in a strip */
    int  pitch;   /* of a line in shared memory */
    int  o_pitch; /* of 8 x octets in shared memory */
    bool packed;  /* y may be moved in packs */
    enum ct_dtype     x_type, y_type;
    struct ct_divider by_quads, by_taps, by_lines, by_wide;
};

/* Kernels that have code of their own: columns, and the stride along them. */
static inline bool ct_strips_known(const struct ct_strips *s)
{
    return (s->s_w == 1 && (s->k_w == 3 || s->k_w == 5)) ||
           (s->s_w == 2 && s->k_w == 7) || (s->s_w == 4 && s->k_w == 11);
}

/* Taps of a kernel row that one thread of a gradient has. */
static inline int taps_at_once(const struct ct_strips *s)
{
    return ct_strips_known(s) ? s->k_w : ANY_TAPS;
}

/* What a line must have for the last quad; such that eight lines behind each
 * other do not meet in the banks of shared memory. */
static inline int pitch_of(const struct ct_strips *s)
{
    const int n    = taps_at_once(s);
    const int last = ct_strips_known(s)
                         ? (s->quads - 1) * ACROSS * s->s_w +
                               ((ACROSS - 1) * s->s_w + n + 3) / 4 * 4
                         : (s->quads * ACROSS - 1) * s->s_w +
                               (s->k_w + n - 1) / n * n;

    return (last + 3) / 8 * 8 + 4;
}

static inline void set_rows(struct ct_strips *s, int rows)
{
    s->rows  = rows;
    s->each  = (s->out_h + rows - 1) / rows;
    s->lines = (rows - 1) * s->s_h + s->k_h;
}

static inline void set_octets(struct ct_strips *s, int octets)
{
    s->octets  = octets;
    s->o_pitch = octets * OCTET + 4;
}

static inline int64_t patch_bytes(const struct ct_strips *s)
{
    return (int64_t)s->channels * s->lines * s->pitch * (int)sizeof(float);
}

/* Shared memory of a block. */
static inline int64_t ct_strips_forward(const struct ct_strips *s)
{
    return patch_bytes(s) +
           (int64_t)s->taps * s->o_pitch * (int)sizeof(float);
}

/* Strips, and room for the sums of all groups behind them. */
static inline int64_t ct_strips_gradient(const struct ct_strips *s)
{
    const int64_t sums = (int64_t)CT_BLOCK * taps_at_once(s) * 4;
    const int64_t y    = (int64_t)s->rows * s->quads * ACROSS * s->o_pitch;
    const int64_t all  = patch_bytes(s) + y * (int)sizeof(float);

    return all > sums * (int)sizeof(float) ? all : sums * (int)sizeof(float);
}

/* Threads of a gradient's block that have all taps of 8 channels. */
static inline int lines_of(const struct ct_strips *s)
{
    const int n = taps_at_once(s);

    return s->channels * s->k_h * ((s->k_w + n - 1) / n);
}

/* As many channels as fit, then rows until a block has enough to do. */
static inline bool cut_forward(struct ct_strips *s)
{
    int octets = (s->outputs + OCTET - 1) / OCTET;

    set_rows(s, 1);
    set_octets(s, octets);
    while (octets > 1 && (s->quads * octets > CT_BLOCK ||
                          ct_strips_forward(s) > MOST_SHARED)) {
        octets = (octets + 1) / 2;
        set_octets(s, octets);
    }
    if (s->quads * octets > CT_BLOCK || ct_strips_forward(s) > MOST_SHARED)
        return false;
    while (s->rows < s->out_h && s->rows * s->quads * octets < BUSY) {
        set_rows(s, s->rows + 1);
        if (s->rows * s->quads * octets > CT_BLOCK ||
            ct_strips_forward(s) > MOST_SHARED) {
            set_rows(s, s->rows - 1);
            break;
        }
    }
    return true;
}

static inline bool cut_gradient(struct ct_strips *s)
{
    const int lines = lines_of(s);
    int octets      = (s->outputs + OCTET - 1) / OCTET, groups;

    if (lines > CT_BLOCK)
        return false;
    octets = octets * lines > CT_BLOCK ? CT_BLOCK / lines : octets;
    set_rows(s, 1);
    set_octets(s, octets);
    while (octets > 1 && ct_strips_gradient(s) > MOST_SHARED)
        set_octets(s, --octets);
    if (ct_strips_gradient(s) > MOST_SHARED)
        return false;
    groups = CT_BLOCK / (octets * lines);
    while (s->rows < s->out_h && s->rows * s->quads < ROUNDS * groups) {
        set_rows(s, s->rows + 1);
        if (ct_strips_gradient(s) > MOST_SHARED) {
            set_rows(s, s->rows - 1);
            break;
        }
    }
    return true;
}

static inline void set_sizes(const struct ct_conv *c, struct ct_strips *s)
{
    const struct ct_conv_desc *d = &c->desc;
    const bool x_last = d->src_layout == CT_NHWC;
    const bool y_last = d->dst_layout == CT_NHWC;

    s->batch     = (int)d->batch;
    s->channels  = (int)d->in_channels;
    s->outputs   = (int)d->out_channels;
    s->height    = (int)d->in[0];
    s->width     = (int)d->in[1];
    s->out_h     = (int)c->out[0];
    s->out_w     = (int)c->out[1];
    s->k_h       = (int)d->kernel[0];
    s->k_w       = (int)d->kernel[1];
    s->s_h       = (int)d->stride[0];
    s->s_w       = (int)d->stride[1];
    s->pad_h     = (int)d->pad[0];
    s->pad_w     = (int)d->pad[1];
    s->taps      = (int)(c->taps * d->in_channels);
    s->x_image   = s->channels * s->height * s->width;
    s->x_channel = x_last ? 1 : s->height * s->width;
    s->x_column  = x_last ? s->channels : 1;
    s->x_row     = s->width * s->x_column;
    s->y_image   = s->outputs * s->out_h * s->out_w;
    s->y_channel = y_last ? 1 : s->out_h * s->out_w;
    s->y_column  = y_last ? s->outputs : 1;
    s->y_row     = s->out_w * s->y_column;
    s->x_type    = d->src_type;
    s->y_type    = d->dst_type;
    s->quads     = (s->out_w + ACROSS - 1) / ACROSS;
    s->pitch     = pitch_of(s);
}

/* A stride or padding beyond this would leave 32 bits; nobody has one. */
static inline bool is_small(const struct ct_conv *c)
{
    const struct ct_conv_desc *d = &c->desc;

    for (int i = 0; i < 2; i++)
        if (d->dilation[i] != 1 || d->kernel[i] > 32 || d->stride[i] > 32 ||
            d->pad[i] > 32 || d->in[i] > 8192)
            return false;
    return true;
}

/* False: not this convolution, or not this pass of it. */
static inline bool ct_strips_cut(const struct ct_conv *c, enum ct_pass pass,
                                 struct ct_strips *s)
{
    const struct ct_conv_desc *d = &c->desc;

    *s = {};
    if (pass == CT_BACKWARD || d->n_spatial != 2 || d->group != 1 ||
        d->in_channels > FEW || !is_small(c))
        return false;
    set_sizes(c, s);
    if (!(pass == CT_FORWARD ? cut_forward(s) : cut_gradient(s)))
        return false;
    s->by_quads = ct_divider_of(s->quads, INT32_MAX);
    s->by_taps  = ct_divider_of(s->taps, INT32_MAX);
    s->by_lines = ct_divider_of(s->lines, INT32_MAX);
    s->by_wide  = ct_divider_of((s->pitch + 31) / 32, INT32_MAX);
    return true;
}

#endif
