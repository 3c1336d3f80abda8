/* fold.c - a BatchNorm and a Scale taken into the weights before them. */
#include "layers/fold.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "layers/batch_norm.h"
#include "layers/common.h"
#include "proto/params.h"

static bool takes_norm(const struct ct_fold *f, const struct ct_layer *next,
                       int64_t n)
{
    const struct batch_norm *s = next->state;

    return !f->norm && !f->scale && s->global && s->channels == n;
}

/* A factor a channel, which is not another blob's values. */
static bool takes_scale(const struct ct_fold *f, const struct ct_layer *next,
                        int64_t n)
{
    return !f->scale && next->param->n_bottom == 1 &&
           ct_scale_param(next->param)->axis == 1 &&
           next->blob[0]->shape.n_axes == 1 && next->blob[0]->count == n;
}

bool ct_fold_absorb(struct ct_fold *f, const struct ct_layer *l,
                    const struct ct_layer *next, int64_t n)
{
    if (!l->run->forward_only || !l->run->fixed_params)
        return false;
    if (strcmp(next->type->name, "BatchNorm") == 0 && takes_norm(f, next, n))
        f->norm = next;
    else if (strcmp(next->type->name, "Scale") == 0 && takes_scale(f, next, n))
        f->scale = next;
    else
        return false;
    f->made = false;
    return true;
}

bool ct_fold_holds(const struct ct_fold *f, const struct ct_run *run)
{
    return f->made && f->params == run->params;
}

void ct_fold_line(const struct ct_fold *f, int64_t i, double *factor,
                  double *bias)
{
    *factor = 1;
    *bias   = 0;
    if (f->norm) {
        struct ct_blob *const *blob = f->norm->blob;
        const double all  = (double)ct_data(blob[FACTOR])[0];
        const double unit = all == 0 ? 0 : 1 / all;
        const double mean = unit * (double)ct_data(blob[MEAN])[i];
        const double var  = unit * (double)ct_data(blob[VARIANCE])[i];
        const double eps  = (double)ct_batch_norm_param(f->norm->param)->eps;

        *factor = 1 / sqrt(var + eps);
        *bias   = -mean * *factor;
    }
    if (f->scale) {
        const double s = (double)ct_data(f->scale->blob[0])[i];

        *factor *= s;
        *bias *= s;
        if (f->scale->n_blob > 1)
            *bias += (double)ct_data(f->scale->blob[1])[i];
    }
}

enum ct_status ct_fold_make(struct ct_fold *f, const struct ct_run *run,
                            int64_t n, int64_t k, bool turned, const float *w,
                            const float *b)
{
    if (!f->w)
        CT_TRY(ct_alloc((size_t)(n * k), sizeof(*f->w), "folded weights",
                        &f->w));
    if (!f->b)
        CT_TRY(ct_alloc((size_t)n, sizeof(*f->b), "folded bias", &f->b));
    CT_FOR_ROWS (i, n, k) {
        const int64_t first = turned ? i : i * k, step = turned ? n : 1;
        double factor, bias;

        ct_fold_line(f, i, &factor, &bias);
        f->b[i] = (float)(factor * (b ? (double)b[i] : 0) + bias);
        for (int64_t j = 0; j < k; j++)
            f->w[first + j * step] =
                (float)(factor * (double)w[first + j * step]);
    }
    f->made   = true;
    f->params = run->params;
    return CT_OK;
}

void ct_fold_fini(struct ct_fold *f)
{
    ct_free(f->w);
    ct_free(f->b);
    *f = (struct ct_fold){ 0 };
}
