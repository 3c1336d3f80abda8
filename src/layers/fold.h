/* fold.h - a BatchNorm and a Scale taken into the weights before them.
 *
 * In a net that only runs forward, with statistics that stand,
 *
 *     s v (W x + b - mean) + t = (f W) x + (f (b - mean) + t),    f = s v
 *
 * with v = 1 / sqrt(var + eps), s and t the Scale's: one value a row of W
 * each.  The new weights are made once and again when parameters change
 * (ct_run.params). */
#ifndef CT_LAYERS_FOLD_H
#define CT_LAYERS_FOLD_H

#include "cortado/layer.h"

/* Embedded in the state of the layer that has W; zeroed folds nothing. */
struct ct_fold {
    const struct ct_layer *norm, *scale; /* absorbed, or NULL */
    float   *w, *b; /* the new ones, owned; w may be elsewhere, then NULL */
    bool     made;
    uint64_t params; /* for which they were made */
};

/* Whether `next` can be taken in by layer l, whose W has n rows; if so it is.
 */
bool ct_fold_absorb(struct ct_fold *f, const struct ct_layer *l,
                    const struct ct_layer *next, int64_t n);
static inline bool ct_fold_any(const struct ct_fold *f)
{
    return f->norm || f->scale;
}

/* Whether what was made still holds; the caller makes it anew otherwise. */
bool ct_fold_holds(const struct ct_fold *f, const struct ct_run *run);

/* Factor and bias of row i: y = factor x + bias of what comes out without. */
void ct_fold_line(const struct ct_fold *f, int64_t i, double *factor,
                  double *bias);

/* f->w and f->b for W, whose n rows have k values: row by row, or column by
 * column where it is `turned`.  b may be NULL. */
CT_MUST_CHECK enum ct_status ct_fold_make(struct ct_fold *f,
                                          const struct ct_run *run, int64_t n,
                                          int64_t k, bool turned,
                                          const float *w, const float *b);
void ct_fold_fini(struct ct_fold *f);

#endif
