/* prefetch.c - the worker pool and its two queues.
 *
 * A worker picks a run of samples at once, so that small ones do not cost a
 * lock each: a share of what the batch still lacks, which shrinks towards its
 * end, so that all workers end it together.  `ticket` is held by the worker
 * that picks, also while it waits for a free batch: the others have nothing to
 * do either.  `state` guards what a batch is worth and is held for moments
 * only. */
#include "data/prefetch.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/trace.h"

enum { MOST_THREADS = 64, AUTO_THREADS = 8, MOST_PICKS = 16 };

/* What pick() leaves in a worker for load(). */
struct pick {
    struct ct_record record;
    int64_t          epoch, sample, number;
};

/* A thread's. */
struct hand {
    struct ct_worker worker;
    struct pick      pick[MOST_PICKS];
};

struct batch {
    struct ct_batch pub;
    int64_t         n_given;   /* samples picked; under `ticket` */
    int64_t         n_pending; /* samples not loaded yet; under `state` */
    enum ct_status  status;    /* of its first bad sample; under `state` */
    int64_t         bad_item;
    char            why[1024];
};

struct ct_prefetch {
    struct ct_prefetch_config config;
    struct ct_queue *free, *started;
    struct batch    *batch;
    int              n_batches; /* one more than are made ahead: the net's */
    struct batch    *filling;   /* under `ticket`; NULL: the next is free */
    bool             stop;      /* under `ticket` */
    struct batch    *lent[2];   /* the consumer's; the latest first */
    enum ct_status   failed;    /* the consumer's; sticks */
    struct ct_prefetch_stats stats; /* idle_s and n_ready under `state` */
    int64_t          n_ready;
    pthread_mutex_t  ticket, state;
    pthread_cond_t   loaded;
    pthread_t        thread[MOST_THREADS];
    struct hand     *hand; /* as many as threads */
    int              n_hands, n_threads;
};

struct start {
    struct ct_prefetch *p;
    struct hand        *hand;
};

void ct_worker_fini(struct ct_worker *w)
{
    ct_record_fini(&w->record);
    ct_codec_fini(&w->codec);
    ct_image_fini(&w->image);
    ct_image_fini(&w->resized);
    ct_image_fini(&w->part);
    ct_room_fini(&w->file);
    ct_room_fini(&w->floats);
    ct_room_fini(&w->augment);
}

/* With `state` held: keep the cause of the first bad sample. */
static void batch_failed(struct batch *b, int64_t item, enum ct_status st)
{
    if (st == CT_OK || (b->status != CT_OK && item >= b->bad_item))
        return;
    b->status   = st;
    b->bad_item = item;
    snprintf(b->why, sizeof(b->why), "%s", ct_last_error());
}

/* With `state` held, by whoever loads the last sample: nobody else touches
 * the batch until it is ready. */
static void batch_finish(struct ct_prefetch *p, struct batch *b)
{
    enum ct_status st;

    if (!p->config.ops->finish || b->status != CT_OK)
        return;
    pthread_mutex_unlock(&p->state);
    st = p->config.ops->finish(p->config.loader, p, &b->pub);
    pthread_mutex_lock(&p->state);
    batch_failed(b, p->config.shape.dim[0], st);
}

/* Count `n` samples as done. */
static void batch_done(struct ct_prefetch *p, struct batch *b, int64_t item,
                       int64_t n, enum ct_status st)
{
    pthread_mutex_lock(&p->state);
    batch_failed(b, item, st);
    if (n > 0 && b->n_pending == n)
        batch_finish(p, b);
    b->n_pending -= n;
    if (b->n_pending == 0) {
        p->n_ready++;
        pthread_cond_signal(&p->loaded);
    }
    pthread_mutex_unlock(&p->state);
}

static void batch_drop(const struct ct_prefetch *p, struct ct_buffer *b)
{
    if (b && p->config.gpu)
        ct_unpin(p->config.gpu, b->ptr);
    ct_buffer_drop(b);
}

static enum ct_status batch_grow(const struct ct_prefetch *p,
                                 struct ct_buffer **b, size_t bytes,
                                 const char *name)
{
    struct ct_buffer *more;

    if (*b && (*b)->bytes >= bytes)
        return CT_OK;
    CT_TRY(ct_buffer_create(ct_device_cpu(), bytes, name, &more));
    if (p->config.gpu)
        ct_pin(p->config.gpu, more->ptr, bytes);
    batch_drop(p, *b);
    *b = more;
    return CT_OK;
}

static enum ct_status batch_shape(const struct ct_prefetch *p, struct batch *b,
                                  struct ct_shape shape)
{
    const size_t n = (size_t)shape.dim[0];

    CT_TRY(ct_shape_check(&shape));
    b->pub.shape       = shape;
    b->pub.label_shape = CT_SHAPE(shape.dim[0]);
    if (p->config.objects && !b->pub.objects)
        CT_TRY(ct_alloc(n, sizeof(*b->pub.objects), "batch objects",
                        &b->pub.objects));
    CT_TRY(batch_grow(p, &b->pub.data,
                      (size_t)ct_shape_count(&shape, 0, CT_END) *
                          sizeof(float), "batch data"));
    if (p->config.raw_bytes)
        CT_TRY(batch_grow(p, &b->pub.raw, n * p->config.raw_bytes,
                          "batch bytes"));
    if (p->config.raw_bytes)
        CT_TRY(batch_grow(p, &b->pub.window, n * sizeof(struct ct_crop),
                          "batch windows"));
    return batch_grow(p, &b->pub.label, n * sizeof(float), "batch labels");
}

enum ct_status ct_batch_labels(const struct ct_prefetch *p, struct ct_batch *b,
                               struct ct_shape shape)
{
    CT_TRY(ct_shape_check(&shape));
    CT_TRY(batch_grow(p, &b->label,
                      (size_t)ct_shape_count(&shape, 0, CT_END) *
                          sizeof(float), "batch labels"));
    b->label_shape = shape;
    return CT_OK;
}

/* With `ticket` held.  False when the pool stops. */
static bool pool_start_batch(struct ct_prefetch *p)
{
    double since = ct_now();
    struct batch *b;

    if (!ct_queue_pop(p->free, &b))
        return false;
    pthread_mutex_lock(&p->state);
    p->stats.idle_s += ct_now() - since;
    b->n_pending = p->config.shape.dim[0];
    b->status    = CT_OK;
    pthread_mutex_unlock(&p->state);
    b->n_given   = 0;
    b->pub.n_raw = 0;
    p->filling   = b;
    return ct_queue_push(p->started, b);
}

/* Exchanges what is in the worker and in the pick, memory included. */
static void pick_swap(struct ct_worker *w, struct pick *k)
{
    const struct pick was = { w->record, w->epoch, w->sample, w->number };

    w->record = k->record;
    w->epoch  = k->epoch;
    w->sample = k->sample;
    w->number = k->number;
    *k        = was;
}

/* With `ticket` held: sample `item` of b into the worker. */
static enum ct_status pool_pick_one(struct ct_prefetch *p,
                                    struct ct_worker *w, struct batch *b,
                                    int64_t item)
{
    struct ct_shape shape;

    CT_TRY(p->config.ops->pick(p->config.loader, w, item));
    if (item > 0)
        return CT_OK;
    CT_TRY(p->config.ops->shape(p->config.loader, w, &shape));
    return batch_shape(p, b, shape);
}

/* With `ticket` held: pick the next samples, *first and those after it.
 * Returns how many; 0 when there is nothing more to do. */
static int pool_pick(struct ct_prefetch *p, struct hand *h,
                     struct batch **out, int64_t *first)
{
    const int64_t n = p->config.shape.dim[0];
    struct batch *b;
    int64_t share;
    int n_picked = 0;

    if (p->stop || (!p->filling && !pool_start_batch(p)))
        return 0;
    b      = *out = p->filling;
    *first = b->n_given;
    share  = (n - b->n_given) / (2 * p->n_hands);
    share  = share < 1 ? 1 : share > MOST_PICKS ? MOST_PICKS : share;
    while (n_picked < share) {
        int64_t item      = b->n_given++;
        enum ct_status st = pool_pick_one(p, &h->worker, b, item);

        if (st != CT_OK) { /* nothing can follow in order: the pool ends */
            p->stop = true;
            batch_done(p, b, item, n - item, st);
            return n_picked;
        }
        pick_swap(&h->worker, &h->pick[n_picked++]);
    }
    if (b->n_given == n)
        p->filling = NULL;
    return n_picked;
}

static void pool_load(struct ct_prefetch *p, struct hand *h, struct batch *b,
                      int64_t first, int n_picked)
{
    const int64_t each = ct_shape_count(&b->pub.shape, 1, CT_END);
    struct ct_crop *window =
        p->config.raw_bytes ? (void *)b->pub.window->ptr : NULL;
    int64_t n_raw = 0;

    for (int i = 0; i < n_picked; i++) {
        int64_t item = first + i;
        enum ct_status st;

        pick_swap(&h->worker, &h->pick[i]);
        h->worker.objects = b->pub.objects ? &b->pub.objects[item] : NULL;
        if (p->config.raw_bytes) {
            h->worker.raw = (unsigned char *)b->pub.raw->ptr +
                            (size_t)item * p->config.raw_bytes;
            h->worker.window  = window + item;
            *h->worker.window = (struct ct_crop){ 0 };
        }
        st = p->config.ops->load(p->config.loader, &h->worker, &b->pub.shape,
                                 b->pub.data->ptr + item * each,
                                 b->pub.label->ptr + item);
        pick_swap(&h->worker, &h->pick[i]);
        n_raw += p->config.raw_bytes && window[item].is_raw;
        if (st != CT_OK)
            batch_done(p, b, item, 0, st);
    }
    pthread_mutex_lock(&p->state);
    b->pub.n_raw += n_raw;
    pthread_mutex_unlock(&p->state);
    batch_done(p, b, first, n_picked, CT_OK);
}

static void *pool_run(void *arg)
{
    struct start *start   = arg;
    struct ct_prefetch *p = start->p;
    struct hand *h        = start->hand;
    char name[32];

    ct_free(start);
    snprintf(name, sizeof(name), "prefetch %d", (int)(h - p->hand));
    ct_trace_thread(name);
    for (;;) {
        struct batch *b = NULL;
        int64_t first   = 0;
        uint64_t since;
        int n_picked;

        pthread_mutex_lock(&p->ticket);
        n_picked = pool_pick(p, h, &b, &first);
        pthread_mutex_unlock(&p->ticket);
        if (n_picked == 0)
            return NULL;
        since = ct_trace_begin();
        pool_load(p, h, b, first, n_picked);
        ct_trace_end(since, CT_TRACE_PREFETCH, "samples");
    }
}

static enum ct_status record_grow(struct ct_record *r,
                                  const struct ct_record *like)
{
    CT_TRY(ct_room_grow(&r->key_room, like->key_room.bytes));
    return ct_room_grow(&r->value_room, like->value_room.bytes);
}

static enum ct_status hand_grow(struct hand *h, const struct ct_worker *like)
{
    struct ct_worker *w = &h->worker;

    CT_TRY(record_grow(&w->record, &like->record));
    for (int i = 0; i < MOST_PICKS; i++)
        CT_TRY(record_grow(&h->pick[i].record, &like->record));
    CT_TRY(ct_room_grow(&w->codec.taps, like->codec.taps.bytes));
    CT_TRY(ct_room_grow(&w->codec.rows, like->codec.rows.bytes));
    CT_TRY(ct_room_grow(&w->image.room, like->image.room.bytes));
    CT_TRY(ct_room_grow(&w->resized.room, like->resized.room.bytes));
    CT_TRY(ct_room_grow(&w->part.room, like->part.room.bytes));
    CT_TRY(ct_room_grow(&w->file, like->file.bytes));
    CT_TRY(ct_room_grow(&w->floats, like->floats.bytes));
    return ct_room_grow(&w->augment, like->augment.bytes);
}

static enum ct_status pool_start_threads(struct ct_prefetch *p)
{
    int wanted = p->config.n_threads;

    if (wanted <= 0) {
        wanted = (ct_cores() + 1) / 2;
        wanted = wanted < 1 ? 1 : wanted > AUTO_THREADS ? AUTO_THREADS : wanted;
    }
    wanted = wanted > MOST_THREADS ? MOST_THREADS : wanted;
    CT_TRY(ct_alloc((size_t)wanted, sizeof(*p->hand), "prefetch hands",
                    &p->hand));
    p->n_hands = wanted;
    for (int i = 0; i < wanted; i++) {
        struct start *s;

        if (p->config.like)
            CT_TRY(hand_grow(&p->hand[i], p->config.like));
        CT_TRY(ct_alloc(1, sizeof(*s), "prefetch", &s));
        *s = (struct start){ p, &p->hand[i] };
        if (pthread_create(&p->thread[i], NULL, pool_run, s) != 0) {
            ct_free(s);
            return ct_fail(CT_EIO, "cannot start a prefetch thread");
        }
        p->n_threads++;
    }
    return CT_OK;
}

static enum ct_status pool_init(struct ct_prefetch *p)
{
    CT_TRY(ct_queue_create((size_t)p->n_batches, &p->free));
    CT_TRY(ct_queue_create((size_t)p->n_batches, &p->started));
    CT_TRY(ct_alloc((size_t)p->n_batches, sizeof(*p->batch), "batches",
                    &p->batch));
    for (int i = 0; i < p->n_batches; i++) {
        CT_TRY(batch_shape(p, &p->batch[i], p->config.shape));
        (void)ct_queue_push(p->free, &p->batch[i]);
    }
    return pool_start_threads(p);
}

enum ct_status ct_prefetch_create(const struct ct_prefetch_config *config,
                                  struct ct_prefetch **out)
{
    struct ct_prefetch *p;
    enum ct_status st;

    *out = NULL;
    CT_ASSERT(config->n_batches >= 1 && config->shape.n_axes >= 1 &&
              config->shape.dim[0] >= 1);
    CT_TRY(ct_alloc(1, sizeof(*p), "prefetch", &p));
    p->config    = *config;
    p->n_batches = config->n_batches + (config->gpu ? 2 : 1);
    pthread_mutex_init(&p->ticket, NULL);
    pthread_mutex_init(&p->state, NULL);
    pthread_cond_init(&p->loaded, NULL);
    st = pool_init(p);
    if (st != CT_OK) {
        ct_prefetch_destroy(p);
        return st;
    }
    *out = p;
    return CT_OK;
}

static void hand_fini(struct hand *h)
{
    ct_worker_fini(&h->worker);
    for (int i = 0; i < MOST_PICKS; i++)
        ct_record_fini(&h->pick[i].record);
}

void ct_prefetch_destroy(struct ct_prefetch *p)
{
    if (!p)
        return;
    /* A worker may hold `ticket` while it waits in the queue of free batches:
     * closing the queue comes first. */
    if (p->free)
        ct_queue_close(p->free);
    if (p->started)
        ct_queue_close(p->started);
    pthread_mutex_lock(&p->ticket);
    p->stop = true;
    pthread_mutex_unlock(&p->ticket);
    for (int i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    for (int i = 0; i < p->n_hands; i++)
        hand_fini(&p->hand[i]);
    ct_free(p->hand);
    for (int i = 0; p->batch && i < p->n_batches; i++) {
        struct ct_objects *objects = p->batch[i].pub.objects;

        for (int64_t k = 0; objects && k < p->config.shape.dim[0]; k++)
            ct_objects_fini(&objects[k]);
        ct_free(objects);
        batch_drop(p, p->batch[i].pub.data);
        batch_drop(p, p->batch[i].pub.label);
        batch_drop(p, p->batch[i].pub.raw);
        batch_drop(p, p->batch[i].pub.window);
    }
    ct_queue_destroy(p->started);
    ct_queue_destroy(p->free);
    pthread_cond_destroy(&p->loaded);
    pthread_mutex_destroy(&p->state);
    pthread_mutex_destroy(&p->ticket);
    ct_free(p->batch);
    ct_free(p);
}

bool ct_prefetch_ready(struct ct_prefetch *p)
{
    bool ready;

    pthread_mutex_lock(&p->state);
    ready = p->n_ready > 0;
    pthread_mutex_unlock(&p->state);
    return ready;
}

/* `b` is lent now; what was lent before it goes back, on a GPU's behalf one
 * batch later. */
static void lend(struct ct_prefetch *p, struct batch *b)
{
    struct batch *back = p->lent[p->config.gpu ? 1 : 0];

    if (back)
        (void)ct_queue_push(p->free, back);
    p->lent[1] = p->lent[0];
    p->lent[0] = b;
}

enum ct_status ct_prefetch_next(struct ct_prefetch *p,
                                const struct ct_batch **out)
{
    double since = ct_now();
    struct batch *b;

    if (p->failed != CT_OK)
        return ct_fail(p->failed, "%s", p->lent[0]->why);
    if (!ct_queue_pop(p->started, &b))
        return ct_fail(CT_ESTOP, "prefetching has stopped");
    pthread_mutex_lock(&p->state);
    p->stats.depth_sum += p->n_ready;
    while (b->n_pending > 0)
        pthread_cond_wait(&p->loaded, &p->state);
    p->n_ready--;
    p->stats.n_batches++;
    p->stats.wait_s += ct_now() - since;
    p->failed = b->status;
    pthread_mutex_unlock(&p->state);
    lend(p, b);
    if (p->failed != CT_OK)
        return ct_fail(p->failed, "%s", b->why);
    *out = &b->pub;
    return CT_OK;
}

struct ct_prefetch_stats ct_prefetch_stats(const struct ct_prefetch *p)
{
    struct ct_prefetch *q = (struct ct_prefetch *)(uintptr_t)p;
    struct ct_prefetch_stats s;

    pthread_mutex_lock(&q->state);
    s = q->stats;
    pthread_mutex_unlock(&q->state);
    return s;
}

static enum ct_status batch_to_top(struct ct_buffer *from,
                                   struct ct_shape shape, struct ct_blob *top)
{
    size_t bytes = (size_t)ct_shape_count(&shape, 0, CT_END) * sizeof(float);

    if (!top->planned && top->dev->kind == CT_CPU) {
        ct_tensor_place(&top->data, from, 0, from->bytes);
        return ct_reshape(top, shape);
    }
    CT_TRY(ct_reshape(top, shape));
    return top->dev->ops->from_host(top->dev, bytes, from->ptr, top->data.ptr);
}

enum ct_status ct_batch_to_tops(const struct ct_batch *b, struct ct_blob *data,
                                struct ct_blob *label)
{
    CT_TRY(batch_to_top(b->data, b->shape, data));
    if (label)
        CT_TRY(batch_to_top(b->label, b->label_shape, label));
    return CT_OK;
}
