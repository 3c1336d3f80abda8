/* convolutions.c - the ways through small convolutions, each by itself.
 *
 * One line a shape and precision: microseconds of forward, data and weights by
 * each road that is forced, weights on their way inside and all else included.
 * Where a road does not lead, its time is that of `whole`. */
#include "cudnn_bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/conv.h"
#include "device/impl.h"
#include "device/recording.h"

static const struct {
    const char *net;
    int         batch, channels, outputs, size, pad;
} shapes[] = {
    { "cifar conv1", 100, 3, 32, 32, 2 },
    { "cifar conv2", 100, 32, 32, 16, 2 },
    { "cifar conv3", 100, 32, 64, 8, 2 },
    { "lenet conv1", 64, 1, 20, 28, 0 },
    { "lenet conv2", 64, 20, 50, 12, 0 },
};

/* A convolution and its arrays. */
struct trial {
    struct ct_conv *c;
    enum ct_pass    pass;
    void           *x, *y, *w, *b, *dw;
};

static enum ct_status run(void *arg, bool backward)
{
    struct trial *t = arg;

    (void)backward;
    if (t->pass == CT_FORWARD)
        return ct_conv_forward(t->c, t->x, t->w, t->b, t->y);
    if (t->pass == CT_BACKWARD)
        return ct_conv_backward_data(t->c, t->w, t->y, t->x);
    return ct_conv_backward_weights(t->c, t->x, t->y, t->dw, NULL);
}

/* `n` values near one, as floats; other types read what they are. */
static void *array(const struct ct_device *d, int64_t n)
{
    void *p = NULL;

    must(d->ops->alloc(d, (size_t)n * sizeof(float), "bench", &p));
    must(d->ops->fill(d, n, 1, p));
    return p;
}

static void time_road(const struct ct_device *d, const struct ct_conv_desc *at,
                      const char *road, struct trial *t)
{
    char force[32];

    snprintf(force, sizeof(force), "conv:%s", road);
    if (setenv("CORTADO_IMPL", force, 1) != 0)
        exit(1);
    if (ct_conv_create(d, at, NULL, &t->c) != CT_OK) {
        printf("        -       -       -");
    } else {
        for (int pass = 0; pass < CT_WEIGHTED_PASSES; pass++) {
            t->pass = (enum ct_pass)pass;
            printf(" %7.1f", time_run(d, run, t));
        }
        ct_conv_destroy(t->c);
    }
    if (unsetenv("CORTADO_IMPL") != 0)
        exit(1);
}

void bench_convolutions(const struct ct_device *d, const char *precision)
{
    static const char *const roads[] = { "whole", "fold", "wide", "direct",
                                         "patch" };
    const enum ct_dtype type    = ct_device_dtype(d);
    const bool nhwc             = ct_device_prefers_nhwc(d);
    const enum ct_layout layout = nhwc ? CT_NHWC : CT_PLAIN;

    printf("conv: forward, data and weights in us, by");
    for (int r = 0; r < 5; r++)
        printf(" %s", roads[r]);
    printf("\n");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const int64_t n = shapes[i].batch, size = shapes[i].size;
        const int64_t c = shapes[i].channels, o = shapes[i].outputs;
        const int64_t out = size + 2 * shapes[i].pad - 4;
        const bool first  = c <= 4; /* the net's data is plain float32 */
        const struct ct_conv_desc at = {
            .n_spatial = 2, .batch = n, .in_channels = c, .out_channels = o,
            .group = 1, .in = { size, size }, .kernel = { 5, 5 },
            .stride = { 1, 1 }, .pad = { shapes[i].pad, shapes[i].pad },
            .dilation = { 1, 1 }, .has_bias = true, .relu = true,
            .src_layout = first ? CT_PLAIN : layout, .dst_layout = layout,
            .src_type = first ? CT_F32 : type, .dst_type = type
        };
        struct trial t = { .x = array(d, n * c * size * size),
                           .y = array(d, n * o * out * out),
                           .w = array(d, o * c * 25), .b = array(d, o),
                           .dw = array(d, o * c * 25) };
        void *const all[] = { t.x, t.y, t.w, t.b, t.dw };

        printf("%-12s %s", shapes[i].net, precision);
        for (int r = 0; r < 5; r++) {
            printf("  |");
            time_road(d, &at, roads[r], &t);
        }
        printf("\n");
        fflush(stdout);
        for (int k = 0; k < 5; k++)
            d->ops->free(d, all[k]);
    }
}
