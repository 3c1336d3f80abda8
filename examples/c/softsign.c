/* softsign.c - a layer type of one's own, in a plug-in.
 *
 *     y = a s x / (1 + s |x|)        a: learned, one number
 *
 * s is plugin_param "steepness" (1), and a starts at plugin_param "height"
 * (1).  Backward ADDS to da, because the solver clears it once per iteration;
 * it OVERWRITES dx:
 *
 *     dx = dy a s / (1 + s |x|)^2        da += sum dy s x / (1 + s |x|)   */
#include <cortado/plugin.h>
#include <math.h>

struct softsign {
    float steepness;
};

static enum ct_status setup(struct ct_layer *l, const struct ct_io *io)
{
    static const char *const names[] = { "steepness", "height", NULL };
    struct softsign *s               = l->state;
    Caffe__FillerParameter fill      = CAFFE__FILLER_PARAMETER__INIT;

    (void)io;
    CT_TRY(ct_layer_knows(l, names));
    s->steepness = (float)ct_layer_number(l, "steepness", 1);
    if (!(s->steepness > 0))
        return ct_fail(CT_EINVAL, "layer %s: steepness must be above 0",
                       l->name);
    fill.has_value = true;
    fill.value     = (float)ct_layer_number(l, "height", 1);
    return ct_layer_add_blob(l, CT_SHAPE(1), &fill);
}

static enum ct_status reshape(struct ct_layer *l, const struct ct_io *io)
{
    (void)l;
    return ct_reshape(io->top[0], io->bottom[0]->shape);
}

static enum ct_status forward(struct ct_layer *l, const struct ct_io *io)
{
    const struct softsign *s = l->state;
    const float *x           = ct_data(io->bottom[0]);
    const float a            = ct_data(l->blob[0])[0];
    float *y                 = ct_data(io->top[0]);

    for (int64_t i = 0; i < io->top[0]->count; i++)
        y[i] = a * s->steepness * x[i] / (1 + s->steepness * fabsf(x[i]));
    return CT_OK;
}

static enum ct_status backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct softsign *s = l->state;
    const float *x           = ct_data(io->bottom[0]);
    const float *dy          = ct_diff(io->top[0]);
    const float a            = ct_data(l->blob[0])[0];
    double da                = 0;

    for (int64_t i = 0; i < io->top[0]->count; i++) {
        const float below = 1 + s->steepness * fabsf(x[i]);

        da += (double)(dy[i] * s->steepness * x[i] / below);
        if (io->want_grad[0])
            ct_diff(io->bottom[0])[i] = dy[i] * a * s->steepness /
                                        (below * below);
    }
    if (l->blob_wants_grad[0])
        ct_diff(l->blob[0])[0] += (float)da;
    return CT_OK;
}

static const struct ct_layer_type softsign = {
    .name       = "Softsign",
    .bottoms    = CT_EXACTLY(1),
    .tops       = CT_EXACTLY(1),
    .state_size = sizeof(struct softsign),
    .setup      = setup,
    .reshape    = reshape,
    .forward    = { [CT_CPU] = forward },
    .backward   = { [CT_CPU] = backward },
};

CT_PLUGIN("softsign", &softsign)
