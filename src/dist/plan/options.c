/* options.c - reads options and joins peers, for bindings. */
#include <string.h>

#include "cortado/dist.h"
#include "dist/engine.h"

static enum ct_status parse(const char *text, Caffe__DistributedParameter **out)
{
    return ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                         strlen(text), "distributed options", out);
}

/* Fields of `more`, which may be NULL, replace those of *into. */
static enum ct_status add(Caffe__DistributedParameter **into,
                          const Caffe__DistributedParameter *more)
{
    Caffe__DistributedParameter *both = NULL;

    if (!more)
        return CT_OK;
    CT_TRY(ct_message_merge(*into, more, &both));
    ct_message_free(*into);
    *into = both;
    return CT_OK;
}

enum ct_status dist_read_options(const char *defaults,
                                 const Caffe__DistributedParameter *solver,
                                 const char *text,
                                 Caffe__DistributedParameter **out)
{
    Caffe__DistributedParameter *options = NULL, *words = NULL;
    enum ct_status st;

    CT_TRY_GOTO(parse(defaults, &options), st, out);
    CT_TRY_GOTO(add(&options, solver), st, out);
    CT_TRY_GOTO(parse(text, &words), st, out);
    CT_TRY_GOTO(add(&options, words), st, out);
    *out    = options;
    options = NULL;
out:
    ct_message_free(options);
    ct_message_free(words);
    return st;
}

enum ct_status ct_dist_open(const char *defaults, const char *solver,
                            const char *text, struct ct_dist **out)
{
    Caffe__DistributedParameter *options = NULL;
    Caffe__SolverParameter *param = NULL;
    enum ct_status st;

    if (solver)
        CT_TRY(ct_solver_param_read(solver, &param));
    st = dist_read_options(defaults, param ? param->distributed : NULL, text,
                           &options);
    if (st == CT_OK)
        st = ct_dist_create(options, out);
    ct_message_free(options);
    ct_message_free(param);
    return st;
}

const char *ct_dist_road(const struct ct_dist *d)
{
    return d ? d->options->road : "allreduce";
}
