/* points.c - convolutions of one point with the sums of their output's
 * channels, and their gradients where residual blocks end: cuDNN and a pass
 * over memory, against ours in every form. */
#include "cudnn_bench.h"

#include <math.h>
#include <stdio.h>

#include "device/cuda/conv_pick.h"
#include "device/cuda/conv_points.h"
#include "device/cuda/conv_trial.h"

/* Of ResNet-50, batch 128: side of the images, channels in and out, and how
 * often a step has it. */
static const struct point {
    int side, in, out, times;
} works[] = {
    { 56, 64, 64, 1 },    { 56, 64, 256, 4 },  { 56, 256, 64, 2 },
    { 28, 128, 512, 4 },  { 28, 512, 128, 3 }, { 14, 256, 1024, 6 },
    { 14, 1024, 256, 5 }, { 7, 512, 2048, 3 }, { 7, 2048, 512, 2 },
};

/* Those that read the end of a block, and the times of that. */
static const struct point readers[] = {
    { 56, 256, 64, 2 }, { 28, 512, 128, 3 }, { 14, 1024, 256, 5 },
    { 7, 2048, 512, 2 },
};

static struct ct_conv *conv_of(const struct ct_device *d,
                               const struct point *p, bool sums)
{
    const struct ct_conv_desc desc = {
        .n_spatial = 2, .batch = 128, .in_channels = p->in,
        .out_channels = p->out, .group = 1, .in = { p->side, p->side },
        .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 },
        .moments = sums, .ends = sums,
        .src_layout = CT_NHWC, .dst_layout = CT_NHWC,
        .src_type = CT_BF16, .dst_type = CT_BF16
    };
    struct ct_conv *c = NULL;

    must(ct_conv_create(d, &desc, NULL, &c));
    return c;
}

/* Microseconds, the best of some turns. */
static double time_of(const struct ct_conv *c, const struct ct_conv_way *way,
                      const struct ct_conv_plan *plan,
                      const cudaEvent_t *event)
{
    struct ct_trial t = { NULL };
    double best       = INFINITY;

    must(ct_trial_make(c, way, &t));
    for (int i = 0; i < 3; i++) {
        float ms = 0;

        must(ct_trial_time(c, way, plan, &t, event, 1e30f, &ms));
        best = fmin(best, 1e3 * (double)ms);
    }
    c->dev->ops->free(c->dev, t.block);
    return best;
}

/* Of cuDNN's fastest engine; with `sums` and a pass for them. */
static double time_rival(const struct ct_device *d, const struct point *p,
                         enum ct_pass pass, bool sums,
                         const cudaEvent_t *event)
{
    struct ct_conv *c         = conv_of(d, p, sums);
    struct ct_conv_pick *pick = NULL;
    double us;

    must(ct_conv_pick_get(c, pass, CT_CONV_WHOLE, &pick));
    us = time_of(c, &pick->way, &pick->plan, event);
    ct_conv_pick_put(d, pick);
    ct_conv_destroy(c);
    return us;
}

/* Of ours; infinity where a form does not take it. */
static double time_form(const struct ct_device *d, const struct point *p,
                        enum ct_pass pass, int form,
                        const cudaEvent_t *event)
{
    const struct ct_conv_plan none = { .pass = pass, .repeats = true };
    struct ct_conv *c              = conv_of(d, p, true);
    double us                      = INFINITY;
    struct ct_conv_way way;

    if (ct_conv_way_make(c, pass, ct_conv_sums_road(pass), false, CT_NHWC,
                         CT_BF16, &way) == CT_OK &&
        ct_conv_way_form(c, form, &way) == CT_OK)
        us = time_of(c, &way, &none, event);
    ct_conv_destroy(c);
    return us;
}

/* A table of one pass.  Where a block ends, three arrays are like x. */
static void compare(const struct ct_device *d, enum ct_pass pass,
                    const struct point *work, size_t n)
{
    const int forms = ct_conv_road_forms(ct_conv_sums_road(pass), pass);
    const int ends  = pass == CT_FORWARD ? 1 : 3;
    double theirs = 0, ours = 0;
    cudaEvent_t event[2];

    for (int i = 0; i < 2; i++)
        must(ct_cuda_check(d, cudaEventCreate(&event[i]), "event"));
    for (size_t i = 0; i < n; i++) {
        const struct point *p = &work[i];
        const double alone    = time_rival(d, p, pass, false, event);
        const double with     = time_rival(d, p, pass, true, event);
        const double bytes    = 2.0 * 128 * p->side * p->side *
                             (ends * p->in + p->out);
        double best = INFINITY;

        printf("%2dx%-2d %4d to %4d x%d %8.1f %8.1f  ", p->side, p->side,
               p->in, p->out, p->times, alone, with);
        for (int form = 0; form < forms; form++) {
            const double us = time_form(d, p, pass, form, event);

            printf(" %7.1f", us);
            best = fmin(best, us);
        }
        printf("  %6.0f\n", bytes / best / 1e3);
        fflush(stdout);
        theirs += p->times * with;
        ours += p->times * fmin(best, with);
    }
    printf("a step: %.0f us by cuDNN, %.0f with the faster of both\n", theirs,
           ours);
    for (int i = 0; i < 2; i++)
        (void)cudaEventDestroy(event[i]);
}

void points_compare(const struct ct_device *d)
{
    printf("points: us of cuDNN, of it and a pass for sums, of ours by form, "
           "GB/s of our best\n");
    compare(d, CT_FORWARD, works, sizeof(works) / sizeof(works[0]));
}

void ends_compare(const struct ct_device *d)
{
    printf("ends: us of cuDNN, of it and a pass for the rest, of ours by form, "
           "GB/s of our best\n");
    compare(d, CT_BACKWARD, readers, sizeof(readers) / sizeof(readers[0]));
}
