/* export_detect.c - DetectionOutput in standard operators.
 *
 * N images, P priors, C classes without the background, K = nms top_k, T =
 * keep_top_k:
 *
 *     boxes   N x P x L x 4    decoded; L is 1, or all classes
 *     best    N x C x K        scores, best first, and which prior each is of
 *     NonMaxSuppression over N C batches of K boxes: rows (batch, 0, place)
 *     kept    N x C K          the score where it was selected, else LOWEST
 *     TopK    N x T            over all classes of an image
 *     rows    R x 7            image, label, score, box, where above LOWEST
 *
 * The rows of an image come best first, where the layer orders them by label;
 * and no row comes for an image without any, where the layer writes -1. */
#include <float.h>

#include "base/mem.h"
#include "layers/bbox.h"
#include "onnx/export.h"
#include "proto/params.h"

#define LOWEST (-FLT_MAX)

struct detect {
    struct onnx_export      *x;
    const struct onnx_layer *l;
    const Caffe__DetectionOutputParameter *p;
    int64_t n; /* images, or -1 */
    int64_t priors, classes, locations, k, keep;
    int64_t n_labels; /* classes without the background */
    float   overlap;
};

static const char *step(const struct detect *d, const char *op,
                        const char *const *in)
{
    return onnx_step(d->x, d->l, op, in);
}

static const char *list(const struct detect *d, const char *what, int n,
                        const int64_t *v)
{
    return onnx_list(d->x, d->l, what, n, v);
}

static const char *with_int(const struct detect *d, const char *op,
                            const char *const *in, const char *attribute,
                            int64_t value)
{
    const char *out = onnx_part(d->x, d->l, op);

    onnx_set_int(&d->x->graph, onnx_add(&d->x->graph, out, op, in, out),
                 attribute, value);
    return out;
}

static const char *reshape(const struct detect *d, const char *in,
                           struct ct_shape to)
{
    return step(d, "Reshape", ONNX_IN(in, list(d, "shape", to.n_axes,
                                               to.dim)));
}

static const char *transpose(const struct detect *d, const char *in, int n,
                             const int64_t *order)
{
    const char *out = onnx_part(d->x, d->l, "Transpose");

    onnx_set_ints(&d->x->graph,
                  onnx_add(&d->x->graph, out, "Transpose", ONNX_IN(in), out),
                  "perm", n, order);
    return out;
}

/* Elements [from, to) of the last axis, axis 3. */
static const char *columns(const struct detect *d, const char *in,
                           int64_t from, int64_t to)
{
    const int64_t axis   = 3;
    const char *starts   = list(d, "starts", 1, &from);
    const char *ends     = list(d, "ends", 1, &to);

    return step(d, "Slice", ONNX_IN(in, starts, ends, list(d, "axes", 1,
                                                           &axis)));
}

/* A constant 1 x P x 1 x n made of the priors. */
static const char *of_priors(const struct detect *d, const char *what, int n,
                             void (*make)(const float *prior, float *to))
{
    const struct ct_blob *b     = d->l->io.bottom[2];
    const struct ct_shape shape = CT_SHAPE(1, d->priors, 1, n);
    const char *name            = "";
    float *values               = NULL;

    if (ct_alloc((size_t)(d->priors * n), sizeof(*values), "onnx values",
                 &values) != CT_OK) {
        d->x->graph.status = CT_ENOMEM;
        return name;
    }
    for (int64_t i = 0; i < d->priors; i++)
        make(ct_data(b) + 4 * i, values + n * i);
    name = onnx_weight(d->x, d->l, what, &shape, values);
    ct_free(values);
    return name;
}

static void corners(const float *p, float *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = p[i];
}

static void size(const float *p, float *to)
{
    to[0] = p[2] - p[0];
    to[1] = p[3] - p[1];
}

static void size_twice(const float *p, float *to)
{
    size(p, to);
    size(p, to + 2);
}

static void centre(const float *p, float *to)
{
    to[0] = (p[0] + p[2]) / 2;
    to[1] = (p[1] + p[3]) / 2;
}

/* The variances, which lie behind all priors. */
static const char *variances(const struct detect *d)
{
    const struct ct_shape shape = CT_SHAPE(1, d->priors, 1, 4);

    return onnx_weight(d->x, d->l, "variance", &shape,
                       ct_data(d->l->io.bottom[2]) + 4 * d->priors);
}

static const char *decode_centre(const struct detect *d, const char *v)
{
    const char *wh = of_priors(d, "size", 2, size);
    const char *at = step(d, "Mul", ONNX_IN(columns(d, v, 0, 2), wh));
    const char *half;

    at   = step(d, "Add", ONNX_IN(at, of_priors(d, "centre", 2, centre)));
    half = step(d, "Exp", ONNX_IN(columns(d, v, 2, 4)));
    half = step(d, "Mul", ONNX_IN(half, wh));
    half = step(d, "Mul", ONNX_IN(half, onnx_number(d->x, d->l, "half",
                                                    .5f)));
    v    = step(d, "Sub", ONNX_IN(at, half));
    return with_int(d, "Concat", ONNX_IN(v, step(d, "Add", ONNX_IN(at, half))),
                    "axis", 3);
}

/* N x P x L x 4 */
static const char *decode(const struct detect *d)
{
    const char *v = reshape(d, d->l->in[0],
                            CT_SHAPE(d->n, d->priors, d->locations, 4));

    if (!d->p->variance_encoded_in_target)
        v = step(d, "Mul", ONNX_IN(v, variances(d)));
    if (d->p->code_type == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CENTER_SIZE)
        return decode_centre(d, v);
    if (d->p->code_type == CAFFE__PRIOR_BOX_PARAMETER__CODE_TYPE__CORNER_SIZE)
        v = step(d, "Mul", ONNX_IN(v, of_priors(d, "size", 4, size_twice)));
    return step(d, "Add", ONNX_IN(v, of_priors(d, "corner", 4, corners)));
}

static int64_t label(const struct detect *d, int64_t i)
{
    return i + (d->n_labels < d->classes && i >= d->p->background_label_id);
}

/* Leaves the background's part of axis 1 out. */
static enum ct_status labels_of(const struct detect *d, const char **in)
{
    int64_t *v = NULL;

    if (d->n_labels == d->classes)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)d->n_labels, sizeof(*v), "onnx values", &v));
    for (int64_t i = 0; i < d->n_labels; i++)
        v[i] = label(d, i);
    *in = with_int(d, "Gather", ONNX_IN(*in, list(d, "labels",
                                                  (int)d->n_labels, v)),
                   "axis", 1);
    ct_free(v);
    return CT_OK;
}

/* The k best along an axis. */
static void top_k(const struct detect *d, const char *in, int64_t k, int axis,
                  const char **values, const char **places)
{
    struct onnx_graph *g = &d->x->graph;
    Onnx__NodeProto *n;

    *values = onnx_part(d->x, d->l, "values");
    *places = onnx_part(d->x, d->l, "places");
    n = onnx_add(g, onnx_part(d->x, d->l, "TopK"), "TopK",
                 ONNX_IN(in, list(d, "k", 1, &k)), *values);
    onnx_add_output(g, n, *places);
    onnx_set_int(g, n, "axis", axis);
}

/* The boxes of the best of each class: N x C K x 4. */
static enum ct_status boxes_of(const struct detect *d, const char *boxes,
                               const char *places, const char **out)
{
    const int64_t turn[] = { 0, 2, 1, 3 }, repeats[] = { 1, 1, 4 };
    const int64_t rows   = d->n_labels * d->k;
    int64_t *first       = NULL;

    if (d->locations > 1) {
        boxes = transpose(d, boxes, 4, turn);
        CT_TRY(labels_of(d, &boxes));
        boxes = reshape(d, boxes, CT_SHAPE(d->n, d->n_labels * d->priors, 4));
        CT_TRY(ct_alloc((size_t)d->n_labels, sizeof(*first), "onnx values",
                        &first));
        for (int64_t i = 0; i < d->n_labels; i++)
            first[i] = i * d->priors;
        places = step(d, "Add",
                      ONNX_IN(places, reshape(d, list(d, "first",
                                                      (int)d->n_labels, first),
                                              CT_SHAPE(1, d->n_labels, 1))));
        ct_free(first);
    } else {
        boxes = reshape(d, boxes, CT_SHAPE(d->n, d->priors, 4));
    }
    places = reshape(d, places, CT_SHAPE(d->n, rows, 1));
    places = step(d, "Tile", ONNX_IN(places, list(d, "repeats", 3, repeats)));
    *out = with_int(d, "GatherElements", ONNX_IN(boxes, places), "axis", 1);
    return CT_OK;
}

/* N x C K: scores of the boxes that stand, LOWEST for the others. */
static const char *suppress(const struct detect *d, const char *scores,
                            const char *boxes)
{
    const int64_t most = d->k, zero = 0, two = 2;
    const float bound  = d->p->has_confidence_threshold
                             ? d->p->confidence_threshold : LOWEST;
    const char *flat = reshape(d, scores, CT_SHAPE(-1));
    const char *count = list(d, "most", 1, &most);
    const char *overlap = onnx_number(d->x, d->l, "overlap", d->overlap);
    const char *b = reshape(d, boxes, CT_SHAPE(-1, d->k, 4));
    const char *s = reshape(d, scores, CT_SHAPE(-1, 1, d->k));
    const char *rows = step(d, "NonMaxSuppression",
                            ONNX_IN(b, s, count, overlap,
                                    onnx_number(d->x, d->l, "bound", bound)));
    const char *at = with_int(d, "Gather",
                              ONNX_IN(rows, list(d, "batch", 1, &zero)),
                              "axis", 1);
    const char *place = with_int(d, "Gather",
                                 ONNX_IN(rows, list(d, "place", 1, &two)),
                                 "axis", 1);
    const char *none = step(d, "Sub", ONNX_IN(flat, flat));

    at   = step(d, "Mul", ONNX_IN(at, count));
    at   = reshape(d, step(d, "Add", ONNX_IN(at, place)), CT_SHAPE(-1));
    none = step(d, "Add", ONNX_IN(none, onnx_number(d->x, d->l, "none",
                                                    LOWEST)));
    s = step(d, "Gather", ONNX_IN(flat, at));
    s = with_int(d, "ScatterElements", ONNX_IN(none, at, s), "axis", 0);
    return reshape(d, s, CT_SHAPE(d->n, d->n_labels * d->k));
}

/* A column of numbers as R x 1 floats. */
static const char *column(const struct detect *d, const char *v)
{
    return with_int(d, "Cast", ONNX_IN(reshape(d, v, CT_SHAPE(-1, 1))), "to",
                    ONNX_FLOAT);
}

static enum ct_status rows(const struct detect *d, const char *kept,
                           const char *boxes)
{
    const int64_t turn[] = { 1, 0 }, zero = 0, k = d->k, axes[] = { 0, 1 };
    const char *scores, *places, *at, *image, *place, *box;
    const char *name = onnx_part(d->x, d->l, "label");
    float *labels = NULL;

    CT_TRY(ct_alloc((size_t)d->n_labels, sizeof(*labels), "onnx values",
                    &labels));
    for (int64_t i = 0; i < d->n_labels; i++)
        labels[i] = (float)label(d, i);
    top_k(d, kept, d->keep, 1, &scores, &places);
    at = step(d, "Greater", ONNX_IN(scores, onnx_number(d->x, d->l, "none",
                                                        LOWEST)));
    at = transpose(d, step(d, "NonZero", ONNX_IN(at)), 2, turn);
    image = with_int(d, "Gather", ONNX_IN(at, list(d, "image", 1, &zero)),
                     "axis", 1);
    scores = step(d, "GatherND", ONNX_IN(scores, at));
    place  = reshape(d, step(d, "GatherND", ONNX_IN(places, at)),
                     CT_SHAPE(-1, 1));
    box = with_int(d, "Concat", ONNX_IN(image, place), "axis", 1);
    box = step(d, "GatherND", ONNX_IN(boxes, box));
    place = step(d, "Div", ONNX_IN(place, list(d, "k", 1, &k)));
    onnx_floats(&d->x->graph, name, &CT_SHAPE(d->n_labels), labels);
    ct_free(labels);
    at = column(d, step(d, "Gather", ONNX_IN(name, place)));
    at = with_int(d, "Concat",
                  ONNX_IN(column(d, image), at, column(d, scores), box),
                  "axis", 1);
    onnx_end(d->x, d->l, "Unsqueeze", ONNX_IN(at, list(d, "axes", 2, axes)));
    return CT_OK;
}

static enum ct_status describe(struct detect *d)
{
    const Caffe__NonMaximumSuppressionParameter *nms = d->p->nms_param;
    const int64_t background = d->p->background_label_id;

    d->n         = onnx_dim(d->x, d->l, false, 0, 0);
    d->priors    = ct_count(d->l->io.bottom[2], 2, CT_END) / 4;
    d->classes   = d->p->num_classes;
    d->locations = d->p->share_location ? 1 : d->classes;
    d->n_labels  = d->classes - (background >= 0 && background < d->classes);
    d->overlap   = nms ? nms->nms_threshold : .3f;
    d->k = nms && nms->has_top_k && nms->top_k >= 0 &&
                   nms->top_k < d->priors ? nms->top_k : d->priors;
    d->keep = d->n_labels * d->k;
    if (d->p->keep_top_k >= 0 && d->p->keep_top_k < d->keep)
        d->keep = d->p->keep_top_k;
    if (!d->x->constant[ct_net_bottom_id(d->x->net, d->l->index, 2)])
        return onnx_refuse(d->l, "its priors are not PriorBox's, which are "
                           "constants");
    if (nms && nms->eta != 1)
        return onnx_refuse(d->l, "ONNX has no suppression whose threshold "
                           "shrinks (nms_param.eta below 1)");
    if (d->n_labels < 1 || d->k < 1 || d->keep < 1)
        return onnx_refuse(d->l, "it keeps no boxes");
    return CT_OK;
}

enum ct_status onnx_emit_detection_output(struct onnx_export *x,
                                          const struct onnx_layer *l)
{
    const int64_t turn[] = { 0, 2, 1 };
    struct detect d = { x, l, ct_detection_output_param(l->layer->param),
                        0, 0, 0, 0, 0, 0, 0, 0 };
    const char *scores, *places, *boxes;

    CT_TRY(describe(&d));
    onnx_remember(x, l);
    scores = reshape(&d, l->in[1], CT_SHAPE(d.n, d.priors, d.classes));
    scores = transpose(&d, scores, 3, turn);
    CT_TRY(labels_of(&d, &scores));
    top_k(&d, scores, d.k, 2, &scores, &places);
    CT_TRY(boxes_of(&d, decode(&d), places, &boxes));
    return rows(&d, suppress(&d, scores, boxes), boxes);
}
