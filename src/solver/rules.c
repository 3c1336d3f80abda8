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
#include "solver/solver.h"

static inline float sign(float w)
{
    return (float)((w > 0) - (w < 0));
}

static inline float gradient(const struct rule_step *s, int64_t i)
{
    return s->scale * s->g[i] + s->l2 * s->w[i] + s->l1 * sign(s->w[i]);
}

static void sgd(const struct rule_step *s)
{
    float *h = s->history[0], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        h[i] = s->momentum * h[i] + s->rate * gradient(s, i);
        w[i] -= h[i];
    }
}

static void nesterov(const struct rule_step *s)
{
    float *h = s->history[0], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        float old = h[i];

        h[i] = s->momentum * old + s->rate * gradient(s, i);
        w[i] -= (1 + s->momentum) * h[i] - s->momentum * old;
    }
}

static void adagrad(const struct rule_step *s)
{
    float *h = s->history[0], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        float g = gradient(s, i);

        h[i] += g * g;
        w[i] -= s->rate * g / (sqrtf(h[i]) + s->delta);
    }
}

static void rmsprop(const struct rule_step *s)
{
    float *h = s->history[0], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        float g = gradient(s, i);

        h[i] = s->rms_decay * h[i] + (1 - s->rms_decay) * g * g;
        w[i] -= s->rate * g / (sqrtf(h[i]) + s->delta);
    }
}

static void adadelta(const struct rule_step *s)
{
    float *h = s->history[0], *q = s->history[1], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        float g = gradient(s, i), u;

        h[i] = s->momentum * h[i] + (1 - s->momentum) * g * g;
        u    = g * sqrtf((q[i] + s->delta) / (h[i] + s->delta));
        q[i] = s->momentum * q[i] + (1 - s->momentum) * u * u;
        w[i] -= s->rate * u;
    }
}

static void adam_with(const struct rule_step *s, float shrink)
{
    const float b1 = s->momentum, b2 = s->momentum2;
    const float rate = (float)((double)s->rate * sqrt(1 - pow(b2, s->t)) /
                               (1 - pow(b1, s->t)));
    float *m = s->history[0], *v = s->history[1], *w = s->w;

    CT_FOR_EACH (i, s->n) {
        float g = gradient(s, i);

        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        w[i] = shrink * w[i] - rate * m[i] / (sqrtf(v[i]) + s->delta);
    }
}

static void adam(const struct rule_step *s)
{
    adam_with(s, 1);
}

static void adamw(const struct rule_step *s)
{
    struct rule_step apart = *s;

    apart.l2 = 0;
    adam_with(&apart, 1 - s->rate * s->l2);
}

static const struct solver_rule rules[] = {
    { "SGD", 1, false, false, sgd },
    { "Nesterov", 1, false, false, nesterov },
    { "AdaGrad", 1, true, false, adagrad },
    { "RMSProp", 1, true, false, rmsprop },
    { "AdaDelta", 2, false, false, adadelta },
    { "Adam", 2, false, false, adam },
    { "AdamW", 2, false, true, adamw },
    { "LARS", 1, false, false, sgd },
};

const struct solver_rule *solver_rule_find(const char *name)
{
    for (int i = 0; i < ct_solver_n_types(); i++)
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    return NULL;
}

int ct_solver_n_types(void)
{
    return (int)(sizeof(rules) / sizeof(rules[0]));
}

const char *ct_solver_type_name(int i)
{
    return rules[i].name;
}
