/* lr_policy.c - the learning rate of an iteration.
 *
 *     fixed      b
 *     step       b g^floor(t / stepsize)
 *     exp        b g^t
 *     inv        b (1 + g t)^-p
 *     multistep  b g^k, k moves on at each stepvalue
 *     poly       (b - m) (1 - t / max_iter)^p + m        m = min_lr, usually 0
 *     sigmoid    b / (1 + exp(-g (t - stepsize)))
 *     cosine     m + (b - m) (1 + cos(pi t / max_iter)) / 2
 *
 * b is base_lr, g gamma, p power.  Warm-up replaces the policy in the first
 * iterations: linear over warmup_iter from warmup_start_lr, or quadratic over
 * rampup_interval from rampup_lr. */
#include <math.h>
#include <string.h>

#include "cortado/log.h"
#include "solver/solver_inner.h"

typedef double (*policy_fn)(struct ct_solver *s,
                            const Caffe__SolverParameter *p, double t);

static double fixed(struct ct_solver *s, const Caffe__SolverParameter *p,
                    double t)
{
    (void)s, (void)t;
    return (double)p->base_lr;
}

static double step(struct ct_solver *s, const Caffe__SolverParameter *p,
                   double t)
{
    s->current_step = s->iter / p->stepsize;
    (void)t;
    return (double)p->base_lr * pow((double)p->gamma, s->current_step);
}

static double exponential(struct ct_solver *s, const Caffe__SolverParameter *p,
                          double t)
{
    (void)s;
    return (double)p->base_lr * pow((double)p->gamma, t);
}

static double inv(struct ct_solver *s, const Caffe__SolverParameter *p,
                  double t)
{
    (void)s;
    return (double)p->base_lr *
           pow(1 + (double)p->gamma * t, -(double)p->power);
}

/* At most one step per call, as in Caffe; the solver state has the count. */
static double multistep(struct ct_solver *s, const Caffe__SolverParameter *p,
                        double t)
{
    (void)t;
    if (s->current_step < (int)p->n_stepvalue &&
        s->iter >= p->stepvalue[s->current_step]) {
        s->current_step++;
        CT_INFO("MultiStep Status: Iteration %d, step = %d", s->iter,
                s->current_step);
    }
    return (double)p->base_lr * pow((double)p->gamma, s->current_step);
}

static double poly(struct ct_solver *s, const Caffe__SolverParameter *p,
                   double t)
{
    (void)s;
    return ((double)p->base_lr - (double)p->min_lr) *
               pow(1 - t / p->max_iter, (double)p->power) +
           (double)p->min_lr;
}

static double sigmoid(struct ct_solver *s, const Caffe__SolverParameter *p,
                      double t)
{
    (void)s;
    return (double)p->base_lr /
           (1 + exp(-(double)p->gamma * (t - (double)p->stepsize)));
}

static double cosine(struct ct_solver *s, const Caffe__SolverParameter *p,
                     double t)
{
    (void)s;
    return (double)p->min_lr +
           ((double)p->base_lr - (double)p->min_lr) *
               (1 + cos(3.14159265358979323846 * t / p->max_iter)) / 2;
}

static const struct {
    const char *name;
    policy_fn   rate;
} policies[] = {
    { "fixed", fixed },     { "step", step },       { "exp", exponential },
    { "inv", inv },         { "multistep", multistep }, { "poly", poly },
    { "sigmoid", sigmoid }, { "cosine", cosine },
};

static policy_fn policy_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof(policies) / sizeof(policies[0]); i++)
        if (strcmp(policies[i].name, name) == 0)
            return policies[i].rate;
    return NULL;
}

enum ct_status solver_check_policy(const Caffe__SolverParameter *p)
{
    policy_fn f = policy_find(p->lr_policy);

    if (!p->lr_policy)
        return ct_fail(CT_EINVAL, "lr_policy is missing: use fixed, step, exp, "
                       "inv, multistep, poly, sigmoid or cosine");
    if (!f)
        return ct_fail(CT_EINVAL, "unknown lr_policy \"%s\": use fixed, step, "
                       "exp, inv, multistep, poly, sigmoid or cosine",
                       p->lr_policy);
    if (f == step && p->stepsize <= 0)
        return ct_fail(CT_EINVAL, "lr_policy step needs a stepsize above 0");
    if ((f == poly || f == cosine) && p->max_iter <= 0)
        return ct_fail(CT_EINVAL, "lr_policy %s needs a max_iter above 0",
                       p->lr_policy);
    if (p->warmup_iter < 0 || p->rampup_interval < 0)
        return ct_fail(CT_EINVAL, "warm-up over a negative number of "
                       "iterations");
    return CT_OK;
}

enum ct_status solver_rate(struct ct_solver *s, float *out)
{
    const Caffe__SolverParameter *p = s->param;
    double t = s->iter, rate;

    rate = policy_find(p->lr_policy)(s, p, t);
    if (s->iter < p->rampup_interval) {
        double part = t / p->rampup_interval;

        rate = (double)p->rampup_lr +
               ((double)p->base_lr - (double)p->rampup_lr) * part * part;
    } else if (s->iter < p->warmup_iter) {
        rate = (t * (double)p->base_lr +
                (p->warmup_iter - t) * (double)p->warmup_start_lr) /
               p->warmup_iter;
    }
    *out = (float)rate;
    return CT_OK;
}

enum ct_status ct_solver_rate(struct ct_solver *s, float *out)
{
    return solver_rate(s, out);
}
