/* simulate.c - a heap of events by time, and queues by urgency and arrival. */
#include "dist/model/simulate.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

enum { NONE = -1 };

struct task {
    double seconds, delay, earliest, start, end;
    int    resource[2];
    int    urgency;     /* least first */
    int    n_before;    /* tasks before it that have not ended */
    int    first_edge;  /* list of the tasks that wait for it */
    int    next[2];     /* next task in the queue of each resource */
    bool   started, ended;
};

struct edge {
    int to, next;
};

struct resource {
    int  head, tail; /* queue of tasks that wait */
    bool busy;
};

/* At the same time, ends come before releases: a task that ends frees its
 * resources. */
enum event_kind { ENDED, RELEASED };

struct event {
    double          time;
    enum event_kind kind;
    int             task;
};

struct sim {
    struct task     *task;
    struct edge     *edge;
    struct resource *resource;
    struct event    *heap;
    int n_task, n_edge, n_resource, n_heap;
    int room_task, room_edge, room_resource, room_heap;
    int n_ended;
    bool failed; /* out of memory */
};

/* Makes room for one more element in *array. */
static bool grow(struct sim *s, void *array, int n, int *room, size_t size)
{
    void *old, *more;
    int wanted = *room ? 2 * *room : 64;

    if (s->failed || n < *room)
        return !s->failed;
    memcpy(&old, array, sizeof(old));
    more = ct_calloc((size_t)wanted, size, "simulation");
    if (!more) {
        s->failed = true;
        return false;
    }
    if (old)
        memcpy(more, old, (size_t)n * size);
    ct_free(old);
    memcpy(array, &more, sizeof(more));
    *room = wanted;
    return true;
}

enum ct_status sim_create(struct sim **out)
{
    return ct_alloc(1, sizeof(**out), "simulation", out);
}

void sim_destroy(struct sim *s)
{
    if (!s)
        return;
    ct_free(s->task);
    ct_free(s->edge);
    ct_free(s->resource);
    ct_free(s->heap);
    ct_free(s);
}

int sim_resource(struct sim *s)
{
    if (!grow(s, &s->resource, s->n_resource, &s->room_resource,
              sizeof(*s->resource)))
        return NONE;
    s->resource[s->n_resource] = (struct resource){ NONE, NONE, false };
    return s->n_resource++;
}

int sim_task(struct sim *s, double seconds, double delay, int a, int b)
{
    if (!grow(s, &s->task, s->n_task, &s->room_task, sizeof(*s->task)))
        return NONE;
    s->task[s->n_task] = (struct task){
        .seconds = seconds, .delay = delay, .resource = { a, b },
        .first_edge = NONE, .next = { NONE, NONE },
    };
    return s->n_task++;
}

void sim_urgency(struct sim *s, int task, int urgency)
{
    if (task != NONE)
        s->task[task].urgency = urgency;
}

void sim_after(struct sim *s, int task, int before)
{
    if (!grow(s, &s->edge, s->n_edge, &s->room_edge, sizeof(*s->edge)))
        return;
    s->edge[s->n_edge] = (struct edge){ task, s->task[before].first_edge };
    s->task[before].first_edge = s->n_edge++;
    s->task[task].n_before++;
}

static bool earlier(const struct event *a, const struct event *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    return a->kind != b->kind ? a->kind < b->kind : a->task < b->task;
}

static void push(struct sim *s, double time, enum event_kind kind, int task)
{
    int i = s->n_heap;

    if (!grow(s, &s->heap, s->n_heap, &s->room_heap, sizeof(*s->heap)))
        return;
    s->n_heap++;
    s->heap[i] = (struct event){ time, kind, task };
    for (; i > 0 && earlier(&s->heap[i], &s->heap[(i - 1) / 2]);
         i = (i - 1) / 2) {
        struct event up = s->heap[(i - 1) / 2];

        s->heap[(i - 1) / 2] = s->heap[i];
        s->heap[i]           = up;
    }
}

static struct event pop(struct sim *s)
{
    struct event out = s->heap[0];

    s->heap[0] = s->heap[--s->n_heap];
    for (int i = 0;;) {
        int least = i;

        for (int k = 2 * i + 1; k <= 2 * i + 2 && k < s->n_heap; k++)
            if (earlier(&s->heap[k], &s->heap[least]))
                least = k;
        if (least == i)
            return out;
        struct event down = s->heap[i];

        s->heap[i]     = s->heap[least];
        s->heap[least] = down;
        i              = least;
    }
}

static bool is_free(const struct sim *s, int resource)
{
    return resource == NONE || !s->resource[resource].busy;
}

static void set_busy(struct sim *s, const struct task *t, bool busy)
{
    for (int k = 0; k < 2; k++)
        if (t->resource[k] != NONE)
            s->resource[t->resource[k]].busy = busy;
}

static void start(struct sim *s, int i, double now)
{
    struct task *t = &s->task[i];

    set_busy(s, t, true);
    t->started = true;
    t->start   = now;
    t->end     = now + t->seconds;
    push(s, t->end, ENDED, i);
}

/* Index of a resource among the two of a task. */
static int side(const struct task *t, int resource)
{
    return t->resource[0] == resource ? 0 : 1;
}

/* Adds a task to its queues, after tasks that are equally urgent or more. */
static void enqueue(struct sim *s, int i)
{
    for (int k = 0; k < 2; k++) {
        const int r = s->task[i].resource[k];
        struct resource *q;
        int *at;

        if (r == NONE)
            continue;
        q  = &s->resource[r];
        at = &q->head;
        if (q->tail != NONE &&
            s->task[q->tail].urgency <= s->task[i].urgency)
            at = &s->task[q->tail].next[side(&s->task[q->tail], r)];
        while (*at != NONE && s->task[*at].urgency <= s->task[i].urgency)
            at = &s->task[*at].next[side(&s->task[*at], r)];
        s->task[i].next[k] = *at;
        if (*at == NONE)
            q->tail = i;
        *at = i;
    }
}

/* If the resource is free, starts the first waiting task whose resources are
 * all free.  Removes tasks that were started from another queue. */
static void serve(struct sim *s, int r, double now)
{
    struct resource *q = &s->resource[r];
    int last           = NONE;

    for (int i = q->head; i != NONE && !q->busy;) {
        struct task *t = &s->task[i];
        int next       = t->next[side(t, r)];
        bool go        = !t->started && is_free(s, t->resource[0]) &&
                  is_free(s, t->resource[1]);

        if (go)
            start(s, i, now);
        if (t->started) {
            if (last == NONE)
                q->head = next;
            else
                s->task[last].next[side(&s->task[last], r)] = next;
            if (q->tail == i)
                q->tail = last;
        } else {
            last = i;
        }
        i = next;
    }
}

static void release(struct sim *s, int i, double now)
{
    const struct task *t = &s->task[i];

    if (t->resource[0] == NONE && t->resource[1] == NONE) {
        start(s, i, now);
        return;
    }
    enqueue(s, i);
    serve(s, t->resource[0] != NONE ? t->resource[0] : t->resource[1], now);
}

static void end(struct sim *s, int i, double now)
{
    struct task *t = &s->task[i];

    t->ended = true;
    s->n_ended++;
    set_busy(s, t, false);
    for (int e = t->first_edge; e != NONE; e = s->edge[e].next) {
        struct task *after = &s->task[s->edge[e].to];

        after->earliest = fmax(after->earliest, now + t->delay);
        if (--after->n_before == 0)
            push(s, after->earliest, RELEASED, s->edge[e].to);
    }
    for (int k = 0; k < 2; k++)
        if (t->resource[k] != NONE)
            serve(s, t->resource[k], now);
}

enum ct_status sim_run(struct sim *s)
{
    for (int i = 0; i < s->n_task; i++)
        if (s->task[i].n_before == 0)
            push(s, 0, RELEASED, i);
    while (s->n_heap > 0 && !s->failed) {
        struct event e = pop(s);

        if (e.kind == ENDED)
            end(s, e.task, e.time);
        else
            release(s, e.task, e.time);
    }
    if (s->failed)
        return ct_fail(CT_ENOMEM, "no memory to simulate %d tasks",
                       s->n_task);
    if (s->n_ended < s->n_task)
        return ct_fail(CT_EINVAL, "%d of %d simulated tasks wait for each "
                       "other", s->n_task - s->n_ended, s->n_task);
    return CT_OK;
}

double sim_start(const struct sim *s, int task)
{
    return s->task[task].start;
}

double sim_end(const struct sim *s, int task)
{
    return s->task[task].end;
}
