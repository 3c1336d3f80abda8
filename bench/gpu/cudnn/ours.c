/* ours.c - one of our layers by itself, as a net of that precision runs it. */
#include "cudnn_bench.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/layer.h"
#include "cortado/proto.h"
#include "device/cuda/cuda.h"

enum { MOST = 2, DRAWN = 1 << 20 };

struct ours {
    const struct ct_device *dev;
    Caffe__LayerParameter  *param;
    struct ct_run           run;
    struct ct_layer        *layer;
    struct ct_blob         *bottom[MOST], *top[1];
    int                     n_bottom;
};

static void text_of(const struct work *w, char *to, size_t size)
{
    switch (w->kind) {
    case MAX_POOL:
    case AVE_POOL:
        snprintf(to, size, "type: 'Pooling' pooling_param { pool: %s "
                 "kernel_size: %d stride: %d pad: %d }",
                 w->kind == MAX_POOL ? "MAX" : "AVE", w->k, w->s, w->p);
        break;
    case LRN:
        snprintf(to, size, "type: 'LRN' lrn_param { local_size: 5 "
                 "alpha: 0.0001 beta: 0.75 }");
        break;
    case NORM:
        snprintf(to, size, "type: 'BatchNorm'");
        break;
    case SOFTMAX:
        snprintf(to, size, "type: 'Softmax'");
        break;
    case DROPOUT:
        snprintf(to, size, "type: 'Dropout'");
        break;
    case LSTM:
        snprintf(to, size, "type: 'LSTM' recurrent_param { num_output: %d "
                 "weight_filler { type: 'uniform' min: -0.08 max: 0.08 } }",
                 w->c);
        break;
    }
}

/* Drawn values, over and over. */
static void fill(const struct ct_device *d, const struct ct_blob *b,
                 const struct ct_tensor *t, float constant)
{
    static float drawn[DRAWN];
    const size_t each = t->dtype == CT_F32 ? 4 : 2;
    const size_t all  = (size_t)b->count * each;
    size_t done       = DRAWN * each < all ? DRAWN * each : all;
    void *here        = NULL;

    for (int i = 0; i < DRAWN; i++)
        drawn[i] = constant != 0 ? constant
                                 : 2 * ct_uniform(7, 1, (uint64_t)i) - 1;
    must(d->ops->alloc(d, sizeof(drawn), "values", &here));
    must(d->ops->from_host(d, sizeof(drawn), drawn, here));
    must(ct_cuda_convert(d, (int64_t)(done / each), CT_F32, here, t->dtype,
                         t->ptr));
    for (; done < all; done *= 2)
        must(ct_cuda_check(d, cudaMemcpyAsync(
                               (char *)t->ptr + done, t->ptr,
                               done < all - done ? done : all - done,
                               cudaMemcpyDeviceToDevice, ct_cuda_stream(d)),
                           "values"));
    must(d->ops->sync(d));
    d->ops->free(d, here);
}

static void add_bottom(struct ours *o, struct ct_shape shape, bool wide)
{
    const struct ct_device *d = o->dev;
    struct ct_blob *b;

    must(ct_blob_create(d, &o->bottom[o->n_bottom]));
    b = o->bottom[o->n_bottom++];
    if (wide) {
        b->data.dtype = b->diff.dtype = ct_device_dtype(d);
        if (ct_device_prefers_nhwc(d))
            b->data.layout = b->diff.layout = CT_NHWC;
    }
    must(ct_reshape(b, shape));
}

static struct ct_io io_of(struct ours *o)
{
    static const bool wanted[MOST] = { true, false };

    return (struct ct_io){ o->bottom, o->top, o->n_bottom, 1, wanted };
}

struct ours *ours_create(const struct ct_device *d, const struct work *w)
{
    struct ours *o = ct_calloc(1, sizeof(*o), "layer");
    struct ct_io io;
    char text[256];
    bool wide;

    o->dev        = d;
    o->run.seed   = 3;
    o->run.size   = 1;
    o->run.device = d;
    text_of(w, text, sizeof(text));
    must(ct_text_parse(&caffe__layer_parameter__descriptor, text,
                       strlen(text), "bench", &o->param));
    must(ct_layer_create(o->param, d, &o->run, CAFFE__PHASE__TRAIN,
                         &o->layer));
    wide = o->layer->flags & CT_LAYER_SAME_LAYOUT;
    if (w->kind == LSTM) {
        add_bottom(o, CT_SHAPE(w->h, w->n, w->c), false);
        add_bottom(o, CT_SHAPE(w->h, w->n), false);
        fill(d, o->bottom[1], &o->bottom[1]->data, 1);
    } else {
        add_bottom(o, CT_SHAPE(w->n, w->c, w->h, w->w), wide);
    }
    must(ct_blob_create(d, &o->top[0]));
    o->top[0]->data.dtype  = o->top[0]->diff.dtype = o->bottom[0]->data.dtype;
    o->top[0]->data.layout = o->top[0]->diff.layout =
        o->bottom[0]->data.layout;
    io           = io_of(o);
    io.want_grad = NULL;
    must(ct_layer_setup(o->layer, &io));
    fill(d, o->bottom[0], &o->bottom[0]->data, 0);
    fill(d, o->top[0], &o->top[0]->diff, 0);
    return o;
}

struct arrays ours_arrays(const struct ours *o)
{
    const struct ct_blob *x = o->bottom[0], *y = o->top[0];
    const bool planes       = y->shape.n_axes == 4;

    return (struct arrays){
        .x     = ct_data(x),
        .y     = ct_data(y),
        .dx    = ct_diff(x),
        .dy    = ct_diff(y),
        .out_h = planes ? (int)y->shape.dim[2] : 1,
        .out_w = planes ? (int)y->shape.dim[3] : 1,
        .dtype = x->data.dtype,
        .nhwc  = x->data.layout == CT_NHWC,
    };
}

enum ct_status ours_run(void *arg, bool backward)
{
    struct ours *o        = arg;
    const struct ct_io io = io_of(o);

    return backward ? ct_layer_backward(o->layer, &io)
                    : ct_layer_forward(o->layer, &io);
}

void ours_destroy(struct ours *o)
{
    ct_layer_destroy(o->layer);
    for (int i = 0; i < o->n_bottom; i++)
        ct_blob_destroy(o->bottom[i]);
    ct_blob_destroy(o->top[0]);
    ct_message_free(o->param);
    ct_free(o);
}
