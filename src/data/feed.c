/* feed.c - the feed that reads a database. */
#include "data/feed.h"

#include <pthread.h>

#include "base/mem.h"
#include "cortado/log.h"

struct db_feed {
    struct ct_feed      base;
    struct ct_db       *db;
    struct ct_db_index *index; /* NULL: the cursor walks */
    struct ct_order     order; /* of the index */
    struct ct_shard     shard;
    int64_t             pass, item; /* what comes next, by the index */
    struct ct_cursor   *cursor;
    struct ct_sample     at;      /* the cursor's */
    bool                behind;  /* the cursor's record was given already */
    struct ct_cursor   *spare;   /* for after(), under the lock */
    pthread_mutex_t     lock;
};

void ct_record_fini(struct ct_record *r)
{
    ct_room_fini(&r->key_room);
    ct_room_fini(&r->value_room);
}

static void feed_wrapped(void)
{
    CT_INFO("Restarting data prefetching from start.");
}

static enum ct_status feed_take(struct ct_cursor *c, struct ct_record *r,
                                bool stable)
{
    if (stable) {
        r->key   = ct_cursor_key(c);
        r->value = ct_cursor_value(c);
        return CT_OK;
    }
    CT_TRY(ct_room_keep(&r->key_room, ct_cursor_key(c), &r->key));
    return ct_room_keep(&r->value_room, ct_cursor_value(c), &r->value);
}

static enum ct_status feed_walk(struct db_feed *f, struct ct_record *r)
{
    if (f->behind) {
        f->behind = false;
        CT_TRY(ct_cursor_next(f->cursor));
        f->at.index++;
        if (!ct_cursor_valid(f->cursor)) {
            feed_wrapped();
            CT_TRY(ct_cursor_first(f->cursor));
            f->at = (struct ct_sample){ f->at.epoch + 1, 0 };
        }
    }
    r->place  = f->at;
    f->behind = true;
    return feed_take(f->cursor, r, ct_db_stable(f->db));
}

static enum ct_status feed_next(struct ct_feed *base, struct ct_record *r)
{
    struct db_feed *f = (struct db_feed *)base;
    int64_t position;

    if (!f->index)
        return feed_walk(f, r);
    position = ct_shard_position(&f->shard, 0, f->pass, f->item);
    r->place = ct_order_at(&f->order, position);
    r->key   = ct_db_index_key(f->index, r->place.index);
    r->value = (struct ct_bytes){ NULL, 0 };
    if (r->place.epoch > f->at.epoch)
        feed_wrapped();
    f->at = r->place;
    if (++f->item == f->shard.count) {
        f->item = 0;
        f->pass++;
    }
    return CT_OK;
}

static enum ct_status feed_fetch(struct ct_feed *base, struct ct_record *r)
{
    struct db_feed *f = (struct db_feed *)base;

    if (r->value.ptr)
        return CT_OK;
    return ct_db_index_read(f->index, r->place.index, &r->value_room,
                            &r->value);
}

/* The walking cursor belongs to next(), so this uses another. */
static enum ct_status feed_walk_after(struct db_feed *f, struct ct_record *r)
{
    struct ct_cursor *c = f->spare;

    CT_ASSERT(c);
    CT_TRY(ct_cursor_find(c, r->key));
    if (ct_cursor_valid(c))
        CT_TRY(ct_cursor_next(c));
    if (!ct_cursor_valid(c))
        CT_TRY(ct_cursor_first(c));
    return feed_take(c, r, ct_db_stable(f->db));
}

static enum ct_status feed_after(struct ct_feed *base, struct ct_record *r)
{
    struct db_feed *f = (struct db_feed *)base;

    if (!f->index) {
        enum ct_status st;

        pthread_mutex_lock(&f->lock);
        st = feed_walk_after(f, r);
        pthread_mutex_unlock(&f->lock);
        return st;
    }
    r->place.index = (r->place.index + 1) % f->order.n;
    r->key         = ct_db_index_key(f->index, r->place.index);
    return ct_db_index_read(f->index, r->place.index, &r->value_room,
                            &r->value);
}

static enum ct_status feed_seek(struct ct_feed *base, int64_t n_passes,
                                int64_t skew)
{
    struct db_feed *f = (struct db_feed *)base;
    int64_t n, position;

    f->shard.skew = skew;
    position      = ct_shard_position(&f->shard, 0, n_passes, 0);
    if (f->index) {
        f->pass     = n_passes;
        f->item     = 0;
        f->at.epoch = position / f->order.n;
        return CT_OK;
    }
    /* A pass that ends with the last record does not wrap before the next
     * one, so the log line still comes. */
    CT_TRY(ct_db_count(f->db, &n));
    f->behind = position > 0;
    position -= f->behind;
    f->at = (struct ct_sample){ position / n, position % n };
    return ct_cursor_seek(f->cursor, f->at.index);
}

static void feed_destroy(struct ct_feed *base)
{
    struct db_feed *f = (struct db_feed *)base;

    ct_db_index_destroy(f->index);
    ct_cursor_destroy(f->cursor);
    ct_cursor_destroy(f->spare);
    ct_db_close(f->db);
    pthread_mutex_destroy(&f->lock);
    ct_free(f);
}

static const struct ct_feed_ops db_feed_ops = {
    .seek    = feed_seek,
    .next    = feed_next,
    .fetch   = feed_fetch,
    .after   = feed_after,
    .destroy = feed_destroy,
};

static enum ct_status feed_open(struct db_feed *f,
                                const struct ct_feed_config *config,
                                const char *source)
{
    bool alone = ct_shard_is_whole(&config->shard);
    int64_t n;

    f->shard = config->shard;
    CT_TRY(ct_db_open(config->backend, source, CT_DB_READ, &f->db));
    CT_TRY(ct_cursor_create(f->db, &f->cursor));
    if (!ct_cursor_valid(f->cursor))
        return ct_fail(CT_EINVAL, "database %s has no records", source);
    if (alone && !config->shuffle)
        return config->skip ? ct_cursor_create(f->db, &f->spare) : CT_OK;
    ct_cursor_destroy(f->cursor);
    f->cursor = NULL;
    CT_TRY(ct_db_index_create(f->db, &f->index));
    n = ct_db_index_n(f->index);
    f->base.n_records = n;
    ct_order_init(&f->order, config->seed, n, config->shuffle);
    CT_INFO("Indexed %lld records of %s, to read them %s", (long long)n,
            source, config->shuffle ? "shuffled" : "in parts");
    return CT_OK;
}

enum ct_status ct_feed_open(const struct ct_feed_config *config,
                            struct ct_feed **out)
{
    struct db_feed *f = NULL;
    char *source      = NULL;
    enum ct_status st;

    *out = NULL;
    CT_TRY(ct_alloc(1, sizeof(*f), "feed", &f));
    f->base.ops = &db_feed_ops;
    pthread_mutex_init(&f->lock, NULL);
    st = ct_order_source(config->mode, config->source, config->rank, &source);
    if (st == CT_OK)
        st = feed_open(f, config, source);
    ct_free(source);
    if (st != CT_OK) {
        feed_destroy(&f->base);
        return st;
    }
    *out = &f->base;
    return CT_OK;
}

void ct_feed_destroy(struct ct_feed *f)
{
    if (f)
        f->ops->destroy(f);
}
