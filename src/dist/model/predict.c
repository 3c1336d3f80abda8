/* predict.c - measures a net on this host and predicts its speed on others. */
#include "dist/model/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { WARM_UP = 2, MOST_TASKS = 100000 };

/* Measured times. */
struct watch {
    int     n_layers, n_steps, step;
    double *forward, *backward; /* per layer and step; owned */
    double *rest, *whole; /* per step: the time outside of layers; the time of
                           * a step without hooks; owned */
    double  mark, inside; /* inside: the layers of this step together */
};

static enum ct_status tick(struct ct_net *net, int layer, void *arg)
{
    struct watch *w = arg;

    (void)net, (void)layer;
    w->mark = ct_now();
    return CT_OK;
}

static enum ct_status tock(struct watch *w, double *where, int layer)
{
    double took = ct_now() - w->mark;

    w->inside += took;
    if (w->step >= 0)
        where[layer * w->n_steps + w->step] = took;
    return CT_OK;
}

static enum ct_status after_forward(struct ct_net *net, int layer, void *arg)
{
    struct watch *w = arg;

    (void)net;
    return tock(w, w->forward, layer);
}

static enum ct_status after_backward(struct ct_net *net, int layer, void *arg)
{
    struct watch *w = arg;

    (void)net;
    return tock(w, w->backward, layer);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_value);
    return x[n / 2];
}

static enum ct_status one_step(struct ct_solver *s,
                               const struct ct_net_hooks *hooks, double *took)
{
    const double start = ct_now();
    enum ct_status st;

    ct_net_set_hooks(ct_solver_net(s), hooks);
    st    = ct_solver_step(s, 1);
    *took = ct_now() - start;
    return st;
}

/* Steps with hooks in every layer and steps without hooks alternate. */
static enum ct_status watch_steps(struct ct_solver *s, struct watch *w)
{
    const struct ct_net_hooks hooks = { tick, after_forward, tick,
                                        after_backward, w };
    const struct ct_net_hooks none = { 0 };
    enum ct_status st = CT_OK;

    for (int i = -WARM_UP; i < w->n_steps; i++) {
        double watched, whole;

        w->step   = i;
        w->inside = 0;
        CT_TRY_GOTO(one_step(s, &hooks, &watched), st, out);
        CT_TRY_GOTO(one_step(s, &none, &whole), st, out);
        if (i < 0)
            continue;
        w->rest[i]  = watched - w->inside;
        w->whole[i] = whole;
    }
out:
    ct_net_set_hooks(ct_solver_net(s), &none);
    return st;
}

/* Makes the sum of the times of layers equal to the time of a whole step.  Both
 * differ: with hooks layers run one by one, and other work on these cores
 * disturbs only few layers of a step, so their medians do not show it. */
void dist_timing_fit(struct dist_timing *t, double whole)
{
    double sum = t->update;

    for (int l = 0; l < t->n_layers; l++)
        sum += t->forward[l] + t->backward[l];
    if (whole > 0 && sum > 0)
        dist_timing_scale(t, sum / whole);
}

enum ct_status dist_timing_take(struct ct_solver *s, int n_steps,
                                struct dist_timing *out)
{
    const int n    = ct_net_n_layers(ct_solver_net(s));
    const size_t k = (size_t)n * (size_t)n_steps;
    struct watch w = { .n_layers = n, .n_steps = n_steps };
    enum ct_status st;

    *out = (struct dist_timing){ .n_layers = n };
    CT_TRY_GOTO(ct_alloc(k + 1, sizeof(double), "timing", &w.forward), st,
                out);
    CT_TRY_GOTO(ct_alloc(k + 1, sizeof(double), "timing", &w.backward), st,
                out);
    CT_TRY_GOTO(ct_alloc((size_t)n_steps, sizeof(double), "timing", &w.rest),
                st, out);
    CT_TRY_GOTO(ct_alloc((size_t)n_steps, sizeof(double), "timing", &w.whole),
                st, out);
    CT_TRY_GOTO(ct_alloc((size_t)n + 1, sizeof(double), "timing",
                         &out->forward), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)n + 1, sizeof(double), "timing",
                         &out->backward), st, out);
    CT_TRY_GOTO(watch_steps(s, &w), st, out);
    for (int l = 0; l < n; l++) {
        out->forward[l]  = median(w.forward + l * n_steps, n_steps);
        out->backward[l] = median(w.backward + l * n_steps, n_steps);
    }
    out->update = median(w.rest, n_steps);
    dist_timing_fit(out, median(w.whole, n_steps));
out:
    ct_free(w.forward);
    ct_free(w.backward);
    ct_free(w.rest);
    ct_free(w.whole);
    if (st != CT_OK)
        dist_timing_fini(out);
    return st;
}

void dist_timing_fini(struct dist_timing *t)
{
    ct_free(t->forward);
    ct_free(t->backward);
    *t = (struct dist_timing){ 0 };
}

void dist_timing_scale(struct dist_timing *t, double speed)
{
    for (int l = 0; l < t->n_layers; l++) {
        t->forward[l] /= speed;
        t->backward[l] /= speed;
    }
    t->update /= speed;
}

enum ct_status dist_forecast(const struct dist_timing *t,
                             const struct ct_net *net,
                             const struct dist_options *o, bool global,
                             int size, struct dist_forecast *out)
{
    struct dist_model m = { net, t->forward, t->backward, t->update,
                            global ? 1.0 / size : 1 };
    double alone = t->update;

    *out = (struct dist_forecast){ .size = size };
    for (int l = 0; l < t->n_layers; l++)
        alone += t->forward[l] + t->backward[l];
    for (int r = 0; r < DIST_N_ROADS; r++) {
        struct dist_step *s = &out->step[r];
        enum ct_status st   = CT_ENOTSUP;

        if (r == DIST_ROAD_PS || o->next_forward)
            st = dist_step_simulate(&m, o, (enum dist_road)r, size,
                                    MOST_TASKS, s);
        if (st == CT_ENOTSUP)
            st = dist_step_formula(&m, o, (enum dist_road)r, size, s);
        CT_TRY(st);
        out->speedup[r] = alone / s->seconds * (global ? 1 : size);
        if (s->seconds < out->step[out->best].seconds)
            out->best = (enum dist_road)r;
    }
    return CT_OK;
}
