/* tracing.c - traces some iterations on all ranks.
 *
 * A trace starts and ends between two iterations, the same ones on every rank.
 * It covers the iterations of --trace, or those after an exchange that told all
 * ranks of a request. */
#include "solver/tracing.h"

#include <string.h>

#include "base/mem.h"
#include "base/trace.h"
#include "cortado/log.h"
#include "solver/solver_inner.h"

struct parts {
    struct ct_text *part;
    int             n;
};

static enum ct_status take_part(void *arg, int rank, const void *data,
                                size_t bytes, int64_t clock_offset,
                                int64_t clock_error)
{
    struct parts *p           = arg;
    struct ct_trace_part head = { 0 };
    struct ct_text *to;

    CT_ASSERT(rank < p->n);
    to = &p->part[rank];
    ct_text_add_bytes(to, data, bytes);
    if (to->failed || bytes < sizeof(head))
        return CT_ENOMEM;
    memcpy(&head, to->s, sizeof(head));
    head.clock_offset = clock_offset;
    head.clock_error  = clock_error;
    memcpy(to->s, &head, sizeof(head));
    return CT_OK;
}

/* Sends the parts of all ranks to rank 0, which writes them. */
static enum ct_status collect(struct ct_solver *s, const struct ct_text *mine)
{
    struct ct_tracing *t  = s->watch.tracing;
    struct ct_exchange *x = s->options.exchange;
    struct parts p        = { .n = x ? x->facts.size : 1 };
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)p.n, sizeof(*p.part), "trace", &p.part));
    st = x
             ? x->job->collect(x, mine->s, mine->n_bytes, take_part, &p)
             : take_part(&p, 0, mine->s, mine->n_bytes, 0, 0);
    if (st == CT_OK && (!x || x->facts.rank == 0) &&
        t->write(t->arg, t->first, p.part, p.n) != CT_OK)
        CT_WARN("the trace is lost: %s", ct_last_error());
    for (int i = 0; i < p.n; i++)
        ct_text_fini(&p.part[i]);
    ct_free(p.part);
    return st;
}

static enum ct_status finish(struct ct_solver *s)
{
    const struct ct_exchange *x = s->options.exchange;
    struct ct_text mine         = { 0 };
    enum ct_status st;

    s->watch.tracing->on = false;
    ct_trace_stop();
    ct_trace_pack(x ? x->facts.rank : 0, &mine);
    st = mine.failed ? CT_ENOMEM : collect(s, &mine);
    ct_text_fini(&mine);
    return st;
}

static void start(struct ct_solver *s, int end)
{
    struct ct_tracing *t = s->watch.tracing;

    if (t->on) /* of two requests the later end counts */
        t->end = t->end > end ? t->end : end;
    else
        t->end = end > s->iter ? end : s->iter + 1;
    if (t->on)
        return;
    t->on    = true;
    t->first = s->iter;
    ct_trace_thread("compute");
    ct_trace_start();
}

enum ct_status solver_trace_iteration(struct ct_solver *s)
{
    struct ct_tracing *t = s->watch.tracing;

    if (!t)
        return CT_OK;
    if (t->on && s->iter >= t->end)
        CT_TRY(finish(s));
    /* A rank that missed a deadline may skip iteration `from`, so a later one
     * starts the trace, too.  In an elastic job all ranks are at the same
     * iteration. */
    if (t->from >= 0 && s->iter >= t->from) {
        if ((solver_commits(s) ? s->iter : s->shown.start_iter) <
            t->from + t->count)
            start(s, t->from + t->count);
        else
            CT_WARN("nothing is traced: training resumed at iteration %d",
                    s->shown.start_iter);
        t->planned = t->from;
        t->from    = -1;
    } else if (!t->on && s->peers.trace_agreed) {
        start(s, s->iter + t->count);
    }
    s->peers.trace_agreed = false;
    return CT_OK;
}

void solver_trace_drop(struct ct_solver *s)
{
    struct ct_tracing *t = s->watch.tracing;

    s->peers.trace_agreed = false;
    if (!t || !t->on)
        return;
    t->on = false;
    ct_trace_stop();
    if (t->planned >= 0 && t->end == t->planned + t->count)
        t->from = t->planned; /* the remaining iterations are traced again */
    else
        CT_WARN("the trace is lost: other ranks train now");
}

enum ct_status solver_trace_over(struct ct_solver *s)
{
    return s->watch.tracing && s->watch.tracing->on ? finish(s) : CT_OK;
}

bool solver_trace_wanted(const struct ct_solver *s)
{
    struct ct_tracing *t = s->watch.tracing;

    return t && atomic_load_explicit(&t->wanted, memory_order_relaxed) &&
           atomic_exchange(&t->wanted, false);
}
