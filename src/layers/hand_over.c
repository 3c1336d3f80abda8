/* hand_over.c - from a source to the blobs of a net on a GPU. */
#include "layers/hand_over.h"

#include "base/mem.h"
#include "device/stage.h"

enum ct_status ct_top_follow(struct ct_blob *top, struct ct_shape shape)
{
    return top->version > 0 && ct_shape_equal(&top->shape, &shape)
               ? CT_OK
               : ct_reshape(top, shape);
}

enum ct_status ct_top_put(struct ct_blob *top, const void *from)
{
    const bool axes = top->shape.n_axes > 1;

    return top->dev->ops->convert(top->dev, axes ? top->shape.dim[0] : 1,
                                  axes ? top->shape.dim[1] : 1,
                                  axes ? ct_count(top, 2, CT_END)
                                       : top->count,
                                  CT_PLAIN, CT_F32, from, top->data.layout,
                                  top->data.dtype, ct_data(top));
}

static enum ct_status start(struct ct_hand_over *h, const struct ct_layer *l,
                            int n)
{
    h->dev = l->run->device;
    CT_TRY(ct_alloc((size_t)n, sizeof(*h->span), "batch", &h->span));
    CT_TRY(ct_alloc((size_t)n, sizeof(*h->to), "batch", &h->to));
    return ct_staging_create(h->dev, &h->staging);
}

/* The copy out of this place was the last but one, and is over. */
static enum ct_status make_room(struct ct_hand_over *h, size_t bytes)
{
    if (bytes <= h->place_bytes[h->turn])
        return CT_OK;
    ct_stage_free(h->dev, h->place[h->turn]);
    h->place[h->turn]       = NULL;
    h->place_bytes[h->turn] = 0;
    CT_TRY(ct_stage_alloc(h->dev, bytes, "batch", &h->place[h->turn]));
    h->place_bytes[h->turn] = bytes;
    return CT_OK;
}

enum ct_status ct_hand_over_begin(struct ct_hand_over *h,
                                  const struct ct_layer *l,
                                  const struct ct_io *io)
{
    size_t bytes = 0;
    float *to;

    if (!h->staging)
        CT_TRY(start(h, l, io->n_top));
    CT_TRY(ct_staging_wait(h->staging, 1));
    for (int i = 0; i < io->n_top; i++) {
        h->span[i].bytes = (size_t)io->top[i]->count * sizeof(float);
        bytes += h->span[i].bytes;
    }
    CT_TRY(make_room(h, bytes));
    to = h->place[h->turn];
    for (int i = 0; i < io->n_top; i++) {
        h->span[i].from = h->to[i] = to;
        to += io->top[i]->count;
    }
    return CT_OK;
}

enum ct_status ct_hand_over_end(struct ct_hand_over *h, const struct ct_io *io,
                                struct ct_blob *const *top)
{
    CT_TRY(ct_staging_send(h->staging, io->n_top, h->span));
    h->turn ^= 1;
    CT_TRY(ct_staging_take(h->staging));
    for (int i = 0; i < io->n_top; i++) {
        CT_TRY(ct_top_follow(top[i], io->top[i]->shape));
        CT_TRY(ct_top_put(top[i], h->span[i].there));
    }
    return ct_staging_done(h->staging);
}

void ct_hand_over_fini(struct ct_hand_over *h)
{
    ct_staging_destroy(h->staging); /* when its copies are over */
    for (int i = 0; i < 2; i++)
        if (h->place[i])
            ct_stage_free(h->dev, h->place[i]);
    ct_free(h->to);
    ct_free(h->span);
}
