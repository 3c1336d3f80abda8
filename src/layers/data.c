/* data.c - batches from a database, Caffe type "Data".
 *
 *     top 0: N x C x H x W, transformed      top 1: N labels, optional
 *
 * Records are Datum messages (raw bytes, floats, or an encoded image) in LMDB
 * or LevelDB, taken in the order of their keys, or shuffled.  Every batch has
 * the shape of its first record.  With several ranks each takes its part of
 * every step's records in TRAIN; in TEST it reads all, unless ranks deal out
 * test batches too.
 *
 * Own fields of data_param: shuffle; on_error (STOP names the key of a broken
 * record, SKIP puts the next record in its place, so that no other moves);
 * threads; mode.  rand_skip is read and, as in Caffe, not used. */
#include "layers/batches.h"

#include "data/datum.h"
#include "data/sample.h"
#include "proto/params.h"

struct data {
    struct ct_batches  batches; /* first: batches.h finds it there */
    struct ct_feed    *feed;    /* owned */
    enum ct_image_mode mode;
};

static enum ct_status data_named(struct data *d, const struct ct_worker *w,
                                 enum ct_status st)
{
    char key[256];

    return ct_fail_in(st, "layer %s: record %s", d->batches.layer->name,
                      ct_key_text(w->record.key, key, sizeof(key)));
}

static enum ct_status data_pick(void *loader, struct ct_worker *w,
                                int64_t item)
{
    struct data *d = loader;

    (void)item;
    CT_TRY(d->feed->ops->next(d->feed, &w->record));
    w->epoch  = w->record.place.epoch;
    w->sample = w->record.place.index;
    return CT_OK;
}

static enum ct_status data_measure(struct data *d, struct ct_worker *w,
                                   struct ct_shape *out)
{
    struct ct_pixels size;
    struct ct_datum datum;

    CT_TRY(d->feed->ops->fetch(d->feed, &w->record));
    CT_TRY(ct_datum_read(w->record.value, &datum));
    CT_TRY(ct_datum_peek(&datum, d->mode, &w->codec, &size));
    return ct_batches_shape(&d->batches, &size, out);
}

static enum ct_status data_shape(void *loader, struct ct_worker *w,
                                 struct ct_shape *out)
{
    struct data *d = loader;

    for (int tries = 1;; tries++) {
        enum ct_status st = data_measure(d, w, out);

        if (st == CT_OK)
            return CT_OK;
        st = data_named(d, w, st);
        if (!ct_batches_skips(&d->batches, st, tries))
            return st;
        CT_TRY(d->feed->ops->after(d->feed, &w->record));
    }
}

static enum ct_status data_convert(struct data *d, struct ct_worker *w,
                                   const struct ct_shape *shape, float *data,
                                   float *label)
{
    struct ct_pixels in;
    struct ct_datum datum;

    CT_TRY(d->feed->ops->fetch(d->feed, &w->record));
    CT_TRY(ct_datum_read(w->record.value, &datum));
    CT_TRY(ct_datum_pixels(&datum, d->mode, &w->codec, &w->image, &w->floats,
                           &in));
    CT_TRY(ct_batches_run(&d->batches, w, &in, shape, data));
    *label = (float)datum.label;
    return CT_OK;
}

static enum ct_status data_load(void *loader, struct ct_worker *w,
                                const struct ct_shape *shape, float *data,
                                float *label)
{
    struct data *d = loader;

    for (int tries = 1;; tries++) {
        enum ct_status st = data_convert(d, w, shape, data, label);

        if (st == CT_OK)
            return CT_OK;
        st = data_named(d, w, st);
        if (!ct_batches_skips(&d->batches, st, tries))
            return st;
        CT_TRY(d->feed->ops->after(d->feed, &w->record));
    }
}

static const struct ct_loader_ops data_loader = {
    .pick  = data_pick,
    .shape = data_shape,
    .load  = data_load,
};

static enum ct_status data_open(struct ct_layer *l,
                                const Caffe__DataParameter *p)
{
    bool train = l->phase == CAFFE__PHASE__TRAIN;
    struct data *d = l->state;
    struct ct_feed_config config = {
        .backend = p->backend == CAFFE__DATA_PARAMETER__DB__LMDB ? "lmdb"
                                                                 : "leveldb",
        .source  = p->source,
        .mode    = p->mode == CAFFE__DATA_PARAMETER__MODE__LOCAL && train
                       ? CT_DATA_LOCAL
                       : CT_DATA_SHARED,
        .rank    = l->run->rank,
        .shard   = d->batches.shard,
        .seed    = l->run->seed,
        .shuffle = p->shuffle,
        .skip    = d->batches.skip,
        .ahead   = (int)p->prefetch,
    };
    const struct ct_peers *peers = l->run->peers;
    enum ct_status st;

    if (!p->source || !p->source[0])
        return ct_fail(CT_EINVAL, "layer %s: data_param has no source",
                       l->name);
    if (config.mode == CT_DATA_LOCAL)
        config.shard = ct_shard_even(0, 1, p->batch_size, 1);
    if (train && peers && peers->open_feed)
        st = peers->open_feed(peers, &config, &d->feed);
    else if (p->mode == CAFFE__DATA_PARAMETER__MODE__ROOT &&
             !ct_shard_is_whole(&config.shard))
        return ct_fail(CT_EINVAL, "layer %s: for mode ROOT start training with "
                       "--data=root", l->name);
    else
        st = ct_feed_open(&config, &d->feed);
    return st == CT_OK ? st : ct_fail_in(st, "layer %s", l->name);
}

static enum ct_status data_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__DataParameter *p           = ct_data_param(l->param);
    const Caffe__TransformationParameter *t = ct_transform_param(l->param);
    struct data *d                          = l->state;

    (void)io;
    CT_TRY(ct_batches_init(l, &data_loader, p->batch_size, p->prefetch,
                           p->threads,
                           p->on_error ==
                               CAFFE__DATA_PARAMETER__ON_ERROR__SKIP));
    d->mode = t->force_gray                              ? CT_IMAGE_GRAY
              : t->force_color || p->force_encoded_color ? CT_IMAGE_COLOR
                                                         : CT_IMAGE_NATIVE;
    if (!d->feed)
        CT_TRY(data_open(l, p));
    CT_TRY(ct_batches_probe(l));
    return d->feed->ops->seek(d->feed, 0);
}

static enum ct_status data_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct data *d = l->state;

    if (d->feed->ops->step)
        CT_TRY(d->feed->ops->step(d->feed));
    return ct_batches_forward(l, io);
}

static enum ct_status data_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct data *d = l->state;

    ct_batches_stop(&d->batches);
    return d->feed->ops->seek(d->feed, (int64_t)n_passes);
}

static void data_teardown(struct ct_layer *l)
{
    struct data *d = l->state;

    if (d->batches.layer)
        ct_batches_fini(&d->batches);
    ct_feed_destroy(d->feed);
}

static enum ct_status data_forward_to(struct ct_layer *l,
                                      const struct ct_io *io,
                                      struct ct_blob *const *top)
{
    struct data *d = l->state;

    d->batches.alone = d->feed->ops->step;
    if (d->feed->ops->step)
        CT_TRY(d->feed->ops->step(d->feed));
    return ct_batches_forward_to(l, io, top);
}

static int64_t data_records(const struct ct_layer *l)
{
    const struct data *d = l->state;

    return d->feed->n_records;
}

const struct ct_layer_type ct_layer_data = {
    .name       = "Data",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct data),
    .setup      = data_setup,
    .reshape    = ct_batches_reshape,
    .forward    = { [CT_CPU] = data_forward },
    .forward_to = data_forward_to,
    .seek       = data_seek,
    .records    = data_records,
    .report     = ct_batches_report,
    .teardown   = data_teardown,
};
