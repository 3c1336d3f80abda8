/* check.c - draws a net, checks it in the ways asked for, prints what fails. */
#include "check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "cortado/log.h"
#include "cortado/mem.h"
#include "gradient.h"
#include "judge.h"
#include "shrink.h"

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *f)
{
    (void)st;
    (void)flag;
    (void)f;
    return remove(path);
}

/* The plainest way itself does not hold; in place of a way's name. */
static const char *const by_definition = "plainest way against definitions";

struct failure {
    const struct way *way; /* NULL: by_definition */
    char              impl[512], why[512];
};

static bool still_fails(const struct drawn *c, void *arg)
{
    struct failure *f = arg;
    struct truth t    = { 0 };
    char why[512];
    bool fails;

    if (!f->way) /* in the same manner: not because nothing is left of it */
        fails = !gradient_holds(c, why, sizeof(why)) &&
                strncmp(why, f->why, strlen("gradient")) == 0;
    else
        fails = truth_find(c, &t) == CT_OK &&
                !truth_holds(&t, c, f->way, why, sizeof(why));
    truth_fini(&t);
    if (fails)
        memcpy(f->why, why, sizeof(why));
    return fails;
}

/* The switch that makes the way agree, if there is a single one. */
static const char *cause(const struct drawn *c, struct failure *f)
{
    struct truth t;
    const char *found = NULL;
    char why[512];

    if (!f->way || truth_find(c, &t) != CT_OK) {
        if (f->way)
            truth_fini(&t);
        return NULL;
    }
    for (int i = 0; i < n_switches && !found; i++) {
        struct way w = *f->way;

        snprintf(f->impl, sizeof(f->impl), "%s,%s", way_switch[i].impl,
                 w.impl ? w.impl : "");
        w.impl = f->impl;
        if (truth_holds(&t, c, &w, why, sizeof(why)))
            found = way_switch[i].impl;
    }
    truth_fini(&t);
    return found;
}

static void print_case(const struct drawn *c)
{
    char *text = NULL;

    if (ct_text_print(c->solver, &text) == CT_OK)
        printf("%s", text);
    ct_free(text);
}

/* Beside its data, so that `cortado train` can run it. */
static void keep_case(const struct drawn *c)
{
    char path[512];

    snprintf(path, sizeof(path), "%s", c->solver->snapshot_prefix);
    snprintf(strrchr(path, '/'), 32, "/solver.prototxt");
    if (ct_text_write(c->solver, path) != CT_OK)
        printf("%s\n", ct_last_error());
}

static void report(struct drawn *c, struct failure *f, double seconds)
{
    const char *name = f->way ? f->way->name : by_definition, *why;

    printf("seed %llu, %s: %s\n", (unsigned long long)c->seed, name, f->why);
    fflush(stdout);
    shrink(c, still_fails, f, seconds > 0 ? seconds : 30);
    why = cause(c, f);
    printf("---- shrunk: %s: %s\n", name, f->why);
    print_case(c);
    keep_case(c);
    printf("---- %s%s\n", why ? "agrees with CORTADO_IMPL="
                              : "no single switch makes it agree",
           why ? why : "");
}

/* Defaults and a resumed run; and so many of the other ways, so that all have
 * their turn over many nets. */
static bool wanted(const struct check_options *o, const struct drawn *c,
                   int i, struct stream *r)
{
    const struct way *w = &ways[i];

    if (w->gpu != o->gpu || !way_fits(w, c))
        return false;
    if (o->only)
        return strstr(w->name, o->only) != NULL;
    return (i < WAYS_ALWAYS || w->gpu ||
            stream_below(r, n_ways) < o->n_ways);
}

/* The plainest way, by definition: also of nets whose training rounding alone
 * leads astray, because it looks at one pass. */
static bool check_definition(const struct check_options *o, struct drawn *c)
{
    struct failure wrong = { .way = NULL };

    if ((o->only && !strstr(by_definition, o->only)) ||
        gradient_holds(c, wrong.why, sizeof(wrong.why)))
        return true;
    report(c, &wrong, o->shrink_seconds);
    return false;
}

static enum check_outcome check_ways(const struct check_options *o,
                                     struct drawn *c, const struct truth *t)
{
    struct stream r = { .key = ct_key(c->seed, "ways") };

    for (int i = 0; i < n_ways; i++) {
        struct failure f = { .way = &ways[i] };

        if (!wanted(o, c, i, &r) ||
            truth_holds(t, c, &ways[i], f.why, sizeof(f.why)))
            continue;
        report(c, &f, o->shrink_seconds);
        return CHECK_FAILED;
    }
    return CHECK_PASSED;
}

static bool is_asked(const struct check_options *o, const struct drawn *c)
{
    const Caffe__NetParameter *net = c->solver->net_param;

    for (size_t i = 0; o->type && i < net->n_layer; i++)
        if (strcmp(net->layer[i]->type, o->type) == 0)
            return true;
    return !o->type;
}

/* What was asked of a net that has been drawn. */
static enum check_outcome check_drawn(const struct check_options *o,
                                      struct drawn *c, struct truth *t)
{
    if (!is_asked(o, c))
        return CHECK_NOT_ASKED;
    if (o->print)
        print_case(c);
    if (!check_definition(o, c))
        return CHECK_FAILED;
    return truth_find(c, t) == CT_OK ? check_ways(o, c, t)
                                     : CHECK_PASSED_OVER;
}

enum check_outcome check_net(const struct check_options *o, uint64_t seed)
{
    char folder[] = "/tmp/cortado_random_XXXXXX";
    enum check_outcome outcome = CHECK_PASSED_OVER;
    struct drawn c = { 0 };
    struct truth t = { 0 };

    ct_log_set_level(CT_LOG_NONE);
    if (!mkdtemp(folder)) {
        perror(folder);
        return CHECK_FAILED;
    }
    if (draw_case(seed, folder, &c) == CT_OK)
        outcome = check_drawn(o, &c, &t);
    if (outcome == CHECK_PASSED_OVER && o->print)
        printf("seed %llu: %s\n", (unsigned long long)seed, ct_last_error());
    truth_fini(&t);
    draw_fini(&c);
    if (o->keep && outcome == CHECK_FAILED)
        printf("---- its data is in %s\n", folder);
    else
        (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return outcome;
}
