/* rules.c - the update rules, each one pass over memory.
 *
 *     g = scale dw + l2 w + l1 sign(w)         (AdamW: l2 acts apart)
 *
 *     SGD       h = mu h + r g                  w -= h
 *     Nesterov  h' = mu h + r g                 w -= (1+mu) h' - mu h
 *     AdaGrad   h += g^2                        w -= r g / (sqrt(h) + d)
 *     RMSProp   h = rho h + (1-rho) g^2         w -= r g / (sqrt(h) + d)
 *     AdaDelta  h = mu h + (1-mu) g^2
 *               u = g sqrt((q + d) / (h + d))   w -= r u
 *               q = mu q + (1-mu) u^2
 *     Adam      m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *               w -= r sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) + d)
 *     AdamW     as Adam, then w -= r l2 w
 *
 * r is the rate, mu momentum, d delta, rho rms_decay, b1 momentum, b2
 * momentum2.  The rate lies inside the history, as in Caffe. */
#include <math.h>
#include <string.h>

#include "device/cpu/loop.h"
#include "device/cpu/simd.h"
#include "solver/solver_inner.h"

/* Rows are updated by one thread each, and stay in its first cache. */
enum { ROW = 4096 };

typedef void (*row_fn)(const struct rule_step *step, int64_t from, int64_t to);

static void each_row(const struct rule_step *s, row_fn row)
{
    CT_FOR_ROWS (r, (s->n + ROW - 1) / ROW, ROW) {
        const int64_t from = r * ROW;

        row(s, from, from + ROW < s->n ? from + ROW : s->n);
    }
}

CT_INLINE float sign(float w)
{
    return (float)((w > 0) - (w < 0));
}

/* `s` is a copy in the row's own frame: writes to w cannot change it. */
CT_INLINE float gradient(const struct rule_step *s, int64_t i)
{
    return s->scale * s->g[i] + s->l2 * s->w[i] + s->l1 * sign(s->w[i]);
}

CT_SIMD static void sgd_row(const struct rule_step *step, int64_t from,
                            int64_t to)
{
    const struct rule_step s = *step;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        h[i] = s.momentum * h[i] + s.rate * gradient(&s, i);
        w[i] -= h[i];
    }
}

static void sgd(const struct rule_step *s)
{
    each_row(s, sgd_row);
}

CT_SIMD static void nesterov_row(const struct rule_step *step, int64_t from,
                                 int64_t to)
{
    const struct rule_step s = *step;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float old = h[i];

        h[i] = s.momentum * old + s.rate * gradient(&s, i);
        w[i] -= (1 + s.momentum) * h[i] - s.momentum * old;
    }
}

static void nesterov(const struct rule_step *s)
{
    each_row(s, nesterov_row);
}

CT_SIMD static void adagrad_row(const struct rule_step *step, int64_t from,
                                int64_t to)
{
    const struct rule_step s = *step;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        h[i] += g * g;
        w[i] -= s.rate * g / (sqrtf(h[i]) + s.delta);
    }
}

static void adagrad(const struct rule_step *s)
{
    each_row(s, adagrad_row);
}

CT_SIMD static void rmsprop_row(const struct rule_step *step, int64_t from,
                                int64_t to)
{
    const struct rule_step s = *step;
    float *h = s.history[0], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        h[i] = s.rms_decay * h[i] + (1 - s.rms_decay) * g * g;
        w[i] -= s.rate * g / (sqrtf(h[i]) + s.delta);
    }
}

static void rmsprop(const struct rule_step *s)
{
    each_row(s, rmsprop_row);
}

CT_SIMD static void adadelta_row(const struct rule_step *step, int64_t from,
                                 int64_t to)
{
    const struct rule_step s = *step;
    float *h = s.history[0], *q = s.history[1], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i), u;

        h[i] = s.momentum * h[i] + (1 - s.momentum) * g * g;
        u    = g * sqrtf((q[i] + s.delta) / (h[i] + s.delta));
        q[i] = s.momentum * q[i] + (1 - s.momentum) * u * u;
        w[i] -= s.rate * u;
    }
}

static void adadelta(const struct rule_step *s)
{
    each_row(s, adadelta_row);
}

/* AdamW's own decay: shrink is 1 for Adam, whose l2 acts in the gradient. */
CT_INLINE void adam_with(struct rule_step s, float shrink, int64_t from,
                         int64_t to)
{
    const float b1 = s.momentum, b2 = s.momentum2;
    const float rate = (float)((double)s.rate * sqrt(1 - pow(b2, s.t)) /
                               (1 - pow(b1, s.t)));
    float *m = s.history[0], *v = s.history[1], *w = s.w;

    CT_SIMD_FROM (i, from, to) {
        float g = gradient(&s, i);

        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        w[i] = shrink * w[i] - rate * m[i] / (sqrtf(v[i]) + s.delta);
    }
}

CT_SIMD static void adam_row(const struct rule_step *step, int64_t from,
                             int64_t to)
{
    adam_with(*step, 1, from, to);
}

static void adam(const struct rule_step *s)
{
    each_row(s, adam_row);
}

CT_SIMD static void adamw_row(const struct rule_step *step, int64_t from,
                              int64_t to)
{
    struct rule_step apart = *step;

    apart.l2 = 0;
    adam_with(apart, 1 - step->rate * step->l2, from, to);
}

static void adamw(const struct rule_step *s)
{
    each_row(s, adamw_row);
}

static const struct solver_rule rules[] = {
    { "SGD", 1, false, false, false, sgd },
    { "Nesterov", 1, false, false, false, nesterov },
    { "AdaGrad", 1, true, false, true, adagrad },
    { "RMSProp", 1, true, false, true, rmsprop },
    { "AdaDelta", 2, false, false, true, adadelta },
    { "Adam", 2, false, false, true, adam },
    { "AdamW", 2, false, true, true, adamw },
    { "LARS", 1, false, false, false, sgd },
};

const struct solver_rule *solver_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}
