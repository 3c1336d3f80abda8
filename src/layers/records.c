/* records.c - layers that read a database. */
#include "layers/records.h"

#include "layers/deal.h"
#include "proto/params.h"

enum ct_status ct_records_pick(void *loader, struct ct_worker *w,
                               int64_t item)
{
    struct ct_records *r = loader;

    (void)item;
    CT_TRY(r->feed->ops->next(r->feed, &w->record));
    w->epoch  = w->record.place.epoch;
    w->sample = w->record.place.index;
    return CT_OK;
}

enum ct_status ct_records_fetch(struct ct_records *r, struct ct_worker *w)
{
    return r->feed->ops->fetch(r->feed, &w->record);
}

enum ct_status ct_records_after(struct ct_records *r, struct ct_worker *w,
                                int tries, enum ct_status st)
{
    char key[256];

    st = ct_fail_in(st, "layer %s: record %s", r->batches.layer->name,
                    ct_key_text(w->record.key, key, sizeof(key)));
    if (!ct_batches_skips(&r->batches, st, tries))
        return st;
    return r->feed->ops->after(r->feed, &w->record);
}

static enum ct_status feed_open(struct ct_layer *l,
                                const Caffe__DataParameter *p)
{
    bool train = l->phase == CAFFE__PHASE__TRAIN;
    struct ct_records *r = l->state;
    struct ct_feed_config config = {
        .backend = p->backend == CAFFE__DATA_PARAMETER__DB__LMDB ? "lmdb"
                                                                 : "leveldb",
        .source  = p->source,
        .mode    = p->mode == CAFFE__DATA_PARAMETER__MODE__LOCAL && train
                       ? CT_DATA_LOCAL
                       : CT_DATA_SHARED,
        .rank    = l->run->rank,
        .shard   = r->batches.shard,
        .seed    = l->run->seed,
        .shuffle = p->shuffle,
        .skip    = r->batches.skip,
        .ahead   = (int)p->prefetch,
    };
    const struct ct_feeds *feeds = ct_dealing_of(l->run)->feeds;
    enum ct_status st;

    if (!p->source || !p->source[0])
        return ct_fail(CT_EINVAL, "layer %s: data_param has no source",
                       l->name);
    if (config.mode == CT_DATA_LOCAL)
        config.shard = ct_shard_even(0, 1, p->batch_size, 1);
    if (train && feeds)
        st = feeds->open(feeds, &config, &r->feed);
    else if (p->mode == CAFFE__DATA_PARAMETER__MODE__ROOT &&
             !ct_shard_is_whole(&config.shard))
        return ct_fail(CT_EINVAL, "layer %s: for mode ROOT start training with "
                       "--data=root", l->name);
    else
        st = ct_feed_open(&config, &r->feed);
    return st == CT_OK ? st : ct_fail_in(st, "layer %s", l->name);
}

enum ct_status ct_records_open(struct ct_layer *l,
                               const struct ct_loader_ops *ops)
{
    const Caffe__DataParameter *p           = ct_data_param(l->param);
    const Caffe__TransformationParameter *t = ct_transform_param(l->param);
    struct ct_records *r                    = l->state;

    CT_TRY(ct_batches_init(l, ops, p->batch_size, p->prefetch, p->threads,
                           p->on_error ==
                               CAFFE__DATA_PARAMETER__ON_ERROR__SKIP));
    r->mode = t->force_gray                              ? CT_IMAGE_GRAY
              : t->force_color || p->force_encoded_color ? CT_IMAGE_COLOR
                                                         : CT_IMAGE_NATIVE;
    return r->feed ? CT_OK : feed_open(l, p);
}

enum ct_status ct_records_probe(struct ct_layer *l)
{
    struct ct_records *r = l->state;

    CT_TRY(ct_batches_probe(l));
    return r->feed->ops->seek(r->feed, 0, 0);
}

enum ct_status ct_records_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct ct_records *r = l->state;

    if (r->feed->ops->step)
        CT_TRY(r->feed->ops->step(r->feed));
    return ct_batches_forward(l, io);
}

enum ct_status ct_records_forward_to(struct ct_layer *l,
                                     const struct ct_io *io,
                                     struct ct_blob *const *top)
{
    struct ct_records *r = l->state;

    r->batches.alone = r->feed->ops->step;
    if (r->feed->ops->step)
        CT_TRY(r->feed->ops->step(r->feed));
    return ct_batches_forward_to(l, io, top);
}

enum ct_status ct_records_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct ct_records *r = l->state;
    /* Others have the records that this one does not. */
    const bool local = ct_data_param(l->param)->mode ==
                       CAFFE__DATA_PARAMETER__MODE__LOCAL;

    ct_batches_stop(&r->batches);
    return r->feed->ops->seek(r->feed, (int64_t)n_passes,
                              local ? 0 : ct_deal_skew(l, &r->batches.shard));
}

int64_t ct_records_count(const struct ct_layer *l)
{
    const struct ct_records *r = l->state;

    return r->feed->n_records;
}

void ct_records_teardown(struct ct_layer *l)
{
    struct ct_records *r = l->state;

    if (r->batches.layer)
        ct_batches_fini(&r->batches);
    ct_feed_destroy(r->feed);
}

