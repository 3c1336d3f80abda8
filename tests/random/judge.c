/* judge.c - compares results within what rounding can do.
 *
 * How much that is depends on the net: a value near the edge of a ReLU or a
 * variance near zero makes much of little.  So the plainest way runs again
 * from weights that were changed by a few units in the last place; what that
 * moves is allowed many times over.  An array that it moves completely is pure
 * rounding, and is compared within the size of that.
 *
 * Of a parameter only its change since the start counts: a share of the weight
 * itself would hide all that a small gradient did wrong. */
#include "judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { NUDGES = 2 };
static const double share     = 2e-4; /* of the largest value */
static const double share_gpu = 2e-3;
static const double allowed   = 40;   /* times what a nudge moves */
static const double hopeless  = 0.05; /* of a loss */
/* A weight is rounded in every update, to 6e-8 of its size; and a sum of some
 * hundred products that should be 0 is off by 6e-8 of one, some ten times. */
static const double rounding  = 1e-6;

/* NaN where a value is. */
static double largest(const struct array *a)
{
    double most = 0;

    for (int64_t i = 0; i < a->n && !isnan(most); i++)
        most = isnan(a->v[i]) ? NAN : fmax(most, fabs((double)a->v[i]));
    return most;
}

/* Since the start, where there is one. */
static double change(const struct array *a, int64_t i)
{
    return (double)a->v[i] - (a->start ? (double)a->start[i] : 0);
}

static double largest_change(const struct array *a)
{
    double most = 0;

    for (int64_t i = 0; i < a->n; i++)
        most = fmax(most, fabs(change(a, i)));
    return most;
}

static double furthest_change(const struct array *a, const struct array *b)
{
    double most = 0;

    for (int64_t i = 0; i < a->n; i++) {
        const double off = fabs(change(a, i) - change(b, i));

        most = isnan(off) ? INFINITY : fmax(most, off);
    }
    return most;
}

/* NaN where one of them is. */
static double furthest(const struct array *a, const struct array *b,
                       int64_t *at)
{
    double most = 0;

    for (int64_t i = 0; i < a->n; i++) {
        const double off = fabs((double)a->v[i] - (double)b->v[i]);

        if (!(off <= most)) {
            most = off;
            *at  = i;
            if (isnan(off))
                break;
        }
    }
    return most;
}

void truth_fini(struct truth *t)
{
    result_fini(&t->ref);
    ct_free(t->limit);
    *t = (struct truth){ 0 };
}

/* Widens the limits by what one nudge moves. */
static enum ct_status feel(const struct drawn *c, int nudge, struct truth *t)
{
    struct result r;
    enum ct_status st = CT_OK;

    train_case(c, &way_plainest, nudge, &r);
    if (r.st != CT_OK || r.n_arrays != t->ref.n_arrays ||
        r.n_losses != t->ref.n_losses)
        st = ct_fail(CT_ENOTFOUND, "a nudge ends it: %s", r.why);
    for (int i = 0; i < t->ref.n_arrays && st == CT_OK; i++)
        t->limit[i] = fmax(t->limit[i],
                           allowed * furthest_change(&t->ref.array[i],
                                                     &r.array[i]));
    for (int i = 0; i < t->ref.n_losses && st == CT_OK; i++)
        t->loss_limit[i] = fmax(t->loss_limit[i],
                                allowed * fabs(t->ref.loss[i] - r.loss[i]));
    result_fini(&r);
    return st;
}

/* What rounding alone leaves where a value should be 0: outputs are made of
 * values about 1, histories and changes of gradients like those of other
 * parameters. */
static double floor_of(const struct truth *t, const struct array *a)
{
    double most = 0;

    if (a->start) {
        for (int i = 0; i < t->ref.n_arrays; i++)
            if (t->ref.array[i].start)
                most = fmax(most, largest_change(&t->ref.array[i]));
        return rounding * (largest(a) + most) + 1e-9;
    }
    if (strncmp(a->name, "history", 7) != 0)
        return 10 * rounding;
    for (int i = 0; i < t->ref.n_arrays; i++)
        if (strncmp(t->ref.array[i].name, a->name, 9) == 0)
            most = fmax(most, largest(&t->ref.array[i]));
    return rounding * most + 1e-9;
}

/* From what nudges move to what may differ. */
static enum ct_status set_limits(struct truth *t)
{
    for (int i = 0; i < t->ref.n_losses; i++) {
        const double size = fabs(t->ref.loss[i]) + 1e-2;

        if (!(t->loss_limit[i] < hopeless * size))
            return ct_fail(CT_ENOTFOUND, "rounding alone changes the loss of "
                           "iteration %d", i);
        t->loss_limit[i] += share * size;
    }
    for (int i = 0; i < t->ref.n_arrays; i++) {
        const struct array *a = &t->ref.array[i];

        if (!isfinite(largest(a)))
            return ct_fail(CT_ENOTFOUND, "%s is not finite", a->name);
        t->limit[i] += share * largest_change(a) + floor_of(t, a);
    }
    return CT_OK;
}

enum ct_status truth_find(const struct drawn *c, struct truth *out)
{
    enum ct_status st;

    *out = (struct truth){ 0 };
    train_case(c, &way_plainest, 0, &out->ref);
    if (out->ref.st != CT_OK)
        return ct_fail(CT_ENOTFOUND, "the plainest way: %s", out->ref.why);
    out->limit = ct_calloc((size_t)out->ref.n_arrays + 1,
                           sizeof(*out->limit), "limits");
    if (!out->limit)
        return CT_ENOMEM;
    for (int i = 1; i <= NUDGES; i++)
        CT_TRY(feel(c, i, out));
    st = set_limits(out);
    return st;
}

static const struct array *array_named(const struct result *r,
                                       const char *name)
{
    for (int i = 0; i < r->n_arrays; i++)
        if (strcmp(r->array[i].name, name) == 0)
            return &r->array[i];
    return NULL;
}

static bool arrays_hold(const struct truth *t, const struct result *r,
                        double more, char *why, size_t size)
{
    for (int i = 0; i < t->ref.n_arrays; i++) {
        const struct array *want = &t->ref.array[i];
        const struct array *got  = array_named(r, want->name);
        double limit = t->limit[i], off;
        int64_t at   = 0;

        if (!got)
            continue;
        if (got->n != want->n) {
            snprintf(why, size, "%s has %lld values, not %lld", want->name,
                     (long long)got->n, (long long)want->n);
            return false;
        }
        limit += more * largest(want);
        off = furthest(want, got, &at);
        if (!(off <= limit)) {
            snprintf(why, size, "%s: value %lld is %.7g, the plainest way "
                     "has %.7g, allowed %.2g", want->name, (long long)at,
                     (double)got->v[at], (double)want->v[at], limit);
            return false;
        }
    }
    return true;
}

static bool result_holds(const struct truth *t, const struct result *r,
                         const struct way *w, char *why, size_t size)
{
    const double more = w->gpu ? share_gpu : 0;

    if (r->st != CT_OK) {
        snprintf(why, size, "%s", r->why);
        return false;
    }
    if (!arrays_hold(t, r, more, why, size))
        return false;
    if (r->n_losses != t->ref.n_losses && w->kind != WAY_RESUME &&
        w->kind != WAY_PYTHON) {
        snprintf(why, size, "%d iterations, not %d", r->n_losses,
                 t->ref.n_losses);
        return false;
    }
    for (int i = 0; i < r->n_losses && i < t->ref.n_losses; i++)
        if (!(fabs(r->loss[i] - t->ref.loss[i]) <=
              t->loss_limit[i] + more * fabs(t->ref.loss[i]))) {
            snprintf(why, size, "the loss of iteration %d is %.7g, the "
                     "plainest way has %.7g, allowed %.2g", i, r->loss[i],
                     t->ref.loss[i], t->loss_limit[i]);
            return false;
        }
    return true;
}

/* For a message. */
static const char *ranks_of(const struct drawn *c, const struct way *w)
{
    static char text[16];

    snprintf(text, sizeof(text), "%d", c->canonical_ranks);
    return w->kind == WAY_ELASTIC ? "changing" : text;
}

/* The same bits as one rank's. */
static bool same_bits(const struct drawn *c, const struct way *w,
                      const struct result *r, char *why, size_t size)
{
    struct result one = { 0 };
    bool same = r->st == CT_OK;

    train_ranks(c, w, 1, &one);
    if (one.st != CT_OK || r->st != CT_OK) {
        snprintf(why, size, "%s", r->st != CT_OK ? r->why : one.why);
        same = false;
    }
    for (int i = 0; i < one.n_arrays && same; i++) {
        const struct array *got = array_named(r, one.array[i].name);

        if (!got || memcmp(one.array[i].v, got->v,
                           (size_t)one.array[i].n * sizeof(float)) != 0) {
            snprintf(why, size, "%s has other bits in %d parts on %s ranks "
                     "than on one", one.array[i].name, c->parts,
                     ranks_of(c, w));
            same = false;
        }
    }
    for (int i = 0; i < one.n_losses && same; i++)
        if (memcmp(&one.loss[i], &r->loss[i], sizeof(one.loss[i])) != 0) {
            snprintf(why, size, "the loss of iteration %d is %.9g in %d parts "
                     "on %s ranks, %.9g on one", i, r->loss[i], c->parts,
                     ranks_of(c, w), one.loss[i]);
            same = false;
        }
    result_fini(&one);
    return same;
}

bool truth_holds(const struct truth *t, const struct drawn *c,
                 const struct way *w, char *why, size_t size)
{
    struct result r;
    bool holds;

    train_case(c, w, 0, &r);
    holds = w->exact ? same_bits(c, w, &r, why, size)
                     : result_holds(t, &r, w, why, size);
    result_fini(&r);
    return holds;
}
