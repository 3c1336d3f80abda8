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
    b->dev->ops->free(b->dev, b->ptr);
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
    *t = (struct ct_tensor){ .layout = t->layout };
}

int64_t ct_layout_count(const struct ct_shape *s, enum ct_layout layout)
{
    int64_t count = ct_shape_count(s, 0, CT_END);
    int64_t block = layout == CT_BLOCKED8 ? 8 : layout == CT_BLOCKED16 ? 16 : 1;
    int64_t c     = s->n_axes > 1 ? s->dim[1] : 1;

    return c == 0 ? 0 : count / c * ((c + block - 1) / block * block);
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
    size_t bytes = (size_t)ct_layout_count(&b->shape, t->layout) *
                   sizeof(float);
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
