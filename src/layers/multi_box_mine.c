/* multi_box_mine.c - which priors count for the loss.
 *
 *     NONE          all
 *     MAX_NEGATIVE  those with a truth, and neg_pos_ratio times as many
 *                   others, of an overlap below neg_overlap: those of the
 *                   highest loss
 *     HARD_EXAMPLE  the sample_size of the highest loss, location included,
 *                   whatever they are
 *
 * Of equal losses the lower prior wins.  With an nms_param candidates that
 * overlap a better one are left out first. */
#include <string.h>

#include "layers/multi_box_loss.h"

/* The label that a prior's confidence is to have. */
static int label_of(const struct multi_box_loss *m, int64_t i, int64_t p)
{
    const int *match = m->match + i * m->p.locations * m->priors;
    int label        = m->p.background;

    for (int64_t k = 0; k < m->p.locations; k++)
        if (match[k * m->priors + p] >= 0)
            label = m->truths.label[m->truths.first[i] +
                                    match[k * m->priors + p]];
    return label;
}

static void count_matches(struct multi_box_loss *m, int64_t i)
{
    const int *match = m->match + i * m->p.locations * m->priors;

    m->n_match[i] = 0;
    for (int64_t k = 0; k < m->p.locations * m->priors; k++)
        m->n_match[i] += match[k] >= 0;
}

/* What candidates are compared by. */
static float score_of(const struct multi_box_loss *m, int64_t i, int64_t p,
                      const float *prior, const float *loc, const float *conf)
{
    const int g = m->match[i * m->priors + p];
    float score = ct_multibox_conf_loss(m->p.logistic, m->p.classes,
                                        conf + p * m->p.classes,
                                        label_of(m, i, p));
    float d[4];

    if (m->p.mining ==
            CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE &&
        g >= 0) {
        const struct ct_bbox *box = m->p.use_prior ? NULL : m->box +
                                                            i * m->priors + p;

        ct_multibox_off(&m->p, prior + 4 * p, prior + 4 * (m->priors + p),
                        m->truths.box[m->truths.first[i] + g], loc + 4 * p,
                        box ? &box->xmin : prior + 4 * p, d);
        score += ct_multibox_loc_loss(m->p.smooth, d);
    }
    return score;
}

/* Bits that order as losses do, which are not negative. */
static uint32_t rank_of(float score)
{
    uint32_t bits;

    score = score < 0 ? 0 : score;
    memcpy(&bits, &score, sizeof(bits));
    return bits;
}

/* The k of the highest score among n candidates move to the front, in the
 * order they had: digit by digit, from the highest. */
static void select_best(struct ct_bbox_found *pick, int64_t n, int64_t k)
{
    uint32_t least = 0; /* of those taken, as far as it is known */
    int64_t equal = k, at = 0;

    for (int shift = 24; shift >= 0 && k < n; shift -= 8) {
        int64_t count[256] = { 0 };
        int digit          = 255;

        for (int64_t c = 0; c < n; c++) {
            const uint32_t r = rank_of(pick[c].score);

            if (shift == 24 || r >> (shift + 8) == least >> (shift + 8))
                count[r >> shift & 255]++;
        }
        while (digit > 0 && count[digit] < equal)
            equal -= count[digit--];
        least |= (uint32_t)digit << shift;
    }
    for (int64_t c = 0; c < n && k < n; c++) {
        const uint32_t r = rank_of(pick[c].score);

        if (r > least || (r == least && equal-- > 0))
            pick[at++] = pick[c];
    }
}

static int64_t suppress(const struct multi_box_loss *m, int64_t i,
                        const float *prior, const float *loc, int64_t n)
{
    const struct ct_bbox *box = (const struct ct_bbox *)prior;

    if (!m->nms_priors) {
        struct ct_bbox *to = m->box + i * m->priors;

        for (int64_t p = 0; p < m->priors; p++)
            to[p] = ct_bbox_decode(m->p.code, prior + 4 * p,
                                   m->p.scaled ? NULL
                                               : prior + 4 * (m->priors + p),
                                   loc + 4 * p);
        box = to;
    }
    return ct_bbox_suppress(&m->nms, box, m->pick + i * m->priors, n);
}

/* Candidates into m->pick; returns how many there are, *most: are taken. */
static int64_t candidates(struct multi_box_loss *m, int64_t i,
                          const float *prior, const float *loc,
                          const float *conf, int64_t *most)
{
    const bool hard =
        m->p.mining ==
        CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE;
    const int *match           = m->match + i * m->priors;
    struct ct_bbox_found *pick = m->pick + i * m->priors;
    int64_t n                  = 0;

    for (int64_t p = 0; p < m->priors; p++)
        if (hard || (match[p] == CT_BOX_NONE &&
                     m->overlap[i * m->priors + p] < m->p.neg_overlap))
            pick[n++] = (struct ct_bbox_found){
                score_of(m, i, p, prior, loc, conf), 0, (int32_t)p
            };
    *most = hard ? m->p.sample_size
                 : (int64_t)((float)m->n_match[i] * m->p.neg_ratio);
    *most = *most < n ? *most : n;
    return n;
}

void ct_multibox_mine(struct multi_box_loss *m, int64_t i, const float *prior,
                      const float *loc, const float *conf)
{
    const bool none =
        m->p.mining == CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__NONE;
    const bool hard =
        m->p.mining ==
        CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE;
    int *label = m->label + i * m->priors, *match;
    int64_t n, most;

    count_matches(m, i);
    if (none) {
        for (int64_t p = 0; p < m->priors; p++)
            label[p] = label_of(m, i, p);
        return;
    }
    for (int64_t p = 0; p < m->priors; p++)
        label[p] = CT_BOX_NO_LABEL;
    if (m->truths.first[i + 1] == m->truths.first[i])
        return;
    n = candidates(m, i, prior, loc, conf, &most);
    if (m->nms.threshold > 0) {
        n    = suppress(m, i, prior, loc, n);
        most = most < n ? most : n;
    } else {
        select_best(m->pick + i * m->priors, n, most);
    }
    match = m->match + i * m->priors;
    for (int64_t p = 0; p < m->priors && !hard; p++)
        if (match[p] >= 0)
            label[p] = label_of(m, i, p);
    for (int64_t c = 0; c < most; c++) {
        const int64_t p = m->pick[i * m->priors + c].index;

        if (match[p] != CT_BOX_OUTSIDE)
            label[p] = label_of(m, i, p);
    }
    for (int64_t p = 0; p < m->priors && hard; p++)
        if (match[p] >= 0 && label[p] == CT_BOX_NO_LABEL) {
            match[p] = CT_BOX_NONE;
            m->n_match[i]--;
        }
}
