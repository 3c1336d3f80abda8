/* define_losses.c - definitions of losses. */
#include <float.h>
#include <math.h>

#include "define.h"
#include "proto/params.h"

#define MODE(m) CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__##m

double define_normaliser(const Caffe__LossParameter *p, int mode,
                         double batch, double full, double valid)
{
    double by;

    if (!p->has_normalization && p->has_normalize)
        mode = p->normalize ? MODE(VALID) : MODE(BATCH_SIZE);
    switch (mode) {
    case MODE(FULL):
        by = full;
        break;
    case MODE(VALID):
        by = valid;
        break;
    case MODE(BATCH_SIZE):
        by = batch;
        break;
    default:
        by = 1;
    }
    return fmax(by, 1);
}

static void softmax_with_loss(const struct definition *d)
{
    const Caffe__LossParameter *p = ct_loss_param(d->param);
    const struct tensor *x = d->bottom, *t = &d->bottom[1];
    const int axis  = define_axis(x, ct_softmax_param(d->param)->axis);
    const int64_t c = define_dim(x, axis);
    const int64_t n = define_count(x, axis + 1, 99);
    double sum = 0, valid = 0;

    for (int64_t i = 0; i < t->n; i++) {
        const int64_t base  = i / n * c * n + i % n;
        const int64_t label = (int64_t)t->v[i];
        double all = 0;

        if (p->has_ignore_label && label == p->ignore_label)
            continue;
        for (int64_t k = 0; k < c; k++)
            all += exp(x->v[base + k * n] - x->v[base + label * n]);
        sum += fmin(log(all), -log((double)FLT_MIN));
        valid++;
    }
    d->top->v[0] = sum / define_normaliser(
        p, (int)p->normalization, (double)define_count(x, 0, axis),
        (double)t->n, valid);
}

static void multinomial(const struct definition *d)
{
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum -= log(fmax(d->bottom->v[i * c + (int64_t)d->bottom[1].v[i]],
                        1e-20));
    d->top->v[0] = sum / (double)n;
}

static void hinge(const struct definition *d)
{
    const bool squared = ct_hinge_loss_param(d->param)->norm ==
                         CAFFE__HINGE_LOSS_PARAMETER__NORM__L2;
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0;

    for (int64_t i = 0; i < n * c; i++) {
        const double sign = i % c == (int64_t)d->bottom[1].v[i / c] ? -1 : 1;
        const double m    = fmax(0, 1 + sign * d->bottom->v[i]);

        sum += squared ? m * m : m;
    }
    d->top->v[0] = sum / (double)n;
}

static void euclidean(const struct definition *d)
{
    double sum = 0;

    for (int64_t i = 0; i < d->bottom->n; i++)
        sum += pow(d->bottom[0].v[i] - d->bottom[1].v[i], 2);
    d->top->v[0] = sum / (2 * (double)define_dim(d->bottom, 0));
}

/* As Caffe's, the gradient divides by far + e in place of far, e = 1e-4; it is
 * that of this. */
static double contrastive_minimised(double margin, double far)
{
    const double e = 1e-4;

    return far >= margin ? 0
                         : (margin - far) * (margin - far) +
                               2 * e * ((margin + e) *
                                            log((far + e) / (margin + e)) +
                                        margin - far);
}

static void contrastive(const struct definition *d)
{
    const Caffe__ContrastiveLossParameter *p =
        ct_contrastive_loss_param(d->param);
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0, minimised = 0;

    for (int64_t i = 0; i < n; i++) {
        double far = 0, m;

        for (int64_t k = i * c; k < (i + 1) * c; k++)
            far += pow(d->bottom[0].v[k] - d->bottom[1].v[k], 2);
        m = p->legacy_version ? fmax((double)p->margin - far, 0)
                              : pow(fmax((double)p->margin - sqrt(far), 0), 2);
        sum += d->bottom[2].v[i] != 0 ? far : m;
        minimised += d->bottom[2].v[i] != 0 ? far
                     : p->legacy_version    ? m
                                            : contrastive_minimised(
                                               (double)p->margin, sqrt(far));
    }
    *d->minimised = minimised / (2 * (double)n);
    d->top->v[0] = sum / (2 * (double)n);
}

static void sigmoid_cross_entropy(const struct definition *d)
{
    const Caffe__LossParameter *p = ct_loss_param(d->param);
    const double n = (double)d->bottom->n;
    double sum = 0;

    for (int64_t i = 0; i < d->bottom->n; i++) {
        const double x = d->bottom->v[i];

        sum += log(1 + exp(-fabs(x))) + fmax(x, 0) - x * d->bottom[1].v[i];
    }
    d->top->v[0] = sum / define_normaliser(
        p, p->has_normalization
               ? (int)p->normalization
               : MODE(BATCH_SIZE),
        (double)define_dim(d->bottom, 0), n, n);
}

static void l1(const struct definition *d)
{
    double sum = 0;

    for (int64_t i = 0; i < d->bottom->n; i++)
        sum += fabs(d->bottom[0].v[i] - d->bottom[1].v[i]);
    d->top->v[0] = sum / (double)define_dim(d->bottom, 0);
}

static double smooth_l1_sum(const struct definition *d, double sigma)
{
    const double s = sigma * sigma;
    double sum     = 0;

    for (int64_t i = 0; i < d->bottom->n; i++) {
        const double x = fabs(d->bottom[0].v[i] - d->bottom[1].v[i]);

        sum += x < 1 / s ? s * x * x / 2 : x - 1 / (2 * s);
    }
    return sum;
}

static void smooth_l1(const struct definition *d)
{
    const double sigma = (double)ct_smooth_l1_loss_param(d->param)->sigma;
    const double n     = (double)define_dim(d->bottom, 0);

    d->top->v[0] = n == 0 ? 0 : smooth_l1_sum(d, sigma) / n;
}

/* By places, whatever channels they have; a Filter may leave none. */
static void smooth_l1_ohem(const struct definition *d)
{
    const double n = (double)d->bottom->n;

    d->top->v[0] = n == 0 ? 0
                          : smooth_l1_sum(d, 1) *
                                (double)define_dim(d->bottom, 1) / n;
}

/* Probabilities of row i of n x c scores. */
static double probability(const struct tensor *x, int64_t c, int64_t i,
                          int64_t k)
{
    double all = 0;

    for (int64_t j = 0; j < c; j++)
        all += exp(x->v[i * c + j] - x->v[i * c + k]);
    return 1 / all;
}

/* Caffe's layer takes no probability for less than 1e-20, but its gradient is
 * that of the loss without this. */
static void infogain(const struct definition *d)
{
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0, minimised = 0;

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c; k++) {
            const double h =
                d->bottom[2].v[(int64_t)d->bottom[1].v[i] * c + k];
            const double p = probability(d->bottom, c, i, k);

            sum -= h * log(fmax(p, 1e-20));
            minimised -= h * log(p);
        }
    *d->minimised = minimised / (double)n;
    d->top->v[0] = sum / (double)n;
}

static void focal(const struct definition *d)
{
    const Caffe__FocalLossParameter *q = ct_focal_loss_param(d->param);
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        const double p = probability(d->bottom, c, i,
                                     (int64_t)d->bottom[1].v[i]);

        sum -= (double)q->alpha * pow(1 - p, (double)q->gamma) * log(p);
    }
    d->top->v[0] = sum / (double)n;
}

static void center(const struct definition *d)
{
    const int64_t n = define_dim(d->bottom, 0), c = d->bottom->n / n;
    double sum = 0;

    for (int64_t i = 0; i < n * c; i++)
        sum += pow(d->bottom->v[i] -
                   d->blob->v[(int64_t)d->bottom[1].v[i / c] * c + i % c], 2);
    d->top->v[0] = sum / (2 * (double)n);
}

const struct define_entry define_losses[] = {
    { "CenterLoss", center },
    { "L1Loss", l1 },
    { "SmoothL1Loss", smooth_l1 },
    { "SmoothL1LossOHEM", smooth_l1_ohem },
    { "InfogainLoss", infogain },
    { "FocalLoss", focal },
    { "SoftmaxWithLoss", softmax_with_loss },
    { "SoftmaxWithLossOHEM", softmax_with_loss },
    { "MultinomialLogisticLoss", multinomial },
    { "HingeLoss", hinge },
    { "EuclideanLoss", euclidean },
    { "ContrastiveLoss", contrastive },
    { "SigmoidCrossEntropyLoss", sigmoid_cross_entropy },
    { NULL, NULL },
};
