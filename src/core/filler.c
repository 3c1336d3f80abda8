/* filler.c - Caffe's seven fillers over counter-based random numbers.
 *
 *     constant           value
 *     uniform            U(min, max)
 *     gaussian           N(mean, std), each kept with probability
 *                        sparse / shape[0] when `sparse` is given
 *     positive_unitball  U(0, 1), every row (axis 0) scaled to sum 1
 *     xavier             U(-s, s), s = sqrt(3 / n)
 *     msra               N(0, sqrt(2 / n))
 *     bilinear           the kernel of an upsampling deconvolution
 *
 * n is count / shape[0] (FAN_IN), count / shape[1] (FAN_OUT) or their mean.
 * Draws differ from Caffe's, whose bits depend on the version of Boost. */
#include "core/filler.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

typedef enum ct_status (*filler_fn)(const Caffe__FillerParameter *f,
                                    uint64_t key, uint64_t stream,
                                    struct ct_blob *b);

static void fill_uniform(uint64_t key, uint64_t stream, float lo, float hi,
                         struct ct_blob *b)
{
    for (int64_t i = 0; i < b->count; i++)
        ct_data(b)[i] = lo + (hi - lo) * ct_uniform(key, stream, (uint64_t)i);
}

static void fill_normal(uint64_t key, uint64_t stream, float mean, float std,
                        struct ct_blob *b)
{
    for (int64_t i = 0; i < b->count; i++)
        ct_data(b)[i] = mean + std * ct_normal(key, stream, (uint64_t)i);
}

static enum ct_status constant(const Caffe__FillerParameter *f, uint64_t key,
                               uint64_t stream, struct ct_blob *b)
{
    (void)key, (void)stream;
    for (int64_t i = 0; i < b->count; i++)
        ct_data(b)[i] = f->value;
    return CT_OK;
}

static enum ct_status uniform(const Caffe__FillerParameter *f, uint64_t key,
                              uint64_t stream, struct ct_blob *b)
{
    fill_uniform(key, stream, f->min, f->max, b);
    return CT_OK;
}

static enum ct_status gaussian(const Caffe__FillerParameter *f, uint64_t key,
                               uint64_t stream, struct ct_blob *b)
{
    float keep;

    fill_normal(key, stream, f->mean, f->std, b);
    if (f->sparse < 0)
        return CT_OK;
    if (b->shape.n_axes < 1 || b->shape.dim[0] < 1)
        return ct_fail(CT_EINVAL, "filler gaussian: `sparse` needs a first "
                       "axis");
    keep = (float)f->sparse / (float)b->shape.dim[0];
    for (int64_t i = 0; i < b->count; i++)
        if (!(ct_uniform(~key, stream, (uint64_t)i) < keep))
            ct_data(b)[i] = 0;
    return CT_OK;
}

static enum ct_status positive_unitball(const Caffe__FillerParameter *f,
                                        uint64_t key, uint64_t stream,
                                        struct ct_blob *b)
{
    int64_t rows = b->shape.n_axes ? b->shape.dim[0] : 1;
    int64_t cols = rows ? b->count / rows : 0;

    (void)f;
    if (cols == 0 && b->count)
        return ct_fail(CT_EINVAL, "filler positive_unitball: empty rows");
    fill_uniform(key, stream, 0, 1, b);
    for (int64_t i = 0; i < rows; i++) {
        float *row = ct_data(b) + i * cols;
        double sum = 0;

        for (int64_t j = 0; j < cols; j++)
            sum += row[j];
        for (int64_t j = 0; sum > 0 && j < cols; j++)
            row[j] = (float)(row[j] / sum);
    }
    return CT_OK;
}

static enum ct_status fan(const Caffe__FillerParameter *f,
                          const struct ct_blob *b, float *out)
{
    double first, second;

    if (b->count == 0 || b->shape.n_axes < 1)
        return ct_fail(CT_EINVAL, "filler %s: the blob is empty or a scalar",
                       f->type);
    first  = (double)b->count / (double)b->shape.dim[0];
    second = b->shape.n_axes > 1 ? (double)b->count / (double)b->shape.dim[1]
                                 : (double)b->count;
    switch (f->variance_norm) {
    case CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT:
        *out = (float)second;
        return CT_OK;
    case CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE:
        *out = (float)((first + second) / 2);
        return CT_OK;
    default:
        *out = (float)first;
        return CT_OK;
    }
}

static enum ct_status xavier(const Caffe__FillerParameter *f, uint64_t key,
                             uint64_t stream, struct ct_blob *b)
{
    float n = 1;

    CT_TRY(fan(f, b, &n));
    fill_uniform(key, stream, -sqrtf(3 / n), sqrtf(3 / n), b);
    return CT_OK;
}

static enum ct_status msra(const Caffe__FillerParameter *f, uint64_t key,
                           uint64_t stream, struct ct_blob *b)
{
    float n = 1;

    CT_TRY(fan(f, b, &n));
    fill_normal(key, stream, 0, sqrtf(2 / n), b);
    return CT_OK;
}

static enum ct_status bilinear(const Caffe__FillerParameter *f, uint64_t key,
                               uint64_t stream, struct ct_blob *b)
{
    int64_t w;
    double half, centre;

    (void)f, (void)key, (void)stream;
    if (b->shape.n_axes != 4 || b->shape.dim[2] != b->shape.dim[3])
        return ct_fail(CT_EINVAL, "filler bilinear: the blob must have four "
                       "axes and a square kernel");
    w      = b->shape.dim[3];
    half   = ceil((double)w / 2);
    centre = (2 * half - 1 - fmod(half, 2)) / (2 * half);
    for (int64_t i = 0; i < b->count; i++) {
        double x = (double)(i % w), y = (double)(i / w % w);

        ct_data(b)[i] = (float)((1 - fabs(x / half - centre)) *
                                (1 - fabs(y / half - centre)));
    }
    return CT_OK;
}

enum ct_status ct_filler_run(const Caffe__FillerParameter *f, uint64_t key,
                             uint64_t stream, struct ct_blob *b)
{
    static const Caffe__FillerParameter zero = CAFFE__FILLER_PARAMETER__INIT;
    static const struct {
        const char *name;
        filler_fn   run;
    } fillers[] = {
        { "constant", constant }, { "gaussian", gaussian },
        { "uniform", uniform },   { "xavier", xavier },
        { "msra", msra },         { "positive_unitball", positive_unitball },
        { "bilinear", bilinear },
    };

    f = f ? f : &zero;
    for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++)
        if (strcmp(f->type, fillers[i].name) == 0)
            return fillers[i].run(f, key, stream, b);
    return ct_fail(CT_EINVAL, "unknown filler \"%s\": use constant, gaussian, "
                   "uniform, xavier, msra, positive_unitball or bilinear",
                   f->type);
}
