/* multi_box_loss.h - what a MultiBoxLoss layer keeps; see its .c file. */
#ifndef CT_LAYERS_MULTI_BOX_LOSS_H
#define CT_LAYERS_MULTI_BOX_LOSS_H

#include "cortado/layer.h"
#include "layers/bbox.h"
#include "layers/loss.h"

/* What a prior is matched with, other than the number of a ground truth. */
enum { CT_BOX_NONE = -1, CT_BOX_OUTSIDE = -2 };

/* A label that says: this prior's confidence does not count. */
enum { CT_BOX_NO_LABEL = -1 };

/* Columns of a row of ground truth. */
enum {
    CT_TRUTH_ITEM,
    CT_TRUTH_LABEL,
    CT_TRUTH_INSTANCE,
    CT_TRUTH_BOX,
    CT_TRUTH_DIFFICULT = 7,
    CT_TRUTH_ROW
};

/* The parameters, plain, so that kernels can have them too. */
struct ct_multibox {
    Caffe__MultiBoxLossParameter__MiningType mining;
    enum ct_bbox_code code;
    int     classes, locations, background;
    bool    bipartite;    /* every truth has one prior and no more */
    bool    use_prior;    /* for matching; else predictions */
    bool    difficult;    /* truths that are count, too */
    bool    scaled;       /* variances divide the difference, not the target */
    bool    agnostic, inside_only, bp_inside, logistic, smooth;
    float   threshold, neg_ratio, neg_overlap, loc_weight;
    int64_t sample_size;
    bool    count_loc, count_conf; /* as propagate_down says */
};

/* A truth that is still without a prior, and the best one for it. */
struct ct_waiting {
    int64_t truth, prior;
    float   overlap;
};

/* Ground truth of a batch, image by image; in the host's memory. */
struct ct_truths {
    struct ct_waiting *waiting;
    struct ct_bbox *box;
    int            *label;
    int64_t        *first; /* of image i; first[N] is their number */
    int64_t         n_room;
};

struct multi_box_loss {
    struct ct_multibox p;
    struct ct_bbox_nms nms; /* threshold 0: no suppression in mining */
    bool               nms_priors;
    struct ct_loss     loss;
    int64_t            n, priors, rows; /* N, P, G */
    bool               on_host; /* a GPU has no kernels for this case */
    struct ct_truths   truths;
    /* N x K x P: the truth of a prior's location; N x P: the label of its
     * confidence, its overlap. */
    int     *match, *label;
    float   *overlap;
    struct ct_bbox       *box;  /* N x P: predictions, decoded */
    struct ct_bbox_found *pick; /* N x P: candidates */
    double  *sum;               /* N x 2: location, confidence */
    int64_t *n_match;           /* N */
    size_t   n_room, n_images, n_boxes; /* what there is memory for */
    float    normalizer;
    struct ct_blob *state; /* of a GPU: see cuda/multi_box_loss.cu */
    float   *host;         /* bottoms and gradients, with on_host */
    size_t   host_room;
};

/* Everything below is the host's.  Images are independent. */

/* The truths of all images out of rows; names the layer and the row in what
 * it refuses. */
CT_MUST_CHECK enum ct_status ct_truths_read(const struct ct_layer *l,
                                            const float *rows);
/* Fills match and overlap of image i. */
void ct_multibox_match(struct multi_box_loss *m, int64_t i,
                       const float *prior, const float *loc);
/* Fills label of image i, and n_match; mining may drop matches. */
void ct_multibox_mine(struct multi_box_loss *m, int64_t i, const float *prior,
                      const float *loc, const float *conf);

/* The loss of one prior's confidences for `label`, and one value of a
 * location's difference: for kernels too. */
#define CT_MULTIBOX_MOST_LOSS 87.3365448f /* -log FLT_MIN, as SoftmaxWithLoss */

CT_HOST_DEVICE static inline float ct_multibox_conf_loss(bool logistic,
                                                         int classes,
                                                         const float *x,
                                                         int label)
{
    float top = x[0], sum = 0;

    if (logistic) {
        for (int c = 0; c < classes; c++) {
            float t = c == label, up = x[c] >= 0;

            sum -= x[c] * (t - up) - logf(1 + expf(x[c] - 2 * x[c] * up));
        }
        return sum;
    }
    for (int c = 1; c < classes; c++)
        top = x[c] > top ? x[c] : top;
    for (int c = 0; c < classes; c++)
        sum += expf(x[c] - top);
    sum = logf(sum) - (x[label] - top);
    return sum > CT_MULTIBOX_MOST_LOSS ? CT_MULTIBOX_MOST_LOSS : sum;
}

/* d[k], what the location's value k is off, in the units of the loss. */
CT_HOST_DEVICE static inline void ct_multibox_off(const struct ct_multibox *p,
                                                  const float *prior,
                                                  const float *variance,
                                                  struct ct_bbox truth,
                                                  const float *loc,
                                                  const float *box, float *d)
{
    ct_bbox_encode(p->code, prior, p->scaled ? NULL : variance, truth, d);
    for (int k = 0; k < 4; k++) {
        d[k] = loc[k] - d[k];
        if (p->scaled)
            d[k] /= variance[k];
        if (p->bp_inside && (box[k] < 0 || box[k] > 1))
            d[k] = 0;
    }
}

CT_HOST_DEVICE static inline float ct_multibox_loc_loss(bool smooth,
                                                        const float *d)
{
    float sum = 0;

    for (int k = 0; k < 4; k++) {
        float a = fabsf(d[k]);

        sum += smooth && a >= 1 ? a - 0.5f : 0.5f * d[k] * d[k];
    }
    return sum;
}

#endif
