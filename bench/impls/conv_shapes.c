/* conv_shapes.c - convolutions of bfloat16 by each implementation, and in
 * float32, pass by pass: those of VGG-16, ResNet-50 and GoogLeNet.  Before
 * them, where there is AMX, what its blocks of products reach by themselves.
 *
 * A line a shape and pass: milliseconds and GFLOP/s of each, and the time of
 * the first that takes it over those of oneDNN and of float32. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/conv.h"
#include "device/cpu/amx.h"
#include "device/cpu/bf16.h"
#include "device/layout.h"
#include "impls.h"

enum { ROUNDS = 3, RACERS = 4 };

struct racer {
    const char *name, *force;
    bool        floats;
};

static const struct racer racers[RACERS] = {
    { "amx", "conv:amx", false },
    { "onednn", "conv:onednn", false },
    { "float32", "conv:float32+cached+winograd+tiles+onednn+gemm", false },
    { "fp32", "conv:cached+winograd+tiles+onednn+gemm+ref", true },
};

struct conv_run {
    struct ct_conv *c;
    int             pass;
    float          *x, *y, *w, *dw, *b;
};

static enum ct_status run_pass(void *arg)
{
    struct conv_run *r = arg;

    if (r->pass == 0)
        return ct_conv_forward(r->c, r->x, r->w, r->b, r->y);
    if (r->pass == 1)
        return ct_conv_backward_data(r->c, r->w, r->y, r->x);
    return ct_conv_write_weights(r->c, r->x, r->y, r->dw, r->b);
}

/* The same numbers as bfloat16. */
static float *narrow(int64_t n, const float *v)
{
    float *to = values(n / 2 + 1);

    ct_narrow_row(n, v, ct_bf16_out(to));
    return to;
}

/* As a solver has it that runs alone: weights in tiles where that helps. */
static struct ct_conv *create(struct ct_conv_desc d, const struct racer *as)
{
    struct ct_conv *c = NULL;
    const bool few    = d.in_channels < 16;
    enum ct_status st;

    if (as->floats) {
        d.src_type = d.dst_type = CT_F32;
        d.dst_layout = ct_layout_blocked();
        d.src_layout = few ? CT_PLAIN : ct_layout_blocked();
    }
    setenv("CORTADO_IMPL", as->force, 1);
    st = ct_conv_create(ct_device_cpu(), &d, NULL, &c);
    unsetenv("CORTADO_IMPL");
    if (st == CT_ENOTSUP)
        return NULL;
    must(st);
    if (d.in_channels % 16 == 0 && d.out_channels % 16 == 0 &&
        ct_conv_takes_tiles(c))
        must(ct_conv_set_tiles(c, true));
    return c;
}

static void print_line(const struct ct_conv_desc *d, int pass,
                       const double t[RACERS])
{
    static const char *const ways[] = { "forward", "data", "weights" };
    int first = 0;

    while (first < RACERS && t[first] <= 0)
        first++;
    printf("conv %dx%d to %d of %dx%d k%d s%d %-8s", (int)d->batch,
           (int)d->in_channels, (int)d->out_channels, (int)d->in[0],
           (int)d->in[1], (int)d->kernel[0], (int)d->stride[0], ways[pass]);
    for (int i = 0; i < RACERS; i++)
        if (t[i] > 0)
            printf(" %s %.3f ms (%.0f)", racers[i].name, 1e3 * t[i],
                   2e-9 * ct_conv_macs(d) / t[i]);
    if (first < RACERS)
        printf("  %.2f %.2f", t[1] > 0 ? t[first] / t[1] : 0,
               t[3] > 0 ? t[first] / t[3] : 0);
    printf("\n");
    fflush(stdout);
}

/* Arrays of both types; an image comes as floats to both. */
struct arrays {
    float *x[2], *y[2], *w, *dw, *b;
};

static struct arrays arrays_of(const struct ct_conv_desc *d)
{
    const int64_t n_x = elements(d->batch, d->in_channels,
                                 d->in[0] * d->in[1], CT_BLOCKED16);
    const int64_t n_y =
        elements(d->batch, d->out_channels,
                 ct_conv_out(d, 0) * ct_conv_out(d, 1), CT_BLOCKED16);
    const int64_t n_w = d->out_channels * d->in_channels * d->kernel[0] *
                        d->kernel[1];
    struct arrays a   = { .w = values(n_w), .dw = values(n_w),
                          .b = values(d->out_channels) };

    a.x[1] = values(n_x);
    a.y[1] = values(n_y);
    a.x[0] = d->src_type == CT_F32 ? values(n_x) : narrow(n_x, a.x[1]);
    a.y[0] = narrow(n_y, a.y[1]);
    return a;
}

static void arrays_free(struct arrays *a)
{
    for (int i = 0; i < 2; i++) {
        ct_free(a->x[i]);
        ct_free(a->y[i]);
    }
    ct_free(a->w);
    ct_free(a->dw);
    ct_free(a->b);
}

static void conv_case(const struct ct_conv_desc *d)
{
    struct arrays a   = arrays_of(d);
    struct conv_run r = { .w = a.w, .dw = a.dw, .b = a.b };
    struct ct_conv *c[RACERS];

    for (int i = 0; i < RACERS; i++)
        c[i] = create(*d, &racers[i]);
    for (r.pass = 0; r.pass < 3; r.pass++) {
        double best[RACERS] = { 0 };

        if (r.pass == 1 && d->in_channels < 16)
            continue; /* an image's, which nobody wants */
        for (int k = 0; k < ROUNDS * RACERS; k++) {
            const int i = k % RACERS;
            double t;

            r.c = c[i];
            r.x = a.x[racers[i].floats];
            r.y = a.y[racers[i].floats];
            if (!r.c)
                continue;
            t       = (must(run_pass(&r)), turn(run_pass, &r));
            best[i] = best[i] <= 0 || t < best[i] ? t : best[i];
        }
        print_line(d, r.pass, best);
    }
    for (int i = 0; i < RACERS; i++)
        ct_conv_destroy(c[i]);
    arrays_free(&a);
}

/* Blocks of `steps` whose left factor is one of `lefts` and whose right one of
 * `rights`, turn by turn. */
struct blocks {
    int64_t         steps, lefts, rights;
    const uint16_t *a, *b;
    const int64_t  *at;
    float          *c;
};

static enum ct_status run_blocks(void *arg)
{
    const struct blocks *k = arg;
    const int64_t each     = k->steps * CT_AMX_STEP;

    ct_amx_begin();
    for (int64_t i = 0; i < k->lefts; i++)
        for (int64_t j = 0; j < k->rights; j++) {
            struct ct_amx_sum s = { .n = k->steps, .a = k->a + i * each,
                                    .a_step = k->steps * CT_AMX_SIDE,
                                    .at = k->at, .b = k->b + j * each,
                                    .c_step = 16 };

            for (int q = 0; q < 4; q++)
                s.c[q] = k->c + q * CT_AMX_SUMS;
            ct_amx_block(&s, false);
        }
    ct_amx_end();
    return CT_OK;
}

/* The peak, and how much of it is left when factors come from farther away;
 * on one thread. */
static void bench_blocks(void)
{
    /* steps, lefts, rights: bytes are 2048 times steps times their number */
    static const int64_t cases[][3] = {
        { 8, 1, 1 },  { 16, 1, 32 }, { 16, 8, 8 },   { 72, 1, 8 },
        { 72, 8, 1 }, { 64, 8, 8 },  { 8, 64, 1 },   { 8, 1, 64 },
        { 8, 32, 32 }
    };
    enum { MOST_STEPS = 72, MOST = 8 * MOST_STEPS * CT_AMX_STEP };
    float *v = values(MOST), *a = narrow(MOST, v), *b = narrow(MOST, v);
    float *c = values((int64_t)4 * CT_AMX_SUMS);
    int64_t at[MOST_STEPS];

    for (int64_t i = 0; i < MOST_STEPS; i++)
        at[i] = i * CT_AMX_SIDE;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t *k = cases[i];
        struct blocks r  = { k[0], k[1], k[2], ct_bf16(a), ct_bf16(b), at, c };
        const double macs = 32768.0 * (double)(k[0] * k[1] * k[2]);

        must(run_blocks(&r));
        printf("amx blocks of %d steps, %d KB times %d KB: %.0f GFLOP/s\n",
               (int)k[0], (int)(k[0] * k[1] * 2), (int)(k[0] * k[2] * 2),
               2e-9 * macs / turn(run_blocks, &r));
    }
    ct_free(v);
    ct_free(a);
    ct_free(b);
    ct_free(c);
}

void bench_conv(void)
{
    /* in, out, size, kernel, stride */
    static const int64_t shapes[][5] = {
        /* VGG-16 */
        { 3, 64, 224, 3, 1 },    { 64, 64, 224, 3, 1 },
        { 64, 128, 112, 3, 1 },  { 128, 128, 112, 3, 1 },
        { 128, 256, 56, 3, 1 },  { 256, 256, 56, 3, 1 },
        { 256, 512, 28, 3, 1 },  { 512, 512, 28, 3, 1 },
        { 512, 512, 14, 3, 1 },
        /* ResNet-50 */
        { 3, 64, 224, 7, 2 },    { 64, 64, 56, 1, 1 },
        { 64, 64, 56, 3, 1 },    { 64, 256, 56, 1, 1 },
        { 256, 64, 56, 1, 1 },   { 256, 128, 56, 1, 2 },
        { 256, 512, 56, 1, 2 },  { 128, 128, 28, 3, 1 },
        { 128, 512, 28, 1, 1 },  { 512, 128, 28, 1, 1 },
        { 512, 1024, 28, 1, 2 }, { 256, 256, 14, 3, 1 },
        { 256, 1024, 14, 1, 1 }, { 1024, 256, 14, 1, 1 },
        { 1024, 2048, 14, 1, 2 }, { 512, 512, 7, 3, 1 },
        { 512, 2048, 7, 1, 1 },  { 2048, 512, 7, 1, 1 },
        { 128, 128, 56, 3, 2 },
        /* GoogLeNet */
        { 64, 192, 56, 3, 1 },   { 192, 64, 28, 1, 1 },
        { 192, 96, 28, 1, 1 },   { 96, 128, 28, 3, 1 },
        { 192, 16, 28, 1, 1 },   { 16, 32, 28, 5, 1 },
        { 480, 192, 14, 1, 1 },  { 96, 208, 14, 3, 1 },
        { 16, 48, 14, 5, 1 },    { 512, 144, 14, 1, 1 },
        { 528, 256, 14, 1, 1 },  { 160, 320, 14, 3, 1 },
        { 832, 384, 7, 1, 1 },   { 192, 384, 7, 3, 1 },
        { 48, 128, 7, 5, 1 },
    };

    if (ct_amx_runs())
        bench_blocks();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const int64_t *s      = shapes[i];
        struct ct_conv_desc d = {
            .n_spatial = 2, .batch = bench_batch, .in_channels = s[0],
            .out_channels = s[1], .group = 1, .in = { s[2], s[2] },
            .kernel = { s[3], s[3] }, .stride = { s[4], s[4] },
            .pad = { s[3] / 2, s[3] / 2 }, .dilation = { 1, 1 },
            .has_bias = true, .src_layout = CT_NHWC, .dst_layout = CT_NHWC,
            .src_type = CT_BF16, .dst_type = CT_BF16
        };

        if (d.in_channels < 16) {
            d.src_layout = CT_PLAIN;
            d.src_type   = CT_F32;
        }
        conv_case(&d);
    }
}
