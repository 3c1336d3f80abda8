/* edges.c - what float32 cannot decide, layer type by layer type.
 *
 * A maximum of two values that are all but equal goes to either, and all of
 * the gradient with it.  A deviation of values that hardly differ is rounding,
 * and BN and MVN divide by it: x of size 1 is known to 6e-8, so what comes of
 * a deviation of 0.03 is known to 2e-6.  BatchNorm adds 1e-5 to the variance,
 * which leaves 300 times the rounding, BN 1e-9, and MVN 1e-9 to the deviation;
 * with the smallest variance of 1e-6 neither counts.  ContrastiveLoss has no
 * direction where a distance is 0.  MultinomialLogisticLoss takes 1e-20 for
 * what is smaller, and its gradient divides by that.  Losses of boxes choose
 * which of them count; a choice that a change by 1e-4 turns around is none. */
#include "edges.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "define.h"
#include "proto/params.h"

enum { CHANGES = 12 }; /* each finds a tie with a chance of a half */
static const double nearest     = 1e-3; /* of the largest value: two maxima */
static const double variance    = 1e-3; /* of the mean square */
static const double variance_at_least = 1e-6;
static const double distance    = 0.1;
static const double probability = 1e-17;

static bool maxima_meet(const struct ct_io *io)
{
    double most = 0;

    for (int64_t i = 0; i < io->bottom[0]->count; i++)
        for (int b = 0; b < io->n_bottom; b++)
            most = fmax(most, fabs((double)ct_data(io->bottom[b])[i]));
    for (int a = 0; a < io->n_bottom; a++)
        for (int b = 0; b < a; b++)
            for (int64_t i = 0; i < io->bottom[0]->count; i++) {
                const double x = (double)ct_data(io->bottom[a])[i];
                const double y = (double)ct_data(io->bottom[b])[i];

                /* Zeros that ReLUs left are zeros in every way. */
                if (fabs(x - y) < nearest * most && !(x == 0 && y == 0))
                    return true;
            }
    return false;
}

/* Values of row r: those whose index i has i / inner % rows == r. */
static bool row_is_flat(const struct ct_blob *x, int64_t rows, int64_t inner,
                        int64_t r)
{
    double n = 0, sum = 0, square = 0, mean, var;

    for (int64_t i = 0; i < x->count; i++)
        if (i / inner % rows == r) {
            const double v = (double)ct_data(x)[i];

            n++;
            sum += v;
            square += v * v;
        }
    mean = sum / n;
    var  = square / n - mean * mean;
    return !(var > variance * square / n && var > variance_at_least);
}

static bool rows_are_flat(const struct ct_blob *x, int64_t rows, int64_t inner)
{
    for (int64_t r = 0; r < rows; r++)
        if (row_is_flat(x, rows, inner, r))
            return true;
    return false;
}

static bool pairs_touch(const struct ct_io *io)
{
    const int64_t n = io->bottom[0]->shape.dim[0];
    const int64_t c = io->bottom[0]->count / n;

    for (int64_t i = 0; i < n; i++) {
        double d = 0;

        for (int64_t k = i * c; k < (i + 1) * c; k++)
            d += pow((double)ct_data(io->bottom[0])[k] -
                     (double)ct_data(io->bottom[1])[k], 2);
        if (ct_data(io->bottom[2])[i] == 0 && sqrt(d) < distance)
            return true;
    }
    return false;
}

static bool labels_are_hopeless(const struct ct_io *io)
{
    const int64_t n = io->bottom[0]->shape.dim[0];
    const int64_t c = n > 0 ? io->bottom[0]->count / n : 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t label = (int64_t)ct_data(io->bottom[1])[i];

        if (label < c &&
            (double)ct_data(io->bottom[0])[i * c + label] < probability)
            return true;
    }
    return false;
}

static bool uses_global_stats(const struct ct_layer *l)
{
    const Caffe__BatchNormParameter *p = ct_batch_norm_param(l->param);

    return p->has_use_global_stats ? p->use_global_stats
                                   : l->phase == CAFFE__PHASE__TEST;
}

/* Of all values where there is one axis. */
static bool channels_are_flat(const struct ct_blob *x)
{
    return x->shape.n_axes < 2
               ? rows_are_flat(x, 1, x->count)
               : rows_are_flat(x, x->shape.dim[1], ct_count(x, 2, CT_END));
}

/* ---- losses that choose ---- */

/* The bottoms, every value that is not a whole number a little off: items,
 * labels and the borders of images are what they are. */
static enum ct_status take_bottoms(const struct ct_io *io, int change,
                                   struct tensor *out)
{
    for (int b = 0; b < io->n_bottom; b++) {
        const uint64_t key = ct_key((uint64_t)change, "choice");

        out[b].shape = io->bottom[b]->shape;
        out[b].n     = io->bottom[b]->count;
        CT_TRY(ct_alloc((size_t)out[b].n + 1, sizeof(double), "bottoms",
                        &out[b].v));
        for (int64_t i = 0; i < out[b].n; i++) {
            const double v = (double)ct_data(io->bottom[b])[i];
            const double u =
                (double)ct_uniform(key, (uint64_t)b, (uint64_t)i) - 0.5;

            out[b].v[i] = change > 0 && v != floor(v) ? v + 2e-4 * u * v : v;
        }
    }
    return CT_OK;
}

typedef int64_t (*choice_fn)(const struct definition *d, int *out);

static choice_fn choice_of(const char *type)
{
    if (strcmp(type, "MultiBoxLoss") == 0)
        return define_box_choice;
    return strcmp(type, "RegionLoss") == 0 || strcmp(type, "Yolov3") == 0
               ? define_grid_choice : NULL;
}

/* The choices in `out`, which it makes; -1: no memory. */
static int64_t choose(const struct ct_layer *l, const struct ct_io *io,
                      int change, int **out)
{
    struct tensor bottom[4] = { 0 };
    const struct definition d = { .param = l->param, .n_bottom = io->n_bottom,
                                  .bottom = bottom };
    int64_t room = 0, n = -1;

    for (int b = 0; b < io->n_bottom; b++)
        room += 8 * io->bottom[b]->count;
    if (take_bottoms(io, change, bottom) == CT_OK &&
        ct_alloc((size_t)room, sizeof(**out), "choices", out) == CT_OK)
        n = choice_of(l->type->name)(&d, *out);
    for (int b = 0; b < io->n_bottom; b++)
        ct_free(bottom[b].v);
    return n;
}

bool edge_turns_choice(const struct ct_net *net, int layer)
{
    const struct ct_layer *l = ct_net_layer(net, layer);
    const struct ct_io io    = ct_net_io(net, layer);
    int *want = NULL;
    int64_t n;
    bool turns = false;

    if (!choice_of(l->type->name))
        return false;
    n = choose(l, &io, 0, &want);
    for (int i = 1; i <= CHANGES && !turns; i++) {
        int *got = NULL;

        turns = choose(l, &io, i, &got) != n || n < 0 ||
                memcmp(want, got, (size_t)n * sizeof(*got)) != 0;
        ct_free(got);
    }
    ct_free(want);
    return turns;
}

/* Constant DummyData is filled once, so work in place, on it or on a view of
 * it, changes what the next pass finds, as in Caffe
 * (tests/compat/in_place_constant.prototxt).  Neither a resumed run nor a
 * second net can know of it. */
static bool changes_constants(const struct ct_net *net, int layer)
{
    const struct ct_io io = ct_net_io(net, layer);

    if (ct_net_layer(net, layer)->flags & CT_LAYER_ALIAS_DATA)
        return false;
    for (int j = 0; j < layer; j++) {
        const struct ct_io of = ct_net_io(net, j);

        if (!(ct_net_layer(net, j)->flags & CT_LAYER_STEADY))
            continue;
        for (int k = 0; k < of.n_top; k++)
            for (int t = 0; t < io.n_top; t++)
                if (ct_data(io.top[t]) == ct_data(of.top[k]))
                    return true;
    }
    return false;
}

bool edge_is_near(const struct ct_net *net, int layer)
{
    const struct ct_layer *l = ct_net_layer(net, layer);
    const struct ct_io io    = ct_net_io(net, layer);
    const char *type         = l->type->name;
    const struct ct_blob *x  = io.n_bottom > 0 ? io.bottom[0] : NULL;

    if (changes_constants(net, layer) || edge_turns_choice(net, layer))
        return true;
    if (strcmp(type, "Eltwise") == 0)
        return ct_eltwise_param(l->param)->operation ==
                   CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX &&
               maxima_meet(&io);
    if (strcmp(type, "BN") == 0 ||
        (strcmp(type, "BatchNorm") == 0 && !uses_global_stats(l)))
        return x->count > 0 && channels_are_flat(x);
    if (strcmp(type, "MVN") == 0 &&
        ct_mvn_param(l->param)->normalize_variance) {
        const int first = ct_mvn_param(l->param)->across_channels ? 1 : 2;

        return rows_are_flat(x, ct_count(x, 0, first),
                             ct_count(x, first, CT_END));
    }
    if (strcmp(type, "MultinomialLogisticLoss") == 0)
        return labels_are_hopeless(&io);
    return strcmp(type, "ContrastiveLoss") == 0 && pairs_touch(&io);
}
