/* import_shape.c - operators that move values about. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "onnx/import.h"

static bool is_op(const struct onnx_import *m, const char *op)
{
    return strcmp(m->node->op_type, op) == 0;
}

enum ct_status onnx_read_identity(struct onnx_import *m)
{
    struct onnx_value *v;

    CT_TRY(onnx_input_blob(m, 0, &v));
    if (is_op(m, "Cast")) {
        const int64_t to = onnx_get_int(m, "to", ONNX_FLOAT);

        if (to != ONNX_FLOAT && to != ONNX_DOUBLE && to != ONNX_FLOAT16)
            return onnx_reject(m, "blobs hold floats, and element type %"
                               PRId64 " is asked for", to);
    }
    return onnx_pass_on(m, v->blob, &v->shape);
}

/* 0 copies a dimension and -1 takes what is left. */
static enum ct_status target(struct onnx_import *m,
                             const struct ct_shape *from, struct ct_shape *to)
{
    const int64_t all = ct_shape_count(from, 0, CT_END);
    int64_t rest = 1;
    int open = -1;

    CT_TRY(onnx_numbers(m, "shape", 1, CT_MAX_AXES, to->dim, &to->n_axes));
    if (to->n_axes < 0)
        return onnx_reject(m, "it has no shape");
    for (int i = 0; i < to->n_axes; i++) {
        if (to->dim[i] == 0 && !onnx_get_int(m, "allowzero", 0) &&
            i < from->n_axes)
            to->dim[i] = from->dim[i];
        if (to->dim[i] < -1 || (to->dim[i] == -1 && open >= 0) ||
            to->dim[i] > all)
            return onnx_reject(m, "its shape makes no sense");
        if (to->dim[i] == -1)
            open = i;
        else if (to->dim[i] > 0 && rest > all / to->dim[i])
            return onnx_reject(m, "its shape has more values than its input");
        else
            rest *= to->dim[i];
    }
    if (open >= 0)
        to->dim[open] = rest ? all / rest : 0;
    return CT_OK;
}

static enum ct_status flat(struct onnx_import *m, const struct ct_shape *from,
                           struct ct_shape *to)
{
    const int64_t axis = onnx_get_int(m, "axis", 1);
    const int at = (int)(axis < 0 ? axis + from->n_axes : axis);

    if (at < 0 || at > from->n_axes)
        return onnx_reject(m, "axis %" PRId64 " of %d axes", axis,
                           from->n_axes);
    *to = CT_SHAPE(ct_shape_count(from, 0, at),
                   ct_shape_count(from, at, CT_END));
    return CT_OK;
}

static enum ct_status squeezed(struct onnx_import *m,
                               const struct ct_shape *from,
                               struct ct_shape *to)
{
    const bool more = is_op(m, "Unsqueeze");
    int64_t axes[CT_MAX_AXES];
    bool chosen[2 * CT_MAX_AXES] = { false };
    int n, n_axes, next = 0;

    CT_TRY(onnx_numbers(m, "axes", 1, CT_MAX_AXES, axes, &n));
    if (more && n < 0)
        return onnx_reject(m, "it has no axes");
    n_axes = from->n_axes + (more ? n : 0);
    if (n_axes > CT_MAX_AXES)
        return onnx_reject(m, "too many axes");
    for (int i = 0; i < n; i++) {
        const int64_t at = axes[i] < 0 ? axes[i] + n_axes : axes[i];

        if (at < 0 || at >= n_axes)
            return onnx_reject(m, "axis %" PRId64 " of %d axes", axes[i],
                               n_axes);
        chosen[at] = true;
    }
    to->n_axes = 0;
    for (int i = 0; i < n_axes; i++) {
        if (more)
            to->dim[to->n_axes++] = chosen[i] || next >= from->n_axes
                                        ? 1 : from->dim[next++];
        else if (n < 0 ? from->dim[i] != 1 : !chosen[i])
            to->dim[to->n_axes++] = from->dim[i];
        else if (from->dim[i] != 1)
            return onnx_reject(m, "axis %d has %" PRId64 " values", i,
                               from->dim[i]);
    }
    return CT_OK;
}

enum ct_status onnx_new_shape(struct onnx_import *m,
                              const struct ct_shape *from,
                              struct ct_shape *to)
{
    *to = (struct ct_shape){ 0 };
    CT_TRY(is_op(m, "Reshape")   ? target(m, from, to)
           : is_op(m, "Flatten") ? flat(m, from, to)
                                 : squeezed(m, from, to));
    return ct_shape_check(to);
}

enum ct_status onnx_read_reshape(struct onnx_import *m)
{
    struct onnx_value *v;
    struct ct_shape to;
    const char *blob;

    CT_TRY(onnx_input_blob(m, 0, &v));
    CT_TRY(onnx_new_shape(m, &v->shape, &to));
    blob = v->blob;
    if (ct_shape_equal(&to, &v->shape))
        return onnx_pass_on(m, blob, &to);
    return onnx_reshape_end(m, blob, &to);
}

enum ct_status onnx_read_squeeze(struct onnx_import *m)
{
    return onnx_read_reshape(m);
}

enum ct_status onnx_read_flatten(struct onnx_import *m)
{
    struct onnx_value *v;

    CT_TRY(onnx_input_blob(m, 0, &v));
    if (onnx_get_int(m, "axis", 1) == 1 && v->shape.n_axes > 1)
        return onnx_layer_end(
            m, &(struct onnx_made){ "Flatten", ONNX_BLOBS(v->blob), 1, NULL,
                                    0 }, " ");
    return onnx_read_reshape(m);
}

enum ct_status onnx_permutation(struct onnx_import *m,
                                const struct ct_shape *from, int64_t *perm,
                                int *n)
{
    bool seen[CT_MAX_AXES] = { false };

    CT_TRY(onnx_numbers(m, "perm", 0, CT_MAX_AXES, perm, n));
    if (*n < 0)
        for (*n = 0; *n < from->n_axes; ++*n)
            perm[*n] = from->n_axes - 1 - *n;
    if (*n != from->n_axes)
        return onnx_reject(m, "an order of %d axes for %d", *n, from->n_axes);
    for (int i = 0; i < *n; i++) {
        if (perm[i] < 0 || perm[i] >= *n || seen[perm[i]])
            return onnx_reject(m, "its order makes no sense");
        seen[perm[i]] = true;
    }
    return CT_OK;
}

enum ct_status onnx_read_transpose(struct onnx_import *m)
{
    int64_t perm[CT_MAX_AXES];
    struct onnx_value *v;
    char order[CT_MAX_AXES * 12] = "";
    size_t at = 0;
    int n;

    CT_TRY(onnx_input_blob(m, 0, &v));
    CT_TRY(onnx_permutation(m, &v->shape, perm, &n));
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(order + at, sizeof(order) - at,
                               " order: %" PRId64, perm[i]);
    return onnx_layer_end(
        m, &(struct onnx_made){ "Permute", ONNX_BLOBS(v->blob), 1, NULL, 0 },
        "permute_param {%s }", order);
}

enum ct_status onnx_read_concat(struct onnx_import *m)
{
    const char **bottom = NULL;
    struct onnx_value *v;
    enum ct_status st = CT_OK;
    int axis = 0;

    CT_TRY(ct_alloc(m->node->n_input + 1, sizeof(*bottom), "onnx blobs",
                    &bottom));
    for (size_t i = 0; st == CT_OK && i < m->node->n_input; i++) {
        st = onnx_input_blob(m, i, &v);
        if (st == CT_OK)
            bottom[i] = v->blob;
        if (st == CT_OK && i == 0)
            st = onnx_axis(m, &v->shape, onnx_get_int(m, "axis", 1), &axis);
    }
    bottom[m->node->n_input] = NULL;
    if (st == CT_OK)
        st = onnx_layer_end(
            m, &(struct onnx_made){ "Concat", bottom, 1, NULL, 0 },
            "concat_param { axis: %d }", axis);
    ct_free(bottom);
    return st;
}

/* Elements [from, to) of an axis of `blob`: a Slice layer whose other tops are
 * silenced.  *blob and *shape become those of the part. */
static enum ct_status cut(struct onnx_import *m, const char **blob,
                          struct ct_shape *shape, int axis, int64_t from,
                          int64_t to)
{
    const int64_t dim = shape->dim[axis];
    char points[80] = "";
    int n           = 0;

    if (from == 0 && to == dim)
        return CT_OK;
    if (from >= to)
        return onnx_reject(m, "it cuts out nothing");
    if (from > 0)
        n = snprintf(points, sizeof(points), " slice_point: %" PRId64, from);
    if (to < dim)
        snprintf(points + n, sizeof(points) - (size_t)n,
                 " slice_point: %" PRId64, to);
    return onnx_layer_part(m, blob, axis, points, 1 + (from > 0) + (to < dim),
                           from > 0, shape);
}

enum ct_status onnx_read_slice(struct onnx_import *m)
{
    int64_t start[CT_MAX_AXES], stop[CT_MAX_AXES], axes[CT_MAX_AXES];
    int64_t steps[CT_MAX_AXES];
    int n, n_stop, n_axes, n_steps;
    struct ct_shape shape;
    struct onnx_value *v;
    const char *blob;

    CT_TRY(onnx_numbers(m, "starts", 1, CT_MAX_AXES, start, &n));
    CT_TRY(onnx_numbers(m, "ends", 2, CT_MAX_AXES, stop, &n_stop));
    CT_TRY(onnx_numbers(m, "axes", 3, CT_MAX_AXES, axes, &n_axes));
    CT_TRY(onnx_numbers(m, "", 4, CT_MAX_AXES, steps, &n_steps));
    CT_TRY(onnx_input_blob(m, 0, &v));
    blob  = v->blob;
    shape = v->shape;
    if (n < 0 || n_stop != n || (n_axes >= 0 && n_axes != n))
        return onnx_reject(m, "its starts, ends and axes do not fit together");
    for (int i = 0; i < n; i++) {
        int axis;

        CT_TRY(onnx_axis(m, &shape, n_axes < 0 ? i : axes[i], &axis));
        if (n_steps > i && steps[i] != 1)
            return onnx_reject(m, "it goes in steps of %" PRId64, steps[i]);
        for (int k = 0; k < 2; k++) {
            int64_t *at = k ? &stop[i] : &start[i], dim = shape.dim[axis];

            *at = *at < 0 ? *at + dim : *at;
            *at = *at < 0 ? 0 : *at > dim ? dim : *at;
        }
        CT_TRY(cut(m, &blob, &shape, axis, start[i], stop[i]));
    }
    return onnx_pass_on(m, blob, &shape);
}

/* One constant index along an axis. */
enum ct_status onnx_read_gather(struct onnx_import *m)
{
    struct onnx_value *v, *at;
    struct ct_shape shape, to;
    const char *blob;
    int64_t index;
    int axis;

    CT_TRY(onnx_input(m, 1, &at));
    if (!at || !at->i || ct_shape_count(&at->shape, 0, CT_END) != 1)
        return onnx_reject(m, "its indices must be one constant integer");
    index = at->i[0];
    to    = at->shape;
    CT_TRY(onnx_input_blob(m, 0, &v));
    blob  = v->blob;
    shape = v->shape;
    CT_TRY(onnx_axis(m, &shape, onnx_get_int(m, "axis", 0), &axis));
    index = index < 0 ? index + shape.dim[axis] : index;
    if (index < 0 || index >= shape.dim[axis])
        return onnx_reject(m, "index %" PRId64 " of %" PRId64, index,
                           shape.dim[axis]);
    CT_TRY(cut(m, &blob, &shape, axis, index, index + 1));
    if (to.n_axes > 0)
        return onnx_pass_on(m, blob, &shape);
    to        = shape;
    to.n_axes = shape.n_axes - 1;
    for (int i = axis; i < to.n_axes; i++)
        to.dim[i] = shape.dim[i + 1];
    return onnx_reshape_end(m, blob, &to);
}

enum ct_status onnx_read_split(struct onnx_import *m)
{
    int64_t sizes[256], at = 0;
    const int n_top = (int)m->node->n_output;
    struct ct_text points = { 0 };
    struct onnx_value *v;
    enum ct_status st;
    int axis, n;

    CT_TRY(onnx_numbers(m, "split", 1, 256, sizes, &n));
    CT_TRY(onnx_input_blob(m, 0, &v));
    CT_TRY(onnx_axis(m, &v->shape, onnx_get_int(m, "axis", 0), &axis));
    if (n_top > 256 || (n >= 0 && n != n_top) ||
        (n < 0 && v->shape.dim[axis] % n_top))
        return onnx_reject(m, "its sizes do not fit its %d outputs", n_top);
    for (int i = 0; i < n_top - 1; i++) {
        at += n < 0 ? v->shape.dim[axis] / n_top : sizes[i];
        ct_text_addf(&points, " slice_point: %" PRId64, at);
    }
    if (n_top == 1)
        return onnx_pass_on(m, v->blob, &v->shape);
    st = points.failed ? CT_ENOMEM
                       : onnx_layer_end(
                             m, &(struct onnx_made){ "Slice",
                                                     ONNX_BLOBS(v->blob),
                                                     n_top, NULL, 0 },
                             "slice_param { axis: %d%s }", axis, points.s);
    ct_text_fini(&points);
    return st;
}

/* Copies along each axis in turn. */
static enum ct_status repeat(struct onnx_import *m, const char *blob,
                             struct ct_shape shape, const int64_t *times)
{
    for (int i = 0; i < shape.n_axes; i++)
        if (times[i] != 1)
            CT_TRY(onnx_layer_between(
                m, &(struct onnx_made){ "Tile", ONNX_BLOBS(blob), 1, NULL, 0 },
                &blob, &shape, "tile_param { axis: %d tiles: %" PRId64 " }", i,
                times[i]));
    return onnx_pass_on(m, blob, &shape);
}

enum ct_status onnx_read_tile(struct onnx_import *m)
{
    int64_t times[CT_MAX_AXES];
    struct onnx_value *v;
    int n;

    CT_TRY(onnx_numbers(m, "", 1, CT_MAX_AXES, times, &n));
    CT_TRY(onnx_input_blob(m, 0, &v));
    if (n != v->shape.n_axes)
        return onnx_reject(m, "its repeats do not fit its input");
    for (int i = 0; i < n; i++)
        if (times[i] < 1 || times[i] > INT32_MAX)
            return onnx_reject(m, "it repeats %" PRId64 " times", times[i]);
    return repeat(m, v->blob, v->shape, times);
}

enum ct_status onnx_read_expand(struct onnx_import *m)
{
    struct ct_shape to = { 0 }, from = { 0 };
    int64_t times[CT_MAX_AXES];
    struct onnx_value *v;
    const char *blob;

    CT_TRY(onnx_numbers(m, "", 1, CT_MAX_AXES, to.dim, &to.n_axes));
    CT_TRY(onnx_input_blob(m, 0, &v));
    if (to.n_axes < 0)
        return onnx_reject(m, "it has no shape");
    blob        = v->blob;
    from.n_axes = v->shape.n_axes > to.n_axes ? v->shape.n_axes : to.n_axes;
    for (int i = 1; i <= from.n_axes; i++) {
        const int64_t x =
            i <= v->shape.n_axes ? v->shape.dim[v->shape.n_axes - i] : 1;
        const int64_t y = i <= to.n_axes ? to.dim[to.n_axes - i] : 1;

        if (x != y && x != 1 && y != 1)
            return onnx_reject(m, "its shapes do not fit together");
        from.dim[from.n_axes - i] = x;
        times[from.n_axes - i]    = x == 1 ? y : 1;
        if (times[from.n_axes - i] < 1)
            return onnx_reject(m, "its shape makes no sense");
    }
    if (!ct_shape_equal(&from, &v->shape))
        CT_TRY(onnx_reshape_between(m, blob, &from, &blob));
    return repeat(m, blob, from, times);
}

/* Borders of other values than a constant: those of images, as wide on both
 * sides. */
static enum ct_status pad_image(struct onnx_import *m,
                                const struct onnx_value *v,
                                const int64_t *pads)
{
    const bool edge = onnx_is_string(m, "mode", "edge", "constant");

    if (!edge && !onnx_is_string(m, "mode", "reflect", "constant"))
        return onnx_reject(m, "its mode is none of constant, edge and "
                           "reflect");
    if (v->shape.n_axes != 4 || pads[0] || pads[1] || pads[4] || pads[5] ||
        pads[2] != pads[6] || pads[3] != pads[7])
        return onnx_reject(m, "a border that repeats or reflects must be one "
                           "of images, as wide on both sides");
    return onnx_layer_end(
        m, &(struct onnx_made){ "Pad", ONNX_BLOBS(v->blob), 1, NULL, 0 },
        "pad_param { type: %s pad_h: %" PRId64 " pad_w: %" PRId64 " }",
        edge ? "REPLICATE" : "REFLECT_101", pads[2], pads[3]);
}

/* Before all axes, then after all of them. */
enum ct_status onnx_read_pad(struct onnx_import *m)
{
    int64_t pads[2 * CT_MAX_AXES];
    struct onnx_value *v, *c;
    char text[CT_MAX_AXES * 60] = "";
    float value = onnx_get_float(m, "value", 0);
    size_t at = 0;
    int n;

    CT_TRY(onnx_numbers(m, "pads", 1, 2 * CT_MAX_AXES, pads, &n));
    CT_TRY(onnx_input_floats(m, 2, &c));
    if (c && ct_shape_count(&c->shape, 0, CT_END) == 1)
        value = c->f[0];
    CT_TRY(onnx_input_blob(m, 0, &v));
    if (n != 2 * v->shape.n_axes || m->node->n_input > 3)
        return onnx_reject(m, "its pads do not fit its input");
    for (int i = 0; i < v->shape.n_axes; i++) {
        const int64_t before = pads[i], after = pads[v->shape.n_axes + i];

        if (before < 0 || after < 0 || before > 1 << 20 || after > 1 << 20)
            return onnx_reject(m, "it pads by %" PRId64 " and %" PRId64,
                               before, after);
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               " paddings: %" PRId64 " paddings: %" PRId64,
                               before, after);
    }
    if (!onnx_is_string(m, "mode", "constant", "constant"))
        return pad_image(m, v, pads);
    return onnx_layer_end(
        m, &(struct onnx_made){ "Pad", ONNX_BLOBS(v->blob), 1, NULL, 0 },
        "pad_param { constant_values: %.9g%s }", (double)value, text);
}
