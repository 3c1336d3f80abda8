/* buffer.h - counted device memory that blobs lie in. */
#ifndef CT_CORE_BUFFER_H
#define CT_CORE_BUFFER_H

#include "cortado/blob.h"

struct ct_buffer {
    const struct ct_device *dev;
    float                  *ptr;
    size_t                  bytes;
    int                     n_users; /* atomically changed */
    bool                    borrowed; /* the memory is another's */
    void                  (*release)(void *owner); /* NULL: nobody to tell */
    void                   *owner;
};

/* `bytes` zeroed bytes with one user. */
CT_MUST_CHECK enum ct_status ct_buffer_create(const struct ct_device *dev,
                                              size_t bytes, const char *name,
                                              struct ct_buffer **out);
/* A buffer around memory that stays another's, and that is there until the
 * last user has dropped the buffer and `release` (may be NULL) has been told.
 * It is told when this fails, too. */
CT_MUST_CHECK enum ct_status ct_buffer_borrow(const struct ct_device *dev,
                                              void *memory, size_t bytes,
                                              void (*release)(void *owner),
                                              void *owner,
                                              struct ct_buffer **out);
struct ct_buffer *ct_buffer_use(struct ct_buffer *b); /* takes NULL */
void ct_buffer_drop(struct ct_buffer *b);             /* takes NULL */

/* Let a tensor lie at `offset` bytes into `b`. */
void ct_tensor_place(struct ct_tensor *t, struct ct_buffer *b, size_t offset,
                     size_t room_bytes);
void ct_tensor_clear(struct ct_tensor *t);
/* Let it look at memory that others keep alive; NULL: at none. */
void ct_tensor_point(struct ct_tensor *t, float *ptr, size_t room_bytes);

/* The elements the storage of a shape takes in a layout, padding included. */
int64_t ct_layout_count(const struct ct_shape *s, enum ct_layout layout);
/* The bytes that it takes in the layout and type of a tensor. */
size_t ct_tensor_bytes(const struct ct_shape *s, const struct ct_tensor *t);

#endif
