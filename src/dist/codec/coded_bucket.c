/* coded_bucket.c - packs buckets for a codec and unpacks the sums. */
#include "dist/codec/coded_bucket.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dist/codec/managed.h"
#include "dist/engine.h"
#include "net/arena.h"

static void add_piece(struct dist_wire *w, size_t first, int64_t n,
                      int64_t rows, int64_t cols, bool is_coded)
{
    int64_t *end = is_coded ? &w->n_coded : &w->n_dense;

    w->piece[w->n_pieces++] = (struct dist_piece){
        .first = first, .n = n, .rows = rows, .cols = cols, .at = *end,
        .is_coded = is_coded,
    };
    *end += n;
}

/* Rows of a parameter.  Caffe's old shapes begin with axes of 1, which are
 * skipped. */
static int64_t rows_of(const struct ct_shape *s)
{
    int64_t rows = s->n_axes > 1 ? s->dim[0] : 1;

    for (int k = 1; rows == 1 && k < s->n_axes - 1; k++)
        rows = s->dim[k];
    return rows;
}

/* Whether parameter i is the first matrix of the net and has few of the net's
 * values.  Its inputs are raw data, and the loss depends on it most.  Holding
 * its gradient back makes training unstable and saves few bytes. */
static bool is_first(const struct ct_net *net, int i)
{
    int64_t all = 0;

    for (int k = 0; k < i; k++)
        if (rows_of(&ct_net_param(net, k)->blob->shape) > 1)
            return false;
    for (int k = 0; k < ct_net_n_params(net); k++)
        all += ct_net_param(net, k)->blob->count;
    return 10 * ct_net_param(net, i)->blob->count <= all;
}

static bool is_taken(const struct dist_wire *w, const struct ct_net *net,
                     int i, int64_t rows, int64_t cols)
{
    const struct dist_codec_type *t = w->codec->type;
    const bool managed              = w->dist->plan->sheds;

    if ((managed || t->feedback || t->sum) && is_first(net, i))
        return false;
    return managed ? dist_managed_takes(rows, cols)
                   : t->takes(w->codec, rows, cols);
}

/* Adds the pieces of floats [first, first + n) of the arena: parts of
 * parameters, and the riders. */
static void add_pieces(struct dist_wire *w, const struct ct_net *net,
                       size_t first, size_t n)
{
    const size_t end = first + n;

    w->first = first;
    if (first == 0)
        add_piece(w, 0, CT_ARENA_RIDERS, 1, CT_ARENA_RIDERS, false);
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        const int64_t rows = rows_of(&p->blob->shape);
        const int64_t cols = p->blob->count / rows;
        size_t from = p->offset > first ? p->offset : first;
        size_t to   = p->offset + (size_t)p->blob->count;

        to = to < end ? to : end;
        if (from < to)
            add_piece(w, from, (int64_t)(to - from), rows, cols,
                      is_taken(w, net, i, rows, cols));
    }
}

static enum ct_status reserve_run(struct dist_wire *w)
{
    const struct dist_codec_type *t = w->codec->type;
    const int P = w->dist->view.size;
    int64_t own = dist_run_owned(w->n_coded, P, w->dist->view.rank).n;

    CT_TRY(ct_alloc(dist_run_code_bytes(t, w->n_coded, P) + 1, 1, "codes",
                    &w->code));
    CT_TRY(ct_alloc(dist_run_taken_bytes(t, w->n_coded, P) + 1, 1, "codes",
                    &w->taken));
    if (!t->feedback)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)w->n_coded, sizeof(float), "residuals",
                    &w->residual));
    return ct_alloc((size_t)own + 1, sizeof(float), "residuals", &w->owner);
}

static enum ct_status wire_init(struct dist_wire *w, struct ct_dist *d,
                                const struct ct_net *net, int b)
{
    const struct ct_cut_run *range = &d->buckets.cut.run[b];

    w->dist  = d;
    w->codec = &d->wires.codec;
    CT_TRY(ct_alloc((size_t)ct_net_n_params(net) + 1, sizeof(*w->piece),
                    "wire", &w->piece));
    add_pieces(w, net, range->first, range->n);
    /* managed.c appends its values to the dense ones. */
    CT_TRY(ct_alloc((size_t)(w->n_dense + w->n_coded) + 2, sizeof(float),
                    "wire", &w->dense));
    CT_TRY(ct_alloc((size_t)w->n_coded + 1, sizeof(float), "wire",
                    &w->coded));
    CT_TRY(ct_alloc((size_t)d->view.size, sizeof(*w->bytes), "wire",
                    &w->bytes));
    if (d->plan->sheds)
        return dist_managed_reserve(w);
    if (w->n_coded == 0)
        return CT_OK;
    return w->codec->type->reserve ? w->codec->type->reserve(w)
                                   : reserve_run(w);
}

const char *dist_wires_codec(const struct ct_dist *d, int param)
{
    const size_t offset = ct_net_param(d->net, param)->offset;
    const struct dist_codec_type *t = d->plan->codec.type;

    for (int k = 0; k < d->wires.n; k++)
        for (int i = 0; i < d->wires.wire[k].n_pieces; i++) {
            const struct dist_piece *p = &d->wires.wire[k].piece[i];

            if (p->first <= offset && offset < p->first + (size_t)p->n)
                return t && p->is_coded ? t->name : NULL;
        }
    return NULL;
}

enum ct_status dist_wires_init(struct ct_dist *d, const struct ct_net *net)
{
    struct dist_wires *all = &d->wires;

    if (!d->plan->codes)
        return CT_OK;
    all->codec = d->plan->codec;
    dist_codec_schedule(&all->codec, d->trainer.max_iter);
    all->share = 1;
    CT_TRY(ct_alloc((size_t)d->buckets.cut.n + 1, sizeof(*all->wire), "wires",
                    &all->wire));
    all->n_values = 0;
    for (all->n = 0; all->n < d->buckets.cut.n;) {
        struct dist_wire *w = &all->wire[all->n++];

        CT_TRY(wire_init(w, d, net, all->n - 1));
        all->n_values += w->n_dense + w->n_coded;
    }
    return CT_OK;
}

/* If the code is not shorter than the floats, sends the run as floats. */
static void keep_short(struct dist_wire *w)
{
    const struct dist_codec_type *t = w->codec->type;
    struct dist_piece *piece        = w->piece;
    const int n                     = w->n_pieces;

    if (!t->bytes || t->bytes(w->n_coded) <= 4 * (size_t)w->n_coded)
        return;
    w->n_pieces = 0;
    w->n_dense = w->n_coded = 0;
    for (int i = 0; i < n; i++) {
        const struct dist_piece p = piece[i];

        add_piece(w, p.first, p.n, p.rows, p.cols, false);
    }
}

static enum ct_status slice_init(struct dist_wire *w, struct ct_dist *d,
                                 const struct ct_net *net,
                                 const struct ct_ps_slice *s)
{
    const struct dist_codec_type *t = d->plan->codec.type;

    w->dist   = d;
    w->codec  = &d->wires.codec;
    w->pushed = true;
    CT_TRY(ct_alloc((size_t)ct_net_n_params(net) + 1, sizeof(*w->piece),
                    "wire", &w->piece));
    add_pieces(w, net, s->first, s->n);
    keep_short(w);
    if (d->view.serves)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)w->n_dense + 1, sizeof(float), "wire",
                    &w->dense));
    CT_TRY(ct_alloc((size_t)w->n_coded + 1, sizeof(float), "wire",
                    &w->coded));
    if (t->reserve)
        return t->reserve(w);
    return t->feedback ? ct_alloc((size_t)w->n_coded + 1, sizeof(float),
                                  "residuals", &w->residual)
                       : CT_OK;
}

enum ct_status dist_wires_init_slices(struct ct_dist *d,
                                      const struct ct_net *net)
{
    const struct ct_ps_table *t = &d->ps.table;
    struct dist_wires *all      = &d->wires;

    all->codec = d->plan->codec;
    dist_codec_schedule(&all->codec, d->trainer.max_iter);
    CT_TRY(ct_alloc((size_t)t->n + 1, sizeof(*all->wire), "wires",
                    &all->wire));
    all->n_values = 0;
    for (all->n = 0; all->n < t->n;) {
        struct dist_wire *w = &all->wire[all->n++];

        CT_TRY(slice_init(w, d, net, &t->slice[all->n - 1]));
        all->n_values += w->n_dense + w->n_coded;
    }
    return CT_OK;
}

void dist_wires_fini(struct ct_dist *d)
{
    for (int i = 0; i < d->wires.n; i++) {
        struct dist_wire *w = &d->wires.wire[i];

        ct_free(w->piece);
        ct_free(w->dense);
        ct_free(w->coded);
        ct_free(w->residual);
        ct_free(w->velocity);
        ct_free(w->owner);
        ct_free(w->basis);
        ct_free(w->waited);
        ct_free(w->code);
        ct_free(w->taken);
        ct_free(w->work);
        ct_free(w->index);
        ct_free(w->bytes);
    }
    ct_free(d->wires.wire);
    d->wires.wire = NULL;
    d->wires.n    = 0;
}

/* Copies a bucket, which starts at `x`, to the dense and the coded run, or
 * back. */
static void move(const struct dist_wire *w, float *x, bool pack)
{
    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];
        float *out  = (p->is_coded ? w->coded : w->dense) + p->at;
        float *in   = x + (p->first - w->first);
        size_t size = (size_t)p->n * sizeof(float);

        memcpy(pack ? out : in, pack ? in : out, size);
    }
}

static double squares(int64_t n, const float *x)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* If a codec holds gradients back, the sum of an iteration is not its gradient,
 * and the solver cannot clip it.  So each rank clips its own gradient first.
 * The norm of that is about sqrt(P) times the norm of the mean.  The part of a
 * bucket is assumed to be in proportion to its number of values. */
static void clip(struct dist_wire *w)
{
    const struct ct_trainer *x = &w->dist->trainer;
    int64_t skip  = w->first == 0 ? CT_ARENA_RIDERS : 0;
    int64_t n     = w->n_dense - skip + w->n_coded;
    double norm, most;

    if (x->clip <= 0 || n == 0)
        return;
    norm = sqrt(squares(w->n_dense - skip, w->dense + skip) +
                squares(w->n_coded, w->coded));
    most = (double)x->clip * sqrt((double)w->dist->exchange.facts.size) *
           sqrt((double)n / (double)w->dist->wires.n_values);
    if (!(norm > most) || !isfinite(norm))
        return;
    for (int64_t i = skip; i < w->n_dense; i++)
        w->dense[i] *= (float)(most / norm);
    for (int64_t i = 0; i < w->n_coded; i++)
        w->coded[i] *= (float)(most / norm);
}

static struct dist_draw draw_at(const struct dist_wire *w, int64_t iter)
{
    return (struct dist_draw){ .key = ct_key(w->dist->trainer.seed, "wire"),
                               .hi  = (uint64_t)iter << 17,
                               .at  = w->first };
}

struct dist_run dist_wire_run(const struct dist_wire *w, float *x, int64_t n)
{
    return (struct dist_run){
        .type = w->codec->type, .x = x, .n = n, .code = w->code,
        .taken = w->taken, .bytes = w->bytes,
        .draw = draw_at(w, w->dist->trainer.iter),
    };
}

/* Whether a run codec with a residual sends floats in this iteration.  It does
 * so at the start, because gradients change fast and values that wait would be
 * out of date, and at the end. */
static bool rests(const struct dist_wire *w, int64_t iter)
{
    return w->codec->type->feedback && dist_codec_rests(w->codec, iter);
}

/* Adds everything that was held back to the values that are sent now. */
static void release_residuals(struct dist_wire *w)
{
    struct dist_run_part own = dist_run_owned(w->n_coded, w->dist->view.size,
                                              w->dist->view.rank);

    ct_comm_add(w->n_coded, w->residual, w->coded);
    memset(w->residual, 0, (size_t)w->n_coded * sizeof(float));
    if (!w->owner)
        return;
    ct_comm_add(own.n, w->owner, w->coded + own.first);
    memset(w->owner, 0, (size_t)own.n * sizeof(float));
}

static enum ct_status sum_coded(struct ct_comm *c, struct dist_wire *w)
{
    struct dist_run run = dist_wire_run(w, w->coded, w->n_coded);

    if (rests(w, w->dist->trainer.iter)) {
        release_residuals(w);
        return dist_dense_sum(w->dist, c, w->coded, w->n_coded);
    }
    run.residual = w->residual;
    run.owner    = w->owner;
    return w->codec->type->sum ? w->codec->type->sum(c, w)
                               : dist_run_sum(c, &run);
}

enum ct_status dist_wire_sum(struct ct_comm *c, struct dist_wire *w, float *x)
{
    move(w, x, true);
    if (w->dist->plan->sheds) {
        CT_TRY(dist_managed_sum(c, w));
        move(w, x, false);
        return CT_OK;
    }
    if (w->codec->type->momentum)
        clip(w);
    if (w->n_dense)
        CT_TRY(dist_dense_sum(w->dist, c, w->dense, w->n_dense));
    if (w->n_coded)
        CT_TRY(sum_coded(c, w));
    move(w, x, false);
    return CT_OK;
}

size_t dist_wire_push_bytes(const struct dist_wire *w, int64_t iter)
{
    const struct dist_codec_type *t = w->codec->type;
    const size_t dense              = (size_t)w->n_dense * sizeof(float);

    if (w->n_coded == 0)
        return dense;
    if (rests(w, iter))
        return dense + (size_t)w->n_coded * sizeof(float);
    return dense + (t->push_bytes ? t->push_bytes(w, iter)
                                  : t->bytes(w->n_coded));
}

void dist_wire_push(struct dist_wire *w, int64_t iter, float times,
                    const float *x, void *code)
{
    const struct dist_codec_type *t = w->codec->type;
    float *dense                    = code;
    struct dist_draw draw           = draw_at(w, iter);

    for (int i = 0; i < w->n_pieces; i++) {
        const struct dist_piece *p = &w->piece[i];
        float *to = (p->is_coded ? w->coded : w->dense) + p->at;

        for (int64_t k = 0; k < p->n; k++)
            to[k] = times * x[p->first - w->first + (size_t)k];
    }
    if (t->momentum)
        clip(w);
    memcpy(dense, w->dense, (size_t)w->n_dense * sizeof(float));
    draw.hi |= (uint64_t)w->dist->view.rank;
    if (w->n_coded && rests(w, iter)) {
        release_residuals(w);
        memcpy(dense + w->n_dense, w->coded,
               (size_t)w->n_coded * sizeof(float));
    } else if (w->n_coded && t->push)
        t->push(w, iter, dense + w->n_dense);
    else if (w->n_coded)
        t->encode(&draw, w->n_coded, w->coded, w->residual,
                  dense + w->n_dense);
}

enum ct_status dist_wire_add(const struct dist_wire *w, int64_t iter,
                             const void *code, float *dense, float *coded)
{
    const struct dist_codec_type *t = w->codec->type;
    const float *from               = code;

    ct_comm_add(w->n_dense, from, dense);
    if (rests(w, iter)) {
        ct_comm_add(w->n_coded, from + w->n_dense, coded);
        return CT_OK;
    }
    if (w->n_coded && t->add)
        return t->add(w, iter, from + w->n_dense, coded);
    if (w->n_coded)
        t->decode(w->n_coded, from + w->n_dense, true, coded);
    return CT_OK;
}
