/* shape.c - counting and comparing shapes. */
#include "cortado/shape.h"

#include <inttypes.h>
#include <stdio.h>

/* 2^40 floats are 4 TiB: more is a mistake in a prototxt, not a wish. */
static const int64_t max_count = (int64_t)1 << 40;

enum ct_status ct_shape_check(const struct ct_shape *s)
{
    int64_t count = 1;

    if (s->n_axes < 0 || s->n_axes > CT_MAX_AXES)
        return ct_fail(CT_ESHAPE, "a blob has at most %d axes, not %d",
                       CT_MAX_AXES, s->n_axes);
    for (int i = 0; i < s->n_axes; i++) {
        if (s->dim[i] < 0)
            return ct_fail(CT_ESHAPE, "dimension %d is negative (%" PRId64 ")",
                           i, s->dim[i]);
        /* A zero does not hide the others: parts of the shape are counted
         * without it. */
        if (s->dim[i] > max_count ||
            __builtin_mul_overflow(count, s->dim[i] ? s->dim[i] : 1,
                                   &count) ||
            count > max_count)
            return ct_fail(CT_ESHAPE, "a shape with more than 2^40 elements");
    }
    return CT_OK;
}

int64_t ct_shape_count(const struct ct_shape *s, int from, int to)
{
    int64_t count = 1;

    for (int i = from; i < to && i < s->n_axes; i++)
        count *= s->dim[i];
    return count;
}

bool ct_shape_equal(const struct ct_shape *a, const struct ct_shape *b)
{
    if (a->n_axes != b->n_axes)
        return false;
    for (int i = 0; i < a->n_axes; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const char *ct_shape_text(const struct ct_shape *s, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (int i = 0; i < s->n_axes && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%" PRId64 " ",
                                 s->dim[i]);
    if (used < size)
        snprintf(buf + used, size - used, "(%" PRId64 ")",
                 ct_shape_count(s, 0, CT_END));
    return buf;
}

enum ct_status ct_shape_axis(const struct ct_shape *s, int axis, int *out)
{
    if (axis < -s->n_axes || axis >= s->n_axes)
        return ct_fail(CT_EINVAL, "axis %d is out of range for a blob of %d "
                       "axes", axis, s->n_axes);
    *out = axis < 0 ? axis + s->n_axes : axis;
    return CT_OK;
}

int64_t ct_shape_legacy(const struct ct_shape *s, int i)
{
    return i < s->n_axes ? s->dim[i] : 1;
}
