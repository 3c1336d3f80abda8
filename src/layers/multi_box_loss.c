/* multi_box_loss.c - SSD's loss of locations and confidences, type
 * "MultiBoxLoss".
 *
 *     bottom 0  locations    N x P K 4     bottom 2  priors  1 x 2 x 4 P
 *     bottom 1  confidences  N x P C       bottom 3  truths  1 x 1 x G x 8
 *
 *     loss = (loc_weight sum f(l - t) + sum -log p[label]) / z
 *
 * P priors, C classes, K is 1 with share_location and else C.  Priors are
 * matched with truths (multi_box_match.c); those that count for confidences
 * are chosen (multi_box_mine.c).  The first sum is over matched priors: t is
 * the truth in the code of the prior, f is smooth L1 (d^2 / 2 below 1, |d| -
 * 1/2 above) or d^2 / 2.  The second is softmax or, with LOGISTIC, the cross
 * entropy of a sigmoid for each class.  z is the normaliser of loss.h, where
 * the number of matched priors is what VALID counts.
 *
 * Rows of truths are item, label, instance, xmin, ymin, xmax, ymax, difficult;
 * those of a negative item are padding.  Backward OVERWRITES.
 *
 * Deviations from SSD: with encode_variance_in_target the gradient is divided
 * by the variance, as the loss is; with LOGISTIC and no mining unmatched
 * priors have the background's target.
 *
 * On a GPU kernels do all of it where locations are shared, priors are
 * matched and mining suppresses nothing; else the host does. */
#include "layers/multi_box_loss.h"

#include <inttypes.h>

#include "base/mem.h"
#include "device/cpu/loop.h"
#include "layers/cuda/slots.h"
#include "proto/params.h"

#define MINING(name) CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__##name

enum { LOC, CONF, PRIOR, TRUTH };

static Caffe__MultiBoxLossParameter__MiningType mining_of(
    const Caffe__MultiBoxLossParameter *p)
{
    if (p->has_do_neg_mining && !p->has_mining_type)
        return p->do_neg_mining ? MINING(MAX_NEGATIVE) : MINING(NONE);
    return p->mining_type;
}

static enum ct_status mb_check(const struct ct_layer *l,
                               const Caffe__MultiBoxLossParameter *p,
                               const struct ct_multibox *m)
{
    if (p->num_classes == 0 || p->num_classes > 1 << 20)
        return ct_fail(CT_EINVAL, "layer %s: multibox_loss_param needs "
                       "num_classes", l->name);
    if (p->background_label_id >= p->num_classes)
        return ct_fail(CT_EINVAL, "layer %s: background_label_id is %u, but "
                       "there are %u classes", l->name,
                       p->background_label_id, p->num_classes);
    if (m->agnostic && p->num_classes != p->background_label_id + 2)
        return ct_fail(CT_EINVAL, "layer %s: map_object_to_agnostic takes the "
                       "background and one class behind it: num_classes is "
                       "%u", l->name, p->background_label_id + 2);
    if (m->mining != MINING(NONE) && !p->share_location)
        return ct_fail(CT_EINVAL, "layer %s: mining needs share_location; set "
                       "mining_type: NONE", l->name);
    if (m->mining == MINING(MAX_NEGATIVE) && !(p->neg_pos_ratio > 0))
        return ct_fail(CT_EINVAL, "layer %s: neg_pos_ratio must be above 0",
                       l->name);
    if (m->mining == MINING(HARD_EXAMPLE) && p->sample_size < 1)
        return ct_fail(CT_EINVAL, "layer %s: sample_size must be at least 1",
                       l->name);
    if (m->bp_inside && !p->share_location && !m->use_prior)
        return ct_fail(CT_EINVAL, "layer %s: bp_inside needs share_location "
                       "or use_prior_for_matching", l->name);
    if (m->bp_inside && m->code == CT_BBOX_CENTER_SIZE)
        return ct_fail(CT_EINVAL, "layer %s: bp_inside is about corners; use "
                       "code_type CORNER or CORNER_SIZE", l->name);
    return CT_OK;
}

static bool propagates(const struct ct_layer *l, size_t bottom)
{
    return l->param->n_propagate_down <= bottom ||
           l->param->propagate_down[bottom];
}

static enum ct_status mb_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__MultiBoxLossParameter *p = ct_multibox_loss_param(l->param);
    const Caffe__NonMaximumSuppressionParameter *nms = p->nms_param;
    struct multi_box_loss *m = l->state;

    (void)io;
    m->p = (struct ct_multibox){
        .mining      = mining_of(p),
        .code        = (enum ct_bbox_code)p->code_type,
        .classes     = (int)p->num_classes,
        .locations   = p->share_location ? 1 : (int)p->num_classes,
        .background  = (int)p->background_label_id,
        .bipartite   = p->match_type ==
                     CAFFE__MULTI_BOX_LOSS_PARAMETER__MATCH_TYPE__BIPARTITE,
        .use_prior   = p->use_prior_for_matching,
        .difficult   = p->use_difficult_gt,
        .scaled      = p->encode_variance_in_target,
        .agnostic    = p->map_object_to_agnostic,
        .inside_only = p->ignore_cross_boundary_bbox,
        .bp_inside   = p->bp_inside,
        .logistic    = p->conf_loss_type ==
                    CAFFE__MULTI_BOX_LOSS_PARAMETER__CONF_LOSS_TYPE__LOGISTIC,
        .smooth      = p->loc_loss_type ==
                  CAFFE__MULTI_BOX_LOSS_PARAMETER__LOC_LOSS_TYPE__SMOOTH_L1,
        .threshold   = p->overlap_threshold,
        .neg_ratio   = p->neg_pos_ratio,
        .neg_overlap = p->neg_overlap,
        .loc_weight  = p->loc_weight,
        .sample_size = p->sample_size,
        .count_loc   = propagates(l, LOC),
        .count_conf  = propagates(l, CONF),
    };
    CT_TRY(mb_check(l, p, &m->p));
    m->loss = ct_loss_read(l,
                           CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID);
    m->nms_priors = p->use_prior_for_nms;
    if (nms)
        m->nms = (struct ct_bbox_nms){ nms->nms_threshold, 1,
                                       nms->has_top_k ? nms->top_k : -1 };
    m->on_host = l->dev->kind != CT_CPU &&
                 (!p->share_location || !m->p.use_prior ||
                  (m->nms.threshold > 0 && m->p.mining != MINING(NONE)));
    if (m->on_host)
        l->flags |= CT_LAYER_NO_CAPTURE;
    return l->dev->kind == CT_CPU ? CT_OK : ct_layer_add_scratch(l, &m->state);
}

static void mb_free(struct multi_box_loss *m)
{
    ct_free(m->match);
    ct_free(m->label);
    ct_free(m->overlap);
    ct_free(m->pick);
    ct_free(m->sum);
    ct_free(m->n_match);
    ct_free(m->truths.first);
    m->match = m->label = NULL;
    m->overlap = NULL;
    m->pick    = NULL;
    m->sum     = NULL;
    m->n_match = m->truths.first = NULL;
    m->n_room = m->n_images = 0;
}

static void mb_free_truths(struct ct_truths *t)
{
    ct_free(t->box);
    ct_free(t->label);
    ct_free(t->waiting);
    t->box     = NULL;
    t->label   = NULL;
    t->waiting = NULL;
    t->n_room  = 0;
}

static enum ct_status mb_grow_truths(struct ct_truths *t, int64_t rows)
{
    const size_t n = 2 * (size_t)rows + 64;

    if (rows <= t->n_room)
        return CT_OK;
    mb_free_truths(t);
    CT_TRY(ct_alloc(n, sizeof(*t->box), "multibox", &t->box));
    CT_TRY(ct_alloc(n, sizeof(*t->label), "multibox", &t->label));
    CT_TRY(ct_alloc(n, sizeof(*t->waiting), "multibox", &t->waiting));
    t->n_room = (int64_t)n;
    return CT_OK;
}

/* Memory of the host. */
static enum ct_status mb_grow(struct multi_box_loss *m)
{
    const size_t n = (size_t)m->n, each = n * (size_t)m->priors;

    CT_TRY(mb_grow_truths(&m->truths, m->rows));
    if (!m->p.use_prior || (m->nms.threshold > 0 && !m->nms_priors)) {
        if (each > m->n_boxes) {
            ct_free(m->box);
            m->box     = NULL;
            m->n_boxes = 0;
            CT_TRY(ct_alloc(each, sizeof(*m->box), "multibox", &m->box));
            m->n_boxes = each;
        }
    }
    if (each <= m->n_room && n <= m->n_images)
        return CT_OK;
    mb_free(m);
    CT_TRY(ct_alloc(each * (size_t)m->p.locations, sizeof(*m->match),
                    "multibox", &m->match));
    CT_TRY(ct_alloc(each, sizeof(*m->label), "multibox", &m->label));
    CT_TRY(ct_alloc(each, sizeof(*m->overlap), "multibox", &m->overlap));
    CT_TRY(ct_alloc(each, sizeof(*m->pick), "multibox", &m->pick));
    CT_TRY(ct_alloc(n, 2 * sizeof(*m->sum), "multibox", &m->sum));
    CT_TRY(ct_alloc(n, sizeof(*m->n_match), "multibox", &m->n_match));
    CT_TRY(ct_alloc(n + 1, sizeof(*m->truths.first), "multibox",
                    &m->truths.first));
    m->n_room   = each;
    m->n_images = n;
    return CT_OK;
}

static enum ct_status mb_shapes(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_blob *prior = io->bottom[PRIOR], *gt = io->bottom[TRUTH];
    struct multi_box_loss *m    = l->state;

    CT_TRY(ct_loss_reshape(l, io));
    m->n = io->bottom[LOC]->shape.dim[0];
    if (prior->shape.n_axes < 3 || prior->shape.dim[1] != 2 ||
        prior->shape.dim[0] != 1 || ct_count(prior, 2, CT_END) % 4 != 0 ||
        prior->count == 0)
        return ct_fail(CT_ESHAPE, "layer %s: priors must be 1 x 2 x 4 P",
                       l->name);
    m->priors = ct_count(prior, 2, CT_END) / 4;
    if (gt->shape.n_axes < 1 ||
        gt->shape.dim[gt->shape.n_axes - 1] != CT_TRUTH_ROW)
        return ct_fail(CT_ESHAPE, "layer %s: the ground truth must be 1 x 1 x "
                       "G x %d, as AnnotatedData gives it", l->name,
                       CT_TRUTH_ROW);
    m->rows = gt->count / CT_TRUTH_ROW;
    if (ct_count(io->bottom[LOC], 1, CT_END) !=
        m->priors * m->p.locations * 4)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " locations an image, "
                       "%" PRId64 " priors need %" PRId64, l->name,
                       ct_count(io->bottom[LOC], 1, CT_END), m->priors,
                       m->priors * m->p.locations * 4);
    if (ct_count(io->bottom[CONF], 1, CT_END) != m->priors * m->p.classes)
        return ct_fail(CT_ESHAPE, "layer %s: %" PRId64 " confidences an "
                       "image, %" PRId64 " priors need %" PRId64, l->name,
                       ct_count(io->bottom[CONF], 1, CT_END), m->priors,
                       m->priors * m->p.classes);
    return CT_OK;
}

/* Room for what crosses over: the bottoms, then the gradients of two. */
static enum ct_status mb_host(struct multi_box_loss *m,
                              const struct ct_io *io)
{
    size_t n = 0;

    for (int i = 0; i < 4; i++)
        n += (size_t)io->bottom[i]->count * (i < 2 ? 2 : 1);
    if (n <= m->host_room)
        return CT_OK;
    ct_free(m->host);
    m->host      = NULL;
    m->host_room = 0;
    CT_TRY(ct_alloc(n, sizeof(*m->host), "multibox", &m->host));
    m->host_room = n;
    return CT_OK;
}

static enum ct_status mb_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct multi_box_loss *m = l->state;

    CT_TRY(mb_shapes(l, io));
    if (l->dev->kind == CT_CPU)
        return mb_grow(m);
    if (m->on_host) {
        CT_TRY(mb_host(m, io));
        return mb_grow(m);
    }
    /* See cuda/multi_box_loss.cu. */
    return ct_reshape(m->state,
                      CT_SHAPE(3 * m->n * m->priors + 6 * m->n + 3 * m->rows +
                               3));
}

/* The box that bp_inside asks: prior or prediction. */
static const float *asked_box(const struct multi_box_loss *m, int64_t i,
                              int64_t p, const float *prior)
{
    return m->p.use_prior ? prior + 4 * p
                          : &m->box[i * m->priors + p].xmin;
}

/* Adds up image i. */
static void sum_image(struct multi_box_loss *m, int64_t i, const float *loc,
                      const float *conf, const float *prior)
{
    const int64_t K  = m->p.locations, P = m->priors;
    const int *match = m->match + i * K * P;
    double sum[2]    = { 0, 0 };
    float d[4];

    for (int64_t k = 0; k < K; k++)
        for (int64_t p = 0; p < P; p++) {
            if (match[k * P + p] < 0)
                continue;
            ct_multibox_off(&m->p, prior + 4 * p, prior + 4 * (P + p),
                            m->truths.box[m->truths.first[i] +
                                          match[k * P + p]],
                            loc + (p * K + k) * 4, asked_box(m, i, p, prior),
                            d);
            sum[0] += (double)ct_multibox_loc_loss(m->p.smooth, d);
        }
    for (int64_t p = 0; p < P; p++)
        if (m->label[i * P + p] >= 0)
            sum[1] += (double)ct_multibox_conf_loss(
                m->p.logistic, m->p.classes, conf + p * m->p.classes,
                m->label[i * P + p]);
    m->sum[2 * i]     = sum[0];
    m->sum[2 * i + 1] = sum[1];
}

static enum ct_status run_forward(struct ct_layer *l, const float *loc,
                                  const float *conf, const float *prior,
                                  const float *rows, float *loss)
{
    struct multi_box_loss *m = l->state;
    const int64_t L = m->priors * m->p.locations * 4;
    const int64_t C = m->priors * m->p.classes;
    double total = 0;
    int64_t n    = 0;

    CT_TRY(ct_truths_read(l, rows));
    CT_FOR_ROWS (i, m->n, 64 * C) {
        ct_multibox_match(m, i, prior, loc + i * L);
        ct_multibox_mine(m, i, prior, loc + i * L, conf + i * C);
        sum_image(m, i, loc + i * L, conf + i * C, prior);
    }
    for (int64_t i = 0; i < m->n; i++) {
        n += m->n_match[i];
        total += m->p.count_loc ? (double)m->p.loc_weight * m->sum[2 * i] : 0;
        total += m->p.count_conf ? m->sum[2 * i + 1] : 0;
    }
    m->normalizer = ct_loss_normalizer(&m->loss, m->n, m->priors, n);
    *loss         = (float)(total / (double)m->normalizer);
    return CT_OK;
}

/* Gradients of one image's locations. */
static void loc_grad(const struct multi_box_loss *m, int64_t i, float scale,
                     const float *loc, const float *prior, float *out)
{
    const int64_t K  = m->p.locations, P = m->priors;
    const int *match = m->match + i * K * P;

    for (int64_t p = 0; p < P; p++)
        for (int64_t k = 0; k < K; k++, out += 4, loc += 4) {
            const float *variance = prior + 4 * (P + p);

            out[0] = out[1] = out[2] = out[3] = 0;
            if (match[k * P + p] < 0)
                continue;
            ct_multibox_off(&m->p, prior + 4 * p, variance,
                            m->truths.box[m->truths.first[i] +
                                          match[k * P + p]], loc,
                            asked_box(m, i, p, prior), out);
            for (int c = 0; c < 4; c++) {
                if (m->p.smooth)
                    out[c] = out[c] > 1 ? 1 : out[c] < -1 ? -1 : out[c];
                out[c] *= scale / (m->p.scaled ? variance[c] : 1);
            }
        }
}

static void conf_grad(const struct multi_box_loss *m, int64_t i, float scale,
                      const float *x, float *out)
{
    const int C = m->p.classes;

    for (int64_t p = 0; p < m->priors; p++, x += C, out += C) {
        const int label = m->label[i * m->priors + p];
        float top = x[0], sum = 0;

        for (int c = 0; c < C; c++)
            out[c] = 0;
        if (label < 0)
            continue;
        for (int c = 1; c < C; c++)
            top = x[c] > top ? x[c] : top;
        for (int c = 0; c < C; c++)
            sum += out[c] = m->p.logistic ? 1 / (1 + expf(-x[c]))
                                          : expf(x[c] - top);
        sum = m->p.logistic ? scale : scale / sum;
        for (int c = 0; c < C; c++)
            out[c] *= sum;
        out[label] -= scale;
    }
}

static void run_backward(const struct multi_box_loss *m, float scale,
                         const float *loc, const float *conf,
                         const float *prior, float *dloc, float *dconf)
{
    const int64_t L = m->priors * m->p.locations * 4;
    const int64_t C = m->priors * m->p.classes;

    CT_FOR_ROWS (i, m->n, 8 * C) {
        if (dloc)
            loc_grad(m, i, scale * m->p.loc_weight, loc + i * L, prior,
                     dloc + i * L);
        if (dconf)
            conf_grad(m, i, scale, conf + i * C, dconf + i * C);
    }
}

static enum ct_status mb_forward(struct ct_layer *l, const struct ct_io *io)
{
    return run_forward(l, ct_data(io->bottom[LOC]), ct_data(io->bottom[CONF]),
                       ct_data(io->bottom[PRIOR]), ct_data(io->bottom[TRUTH]),
                       ct_data(io->top[0]));
}

static enum ct_status mb_backward(struct ct_layer *l, const struct ct_io *io)
{
    const struct multi_box_loss *m = l->state;

    run_backward(m, ct_diff(io->top[0])[0] / m->normalizer,
                 ct_data(io->bottom[LOC]), ct_data(io->bottom[CONF]),
                 ct_data(io->bottom[PRIOR]),
                 io->want_grad[LOC] ? ct_diff(io->bottom[LOC]) : NULL,
                 io->want_grad[CONF] ? ct_diff(io->bottom[CONF]) : NULL);
    return CT_OK;
}

#ifdef CT_HAVE_CUDA
/* Where each bottom lies in m->host; [4] and [5] are the gradients. */
static void host_places(const struct multi_box_loss *m,
                        const struct ct_io *io, float *at[6])
{
    at[0] = m->host;
    for (int i = 0; i < 5; i++)
        at[i + 1] = at[i] + io->bottom[i < 4 ? i : 0]->count;
}

static enum ct_status mb_forward_gpu(struct ct_layer *l,
                                     const struct ct_io *io)
{
    const struct multi_box_loss *m = l->state;
    float *at[6], loss;

    if (!m->on_host)
        return ct_cuda_multi_box_loss_forward(l, io);
    host_places(m, io, at);
    for (int i = 0; i < 4; i++)
        CT_TRY(l->dev->ops->to_host(
            l->dev, (size_t)io->bottom[i]->count * sizeof(float),
            ct_data(io->bottom[i]), at[i]));
    CT_TRY(run_forward(l, at[LOC], at[CONF], at[PRIOR], at[TRUTH], &loss));
    return l->dev->ops->from_host(l->dev, sizeof(loss), &loss,
                                  ct_data(io->top[0]));
}

static enum ct_status mb_backward_gpu(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const struct multi_box_loss *m = l->state;
    float *at[6], weight;

    if (!m->on_host)
        return ct_cuda_multi_box_loss_backward(l, io);
    host_places(m, io, at);
    CT_TRY(l->dev->ops->to_host(l->dev, sizeof(weight), ct_diff(io->top[0]),
                                &weight));
    run_backward(m, weight / m->normalizer, at[LOC], at[CONF], at[PRIOR],
                 io->want_grad[LOC] ? at[4] : NULL,
                 io->want_grad[CONF] ? at[5] : NULL);
    for (int i = 0; i < 2; i++)
        if (io->want_grad[i])
            CT_TRY(l->dev->ops->from_host(
                l->dev, (size_t)io->bottom[i]->count * sizeof(float),
                at[4 + i], ct_diff(io->bottom[i])));
    return CT_OK;
}
#else
#define mb_forward_gpu NULL
#define mb_backward_gpu NULL
#endif

static void mb_teardown(struct ct_layer *l)
{
    struct multi_box_loss *m = l->state;

    mb_free(m);
    mb_free_truths(&m->truths);
    ct_free(m->box);
    ct_free(m->host);
}

const struct ct_layer_type ct_layer_multi_box_loss = {
    .name       = "MultiBoxLoss",
    .bottoms    = CT_EXACTLY(4),
    .tops       = CT_EXACTLY(1),
    .flags      = CT_LAYER_LOSS,
    .no_grad    = 1 << PRIOR | 1 << TRUTH,
    .open_ended = 1 << TRUTH,
    .state_size = sizeof(struct multi_box_loss),
    .setup      = mb_setup,
    .reshape    = mb_reshape,
    .forward    = { [CT_CPU] = mb_forward, [CT_CUDA] = mb_forward_gpu },
    .backward   = { [CT_CPU] = mb_backward, [CT_CUDA] = mb_backward_gpu },
    .teardown   = mb_teardown,
};
