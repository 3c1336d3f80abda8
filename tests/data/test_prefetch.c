/* test_prefetch.c - a loader that counts, under many threads. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/blob.h"
#include "data/prefetch.h"
#include "testing/test.h"

struct counter {
    int64_t    next;
    int64_t    fail_load, fail_pick; /* sample numbers; -1: never */
    int        slow_us;              /* every seventh sample takes this long */
    int64_t    grow_at; /* from this sample on batches are twice as wide */
    atomic_int n_busy, most_busy;
};

static enum ct_status count_pick(void *loader, struct ct_worker *w,
                                 int64_t item)
{
    struct counter *c = loader;

    ASSERT_INT(c->next % 4, item);
    if (c->next == c->fail_pick)
        return ct_fail(CT_EIO, "no sample %lld", (long long)c->next);
    w->number = c->next++;
    return CT_OK;
}

static enum ct_status count_shape(void *loader, struct ct_worker *w,
                                  struct ct_shape *out)
{
    struct counter *c = loader;

    *out = CT_SHAPE(4, w->number >= c->grow_at ? 6 : 3);
    return CT_OK;
}

static enum ct_status count_load(void *loader, struct ct_worker *w,
                                 const struct ct_shape *shape, float *data,
                                 float *label)
{
    struct counter *c = loader;
    int busy          = atomic_fetch_add(&c->n_busy, 1) + 1;

    if (busy > atomic_load(&c->most_busy))
        atomic_store(&c->most_busy, busy);
    if (c->slow_us && w->number % 7 == 0)
        usleep((useconds_t)c->slow_us);
    atomic_fetch_sub(&c->n_busy, 1);
    if (w->number == c->fail_load)
        return ct_fail(CT_EPARSE, "bad sample %lld", (long long)w->number);
    for (int64_t i = 0; i < shape->dim[1]; i++)
        data[i] = (float)(10 * w->number + i);
    *label = (float)w->number;
    return CT_OK;
}

static const struct ct_loader_ops counting = {
    .pick = count_pick, .shape = count_shape, .load = count_load
};

static struct counter counter(void)
{
    return (struct counter){ .fail_load = -1, .fail_pick = -1,
                             .grow_at = INT64_MAX };
}

static struct ct_prefetch *started(struct counter *c, int ahead, int threads)
{
    struct ct_prefetch_config config = {
        .ops = &counting, .loader = c, .name = "test", .shape = CT_SHAPE(4, 3),
        .n_batches = ahead, .n_threads = threads,
    };
    struct ct_prefetch *p;

    ASSERT_OK(ct_prefetch_create(&config, &p));
    return p;
}

TEST(prefetch, batches_come_in_order_from_any_number_of_threads)
{
    for (int threads = 1; threads <= 8; threads *= 2) {
        struct counter c = counter();
        struct ct_prefetch *p;
        const struct ct_batch *b;

        c.slow_us = 300;
        p         = started(&c, 3, threads);
        for (int64_t t = 0; t < 50; t++) {
            ASSERT_OK(ct_prefetch_next(p, &b));
            for (int64_t i = 0; i < 4; i++) {
                ASSERT_INT(4 * t + i, b->label->ptr[i]);
                ASSERT_INT(10 * (4 * t + i) + 2, b->data->ptr[3 * i + 2]);
            }
        }
        ASSERT_INT(50, ct_prefetch_stats(p).n_batches);
        ct_prefetch_destroy(p);
        ASSERT(atomic_load(&c.most_busy) <= threads);
    }
}

TEST(prefetch, workers_wait_when_nobody_takes_batches)
{
    struct counter c = counter();
    const struct ct_batch *b;
    struct ct_prefetch *p = started(&c, 2, 2);

    ASSERT_OK(ct_prefetch_next(p, &b));
    usleep(50000);
    ct_prefetch_destroy(p);
    ASSERT(c.next <= 4 * 3); /* the net's one and two ahead */
}

TEST(prefetch, running_takes_no_memory_and_destroy_gives_all_back)
{
    struct counter c = counter();
    const struct ct_batch *b;
    uint64_t before = ct_mem_stats().n_live, calls;
    struct ct_prefetch *p = started(&c, 2, 4);

    ASSERT_OK(ct_prefetch_next(p, &b));
    calls = ct_mem_stats().n_calls;
    for (int i = 0; i < 100; i++)
        ASSERT_OK(ct_prefetch_next(p, &b));
    ASSERT_INT(calls, ct_mem_stats().n_calls);
    ct_prefetch_destroy(p);
    ASSERT_INT(before, ct_mem_stats().n_live);
}

TEST(prefetch, can_be_destroyed_at_any_moment)
{
    for (int i = 0; i < 60; i++) {
        struct counter c = counter();
        const struct ct_batch *b;
        struct ct_prefetch *p;

        c.slow_us = i % 2 ? 500 : 0;
        p         = started(&c, 1 + i % 3, 1 + i % 5);
        if (i % 4 == 3)
            ASSERT_OK(ct_prefetch_next(p, &b));
        usleep((useconds_t)(i * 20));
        ct_prefetch_destroy(p);
    }
    ct_prefetch_destroy(NULL);
}

TEST(prefetch, error_arrives_in_order_with_its_text_and_stays)
{
    for (int threads = 1; threads <= 4; threads++) {
        struct counter c = counter();
        const struct ct_batch *b;
        struct ct_prefetch *p;

        c.fail_load = 10;
        p           = started(&c, 3, threads);
        ASSERT_OK(ct_prefetch_next(p, &b));
        ASSERT_OK(ct_prefetch_next(p, &b));
        for (int i = 0; i < 3; i++) {
            ASSERT_STATUS(CT_EPARSE, ct_prefetch_next(p, &b));
            ASSERT_STR("bad sample 10", ct_last_error());
        }
        ct_prefetch_destroy(p);
    }
}

TEST(prefetch, sample_that_cannot_be_picked_ends_the_sequence)
{
    for (int threads = 1; threads <= 4; threads++) {
        struct counter c = counter();
        const struct ct_batch *b;
        struct ct_prefetch *p;

        c.fail_pick = 6;
        p           = started(&c, 3, threads);
        ASSERT_OK(ct_prefetch_next(p, &b));
        ASSERT_STATUS(CT_EIO, ct_prefetch_next(p, &b));
        ASSERT_STR("no sample 6", ct_last_error());
        ct_prefetch_destroy(p);
    }
}

TEST(prefetch, batches_may_grow)
{
    struct counter c = counter();
    const struct ct_batch *b;
    struct ct_prefetch *p;

    c.grow_at = 12;
    p         = started(&c, 2, 3);
    for (int64_t t = 0; t < 20; t++) {
        int64_t w = t < 3 ? 3 : 6;

        ASSERT_OK(ct_prefetch_next(p, &b));
        ASSERT_INT(w, b->shape.dim[1]);
        ASSERT_INT(10 * (4 * t + 3) + w - 1, b->data->ptr[4 * w - 1]);
    }
    ct_prefetch_destroy(p);
}

TEST(prefetch, top_takes_the_batchs_memory_without_a_copy)
{
    struct counter c = counter();
    struct ct_blob *data, *label;
    const struct ct_batch *b;
    struct ct_prefetch *p = started(&c, 2, 2);

    ASSERT_OK(ct_blob_create(ct_device_cpu(), &data));
    ASSERT_OK(ct_blob_create(ct_device_cpu(), &label));
    for (int t = 0; t < 10; t++) {
        ASSERT_OK(ct_prefetch_next(p, &b));
        ASSERT_OK(ct_batch_to_tops(b, data, label));
        ASSERT(ct_data(data) == b->data->ptr);
        ASSERT(ct_data(label) == b->label->ptr);
        ASSERT_FLOAT(40 * t, ct_data(data)[0], 0);
    }
    ct_prefetch_destroy(p); /* the top keeps its memory alive */
    ASSERT_FLOAT(360, ct_data(data)[0], 0);
    ct_blob_destroy(data);
    ct_blob_destroy(label);
}
