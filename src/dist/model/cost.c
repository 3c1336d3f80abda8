/* cost.c - predicts the cost of an exchange. */
#include "dist/model/cost.h"

#include <math.h>
#include <stdbool.h>

enum { FEW = 4 }; /* with more workers a server uses a tree (comm/ps/parts.h) */

int dist_ps_copies(int size)
{
    return size > FEW ? 2 : size - 1;
}

int dist_ps_hops(int size)
{
    return size > FEW ? (int)floor(log2(size)) : 1;
}

static struct dist_cost cost_ps(const struct ct_terms *t)
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

static struct dist_cost cost_sharded(const struct ct_terms *t)
{
    double far = t->S * (t->P - t->L) / t->P, near = t->S * (t->L - 1) / t->P;

    return (struct dist_cost){
        .bytes   = 2 * (far + near),
        .seconds = 2 * (t->P - 1) * t->a + 2 * far * t->L * t->b +
                   2 * near * t->lb + (far + near) * t->c,
    };
}

/* An all-gather of `bytes` per rank, around a ring. */
static struct dist_cost cost_gather(const struct ct_terms *t, double bytes)
{
    return (struct dist_cost){
        .bytes   = (t->P - 1) * bytes,
        .seconds = (t->P - 1) * (t->a + bytes * t->b),
    };
}

static int ranks_per_host(const struct dist_machine *w, int size)
{
    int n = w->per_host > 1 ? w->per_host : 1;

    return n < size ? n : size;
}

static struct ct_links links_of(const struct dist_machine *w)
{
    return (struct ct_links){ w->alpha, w->beta, w->gamma, w->local_alpha,
                              w->local_beta };
}

/* The place of rank 0, on a host with all its ranks. */
static struct ct_place place_of(const struct dist_machine *w, int size)
{
    const int per_host = ranks_per_host(w, size);

    return (struct ct_place){ .size    = size,
                              .n_hosts = (size + per_host - 1) / per_host,
                              .n_local = per_host,
                              .even    = size % per_host == 0 };
}

static struct ct_terms terms_of(const struct dist_machine *w, int size,
                                double bytes)
{
    const struct ct_links links = links_of(w);
    const struct ct_place place = place_of(w, size);

    return ct_terms(&links, &place, bytes);
}

struct dist_cost dist_cost_sum(const struct dist_machine *w, int size,
                               const struct ct_allreduce_type *type,
                               double floats)
{
    const struct ct_links links = links_of(w);
    const struct ct_place place = place_of(w, size);
    const struct ct_cost c = ct_allreduce_cost(type, &links, &place, floats);

    return (struct dist_cost){ .bytes = c.bytes, .seconds = c.seconds };
}

struct dist_cost dist_cost_ps(const struct dist_machine *w, int size,
                              double floats)
{
    const struct ct_terms t = terms_of(w, size, 4 * floats);

    return size > 1 ? cost_ps(&t) : (struct dist_cost){ 0 };
}

struct dist_cost dist_cost_sharded(const struct dist_machine *w, int size,
                                   double floats)
{
    const struct ct_terms t = terms_of(w, size, 4 * floats);

    return size > 1 ? cost_sharded(&t) : (struct dist_cost){ 0 };
}

struct dist_cost dist_cost_factors(const struct dist_machine *w, int size,
                                   const struct dist_load *load)
{
    const struct ct_terms t = terms_of(w, size, 0);
    struct dist_cost c;

    if (size == 1)
        return (struct dist_cost){ 0 };
    c = cost_gather(&t, 4 * load->k * (load->n + load->m));
    c.compute = 2 * load->n * load->m * load->k * (size - 1) / w->flops;
    return c;
}

struct dist_cost dist_cost_shared(const struct dist_machine *w, int size,
                                 bool factors, const struct dist_load *load)
{
    const double n = load->n, m = load->m, k = load->k;
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
    const struct ct_terms t = terms_of(w, size, 0);
    const int64_t rows = (int64_t)load->n, cols = (int64_t)load->m;
    struct dist_cost c = { 0 };

    if (size == 1)
        return c;
    c.bytes   = dist_codec_bytes(codec, size, rows, cols);
    c.seconds = 2 * (t.P - 1) * t.a + c.bytes * t.b +
                dist_codec_seconds(codec, size, rows, cols);
    return c;
}

const struct ct_allreduce_type *dist_usual_sum(const struct dist_machine *w,
                                               int size, double floats)
{
    const struct ct_place place = place_of(w, size);

    return ct_allreduce_usual(&place, 4 * floats);
}
