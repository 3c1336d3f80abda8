/* multi_box_match.c - which prior stands for which ground truth.
 *
 * First every truth gets the prior that overlaps it most, the pair of the
 * highest overlap first; a prior has one truth at most.  Then, unless matching
 * is bipartite, every other prior gets the truth that it overlaps most, where
 * that is at least the threshold.  Of equal overlaps the lower prior and then
 * the earlier truth wins. */
#include <inttypes.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "layers/multi_box_loss.h"

#define LEAST_OVERLAP 1e-6f

static enum ct_status truth_check(const struct ct_layer *l, int64_t i,
                                  const float *row)
{
    const struct multi_box_loss *m = l->state;
    const float label              = row[CT_TRUTH_LABEL];

    if (!(row[CT_TRUTH_ITEM] < (float)m->n))
        return ct_fail(CT_EINVAL, "layer %s: row %" PRId64 " of the ground "
                       "truth is about image %g of a batch of %" PRId64,
                       l->name, i, (double)row[CT_TRUTH_ITEM], m->n);
    if (!(label >= 0) || label == (float)m->p.background ||
        (!m->p.agnostic && !(label < (float)m->p.classes)))
        return ct_fail(CT_EINVAL, "layer %s: row %" PRId64 " of the ground "
                       "truth has label %g; there are %d classes and %d is "
                       "the background", l->name, i, (double)label,
                       m->p.classes, m->p.background);
    return CT_OK;
}

static bool counts(const struct ct_multibox *p, const float *row)
{
    return row[CT_TRUTH_ITEM] >= 0 &&
           (p->difficult || row[CT_TRUTH_DIFFICULT] == 0);
}

enum ct_status ct_truths_read(const struct ct_layer *l, const float *rows)
{
    struct multi_box_loss *m = l->state;
    struct ct_truths *t      = &m->truths;

    for (int64_t i = 0; i <= m->n; i++)
        t->first[i] = 0;
    for (int64_t g = 0; g < m->rows; g++) {
        const float *row = rows + g * CT_TRUTH_ROW;

        if (!(row[CT_TRUTH_ITEM] >= 0))
            continue;
        CT_TRY(truth_check(l, g, row));
        if (counts(&m->p, row))
            t->first[(int64_t)row[CT_TRUTH_ITEM] + 1]++;
    }
    for (int64_t i = 0; i < m->n; i++)
        t->first[i + 1] += t->first[i];
    /* Rows go to their image in order; first[] runs ahead and is put back. */
    for (int64_t g = 0; g < m->rows; g++) {
        const float *row = rows + g * CT_TRUTH_ROW;
        int64_t at;

        if (!counts(&m->p, row))
            continue;
        at           = t->first[(int64_t)row[CT_TRUTH_ITEM]]++;
        t->box[at]   = (struct ct_bbox){ row[3], row[4], row[5], row[6] };
        t->label[at] = m->p.agnostic ? m->p.background + 1
                                     : (int)row[CT_TRUTH_LABEL];
    }
    for (int64_t i = m->n; i > 0; i--)
        t->first[i] = t->first[i - 1];
    t->first[0] = 0;
    return CT_OK;
}

/* One round of matching: boxes against the truths of one image, all or those
 * of one label. */
struct match {
    const struct ct_multibox *p;
    const struct ct_bbox     *box; /* P */
    int64_t                   priors;
    const struct ct_bbox     *truth;
    const int                *truth_label;
    int64_t                   n_truths;
    struct ct_waiting        *waiting; /* scratch; n_truths */
    int                       label; /* CT_BOX_NO_LABEL: all */
    int                      *match;   /* out; P */
    float                    *overlap; /* out; P */
};

static bool is_asked(const struct match *m, int64_t g)
{
    return m->label == CT_BOX_NO_LABEL || m->truth_label[g] == m->label;
}

static bool is_outside(struct ct_bbox b)
{
    return b.xmin < 0 || b.xmin > 1 || b.ymin < 0 || b.ymin > 1 ||
           b.xmax < 0 || b.xmax > 1 || b.ymax < 0 || b.ymax > 1;
}

/* The free prior that overlaps truth g most; -1: none. */
static int64_t best_prior(const struct match *m, int64_t g, float *overlap)
{
    int64_t best = -1;

    *overlap = LEAST_OVERLAP;
    for (int64_t p = 0; p < m->priors; p++) {
        float o;

        if (m->match[p] != CT_BOX_NONE)
            continue;
        o = ct_bbox_overlap(m->box[p], m->truth[g]);
        if (o > *overlap) {
            *overlap = o;
            best     = p;
        }
    }
    return best;
}

/* Gives every truth that is asked for its prior. */
static void bipartite(struct match *m)
{
    struct ct_waiting *list = m->waiting;
    int64_t n               = 0;

    for (int64_t g = 0; g < m->n_truths; g++) {
        if (!is_asked(m, g))
            continue;
        list[n].truth = g;
        list[n].prior = best_prior(m, g, &list[n].overlap);
        n += list[n].prior >= 0;
    }
    while (n > 0) {
        int64_t best = 0, taken;

        for (int64_t i = 1; i < n; i++)
            if (list[i].overlap > list[best].overlap ||
                (list[i].overlap == list[best].overlap &&
                 list[i].prior < list[best].prior))
                best = i;
        taken             = list[best].prior;
        m->match[taken]   = (int)list[best].truth;
        m->overlap[taken] = list[best].overlap;
        for (int64_t i = best; i + 1 < n; i++) /* keeps the order of truths */
            list[i] = list[i + 1];
        n--;
        for (int64_t i = 0; i < n; i++) {
            if (list[i].prior != taken)
                continue;
            list[i].prior = best_prior(m, list[i].truth, &list[i].overlap);
            if (list[i].prior >= 0)
                continue;
            for (int64_t k = i; k + 1 < n; k++)
                list[k] = list[k + 1];
            n--;
            i--;
        }
    }
}

static void match_one(struct match *m)
{
    for (int64_t p = 0; p < m->priors; p++) {
        m->overlap[p] = 0;
        m->match[p]   = m->p->inside_only && is_outside(m->box[p])
                            ? CT_BOX_OUTSIDE : CT_BOX_NONE;
        for (int64_t g = 0; g < m->n_truths && m->match[p] == CT_BOX_NONE;
             g++) {
            float o = ct_bbox_overlap(m->box[p], m->truth[g]);

            if (is_asked(m, g) && o > LEAST_OVERLAP && o > m->overlap[p])
                m->overlap[p] = o;
        }
    }
    bipartite(m);
    if (m->p->bipartite)
        return;
    for (int64_t p = 0; p < m->priors; p++) {
        float best = -1;

        if (m->match[p] != CT_BOX_NONE || !(m->overlap[p] >= m->p->threshold))
            continue;
        for (int64_t g = 0; g < m->n_truths; g++) {
            float o = ct_bbox_overlap(m->box[p], m->truth[g]);

            if (is_asked(m, g) && o > LEAST_OVERLAP &&
                o >= m->p->threshold && o > best) {
                best        = o;
                m->match[p] = (int)g;
            }
        }
    }
}

/* Locations of class k, decoded. */
static void decode(struct multi_box_loss *m, int64_t i, int64_t k,
                   const float *prior, const float *loc)
{
    const float *variance = prior + 4 * m->priors;
    struct ct_bbox *box   = m->box + i * m->priors;

    for (int64_t p = 0; p < m->priors; p++)
        box[p] = ct_bbox_decode(m->p.code, prior + 4 * p,
                                m->p.scaled ? NULL : variance + 4 * p,
                                loc + (p * m->p.locations + k) * 4);
}

/* Matches by priors, given to the class of each truth. */
static void hand_out(struct multi_box_loss *m, int64_t i,
                     const struct match *found)
{
    int *match = m->match + i * m->p.locations * m->priors;

    for (int64_t k = m->p.locations - 1; k >= 0; k--)
        for (int64_t p = 0; p < m->priors; p++) {
            const int g = found->match[p];

            match[k * m->priors + p] =
                g >= 0 && found->truth_label[g] != k ? CT_BOX_NONE : g;
        }
}

void ct_multibox_match(struct multi_box_loss *m, int64_t i,
                       const float *prior, const float *loc)
{
    const int64_t first = m->truths.first[i];
    const bool any      = m->truths.box != NULL; /* in any image */
    int *match          = m->match + i * m->p.locations * m->priors;
    struct match one    = {
        .p           = &m->p,
        .box         = (const struct ct_bbox *)prior,
        .priors      = m->priors,
        .truth       = any ? m->truths.box + first : NULL,
        .truth_label = any ? m->truths.label + first : NULL,
        .n_truths    = m->truths.first[i + 1] - first,
        .waiting     = any ? m->truths.waiting + first : NULL,
        .label       = CT_BOX_NO_LABEL,
        .match       = match,
        .overlap     = m->overlap + i * m->priors,
    };

    if (m->p.use_prior && m->p.locations == 1) {
        match_one(&one);
        return;
    }
    if (m->p.use_prior) {
        one.match = m->label + i * m->priors; /* mining fills it later */
        match_one(&one);
        hand_out(m, i, &one);
        return;
    }
    one.box = m->box + i * m->priors;
    for (int64_t k = 0; k < m->p.locations; k++) {
        one.match = match + k * m->priors;
        one.label = m->p.locations == 1 ? CT_BOX_NO_LABEL : (int)k;
        if (m->p.locations > 1 && k == m->p.background) {
            for (int64_t p = 0; p < m->priors; p++)
                one.match[p] = CT_BOX_NONE;
            continue;
        }
        decode(m, i, k, prior, loc);
        match_one(&one);
    }
}
