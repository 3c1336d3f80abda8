/* blob.c - blobs and the counted buffers they lie in. */
#include "cortado/blob.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "core/buffer.h"

enum ct_status ct_buffer_create(const struct ct_device *dev, size_t bytes,
                                const char *name, struct ct_buffer **out)
{
    struct ct_buffer *b;
    void *ptr;

    CT_TRY(ct_alloc(1, sizeof(*b), "buffer", &b));
    if (dev->ops->alloc(dev, bytes, name, &ptr) != CT_OK) {
        ct_free(b);
        return CT_ENOMEM;
    }
    b->dev     = dev;
    b->ptr     = ptr;
    b->bytes   = bytes;
    b->n_users = 1;
    *out       = b;
    return CT_OK;
}

enum ct_status ct_buffer_borrow(const struct ct_device *dev, void *memory,
                                size_t bytes, void (*release)(void *owner),
                                void *owner, struct ct_buffer **out)
{
    struct ct_buffer *b;

    if (ct_alloc(1, sizeof(*b), "buffer", &b) != CT_OK) {
        if (release)
            release(owner);
        return CT_ENOMEM;
    }
    *b   = (struct ct_buffer){ dev, memory, bytes, 1, true, release, owner };
    *out = b;
    return CT_OK;
}

struct ct_buffer *ct_buffer_use(struct ct_buffer *b)
{
    if (b)
        __atomic_add_fetch(&b->n_users, 1, __ATOMIC_RELAXED);
    return b;
}

void ct_buffer_drop(struct ct_buffer *b)
{
    if (!b || __atomic_sub_fetch(&b->n_users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (!b->borrowed)
        b->dev->ops->free(b->dev, b->ptr);
    if (b->release)
        b->release(b->owner);
    ct_free(b);
}

void ct_tensor_place(struct ct_tensor *t, struct ct_buffer *b, size_t offset,
                     size_t room_bytes)
{
    CT_ASSERT(offset + room_bytes <= b->bytes);
    ct_buffer_use(b);
    ct_buffer_drop(t->buffer);
    t->buffer     = b;
    t->ptr        = b->ptr + offset / sizeof(float);
    t->room_bytes = room_bytes;
}

void ct_tensor_clear(struct ct_tensor *t)
{
    ct_buffer_drop(t->buffer);
    *t = (struct ct_tensor){ .layout = t->layout, .dtype = t->dtype };
}

void ct_tensor_point(struct ct_tensor *t, float *ptr, size_t room_bytes)
{
    ct_tensor_clear(t);
    t->ptr        = ptr;
    t->room_bytes = ptr ? room_bytes : 0;
}

int64_t ct_layout_count(const struct ct_shape *s, enum ct_layout layout)
{
    int64_t count = ct_shape_count(s, 0, CT_END);
    int64_t block = layout == CT_BLOCKED8 ? 8 : layout == CT_BLOCKED16 ? 16 : 1;
    int64_t c     = s->n_axes > 1 ? s->dim[1] : 1;

    return c == 0 ? 0 : count / c * ((c + block - 1) / block * block);
}

size_t ct_tensor_bytes(const struct ct_shape *s, const struct ct_tensor *t)
{
    return (size_t)ct_layout_count(s, t->layout) * ct_dtype_bytes(t->dtype);
}

int64_t ct_elements(const struct ct_blob *b)
{
    return ct_layout_count(&b->shape, b->data.layout);
}

enum ct_status ct_blob_create(const struct ct_device *dev,
                              struct ct_blob **out)
{
    struct ct_blob *b;

    CT_TRY(ct_alloc(1, sizeof(*b), "blob", &b));
    b->dev = dev;
    *out   = b;
    return CT_OK;
}

void ct_blob_destroy(struct ct_blob *b)
{
    if (!b)
        return;
    ct_tensor_clear(&b->data);
    ct_tensor_clear(&b->diff);
    ct_free(b);
}

static enum ct_status tensor_grow(struct ct_blob *b, struct ct_tensor *t)
{
    size_t bytes = ct_tensor_bytes(&b->shape, t);
    struct ct_buffer *buffer;

    if (t->ptr && bytes <= t->room_bytes)
        return CT_OK;
    CT_TRY(ct_buffer_create(b->dev, bytes, "blob", &buffer));
    ct_tensor_place(t, buffer, 0, bytes);
    ct_buffer_drop(buffer);
    return CT_OK;
}

enum ct_status ct_reshape(struct ct_blob *b, struct ct_shape shape)
{
    CT_TRY(ct_shape_check(&shape));
    if (b->version == 0 || !ct_shape_equal(&shape, &b->shape))
        b->version++;
    b->shape = shape;
    b->count = ct_shape_count(&shape, 0, CT_END);
    /* A planned blob gets its first memory from its net's plan; one that
     * outgrows it while the net runs takes memory of its own. */
    if (!b->planned || b->data.ptr)
        CT_TRY(tensor_grow(b, &b->data));
    if (!b->no_diff && (!b->planned || b->diff.ptr))
        CT_TRY(tensor_grow(b, &b->diff));
    return CT_OK;
}

static void tensor_share(struct ct_tensor *t, const struct ct_tensor *from)
{
    ct_buffer_use(from->buffer);
    ct_buffer_drop(t->buffer);
    *t = *from;
}

void ct_blob_share_data(struct ct_blob *b, const struct ct_blob *from)
{
    tensor_share(&b->data, &from->data);
}

void ct_blob_share_diff(struct ct_blob *b, const struct ct_blob *from)
{
    tensor_share(&b->diff, &from->diff);
}

static bool is_plain(const struct ct_tensor *t)
{
    return t->layout == CT_PLAIN && t->dtype == CT_F32;
}

/* Channels and positions as layouts see them. */
static void channels_of(const struct ct_blob *b, int64_t *n, int64_t *c,
                        int64_t *positions)
{
    bool axes  = b->shape.n_axes > 1;
    *n         = axes ? b->shape.dim[0] : 1;
    *c         = axes ? b->shape.dim[1] : 1;
    *positions = axes ? ct_count(b, 2, CT_END) : b->count;
}

/* Plain float32 on the device, made of the tensor or to be made into it. */
static enum ct_status staged(const struct ct_blob *b, struct ct_tensor *t,
                             float *host, bool out)
{
    const struct ct_device_ops *ops = b->dev->ops;
    size_t bytes = (size_t)b->count * sizeof(float);
    int64_t n, c, positions;
    void *stage = NULL;
    enum ct_status st;

    channels_of(b, &n, &c, &positions);
    CT_TRY(ops->alloc(b->dev, bytes, "staging", &stage));
    if (out) {
        st = ops->convert(b->dev, n, c, positions, t->layout, t->dtype, t->ptr,
                          CT_PLAIN, CT_F32, stage);
        if (st == CT_OK)
            st = ops->to_host(b->dev, bytes, stage, host);
    } else {
        st = ops->from_host(b->dev, bytes, host, stage);
        if (st == CT_OK)
            st = ops->convert(b->dev, n, c, positions, CT_PLAIN, CT_F32, stage,
                              t->layout, t->dtype, t->ptr);
    }
    ops->free(b->dev, stage);
    return st;
}

enum ct_status ct_blob_get(const struct ct_blob *b, bool diff, float *to)
{
    const struct ct_tensor *t = diff ? &b->diff : &b->data;
    struct ct_tensor copy     = *t;
    size_t bytes              = (size_t)b->count * sizeof(float);

    if (bytes == 0)
        return CT_OK;
    if (is_plain(t))
        return b->dev->ops->to_host(b->dev, bytes, t->ptr, to);
    return staged(b, &copy, to, true);
}

enum ct_status ct_blob_put(struct ct_blob *b, bool diff, const float *from)
{
    struct ct_tensor *t = diff ? &b->diff : &b->data;
    size_t bytes        = (size_t)b->count * sizeof(float);

    if (bytes == 0)
        return CT_OK;
    if (is_plain(t))
        return b->dev->ops->from_host(b->dev, bytes, from, t->ptr);
    return staged(b, t, (float *)(uintptr_t)from, false);
}

enum ct_status ct_blob_read(const struct ct_blob *b, float **room,
                            const float **out)
{
    *out = ct_data(b);
    if (b->dev->kind == CT_CPU && is_plain(&b->data))
        return CT_OK;
    ct_free(*room);
    CT_TRY(ct_alloc((size_t)b->count + 1, sizeof(**room), "values", room));
    *out = *room;
    return ct_blob_get(b, false, *room);
}
