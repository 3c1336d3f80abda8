/* memory_data.c - batches out of a program's arrays, Caffe type "MemoryData".
 *
 * Top 0 is batch_size x channels x height x width, top 1 batch_size labels.
 * ct_memory_data_set() says where they come from; a pass before it fails. */
#include "cortado/memory_data.h"

#include <inttypes.h>
#include <string.h>

#include "cortado/layer.h"
#include "layers/hand_over.h"
#include "proto/params.h"

extern const struct ct_layer_type ct_layer_memory_data;

struct memory_data {
    const float *data, *labels; /* borrowed from the program */
    int64_t      n, batch, size;
    uint64_t     next; /* the batch that the next pass gives */
    struct ct_hand_over over; /* where the net is on a GPU */
};

static enum ct_status md_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__MemoryDataParameter *p = ct_memory_data_param(l->param);
    struct memory_data *m               = l->state;
    const struct ct_shape shape = CT_SHAPE(p->batch_size, p->channels,
                                           p->height, p->width);

    (void)io;
    if (ct_shape_check(&shape) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "layer %s", l->name);
    m->batch = p->batch_size;
    m->size  = ct_shape_count(&shape, 1, CT_END);
    if (m->batch * m->size == 0)
        return ct_fail(CT_EINVAL, "layer %s: memory_data_param needs "
                       "batch_size, channels, height and width", l->name);
    return CT_OK;
}

static enum ct_status md_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__MemoryDataParameter *p = ct_memory_data_param(l->param);

    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(p->batch_size, p->channels,
                                           p->height, p->width)));
    return ct_reshape(io->top[1], CT_SHAPE(p->batch_size));
}

enum ct_status ct_memory_data_set(struct ct_layer *l, const float *data,
                                  const float *labels, int64_t n)
{
    struct memory_data *m = l->state;

    if (l->type != &ct_layer_memory_data)
        return ct_fail(CT_EINVAL, "layer %s: a layer of type %s takes no "
                       "arrays; MemoryData does", l->name, l->type->name);
    if (!data || !labels)
        return ct_fail(CT_EINVAL, "layer %s: data and labels are both needed",
                       l->name);
    if (n <= 0 || n % m->batch != 0)
        return ct_fail(CT_EINVAL, "layer %s: %" PRId64 " entries are not a "
                       "multiple of batch_size %" PRId64, l->name, n,
                       m->batch);
    m->data   = data;
    m->labels = labels;
    m->n      = n;
    m->next   = 0;
    return CT_OK;
}

/* The next batch. */
static enum ct_status md_write(struct ct_layer *l, float *data, float *labels)
{
    struct memory_data *m = l->state;
    int64_t first;

    if (!m->data)
        return ct_fail(CT_EINVAL, "layer %s: MemoryData has nothing to give: "
                       "call ct_memory_data_set() before the first pass",
                       l->name);
    first = (int64_t)(m->next++ % (uint64_t)(m->n / m->batch)) * m->batch;
    memcpy(data, m->data + first * m->size,
           (size_t)(m->batch * m->size) * sizeof(float));
    memcpy(labels, m->labels + first, (size_t)m->batch * sizeof(float));
    return CT_OK;
}

static enum ct_status md_forward(struct ct_layer *l, const struct ct_io *io)
{
    return md_write(l, ct_data(io->top[0]), ct_data(io->top[1]));
}

static enum ct_status md_forward_to(struct ct_layer *l, const struct ct_io *io,
                                    struct ct_blob *const *top)
{
    struct memory_data *m = l->state;

    CT_TRY(ct_hand_over_begin(&m->over, l, io));
    CT_TRY(md_write(l, m->over.to[0], m->over.to[1]));
    return ct_hand_over_end(&m->over, io, top);
}

static enum ct_status md_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct memory_data *m = l->state;

    m->next = n_passes;
    return CT_OK;
}

static void md_teardown(struct ct_layer *l)
{
    struct memory_data *m = l->state;

    ct_hand_over_fini(&m->over);
}

const struct ct_layer_type ct_layer_memory_data = {
    .name       = "MemoryData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_EXACTLY(2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_NO_GRAD,
    .state_size = sizeof(struct memory_data),
    .setup      = md_setup,
    .reshape    = md_reshape,
    .forward    = { [CT_CPU] = md_forward },
    .forward_to = md_forward_to,
    .seek       = md_seek,
    .teardown   = md_teardown,
};
