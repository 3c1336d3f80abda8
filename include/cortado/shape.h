/* cortado/shape.h - the logical shape of a blob: up to 32 axes, as in Caffe.
 *
 * A shape with no axes is a scalar and counts one.  Axes may be named from
 * the end: -1 is the last. */
#ifndef CT_SHAPE_H
#define CT_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_MAX_AXES = 32, CT_END = 0x7fffffff };

struct ct_shape {
    int     n_axes;
    int64_t dim[CT_MAX_AXES];
};

/* CT_SHAPE(2, 3) is a 2 x 3 shape, CT_SCALAR a scalar's. */
#define CT_SHAPE(...)                                                        \
    ((struct ct_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) /           \
                              sizeof(int64_t)),                              \
                        { __VA_ARGS__ } })
#define CT_SCALAR ((struct ct_shape){ 0, { 0 } })

/* Refuses negative dimensions and products beyond 2^40 elements. */
CT_API CT_MUST_CHECK enum ct_status ct_shape_check(const struct ct_shape *s);

/* The product of dimensions [from, to); to may be CT_END.  The shape has
 * passed ct_shape_check, so the product fits. */
CT_API int64_t ct_shape_count(const struct ct_shape *s, int from, int to);

CT_API bool ct_shape_equal(const struct ct_shape *a, const struct ct_shape *b);

/* "2 3 (6)", Caffe's way to write a shape.  Returns buf. */
CT_API const char *ct_shape_text(const struct ct_shape *s, char *buf,
                                 size_t size);

/* `axis` from either end, as 0..n_axes-1; refuses what is out of range. */
CT_API CT_MUST_CHECK enum ct_status ct_shape_axis(const struct ct_shape *s,
                                                  int axis, int *out);

/* Caffe's num, channels, height, width: dimension i of a shape of at most
 * four axes, 1 where it has fewer. */
CT_API int64_t ct_shape_legacy(const struct ct_shape *s, int i);

#ifdef __cplusplus
}
#endif
#endif
