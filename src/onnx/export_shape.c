/* export_shape.c - layers that move values about, and those that reduce. */
#include <string.h>

#include "layers/argmax.h"
#include "layers/concat.h"
#include "layers/crop.h"
#include "layers/reduction.h"
#include "layers/shuffle_channel.h"
#include "layers/slice.h"
#include "onnx/export.h"
#include "proto/params.h"

enum ct_status onnx_emit_concat(struct onnx_export *x,
                                const struct onnx_layer *l)
{
    const struct concat *c = l->layer->state;
    Onnx__NodeProto *n = onnx_end(x, l, "Concat", ONNX_IN(l->in[0]));

    for (int i = 1; n && i < l->io.n_bottom; i++)
        onnx_add_input(&x->graph, n, l->in[i]);
    onnx_set_int(&x->graph, n, "axis", c->axis);
    return CT_OK;
}

/* Elements [from, to) of one axis after the other, as one node. */
static void cut(struct onnx_export *x, const struct onnx_layer *l,
                const char *name, int n_axes, const int64_t *axes,
                const int64_t *from, const int64_t *to, const char *out)
{
    const char *starts = onnx_list(x, l, "starts", n_axes, from);
    const char *ends   = onnx_list(x, l, "ends", n_axes, to);

    onnx_add(&x->graph, name, "Slice",
             ONNX_IN(l->in[0], starts, ends,
                     onnx_list(x, l, "axes", n_axes, axes)),
             out);
}

enum ct_status onnx_emit_slice(struct onnx_export *x,
                               const struct onnx_layer *l)
{
    const struct slice *s = l->layer->state;
    const int64_t axis    = s->axis;
    int64_t from          = 0;

    if (onnx_dim(x, l, false, 0, s->axis) < 0)
        return onnx_refuse(l, "it cuts the batch, whose size is open: give a "
                           "batch size");
    for (int i = 0; i < l->io.n_top; i++) {
        int64_t to = from + l->io.top[i]->shape.dim[s->axis];

        cut(x, l, i ? onnx_part(x, l, "Slice") : l->name, 1, &axis, &from, &to,
            l->out[i]);
        from = to;
    }
    return CT_OK;
}

enum ct_status onnx_emit_crop(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const struct crop *c = l->layer->state;
    int64_t axes[CT_MAX_AXES], from[CT_MAX_AXES], to[CT_MAX_AXES];
    int n = 0;

    for (int i = 0; i < c->n_axes; i++) {
        int64_t dim = l->io.top[0]->shape.dim[i];

        if (dim == l->io.bottom[0]->shape.dim[i])
            continue;
        axes[n]   = i;
        from[n]   = c->offset[i];
        to[n++]   = c->offset[i] + dim;
    }
    if (n == 0)
        onnx_end(x, l, "Identity", ONNX_IN(l->in[0]));
    else
        cut(x, l, l->name, n, axes, from, to, l->out[0]);
    return CT_OK;
}

enum ct_status onnx_emit_reshape(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    return onnx_reshape_top(x, l, l->in[0], 0);
}

enum ct_status onnx_emit_flatten(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    int axis = ct_flatten_param(l->layer->param)->axis;
    Onnx__NodeProto *n;

    CT_TRY(ct_axis(l->io.bottom[0], axis, &axis));
    if (axis != 1 || l->io.top[0]->shape.n_axes != 2)
        return onnx_reshape_top(x, l, l->in[0], 0);
    n = onnx_end(x, l, "Flatten", ONNX_IN(l->in[0]));
    onnx_set_int(&x->graph, n, "axis", 1);
    return CT_OK;
}

void onnx_transpose(struct onnx_export *x, const char *name, const char *in,
                    int n_axes, const int64_t *order, const char *out)
{
    Onnx__NodeProto *n = onnx_add(&x->graph, name, "Transpose", ONNX_IN(in),
                                  out);

    onnx_set_ints(&x->graph, n, "perm", n_axes, order);
}

enum ct_status onnx_emit_permute(struct onnx_export *x,
                                 const struct onnx_layer *l)
{
    const Caffe__PermuteParameter *p = ct_permute_param(l->layer->param);
    const int n_axes = l->io.bottom[0]->shape.n_axes;
    bool used[CT_MAX_AXES] = { false };
    int64_t order[CT_MAX_AXES];
    int n = 0;

    for (size_t i = 0; i < p->n_order; i++) {
        order[n++]        = p->order[i];
        used[p->order[i]] = true;
    }
    for (int i = 0; i < n_axes; i++)
        if (!used[i])
            order[n++] = i;
    onnx_transpose(x, l->name, l->in[0], n_axes, order, l->out[0]);
    return CT_OK;
}

enum ct_status onnx_emit_tile(struct onnx_export *x,
                              const struct onnx_layer *l)
{
    const Caffe__TileParameter *p = ct_tile_param(l->layer->param);
    const int n_axes = l->io.bottom[0]->shape.n_axes;
    int64_t repeats[CT_MAX_AXES];
    int axis;

    CT_TRY(ct_axis(l->io.bottom[0], p->axis, &axis));
    for (int i = 0; i < n_axes; i++)
        repeats[i] = i == axis ? p->tiles : 1;
    onnx_end(x, l, "Tile",
             ONNX_IN(l->in[0], onnx_list(x, l, "repeats", n_axes, repeats)));
    return CT_OK;
}

/* The channels as a matrix, transposed. */
enum ct_status onnx_emit_shuffle_channel(struct onnx_export *x,
                                         const struct onnx_layer *l)
{
    const int64_t group = ct_shuffle_channel_param(l->layer->param)->group;
    const struct ct_shape *from = &l->io.bottom[0]->shape;
    struct ct_shape wide = { .n_axes = from->n_axes + 1 };
    int64_t order[CT_MAX_AXES];
    const char *v, *turned;

    if (wide.n_axes > CT_MAX_AXES)
        return onnx_refuse(l, "it has too many axes");
    for (int i = 0; i < wide.n_axes; i++) {
        order[i]    = i == 1 ? 2 : i == 2 ? 1 : i;
        wide.dim[i] = i == 0   ? onnx_dim(x, l, false, 0, 0)
                      : i == 1 ? group
                      : i == 2 ? from->dim[1] / group
                               : onnx_dim(x, l, false, 0, i - 1);
    }
    v = onnx_part(x, l, "Reshape");
    CT_TRY(onnx_reshape(x, l, l->in[0], &wide, v));
    turned = onnx_part(x, l, "Transpose");
    onnx_transpose(x, turned, v, wide.n_axes, order, turned);
    return onnx_reshape_top(x, l, turned, 0);
}

const char *onnx_cast(struct onnx_export *x, const struct onnx_layer *l,
                      const char *from, enum onnx_type to, const char *out)
{
    const char *name = out ? out : onnx_part(x, l, "Cast");

    onnx_set_int(&x->graph,
                 onnx_add(&x->graph, out ? l->name : name, "Cast",
                          ONNX_IN(from), name),
                 "to", to);
    return name;
}

enum ct_status onnx_emit_batch_reindex(struct onnx_export *x,
                                       const struct onnx_layer *l)
{
    const int64_t flat[] = { -1 };
    const char *index = onnx_cast(x, l, l->in[1], ONNX_INT64, NULL);

    if (l->io.bottom[1]->shape.n_axes != 1)
        index = onnx_step(x, l, "Reshape",
                          ONNX_IN(index, onnx_list(x, l, "shape", 1, flat)));
    onnx_end(x, l, "Gather", ONNX_IN(l->in[0], index));
    onnx_remember(x, l);
    return CT_OK;
}

enum ct_status onnx_emit_filter(struct onnx_export *x,
                                const struct onnx_layer *l)
{
    const int last       = l->io.n_bottom - 1;
    const int64_t flat[] = { -1 };
    const char *chosen   = onnx_cast(x, l, l->in[last], ONNX_BOOL, NULL);

    chosen = onnx_step(x, l, "Reshape",
                       ONNX_IN(chosen, onnx_list(x, l, "shape", 1, flat)));
    for (int i = 0; i < last; i++)
        onnx_set_int(&x->graph,
                     onnx_add(&x->graph,
                              i ? onnx_part(x, l, "Compress") : l->name,
                              "Compress", ONNX_IN(l->in[i], chosen),
                              l->out[i]),
                     "axis", 0);
    onnx_remember(x, l);
    return CT_OK;
}

enum ct_status onnx_emit_reduction(struct onnx_export *x,
                                   const struct onnx_layer *l)
{
    static const char *const ops[] = {
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUM]   = "ReduceSum",
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__ASUM]  = "ReduceL1",
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUMSQ] = "ReduceSumSquare",
        [CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__MEAN]  = "ReduceMean",
    };
    const Caffe__ReductionParameter *p = ct_reduction_param(l->layer->param);
    const char *op = ops[p->operation], *out = l->out[0], *name = l->name;
    const bool scaled = p->coeff != 1;
    const int end = l->io.bottom[0]->shape.n_axes;
    int64_t axes[CT_MAX_AXES];
    int first, n = 0;
    Onnx__NodeProto *node;

    CT_TRY(ct_axis(l->io.bottom[0], p->axis, &first));
    for (int i = first; i < end; i++)
        axes[n++] = i;
    if (scaled)
        out = name = onnx_part(x, l, op);
    /* In opset 13 the axes of ReduceSum are an input, those of its kin not. */
    if (p->operation == CAFFE__REDUCTION_PARAMETER__REDUCTION_OP__SUM) {
        node = onnx_add(&x->graph, name, op,
                        ONNX_IN(l->in[0], onnx_list(x, l, "axes", n, axes)),
                        out);
    } else {
        node = onnx_add(&x->graph, name, op, ONNX_IN(l->in[0]), out);
        onnx_set_ints(&x->graph, node, "axes", n, axes);
    }
    onnx_set_int(&x->graph, node, "keepdims", 0);
    if (scaled)
        onnx_end(x, l, "Mul",
                 ONNX_IN(out, onnx_number(x, l, "coeff", p->coeff)));
    return CT_OK;
}

/* The k best of `from` along an axis: values and places, both new tensors. */
static void top_k(struct onnx_export *x, const struct onnx_layer *l,
                  const char *from, int64_t k, int axis, const char **values,
                  const char **places)
{
    Onnx__NodeProto *n;

    *values = onnx_part(x, l, "values");
    *places = onnx_part(x, l, "places");
    n = onnx_add(&x->graph, onnx_part(x, l, "TopK"), "TopK",
                 ONNX_IN(from, onnx_list(x, l, "k", 1, &k)), *values);
    onnx_add_output(&x->graph, n, *places);
    onnx_set_int(&x->graph, n, "axis", axis);
}

enum ct_status onnx_emit_argmax(struct onnx_export *x,
                                const struct onnx_layer *l)
{
    const Caffe__ArgMaxParameter *p = ct_argmax_param(l->layer->param);
    const struct argmax *a = l->layer->state;
    const char *from = l->in[0], *values = NULL, *places, *both;
    Onnx__NodeProto *n;
    int axis = 1;

    onnx_remember(x, l);
    if (p->has_axis)
        CT_TRY(ct_axis(l->io.bottom[0], p->axis, &axis));
    else if (l->io.bottom[0]->shape.n_axes != 2)
        from = onnx_step(x, l, "Flatten", ONNX_IN(from));
    if (a->k == 1 && !p->out_max_val) {
        places = onnx_part(x, l, "ArgMax");
        n = onnx_add(&x->graph, places, "ArgMax", ONNX_IN(from), places);
        onnx_set_int(&x->graph, n, "axis", axis);
        onnx_set_int(&x->graph, n, "keepdims", 1);
        onnx_set_int(&x->graph, n, "select_last_index", 1);
    } else {
        top_k(x, l, from, a->k, axis, &values, &places);
    }
    if (p->has_axis) {
        if (p->out_max_val)
            onnx_end(x, l, "Identity", ONNX_IN(values));
        else
            onnx_cast(x, l, places, ONNX_FLOAT, l->out[0]);
        return CT_OK;
    }
    both = onnx_cast(x, l, places, ONNX_FLOAT, NULL);
    if (p->out_max_val) {
        places = both;
        both   = onnx_part(x, l, "Concat");
        n = onnx_add(&x->graph, both, "Concat", ONNX_IN(places, values), both);
        onnx_set_int(&x->graph, n, "axis", 1);
    }
    return onnx_reshape_top(x, l, both, 0);
}
