/* queue.c - a ring of pointers under one lock. */
#include "base/queue.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct ct_queue {
    pthread_mutex_t lock;
    pthread_cond_t  has_item, has_room;
    void          **item;
    size_t          first, length, capacity;
    bool            closed;
};

enum ct_status ct_queue_create(size_t capacity, struct ct_queue **out)
{
    struct ct_queue *q;

    CT_TRY(ct_alloc(1, sizeof(*q), "queue", &q));
    q->item = ct_calloc(capacity, sizeof(*q->item), "queue");
    if (!q->item) {
        ct_free(q);
        return CT_ENOMEM;
    }
    q->capacity = capacity;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->has_item, NULL);
    pthread_cond_init(&q->has_room, NULL);
    *out = q;
    return CT_OK;
}

void ct_queue_destroy(struct ct_queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->has_room);
    pthread_cond_destroy(&q->has_item);
    pthread_mutex_destroy(&q->lock);
    ct_free(q->item);
    ct_free(q);
}

bool ct_queue_push(struct ct_queue *q, void *item)
{
    bool open;

    pthread_mutex_lock(&q->lock);
    while (q->length == q->capacity && !q->closed)
        pthread_cond_wait(&q->has_room, &q->lock);
    open = !q->closed;
    if (open) {
        q->item[(q->first + q->length++) % q->capacity] = item;
        pthread_cond_signal(&q->has_item);
    }
    pthread_mutex_unlock(&q->lock);
    return open;
}

static bool queue_take(struct ct_queue *q, void *out)
{
    if (q->length == 0)
        return false;
    memcpy(out, &q->item[q->first], sizeof(void *));
    q->first = (q->first + 1) % q->capacity;
    q->length--;
    pthread_cond_signal(&q->has_room);
    return true;
}

bool ct_queue_pop(struct ct_queue *q, void *out)
{
    bool got;

    pthread_mutex_lock(&q->lock);
    while (q->length == 0 && !q->closed)
        pthread_cond_wait(&q->has_item, &q->lock);
    got = queue_take(q, out);
    pthread_mutex_unlock(&q->lock);
    return got;
}

void ct_queue_close(struct ct_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->has_item);
    pthread_cond_broadcast(&q->has_room);
    pthread_mutex_unlock(&q->lock);
}
