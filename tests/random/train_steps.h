/* train_steps.h - one training run of a drawn case, in one of the ways there
 * are. */
#ifndef CT_TESTS_RANDOM_TRAIN_STEPS_H
#define CT_TESTS_RANDOM_TRAIN_STEPS_H

#include "random_draw.h"

enum { MOST_ITERATIONS = 8, MOST_RANKS = 12 };

/* How a run is made. */
enum way_kind {
    WAY_SOLVE,  /* all iterations in one call */
    WAY_STEP,   /* one by one, every blob kept */
    WAY_RESUME, /* with a snapshot and a new solver in the middle */
    WAY_PYTHON, /* pycaffe's solver.step(1), looking at blobs in between */
    WAY_FOLD,   /* a test net for forward passes alone, weights folded */
    WAY_RANKS,  /* by several ranks */
    WAY_CANON,  /* by several ranks: the bits of one */
    WAY_ELASTIC /* by ranks that come and go */
};

struct way {
    const char   *name;
    enum way_kind kind;
    const char   *impl;    /* CORTADO_IMPL */
    int           threads;
    int           n_ranks, n_servers; /* servers are among the ranks; 0: the
                                         case's canonical_ranks */
    const char   *options; /* distributed { } of ranks */
    bool          gpu;
    bool          exact;   /* the reference's very bits */
};

/* The first of them are for every net. */
enum { WAYS_ALWAYS = 4 };
extern const struct way ways[];
extern const int        n_ways;
extern const struct way way_plainest;
extern const struct way way_switch[]; /* single switches, to find a cause */
extern const int        n_switches;

/* Whether `w` can do what this case asks for. */
bool way_fits(const struct way *w, const struct drawn *c);

struct ct_net;
struct ct_solver;
struct ct_solver_events;

struct array {
    char    name[64];
    int64_t n;
    float  *v;     /* owned */
    float  *start; /* of a parameter: where it began; NULL: not kept.  Owned */
};

/* Where a run ended. */
struct result {
    enum ct_status st;
    char           why[512];
    int            n_losses, n_arrays;
    double         loss[MOST_ITERATIONS];
    struct array  *array; /* parameters, histories, outputs of test nets */
};

/* Changes weights by about 1e-6 of their size, by other numbers for each value
 * and each `nudge`: what that changes, rounding may change. */
void train_nudge(struct ct_net *net, int nudge);
/* `nudge` above 0: from weights that were nudged. */
void train_case(const struct drawn *c, const struct way *w, int nudge,
                struct result *out);
void result_fini(struct result *r);

/* For random_ranks.c: notes losses in a struct result; what a solver ended
 * with: parameters, with histories, and what its test nets say. */
extern const struct ct_solver_events train_events;
CT_MUST_CHECK enum ct_status train_collect(struct ct_solver *s,
                                           bool histories, bool tests,
                                           struct result *out);
enum ct_status result_add(struct result *r, const char *name, int64_t n,
                          float **out);

/* random_ranks.c: WAY_RANKS and WAY_CANON. */
void train_ranks(const struct drawn *c, const struct way *w, int n_ranks,
                 struct result *out);

/* distributed { } of a way. */
CT_MUST_CHECK enum ct_status train_options(const struct drawn *c,
                                           const struct way *w,
                                           Caffe__DistributedParameter **out);

/* random_elastic.c: WAY_ELASTIC. */
void train_elastic(const struct drawn *c, const struct way *w,
                   struct result *out);

#endif
