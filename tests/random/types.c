/* types.c - whether every type of layer is drawn. */
#include "types.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cortado/layer.h"
#include "cortado/log.h"
#include "random_draw.h"

enum { MOST_TYPES = 512 };

/* What no drawn net has.  None of these has a gradient to hand down. */
static const struct {
    const char *type, *why;
} not_drawn[] = {
    { "Input", "has no data but what a program gives it" },
    { "HDF5Output", "writes a file, and no layer reads it" },
    { "ArgMax", "gives places of values; a tie moves them" },
    { "BoxAnnotatorOHEM", "sorts regions; a tie takes others" },
    { "Proposal", "sorts regions; a tie takes others" },
    { "ProposalTarget", "draws regions that Proposal gave" },
    { "DecodeBBox", "drops regions that are not quite inside" },
    { "DetectionOutput", "sorts what a trained net has found" },
    { "DetectionEvaluate", "judges what DetectionOutput has found" },
    { "Yolov3DetectionOutput", "sorts what a trained net has found" },
};

static const char *reason(const char *type)
{
    for (size_t i = 0; i < sizeof(not_drawn) / sizeof(not_drawn[0]); i++)
        if (strcmp(not_drawn[i].type, type) == 0)
            return not_drawn[i].why;
    if (strcmp(type, "Python") == 0 && !draw_has_python())
        return "there is no Python here";
    return NULL;
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *f)
{
    (void)st;
    (void)flag;
    (void)f;
    return remove(path);
}

static void count_net(uint64_t seed, int *n_drawn)
{
    char folder[] = "/tmp/cortado_random_XXXXXX";
    struct drawn c = { 0 };

    if (!mkdtemp(folder))
        return;
    if (draw_case(seed, folder, &c) == CT_OK) {
        const Caffe__NetParameter *net = c.solver->net_param;

        for (size_t l = 0; l < net->n_layer; l++)
            for (int i = 0; i < ct_layer_n_types(); i++)
                n_drawn[i] += strcmp(net->layer[l]->type,
                                     ct_layer_at(i)->name) == 0;
    }
    draw_fini(&c);
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Types that should be drawn and have not been yet. */
static int n_missing(const int *n_drawn)
{
    int n = 0;

    for (int i = 0; i < ct_layer_n_types(); i++)
        n += n_drawn[i] == 0 && !reason(ct_layer_at(i)->name);
    return n;
}

/* A line for each type that is as it should not be; returns how many. */
static int say_wrong(const int *n_drawn, bool all)
{
    int n = 0;

    for (int i = 0; i < ct_layer_n_types(); i++) {
        const struct ct_layer_type *t = ct_layer_at(i);
        const char *why   = reason(t->name);
        const bool learns = t->backward[CT_CPU] != NULL &&
                            strcmp(t->name, "Python") != 0;
        const bool wrong  = why ? n_drawn[i] > 0 || learns : n_drawn[i] == 0;

        if (all)
            printf("%6d %s%s%s\n", n_drawn[i], t->name, why ? ": " : "",
                   why ? why : "");
        if (wrong)
            printf("FAILED %s %s\n", t->name,
                   !why     ? "is never drawn, and no reason is given"
                   : learns ? "has a gradient, so it must be drawn"
                            : "is drawn: the reason against it is gone");
        n += wrong;
    }
    return n;
}

int check_types(uint64_t seed, double count, bool print)
{
    static int n_drawn[MOST_TYPES];
    int failed, n = 0;

    ct_log_set_level(CT_LOG_NONE);
    while (n < count && (print || n_missing(n_drawn) > 0))
        count_net(seed + (uint64_t)n++, n_drawn);
    failed = say_wrong(n_drawn, print);
    printf("seeds %llu to %llu\n%d passed, %d failed\n",
           (unsigned long long)seed, (unsigned long long)seed + (unsigned)n - 1,
           ct_layer_n_types() - failed, failed);
    return failed > 0;
}
