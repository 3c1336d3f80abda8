/* ps_form.c - coded gradients on their way through servers that add up.
 *
 * A worker's push is the code of its slice (compress/wire.h); what the codec
 * leaves out stays with the worker.  The server decodes all pushes in the
 * order of workers and adds them up.  Its answer is floats; 16 bits a float
 * where the codec is that.
 *
 *     payload of a push:   | dense floats | code |
 *     of an answer:        | floats, as in the arena |, or as a push
 *
 * Wires are the compute thread's; `run`, where sums are made and answers
 * decoded, is the comm thread's. */
#include <string.h>

#include "base/mem.h"
#include "dist/dist.h"

static struct dist_wire *wire_of(void *arg, int slice)
{
    return &((struct ct_dist *)arg)->wires.wire[slice];
}

static bool both_ways(const struct dist_wire *w)
{
    return w->codec->type->both_ways;
}

static size_t form_push_bytes(void *arg, int slice, int64_t clock)
{
    return dist_wire_push_bytes(wire_of(arg, slice), clock);
}

static size_t form_answer_bytes(void *arg, int slice)
{
    const struct ct_dist *d   = arg;
    const struct dist_wire *w = wire_of(arg, slice);

    return both_ways(w) ? dist_wire_push_bytes(w, 0)
                        : d->ps.table.slice[slice].n * sizeof(float);
}

static void form_push(void *arg, int slice, int64_t clock, float times,
                      const float *x, void *payload)
{
    dist_wire_push(wire_of(arg, slice), clock, times, x, payload);
}

/* Dense and coded floats where they lie in the slice at x. */
static void spread(const struct dist_wire *w, const float *dense,
                   const float *coded, float *x)
{
    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];

        memcpy(x + (p->first - w->first),
               (p->is_coded ? coded : dense) + p->at,
               (size_t)p->n * sizeof(*x));
    }
}

static enum ct_status form_sum(void *arg, int slice, int64_t clock,
                               void *const *payload, void *answer)
{
    struct ct_dist *d         = arg;
    const struct dist_wire *w = wire_of(arg, slice);
    float *dense = d->ps.run, *coded = dense + w->n_dense, *out = answer;

    memset(dense, 0, (size_t)(w->n_dense + w->n_coded) * sizeof(*dense));
    for (int r = 0; r < d->mode.n_workers; r++)
        CT_TRY(dist_wire_add(w, clock, payload[r], dense, coded));
    if (!both_ways(w)) {
        memset(out, 0, d->ps.table.slice[slice].n * sizeof(*out));
        spread(w, dense, coded, out);
        return CT_OK;
    }
    memcpy(out, dense, (size_t)w->n_dense * sizeof(*out));
    if (w->n_coded)
        w->codec->type->encode(NULL, w->n_coded, coded, NULL,
                               out + w->n_dense);
    return CT_OK;
}

static void form_take(void *arg, int slice, const void *payload, float *x)
{
    const struct ct_dist *d   = arg;
    const struct dist_wire *w = wire_of(arg, slice);
    const float *from         = payload;

    if (!both_ways(w)) {
        memcpy(x, from, d->ps.table.slice[slice].n * sizeof(*x));
        return;
    }
    if (w->n_coded)
        w->codec->type->decode(w->n_coded, from + w->n_dense, false,
                               d->ps.run);
    spread(w, from, d->ps.run, x);
}

enum ct_status dist_ps_form(struct ct_dist *d, const struct ct_net *net,
                            struct ct_ps_form *out)
{
    if (!d->wires.codec.type || d->mode.n_workers == 1)
        return CT_OK;
    CT_TRY(dist_wires_init_slices(d, net));
    CT_TRY(ct_alloc(d->ps.table.longest, sizeof(*d->ps.run), "codes",
                    &d->ps.run));
    *out = (struct ct_ps_form){
        .push_bytes   = form_push_bytes,
        .answer_bytes = form_answer_bytes,
        .push         = form_push,
        .sum          = form_sum,
        .take         = form_take,
        .arg          = d,
    };
    return CT_OK;
}
