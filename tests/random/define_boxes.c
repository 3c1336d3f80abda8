/* define_boxes.c - definitions of SSD's PriorBox and MultiBoxLoss.
 *
 * Which prior stands for which truth, and which priors count, is decided by
 * what the layer saw; the loss of a changed bottom keeps these choices, as its
 * gradient does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "define.h"
#include "proto/params.h"

#define KIND(name) CAFFE__MULTI_BOX_LOSS_PARAMETER__##name
#define CODE(name) CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__##name

enum { MOST_TRUTHS = 64, MOST_CLASSES = 8, NOTHING = -1, OUTSIDE = -2 };
static const double least = 1e-6; /* boxes that overlap less do not */

/* ---- PriorBox ---- */

/* One box around a centre; both axes in pixels. */
static double *prior_at(const double centre[2], double width, double height,
                        const double image[2], bool clip, double *out)
{
    const double size[2] = { width, height };

    for (int i = 0; i < 4; i++) {
        const int a = i % 2;

        out[i] = (centre[a] + (i < 2 ? -1 : 1) * size[a] / 2) / image[a];
        if (clip)
            out[i] = fmin(fmax(out[i], 0), 1);
    }
    return out + 4;
}

static double *priors_at(const Caffe__PriorBoxParameter *p,
                         const double centre[2], const double image[2],
                         double *out)
{
    for (size_t s = 0; s < p->n_min_size; s++) {
        const double side = trunc((double)p->min_size[s]);

        out = prior_at(centre, side, side, image, p->clip, out);
        if (p->n_max_size > 0) {
            const double mean = sqrt(side * trunc((double)p->max_size[s]));

            out = prior_at(centre, mean, mean, image, p->clip, out);
        }
        for (size_t r = 0; r < p->n_aspect_ratio; r++) {
            const double root = sqrt((double)p->aspect_ratio[r]);

            if (root == 1)
                continue;
            out = prior_at(centre, side * root, side / root, image, p->clip,
                           out);
            if (p->flip)
                out = prior_at(centre, side / root, side * root, image,
                               p->clip, out);
        }
    }
    return out;
}

static void prior_box(const struct definition *d)
{
    const Caffe__PriorBoxParameter *p = ct_prior_box_param(d->param);
    const int64_t map[2] = { define_dim(d->bottom, 3),
                             define_dim(d->bottom, 2) };
    const double image[2] = { (double)define_dim(&d->bottom[1], 3),
                              (double)define_dim(&d->bottom[1], 2) };
    double *out = d->top->v;

    for (int64_t i = 0; i < map[0] * map[1]; i++) {
        const double place[2] = { (double)(i % map[0]), (double)(i / map[0]) };
        double centre[2];

        for (int a = 0; a < 2; a++)
            centre[a] = (place[a] + (double)p->offset) *
                        (p->has_step ? (double)p->step
                                     : image[a] / (double)map[a]);
        out = priors_at(p, centre, image, out);
    }
    for (int64_t i = 0; i < d->top->n / 2; i++)
        out[i] = p->n_variance == 0   ? 0.1
                 : p->n_variance == 1 ? (double)p->variance[0]
                                      : (double)p->variance[i % 4];
}

/* ---- MultiBoxLoss ---- */

struct truth {
    const double *box;
    int           label;
};

/* One image of a MultiBoxLoss, and what was chosen for it. */
struct image {
    const Caffe__MultiBoxLossParameter *p;
    int           mining;
    int64_t       priors, classes, locations;
    const double *prior, *variance, *loc, *conf;
    struct truth  truth[MOST_TRUTHS];
    int           n_truths;
    int           match[MOST_CLASSES][DEFINE_MOST_PRIORS];
    int           label[DEFINE_MOST_PRIORS]; /* NOTHING: does not count */
    double        overlap[DEFINE_MOST_PRIORS]; /* of a prior, at most */
    int           n_match;
};

static double area(const double *b)
{
    return b[2] < b[0] || b[3] < b[1] ? 0 : (b[2] - b[0]) * (b[3] - b[1]);
}

static double overlap(const double *a, const double *b)
{
    const double w = fmin(a[2], b[2]) - fmax(a[0], b[0]);
    const double h = fmin(a[3], b[3]) - fmax(a[1], b[1]);

    return w <= 0 || h <= 0 ? 0 : w * h / (area(a) + area(b) - w * h);
}

/* The box that location k of prior q stands for. */
static void decode(const struct image *m, int64_t q, int64_t k, double *out)
{
    const double *prior = m->prior + 4 * q;
    const double side[2] = { prior[2] - prior[0], prior[3] - prior[1] };
    double v[4];

    for (int i = 0; i < 4; i++) {
        v[i] = m->loc[(q * m->locations + k) * 4 + i];
        if (!m->p->encode_variance_in_target)
            v[i] *= m->variance[4 * q + i];
    }
    for (int a = 0; a < 2; a++) {
        const double by = m->p->code_type == CODE(CORNER) ? 1 : side[a];

        out[a]     = prior[a] + v[a] * by;
        out[a + 2] = prior[a + 2] + v[a + 2] * by;
        if (m->p->code_type == CODE(CENTER_SIZE)) {
            const double centre = v[a] * side[a] +
                                  (prior[a] + prior[a + 2]) / 2;
            const double half = exp(v[a + 2]) * side[a] / 2;

            out[a]     = centre - half;
            out[a + 2] = centre + half;
        }
    }
}

/* What location k of prior q should be for a truth, in its code. */
static void encode(const struct image *m, int64_t q, const double *box,
                   double *out)
{
    const double *prior = m->prior + 4 * q;

    for (int a = 0; a < 2; a++) {
        const double side = prior[a + 2] - prior[a];
        const double by   = m->p->code_type == CODE(CORNER) ? 1 : side;

        out[a]     = (box[a] - prior[a]) / by;
        out[a + 2] = (box[a + 2] - prior[a + 2]) / by;
        if (m->p->code_type == CODE(CENTER_SIZE)) {
            out[a] = (box[a] + box[a + 2] - prior[a] - prior[a + 2]) / 2 /
                     side;
            out[a + 2] = log((box[a + 2] - box[a]) / side);
        }
    }
    for (int i = 0; i < 4 && !m->p->encode_variance_in_target; i++)
        out[i] /= m->variance[4 * q + i];
}

/* The box by which prior q is matched: its own, or that of location k. */
static void matched_box(const struct image *m, int64_t q, int64_t k,
                        double *out)
{
    if (m->p->use_prior_for_matching)
        memcpy(out, m->prior + 4 * q, 4 * sizeof(*out));
    else
        decode(m, q, k, out);
}

static bool lies_outside(const double *b)
{
    for (int i = 0; i < 4; i++)
        if (b[i] < 0 || b[i] > 1)
            return true;
    return false;
}

/* Pair by pair, the closest first: each truth (of one class, or all) gets one
 * prior. */
static void pair_up(struct image *m, int64_t k, int only, int *match)
{
    bool done[MOST_TRUTHS] = { false };

    for (;;) {
        double best = least, box[4];
        int64_t at = -1;
        int g = -1;

        for (int64_t q = 0; q < m->priors; q++) {
            if (match[q] != NOTHING)
                continue;
            matched_box(m, q, k, box);
            for (int t = 0; t < m->n_truths; t++)
                if (!done[t] && (only < 0 || m->truth[t].label == only) &&
                    overlap(box, m->truth[t].box) > best) {
                    best = overlap(box, m->truth[t].box);
                    at   = q;
                    g    = t;
                }
        }
        if (at < 0)
            return;
        match[at] = g;
        done[g]   = true;
    }
}

static void match_boxes(struct image *m, int64_t k, int only, int *match)
{
    double box[4];

    for (int64_t q = 0; q < m->priors; q++) {
        matched_box(m, q, k, box);
        match[q] = m->p->ignore_cross_boundary_bbox && lies_outside(box)
                       ? OUTSIDE : NOTHING;
        m->overlap[q] = 0;
        for (int t = 0; t < m->n_truths && match[q] == NOTHING; t++)
            if (only < 0 || m->truth[t].label == only)
                m->overlap[q] = fmax(m->overlap[q],
                                     overlap(box, m->truth[t].box));
    }
    pair_up(m, k, only, match);
    for (int64_t q = 0; q < m->priors &&
                        m->p->match_type != KIND(MATCH_TYPE__BIPARTITE); q++) {
        double best = fmax((double)m->p->overlap_threshold, least);

        if (match[q] != NOTHING)
            continue;
        matched_box(m, q, k, box);
        for (int t = 0; t < m->n_truths; t++) {
            const double o = overlap(box, m->truth[t].box);

            if ((only < 0 || m->truth[t].label == only) && o >= best &&
                (match[q] == NOTHING || o > best)) {
                best     = o;
                match[q] = t;
            }
        }
    }
}

/* Truths to priors: of all classes at once, or class by class. */
static void match_image(struct image *m)
{
    int all[DEFINE_MOST_PRIORS];

    if (m->locations == 1) {
        match_boxes(m, 0, -1, m->match[0]);
        return;
    }
    if (m->p->use_prior_for_matching)
        match_boxes(m, 0, -1, all);
    for (int64_t k = 0; k < m->locations; k++)
        for (int64_t q = 0; q < m->priors; q++)
            m->match[k][q] =
                m->p->use_prior_for_matching && all[q] >= 0 &&
                        m->truth[all[q]].label == k ? all[q] : NOTHING;
    for (int64_t k = 0; k < m->locations; k++)
        if (!m->p->use_prior_for_matching && k != m->p->background_label_id)
            match_boxes(m, k, (int)k, m->match[k]);
}

static int label_of(const struct image *m, int64_t q)
{
    int label = (int)m->p->background_label_id;

    for (int64_t k = 0; k < m->locations; k++)
        if (m->match[k][q] >= 0)
            label = m->truth[m->match[k][q]].label;
    return label;
}

static double conf_loss(const struct image *m, int64_t q, int label)
{
    const double *x = m->conf + q * m->classes;
    double sum = 0, all = 0;

    for (int64_t c = 0; c < m->classes; c++) {
        sum += log(1 + exp(x[c])) - (c == label ? x[c] : 0);
        all += exp(x[c] - x[label]);
    }
    return m->p->conf_loss_type == KIND(CONF_LOSS_TYPE__LOGISTIC) ? sum
                                                                  : log(all);
}

/* Which corners of prior q count: with bp_inside, those in the image. */
static bool counts(const struct image *m, int64_t q, int corner)
{
    double box[4];

    matched_box(m, q, 0, box);
    return !m->p->bp_inside || (box[corner] >= 0 && box[corner] <= 1);
}

/* Of location k of prior q; corners count as they do in `seen`. */
static double loc_loss(const struct image *m, const struct image *seen,
                       int64_t q, int64_t k)
{
    double want[4], sum = 0;

    encode(m, q, m->truth[seen->match[k][q]].box, want);
    for (int i = 0; i < 4; i++) {
        double off = m->loc[(q * m->locations + k) * 4 + i] - want[i];

        if (m->p->encode_variance_in_target)
            off /= m->variance[4 * q + i];
        if (!counts(seen, q, i))
            off = 0;
        sum += m->p->loc_loss_type == KIND(LOC_LOSS_TYPE__SMOOTH_L1) &&
                       fabs(off) >= 1 ? fabs(off) - 0.5 : off * off / 2;
    }
    return sum;
}

struct candidate {
    double  score;
    int64_t prior;
};

static int worse(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->prior < y->prior ? -1 : 1;
}

/* Leaves out candidates that overlap a better one; returns how many stay. */
static int64_t suppress(const struct image *m, struct candidate *list,
                        int64_t n)
{
    const Caffe__NonMaximumSuppressionParameter *nms = m->p->nms_param;
    int64_t kept = 0;

    if (nms->has_top_k && n > nms->top_k)
        n = nms->top_k;
    for (int64_t i = 0; i < n; i++) {
        bool alone = true;

        for (int64_t j = 0; j < kept; j++) {
            double a[4], b[4];

            memcpy(a, m->prior + 4 * list[i].prior, sizeof(a));
            memcpy(b, m->prior + 4 * list[j].prior, sizeof(b));
            if (!m->p->use_prior_for_nms) {
                decode(m, list[i].prior, 0, a);
                decode(m, list[j].prior, 0, b);
            }
            alone = alone && overlap(a, b) <= (double)nms->nms_threshold;
        }
        if (alone)
            list[kept++] = list[i];
    }
    return kept;
}

/* Those of the highest loss. */
static void mine(struct image *m, bool hard)
{
    struct candidate list[DEFINE_MOST_PRIORS];
    int64_t n = 0, most;

    for (int64_t q = 0; q < m->priors; q++) {
        if (!hard && (m->match[0][q] != NOTHING ||
                      m->overlap[q] >= (double)m->p->neg_overlap))
            continue;
        list[n].prior = q;
        list[n].score = conf_loss(m, q, label_of(m, q));
        if (hard && m->match[0][q] >= 0)
            list[n].score += loc_loss(m, m, q, 0);
        n++;
    }
    most = hard ? m->p->sample_size
                : (int64_t)((float)m->n_match * m->p->neg_pos_ratio);
    qsort(list, (size_t)n, sizeof(*list), worse);
    if (m->p->nms_param && m->p->nms_param->nms_threshold > 0)
        n = suppress(m, list, n);
    for (int64_t i = 0; i < n && i < most; i++)
        if (m->match[0][list[i].prior] != OUTSIDE)
            m->label[list[i].prior] = label_of(m, list[i].prior);
}

static void choose(struct image *m)
{
    const bool none = m->mining == KIND(MINING_TYPE__NONE);
    const bool hard = m->mining == KIND(MINING_TYPE__HARD_EXAMPLE);

    match_image(m);
    m->n_match = 0;
    for (int64_t k = 0; k < m->locations; k++)
        for (int64_t q = 0; q < m->priors; q++)
            m->n_match += m->match[k][q] >= 0;
    for (int64_t q = 0; q < m->priors; q++)
        m->label[q] = none || (!hard && m->match[0][q] >= 0) ? label_of(m, q)
                                                             : NOTHING;
    if (none || m->n_truths == 0)
        return;
    mine(m, hard);
    for (int64_t q = 0; q < m->priors && hard; q++)
        if (m->match[0][q] >= 0 && m->label[q] == NOTHING) {
            m->match[0][q] = NOTHING;
            m->n_match--;
        }
}

static void read_image(const struct definition *d,
                       const struct tensor *bottom, int64_t i,
                       struct image *m)
{
    const Caffe__MultiBoxLossParameter *p = ct_multibox_loss_param(d->param);
    const struct tensor *rows = &d->bottom[3];

    memset(m, 0, sizeof(*m));
    m->p         = p;
    m->mining    = p->has_do_neg_mining && !p->has_mining_type
                       ? (p->do_neg_mining ? KIND(MINING_TYPE__MAX_NEGATIVE)
                                           : KIND(MINING_TYPE__NONE))
                       : (int)p->mining_type;
    m->priors    = d->bottom[2].n / 8;
    m->classes   = p->num_classes;
    m->locations = p->share_location ? 1 : p->num_classes;
    m->prior     = bottom[2].v;
    m->variance  = m->prior + 4 * m->priors;
    m->loc       = bottom[0].v + i * m->priors * m->locations * 4;
    m->conf      = bottom[1].v + i * m->priors * m->classes;
    for (int64_t r = 0; r < rows->n / 8 && m->n_truths < MOST_TRUTHS; r++) {
        const double *row = bottom[3].v + 8 * r;

        if ((int64_t)row[0] != i || row[0] < 0 ||
            (row[7] != 0 && !p->use_difficult_gt))
            continue;
        m->truth[m->n_truths++] = (struct truth){
            row + 3, p->map_object_to_agnostic
                         ? (int)p->background_label_id + 1 : (int)row[1]
        };
    }
}

static void multi_box_loss(const struct definition *d)
{
    const Caffe__LossParameter *l = ct_loss_param(d->param);
    const int64_t n = define_dim(d->bottom, 0);
    struct image seen, now;
    double loc = 0, conf = 0, n_match = 0, by;
    bool shown[2];

    for (int64_t i = 0; i < n; i++) {
        read_image(d, d->seen_bottom, i, &seen);
        choose(&seen);
        read_image(d, d->bottom, i, &now);
        n_match += seen.n_match;
        for (int64_t k = 0; k < seen.locations; k++)
            for (int64_t q = 0; q < seen.priors; q++)
                if (seen.match[k][q] >= 0)
                    loc += loc_loss(&now, &seen, q, k);
        for (int64_t q = 0; q < seen.priors; q++)
            if (seen.label[q] >= 0)
                conf += conf_loss(&now, q, seen.label[q]);
    }
    by = define_normaliser(l, (int)l->normalization, (double)n,
                           (double)(n * d->bottom[2].n / 8), n_match);
    loc *= (double)ct_multibox_loss_param(d->param)->loc_weight;
    for (size_t i = 0; i < 2; i++)
        shown[i] = i >= d->param->n_propagate_down ||
                   d->param->propagate_down[i];
    *d->minimised = (loc + conf) / by;
    d->top->v[0]  = ((shown[0] ? loc : 0) + (shown[1] ? conf : 0)) / by;
}

int64_t define_box_choice(const struct definition *d, int *out)
{
    struct image m;
    int64_t n = 0;

    for (int64_t i = 0; i < define_dim(d->bottom, 0); i++) {
        read_image(d, d->bottom, i, &m);
        choose(&m);
        for (int64_t q = 0; q < m.priors; q++) {
            out[n++] = m.label[q];
            for (int64_t k = 0; k < m.locations; k++)
                out[n++] = m.match[k][q];
            for (int c = 0; c < 4; c++)
                out[n++] = counts(&m, q, c);
        }
    }
    return n;
}

const struct define_entry define_boxes[] = {
    { "PriorBox", prior_box },
    { "MultiBoxLoss", multi_box_loss },
    { NULL, NULL },
};
