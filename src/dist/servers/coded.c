/* coded.c - encoded gradients between workers and servers.
 *
 * A worker pushes the code of its slice (codec/coded_bucket.h), and keeps what
 * the codec leaves out.  The server decodes a push when it has arrived, and
 * handles the floats as without a codec.  If servers only add up and the codec
 * has 16 bits per float, answers are encoded, too.  Parameters that servers
 * keep are always sent as floats.
 *
 *     payload of a push:      | dense floats | code |
 *     payload of an answer:   | floats, as in the arena |, or as a push
 *
 * Only the thread that pushes uses wires: the compute thread, or with groups
 * the comm thread.  Only the comm thread uses `run`, where answers are encoded
 * and decoded. */
#include <string.h>

#include "base/mem.h"
#include "dist/engine.h"

static struct dist_wire *wire_of(void *arg, int slice)
{
    return &((struct ct_dist *)arg)->wires.wire[slice];
}

static size_t form_push_bytes(void *arg, int slice, int64_t turn)
{
    return dist_wire_push_bytes(wire_of(arg, slice), turn);
}

static void form_push(void *arg, int slice, int64_t turn, float times,
                      const float *x, void *payload)
{
    dist_wire_push(wire_of(arg, slice), turn, times, x, payload);
}

/* Copies dense and coded floats to their places in the slice at x. */
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

static enum ct_status form_open(void *arg, int slice, int64_t turn,
                                const void *payload, float *scratch, float *x)
{
    const struct ct_dist *d   = arg;
    const struct dist_wire *w = wire_of(arg, slice);
    float *coded              = scratch + w->n_dense;

    memset(scratch, 0, (size_t)(w->n_dense + w->n_coded) * sizeof(*scratch));
    CT_TRY(dist_wire_add(w, turn, payload, scratch, coded));
    memset(x, 0, d->ps.table.slice[slice].n * sizeof(*x)); /* gaps, too */
    spread(w, scratch, coded, x);
    return CT_OK;
}

static size_t form_answer_bytes(void *arg, int slice)
{
    return dist_wire_push_bytes(wire_of(arg, slice), 0);
}

static void form_answer(void *arg, int slice, float *x)
{
    const struct ct_dist *d   = arg;
    const struct dist_wire *w = wire_of(arg, slice);
    float *dense = d->ps.run, *coded = dense + w->n_dense;

    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];

        memcpy((p->is_coded ? coded : dense) + p->at,
               x + (p->first - w->first), (size_t)p->n * sizeof(*x));
    }
    memcpy(x, dense, (size_t)w->n_dense * sizeof(*x));
    if (w->n_coded)
        w->codec->type->encode(NULL, w->n_coded, coded, NULL, x + w->n_dense);
}

static void form_take(void *arg, int slice, const void *payload, float *x)
{
    const struct ct_dist *d   = arg;
    const struct dist_wire *w = wire_of(arg, slice);
    const float *from         = payload;

    if (w->n_coded)
        w->codec->type->decode(w->n_coded, from + w->n_dense, false,
                               d->ps.run);
    spread(w, from, d->ps.run, x);
}

enum ct_status dist_ps_form(struct ct_dist *d, const struct ct_net *net,
                            struct ct_ps_form *out)
{
    if (!d->plan->codes)
        return CT_OK;
    CT_TRY(dist_wires_init_slices(d, net));
    *out = (struct ct_ps_form){
        .push_bytes = form_push_bytes,
        .push       = form_push,
        .open       = form_open,
        .arg        = d,
    };
    if (!d->plan->codes_answers)
        return CT_OK;
    out->answer_bytes = form_answer_bytes;
    out->answer       = form_answer;
    out->take         = form_take;
    return ct_alloc(d->ps.table.longest, sizeof(*d->ps.run), "codes",
                    &d->ps.run);
}
