/* batches.c - from a loader to the tops of a layer. */
#include "layers/batches.h"

#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "layers/deal.h"
#include "proto/params.h"

extern const struct ct_layer_type ct_layer_annotated_data;

/* A source with nothing good in it must end. */
enum { MOST_TRIES = 1000 };

/* What moves boxes is for the layer that has them. */
static enum ct_status ssd_words(const struct ct_layer *l)
{
    const Caffe__TransformationParameter *t = ct_transform_param(l->param);

    if (l->type == &ct_layer_annotated_data ||
        !(t->resize_param || t->noise_param || t->distort_param ||
          t->expand_param || t->emit_constraint))
        return CT_OK;
    return ct_fail(CT_EINVAL, "layer %s: resize_param, noise_param, "
                   "distort_param, expand_param and emit_constraint are for "
                   "AnnotatedData layers; this is a %s layer", l->name,
                   l->type->name);
}

enum ct_status ct_batches_init(struct ct_layer *l,
                               const struct ct_loader_ops *ops,
                               int64_t batch_size, uint32_t prefetch,
                               uint32_t threads, bool skip)
{
    struct ct_batches *b = l->state;

    b->layer      = l;
    b->batch_size = batch_size;
    b->skip       = skip;
    if (batch_size < 1)
        return ct_fail(CT_EINVAL, "layer %s: batch_size is zero", l->name);
    if (prefetch < 1 || prefetch > 1024)
        return ct_fail(CT_EINVAL, "layer %s: prefetch is %u; give 1 to 1024",
                       l->name, prefetch);
    CT_TRY(ssd_words(l));
    b->shard  = ct_deal_shard(l, batch_size);
    b->config = (struct ct_prefetch_config){
        .ops       = ops,
        .loader    = l->state,
        .name      = l->name,
        .n_batches = (int)prefetch,
        .n_threads = (int)threads,
        .like      = &b->probe,
    };
    return ct_transform_create(ct_transform_param(l->param), l->phase, l->key,
                               l->name, &b->transform);
}

enum ct_status ct_batches_probe(struct ct_layer *l)
{
    struct ct_batches *b = l->state;
    struct ct_worker *w  = &b->probe;
    enum ct_status st;
    float *data, label;

    CT_TRY(b->config.ops->pick(l->state, w, 0));
    CT_TRY(b->config.ops->shape(l->state, w, &b->shape));
    CT_TRY(ct_shape_check(&b->shape));
    CT_TRY(ct_alloc((size_t)ct_shape_count(&b->shape, 1, CT_END),
                    sizeof(*data), "first sample", &data));
    st = b->config.ops->load(l->state, w, &b->shape, data, &label);
    ct_free(data);
    b->config.shape = b->shape;
    return st;
}

enum ct_status ct_batches_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_batches *b = l->state;

    CT_TRY(ct_reshape(io->top[0], b->shape));
    if (io->n_top > 1)
        CT_TRY(ct_reshape(io->top[1], CT_SHAPE(b->batch_size)));
    return CT_OK;
}

enum ct_status ct_batches_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct ct_batches *b = l->state;
    const struct ct_batch *batch;

    if (!b->prefetch)
        CT_TRY(ct_prefetch_create(&b->config, &b->prefetch));
    CT_TRY(ct_prefetch_next(b->prefetch, &batch));
    b->shape = batch->shape;
    return ct_batch_to_tops(batch, io->top[0],
                            io->n_top > 1 ? io->top[1] : NULL);
}

void ct_batches_stop(struct ct_batches *b)
{
    /* A copy may still read what is about to go. */
    if (b->staging && ct_staging_wait(b->staging, 0) != CT_OK)
        CT_WARN("layer %s: %s", b->layer->name, ct_last_error());
    b->sent = NULL;
    ct_prefetch_destroy(b->prefetch);
    b->prefetch = NULL;
}

void ct_batches_fini(struct ct_batches *b)
{
    long long n = atomic_load(&b->n_skipped);

    ct_batches_stop(b);
    if (n)
        CT_WARN("layer %s: skipped %lld broken samples", b->layer->name, n);
    if (b->staging)
        b->config.gpu->ops->free(b->config.gpu, b->mean);
    ct_staging_destroy(b->staging);
    ct_transform_destroy(b->transform);
    ct_worker_fini(&b->probe);
}

enum ct_status ct_batches_shape(struct ct_batches *b,
                                const struct ct_pixels *size,
                                struct ct_shape *out)
{
    int height, width;

    CT_TRY(ct_transform_size(b->transform, size->channels, size->height,
                             size->width, &height, &width));
    *out = CT_SHAPE(b->batch_size, size->channels, height, width);
    return CT_OK;
}

enum ct_status ct_batches_run(struct ct_batches *b, struct ct_worker *w,
                              const struct ct_pixels *in,
                              const struct ct_shape *shape, float *data)
{
    struct ct_shape got;

    CT_TRY(ct_batches_shape(b, in, &got));
    if (!ct_shape_equal(&got, shape))
        return ct_fail(CT_ESHAPE, "a sample of %lld x %lld x %lld values in a "
                       "batch of %lld x %lld x %lld: give all the same size, "
                       "or a crop_size", (long long)got.dim[1],
                       (long long)got.dim[2], (long long)got.dim[3],
                       (long long)shape->dim[1], (long long)shape->dim[2],
                       (long long)shape->dim[3]);
    if (w == &b->probe)
        b->size = *in;
    if (w->raw && ct_pixels_alike(in, &b->size)) {
        CT_TRY(ct_transform_draw(b->transform, in, w->epoch, w->sample,
                                 w->window));
        memcpy(w->raw, in->ptr, ct_pixels_bytes(in));
        w->window->is_raw = 1;
        return CT_OK;
    }
    return ct_transform_run(b->transform, in, w->epoch, w->sample, &w->augment,
                            data);
}

bool ct_batches_skips(struct ct_batches *b, enum ct_status st, int n_tries)
{
    bool broken = st == CT_EPARSE || st == CT_ESHAPE || st == CT_ENOTSUP ||
                  st == CT_ENOTFOUND;

    if (!b->skip || !broken || n_tries >= MOST_TRIES)
        return false;
    atomic_fetch_add(&b->n_skipped, 1);
    CT_WARN("skipped: %s", ct_last_error());
    return true;
}

void ct_batches_report(const struct ct_layer *l)
{
    int64_t n_skipped;
    struct ct_prefetch_stats s = ct_batches_stats(l, &n_skipped);

    if (s.n_batches == 0)
        return;
    CT_INFO("Layer %s: %lld batches, %.2f ready on average; waited %.3g s for "
            "data, data waited %.3g s: %s the bottleneck", l->name,
            (long long)s.n_batches,
            (double)s.depth_sum / (double)s.n_batches, s.wait_s, s.idle_s,
            s.wait_s > s.idle_s ? "reading is" : "the net is");
    if (n_skipped)
        CT_WARN("Layer %s: %lld broken record(s) skipped", l->name,
                (long long)n_skipped);
}

struct ct_prefetch_stats ct_batches_stats(const struct ct_layer *l,
                                          int64_t *n_skipped)
{
    const struct ct_batches *b = l->state;
    struct ct_prefetch_stats s = { 0 };

    *n_skipped = atomic_load(&b->n_skipped);
    if (b->prefetch)
        s = ct_prefetch_stats(b->prefetch);
    return s;
}
