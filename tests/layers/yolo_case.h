/* yolo_case.h - the losses of YOLO 2 and 3 in plain doubles, to check gradients
 * by differences: what is taken for constant (overlaps, who answers for whom)
 * comes from x0, the rest from x. */
#ifndef CT_TESTS_YOLO_CASE_H
#define CT_TESTS_YOLO_CASE_H

#include "testing/layer_test.h"

enum { MOST = 4096 };

struct yolo_ref {
    int    n, num, classes, h, w, truths, anchors;
    double anchor[16], net_w, net_h, thresh, object, no_object, of_class,
        coord;
    int  mask[8];
    bool region, rescore, early, logic;
};

static double ref_logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double ref_entropy(double x, double t)
{
    return -t * log(ref_logistic(x)) - (1 - t) * log(1 - ref_logistic(x));
}

/* A logistic value against its target: entropy, or half of the square. */
static double ref_term(const struct yolo_ref *r, double x, double t)
{
    const double d = ref_logistic(x) - t;

    return r->region || r->logic ? d * d / 2 : ref_entropy(x, t);
}

static double ref_iou(const double *a, const double *b)
{
    double w = fmin(a[0] + a[2] / 2, b[0] + b[2] / 2) -
               fmax(a[0] - a[2] / 2, b[0] - b[2] / 2);
    double h = fmin(a[1] + a[3] / 2, b[1] + b[3] / 2) -
               fmax(a[1] - a[3] / 2, b[1] - b[3] / 2);

    return w > 0 && h > 0 ? w * h / (a[2] * a[3] + b[2] * b[3] - w * h) : 0;
}

static double ref_at(const struct yolo_ref *r, const float *x, int b, int a,
                     int k, int cell)
{
    return (double)x[((b * r->num + a) * (5 + r->classes) + k) * r->h * r->w +
                     cell];
}

static void ref_box(const struct yolo_ref *r, const float *x, int b, int a,
                    int cell, double *box)
{
    box[0] = (cell % r->w + ref_logistic(ref_at(r, x, b, a, 0, cell))) / r->w;
    box[1] = (cell / r->w + ref_logistic(ref_at(r, x, b, a, 1, cell))) / r->h;
    box[2] = exp(ref_at(r, x, b, a, 2, cell)) * r->anchor[2 * r->mask[a]] /
             r->net_w;
    box[3] = exp(ref_at(r, x, b, a, 3, cell)) *
             r->anchor[2 * r->mask[a] + 1] / r->net_h;
}

static double ref_pull(const struct yolo_ref *r, const float *x, int b, int a,
                       int cell, const double *t)
{
    const double dw = ref_at(r, x, b, a, 2, cell) -
                      log(t[2] * r->net_w / r->anchor[2 * r->mask[a]]);
    const double dh = ref_at(r, x, b, a, 3, cell) -
                      log(t[3] * r->net_h / r->anchor[2 * r->mask[a] + 1]);

    return ref_term(r, ref_at(r, x, b, a, 0, cell), t[0] * r->w - cell % r->w) +
           ref_term(r, ref_at(r, x, b, a, 1, cell), t[1] * r->h - cell / r->w) +
           dw * dw / 2 + dh * dh / 2;
}

static double ref_classes(const struct yolo_ref *r, const float *x, int b,
                          int a, int cell, int label)
{
    double sum = 0, all = 0;

    for (int k = 0; k < r->classes; k++) {
        double v = ref_at(r, x, b, a, 5 + k, cell);

        sum += ref_term(r, v, k == label);
        all += exp(v);
    }
    return r->region ? log(all) - ref_at(r, x, b, a, 5 + label, cell) : sum;
}

/* Truths lie in different cells. */
static double ref_loss(const struct yolo_ref *r, const float *x,
                       const float *x0, const float *truth)
{
    static int owner[MOST];
    double loss = 0;

    for (int i = 0; i < r->n * r->num * r->h * r->w; i++)
        owner[i] = -1;
    for (int i = 0; i < r->n * r->truths; i++) {
        double t[4], best = 0, at[4] = { 0 };
        int cell, a = -1;

        for (int k = 0; k < 4; k++)
            t[k] = (double)truth[i * 5 + 1 + k];
        if (t[2] == 0)
            continue;
        cell = (int)(t[1] * r->h) * r->w + (int)(t[0] * r->w);
        for (int k = 0; k < r->anchors; k++) {
            double box[4] = { 0, 0, r->anchor[2 * k] / r->net_w,
                              r->anchor[2 * k + 1] / r->net_h };

            at[2] = t[2];
            at[3] = t[3];
            if (ref_iou(box, at) > best) {
                best = ref_iou(box, at);
                a    = -1;
                for (int m = 0; m < r->num; m++)
                    if (r->mask[m] == k)
                        a = m;
            }
        }
        if (a >= 0)
            owner[((i / r->truths) * r->num + a) * r->h * r->w + cell] = i;
    }
    for (int i = 0; i < r->n * r->num * r->h * r->w; i++) {
        const int cell = i % (r->h * r->w), a = i / (r->h * r->w) % r->num;
        const int b = i / (r->h * r->w) / r->num;
        const double o = ref_at(r, x, b, a, 4, cell);
        double box[4], t[4], best = 0;

        ref_box(r, x0, b, a, cell, box);
        for (int k = 0; k < r->truths; k++) {
            for (int j = 0; j < 4; j++)
                t[j] = (double)truth[(b * r->truths + k) * 5 + 1 + j];
            if (t[2] > 0)
                best = fmax(best, ref_iou(box, t));
        }
        if (owner[i] >= 0) {
            const float *v = truth + owner[i] * 5;

            for (int j = 0; j < 4; j++)
                t[j] = (double)v[1 + j];
            loss += r->coord * (r->rescore ? 1 : 2 - t[2] * t[3]) *
                        ref_pull(r, x, b, a, cell, t) +
                    r->object * ref_term(r, o,
                                         r->rescore ? ref_iou(box, t) : 1) +
                    r->of_class *
                        ref_classes(r, x, b, a, cell, (int)v[0]);
            continue;
        }
        if (best <= r->thresh)
            loss += r->no_object * ref_term(r, o, 0);
        if (r->early) {
            double mid[4] = { (cell % r->w + 0.5) / r->w,
                              (cell / r->w + 0.5) / r->h,
                              r->anchor[2 * r->mask[a]] / r->net_w,
                              r->anchor[2 * r->mask[a] + 1] / r->net_h };

            loss += 0.01 * ref_pull(r, x, b, a, cell, mid);
        }
    }
    return loss / r->n;
}

/* dx of the layer against differences of the reference. */
static void ref_check(const struct yolo_ref *r, struct layer_case *c,
                      const float *truth)
{
    static const float one[] = { 1 };
    static float x0[MOST], x[MOST];
    const struct ct_blob *bottom = case_find(c, "bottom[0]");
    const int count              = (int)bottom->count;
    double squares = 0;
    float *want;

    ASSERT(count <= MOST);
    case_top_diff(c, 0, one);
    ASSERT_OK(case_backward(c));
    ASSERT_OK(case_backward(c));
    ASSERT_OK(ct_blob_get(bottom, false, x0));
    want = x; /* in place: a value is read before it is written */
    for (int i = 0; i < count; i++) {
        static float low[MOST], high[MOST];

        memcpy(low, x0, sizeof(low));
        memcpy(high, x0, sizeof(high));
        low[i] -= 1e-2f;
        high[i] += 1e-2f;
        want[i] = (float)((ref_loss(r, high, x0, truth) -
                           ref_loss(r, low, x0, truth)) /
                          (double)(high[i] - low[i]));
        squares += (double)(want[i] * want[i]);
    }
    ASSERT(squares > 0);
    case_near(c, __FILE__, __LINE__, "bottom[0].diff", 2e-3f, want, count);
}

#endif
