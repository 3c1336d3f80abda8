/* tcp_queue.c - operations of a view, and queues of them. */
#include "base/mem.h"
#include "comm/transport/tcp_parts.h"

enum { SLAB = 64 }; /* operations allocated at once */

struct tcp_slab {
    struct tcp_slab     *next;
    struct tcp_operation operation[SLAB];
};

struct tcp_operation *tcp_operation_new(struct tcp_peer *p)
{
    struct tcp_view *v = p->view;
    struct tcp_operation *o;

    if (!v->unused) {
        struct tcp_slab *s = ct_calloc(1, sizeof(*s), "tcp messages");

        if (!s)
            return NULL;
        s->next  = v->slabs;
        v->slabs = s;
        for (int i = 0; i < SLAB; i++) {
            s->operation[i].next = v->unused;
            v->unused            = &s->operation[i];
        }
    }
    o         = v->unused;
    v->unused = o->next;
    *o        = (struct tcp_operation){ .peer = p };
    return o;
}

void tcp_operation_drop(struct tcp_operation *o)
{
    ct_free(o->owned);
    o->owned               = NULL;
    o->next                = o->peer->view->unused;
    o->peer->view->unused = o;
}

void tcp_slabs_free(struct tcp_view *v)
{
    struct tcp_slab *next;

    for (struct tcp_slab *s = v->slabs; s; s = next) {
        next = s->next;
        ct_free(s);
    }
}

void tcp_queue_add(struct tcp_queue *q, struct tcp_operation *o)
{
    o->next  = NULL;
    *q->last = o;
    q->last  = &o->next;
}

bool tcp_queue_remove(struct tcp_queue *q, struct tcp_operation *o)
{
    for (struct tcp_operation **at = &q->first; *at; at = &(*at)->next)
        if (*at == o) {
            *at = o->next;
            if (!*at)
                q->last = at;
            return true;
        }
    return false;
}

struct tcp_operation *tcp_queue_find(const struct tcp_queue *q, uint32_t tag)
{
    struct tcp_operation *o = q->first;

    while (o && o->frame.tag != tag)
        o = o->next;
    return o;
}
