/* cost.c - what an exchange takes. */
#include "dist/model/cost.h"

#include <math.h>
#include <stdbool.h>

enum { FEW = 4 }; /* workers that a server answers itself: comm/ps/parts.h */

static const char *const names[DIST_N_WAYS] = {
    "ring", "halving", "tree", "hierarchical", "shared", "ps", "sharded",
    "factors"
};

const char *dist_way_name(enum dist_way way)
{
    return names[way];
}

/* The numbers that the formulas are made of. */
struct terms {
    double a, b, c;   /* between hosts, or inside the only one */
    double la, lb;    /* inside a host */
    double P, L, H, S;
};

static double levels(double n)
{
    return ceil(log2(n));
}

static struct dist_cost cost_ring(const struct terms *t)
{
    double some = t->S * (t->P - 1) / t->P;

    return (struct dist_cost){
        .bytes   = 2 * some,
        .seconds = 2 * (t->P - 1) * t->a + 2 * some * t->b + some * t->c,
    };
}

/* The steps between hosts come first, with the largest halves, and L ranks
 * of a host make them at once over one link. */
static struct dist_cost cost_halving(const struct terms *t)
{
    double p     = exp2(floor(log2(t->P))), l = fmin(t->L, p);
    double far   = t->S * (1 - l / p), near = t->S * (l - 1) / p;
    bool folds   = p < t->P;
    double fold  = folds ? t->S : 0;

    return (struct dist_cost){
        .bytes   = 2 * (far + near) + fold,
        .seconds = 2 * levels(p / l) * t->a + 2 * levels(l) * t->la +
                   2 * far * l * t->b + 2 * near * t->lb +
                   (far + near + fold) * t->c +
                   (folds ? 2 * (t->a + fold * t->b) : 0),
    };
}

static struct dist_cost cost_tree(const struct terms *t)
{
    double far = levels(t->H), near = levels(t->L);

    return (struct dist_cost){
        .bytes   = (far + near) * t->S, /* the root's, downwards */
        .seconds = 2 * far * (t->a + t->S * t->b) +
                   2 * near * (t->la + t->S * t->lb) +
                   (far + near) * t->S * t->c,
    };
}

/* Inside, two waits; a byte copied into or out of the host's memory takes what
 * one added takes. */
static struct dist_cost cost_hierarchical(const struct terms *t)
{
    double in   = t->L > 1 ? t->S : 0;
    double near = t->S * (t->L - 1) / t->L;
    double far  = t->S / t->L * (t->H - 1) / t->H; /* of each of L ranks */

    return (struct dist_cost){
        .bytes   = in + 2 * far,
        .seconds = (t->L > 1 ? 2 * t->la : 0) + 2 * (t->H - 1) * t->a +
                   2 * far * t->L * t->b + (2 * in + near + far) * t->c,
    };
}

int dist_ps_copies(int size)
{
    return size > FEW ? 2 : size - 1;
}

int dist_ps_hops(int size)
{
    return size > FEW ? (int)floor(log2(size)) : 1;
}

static struct dist_cost cost_ps(const struct terms *t)
{
    const int P   = (int)t->P;
    double far    = t->S * (t->P - t->L), near = t->S * (t->L - 1);
    bool spreads  = P > FEW;
    double back   = dist_ps_hops(P) * t->a +
                  (spreads ? 2 * t->S * t->b : far * t->b + near * t->lb);

    return (struct dist_cost){
        .bytes   = spreads ? 3 * t->S : far + near, /* a push and two copies */
        .seconds = t->a + far * t->b + near * t->lb + (far + near) * t->c +
                   back,
        .back    = back,
    };
}

static struct dist_cost cost_sharded(const struct terms *t)
{
    double far = t->S * (t->P - t->L) / t->P, near = t->S * (t->L - 1) / t->P;

    return (struct dist_cost){
        .bytes   = 2 * (far + near),
        .seconds = 2 * (t->P - 1) * t->a + 2 * far * t->L * t->b +
                   2 * near * t->lb + (far + near) * t->c,
    };
}

/* Everyone's `bytes` to everyone, around the ring. */
static struct dist_cost cost_gather(const struct terms *t, double bytes)
{
    return (struct dist_cost){
        .bytes   = (t->P - 1) * bytes,
        .seconds = (t->P - 1) * (t->a + bytes * t->b),
    };
}

int dist_per_host(const struct dist_machine *w, int size)
{
    int n = w->per_host > 1 ? w->per_host : 1;

    return n < size ? n : size;
}

static struct terms terms_of(const struct dist_machine *w, int size,
                             double bytes)
{
    struct terms t = { .a = w->alpha, .b = w->beta, .c = w->gamma,
                       .la = w->local_alpha, .lb = w->local_beta,
                       .P = size, .L = dist_per_host(w, size), .S = bytes };

    t.H = ceil(t.P / t.L);
    if (t.L > 1 && t.H == 1) {
        t.a = t.la;
        t.b = t.lb;
    }
    return t;
}

static struct dist_cost cost_sum(const struct terms *t, enum dist_way way)
{
    switch (way) {
    case DIST_HALVING:
        return cost_halving(t);
    case DIST_TREE:
        return cost_tree(t);
    case DIST_HIERARCHICAL:
        return cost_hierarchical(t);
    case DIST_SHARED:
        return (struct dist_cost){
            .bytes   = t->P > 1 ? t->S : 0,
            .seconds = t->S * (t->P - 1) / t->P * t->c,
        };
    case DIST_PS:
        return cost_ps(t);
    case DIST_SHARDED:
        return cost_sharded(t);
    default:
        return cost_ring(t);
    }
}

struct dist_cost dist_cost(const struct dist_machine *w, int size,
                           enum dist_way way, const struct dist_load *load)
{
    const struct terms t = terms_of(w, size, 4 * load->floats);
    struct dist_cost c;

    if (size == 1)
        return (struct dist_cost){ 0 };
    if (way != DIST_FACTORS)
        return cost_sum(&t, way);
    c = cost_gather(&t, 4 * load->k * (load->n + load->m));
    c.compute = 2 * load->n * load->m * load->k * (size - 1) / w->flops;
    return c;
}

struct dist_cost dist_cost_shared(const struct dist_machine *w, int size,
                                 enum dist_way way,
                                 const struct dist_load *load)
{
    const double n = load->n, m = load->m, k = load->k;
    const bool factors = way == DIST_FACTORS;
    double moved = factors ? 12 * k * n + (8 + 4.0 * size) * k * m
                           : 16 * load->floats;

    if (size == 1)
        return (struct dist_cost){ 0 };
    return (struct dist_cost){
        .bytes   = 4 * (factors ? k * (n + m) : load->floats),
        .seconds = moved * w->gamma,
    };
}

struct dist_cost dist_cost_coded(const struct dist_machine *w, int size,
                                 const struct dist_codec *codec,
                                 const struct dist_load *load)
{
    const struct terms t = terms_of(w, size, 0);
    const int64_t rows = (int64_t)load->n, cols = (int64_t)load->m;
    struct dist_cost c = { 0 };

    if (size == 1)
        return c;
    c.bytes   = dist_codec_bytes(codec, size, rows, cols);
    c.seconds = 2 * (t.P - 1) * t.a + c.bytes * t.b +
                dist_codec_seconds(codec, size, rows, cols);
    return c;
}

enum dist_way dist_way_usual(const struct dist_machine *w, int size,
                             double floats)
{
    const int per_host = dist_per_host(w, size);

    if (per_host == size && per_host > 1)
        return DIST_SHARED;
    if (4 * floats < (64 << 10))
        return DIST_TREE;
    if (per_host > 1)
        return DIST_HIERARCHICAL;
    return 4 * floats < (1 << 20) || 4 * floats / size < (8 << 10)
               ? DIST_HALVING
               : DIST_RING;
}
