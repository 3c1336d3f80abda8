/* cortado/blob.h - a named N-D array with its gradient.
 *
 * The shape is Caffe's, whatever the layout of the storage.  Storage belongs
 * to a reference-counted buffer: a blob's own, or one that several blobs lie
 * in (a net's activations, its parameters, its gradients).
 *
 * Read the fields freely; write them through the functions only. */
#ifndef CT_BLOB_H
#define CT_BLOB_H

#include "cortado/device.h"
#include "cortado/shape.h"
#include "cortado/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ct_buffer; /* counted memory on one device */

struct ct_tensor {
    float            *ptr;
    size_t            room_bytes; /* what ptr may be used for */
    struct ct_buffer *buffer;     /* keeps ptr alive; counted */
    enum ct_layout    layout;
    enum ct_dtype     dtype;
};

struct ct_blob {
    struct ct_shape         shape;
    int64_t                 count;
    struct ct_tensor        data, diff;
    const struct ct_device *dev;
    const char             *name;     /* for messages; borrowed, may be NULL */
    uint32_t                version;  /* moves on when the shape changes */
    bool                    planned;  /* its net gives it memory, not reshape */
    bool                    no_diff;  /* never asked for a gradient */
    bool                    stale;    /* diff counts as zero; see ct_layer */
};

static inline float *ct_data(const struct ct_blob *b)
{
    return b->data.ptr;
}

static inline float *ct_diff(const struct ct_blob *b)
{
    return b->diff.ptr;
}

/* An empty blob on `dev`; memory comes with the first reshape. */
CT_API CT_MUST_CHECK enum ct_status ct_blob_create(
    const struct ct_device *dev, struct ct_blob **out);
CT_API void ct_blob_destroy(struct ct_blob *b); /* takes NULL */

/* Change the shape.  Memory grows when it must and never shrinks; content is
 * kept only while it does not move.  New memory is zero. */
CT_API CT_MUST_CHECK enum ct_status ct_reshape(struct ct_blob *b,
                                               struct ct_shape shape);

/* Let `b` use the memory of `from`, whose count is the same or larger. */
CT_API void ct_blob_share_data(struct ct_blob *b, const struct ct_blob *from);
CT_API void ct_blob_share_diff(struct ct_blob *b, const struct ct_blob *from);

/* The product of dimensions [from, to) of the blob's shape. */
static inline int64_t ct_count(const struct ct_blob *b, int from, int to)
{
    return ct_shape_count(&b->shape, from, to);
}

/* The values to and from the host, plain, whatever the device, layout and
 * type; waits for the device. */
CT_API CT_MUST_CHECK enum ct_status ct_blob_get(const struct ct_blob *b,
                                                bool diff, float *to);
CT_API CT_MUST_CHECK enum ct_status ct_blob_put(struct ct_blob *b, bool diff,
                                                const float *from);

/* The data on the host: where it is, on the CPU; elsewhere copied to *room,
 * which is allocated anew and ct_free'd by the caller. */
CT_API CT_MUST_CHECK enum ct_status ct_blob_read(const struct ct_blob *b,
                                                 float **room,
                                                 const float **out);

/* The values that the storage holds: count, or more where the layout pads. */
CT_API int64_t ct_elements(const struct ct_blob *b);

/* `axis` from either end as 0..n_axes-1. */
CT_MUST_CHECK static inline enum ct_status ct_axis(const struct ct_blob *b,
                                                   int axis, int *out)
{
    return ct_shape_axis(&b->shape, axis, out);
}

#ifdef __cplusplus
}
#endif
#endif
