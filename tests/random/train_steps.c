/* train_steps.c - trains a drawn case alone, and collects what came of it. */
#include "train_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/access.h"
#include "cortado/events.h"
#include "core/buffer.h"
#include "edges.h"
#include "net/training.h"
#include "solver/solver_inner.h"

void result_fini(struct result *r)
{
    for (int i = 0; i < r->n_arrays; i++) {
        ct_free(r->array[i].v);
        ct_free(r->array[i].start);
    }
    ct_free(r->array);
    *r = (struct result){ 0 };
}

enum ct_status result_add(struct result *r, const char *name, int64_t n,
                          float **out)
{
    struct array *a = ct_realloc(r->array, (size_t)(r->n_arrays + 1) *
                                 sizeof(*a), "arrays of a result");

    if (!a)
        return CT_ENOMEM;
    r->array = a;
    a += r->n_arrays;
    *a = (struct array){ .n = n };
    snprintf(a->name, sizeof(a->name), "%s", name);
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(float), "values of a result",
                    &a->v));
    r->n_arrays++;
    *out = a->v;
    return CT_OK;
}

static enum ct_status collect_params(struct ct_solver *s, bool histories,
                                     struct result *out)
{
    struct ct_net *net = ct_solver_net(s);
    char name[64];
    float *v;

    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        const struct ct_device *dev  = p->blob->dev;
        const char *layer = ct_net_layer(net, p->layer)->name;

        snprintf(name, sizeof(name), "%s[%d]", layer, p->index);
        CT_TRY(result_add(out, name, p->blob->count, &v));
        CT_TRY(ct_blob_pull(p->blob, false, v));
        for (int h = 0; histories && h < s->rule->n_history; h++) {
            snprintf(name, sizeof(name), "history %d of %s[%d]", h, layer,
                     p->index);
            CT_TRY(result_add(out, name, p->blob->count, &v));
            CT_TRY(dev->ops->to_host(
                dev, (size_t)p->blob->count * sizeof(float),
                s->history[h]->ptr + p->offset, v));
        }
    }
    return CT_OK;
}

static enum ct_status collect_outputs(struct ct_net *net, struct result *out)
{
    char name[64];
    float *v;

    CT_TRY(ct_net_forward(net, NULL));
    for (int i = 0; i < ct_net_n_outputs(net); i++) {
        const int id            = ct_net_output_id(net, i);
        const struct ct_blob *b = ct_net_blob(net, id);

        snprintf(name, sizeof(name), "test output %s",
                 ct_net_blob_name(net, id));
        CT_TRY(result_add(out, name, b->count, &v));
        CT_TRY(ct_blob_pull(b, false, v));
    }
    return CT_OK;
}

enum ct_status train_collect(struct ct_solver *s, bool histories, bool tests,
                             struct result *out)
{
    CT_TRY(collect_params(s, histories, out));
    /* A test net stands where the last test left it, so it starts over. */
    for (int i = 0; tests && i < ct_solver_n_test_nets(s); i++) {
        CT_TRY(ct_net_seek(ct_solver_test_net(s, i), 0));
        CT_TRY(collect_outputs(ct_solver_test_net(s, i), out));
    }
    return CT_OK;
}

void train_nudge(struct ct_net *net, int nudge)
{
    const uint64_t key = ct_key((uint64_t)nudge, "nudge");

    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        struct ct_blob *b = p->blob;

        /* A variance below 0 is none. */
        if (ct_layer_is_statistic(ct_net_layer(net, p->layer), p->index))
            continue;
        for (int64_t k = 0; k < b->count; k++) {
            const uint64_t at = (uint64_t)i << 40 | (uint64_t)k;
            float *w = &ct_data(b)[k];

            *w += (ct_uniform(key, 0, at) - 0.5f) * 4e-6f * *w +
                  (ct_uniform(key, 1, at) - 0.5f) * 4e-7f;
        }
    }
}

/* Told after each iteration. */
static void note_loss(const struct ct_iteration *i, void *arg)
{
    struct result *r = arg;

    if (r->n_losses < MOST_ITERATIONS)
        r->loss[r->n_losses++] = i->loss;
}

const struct ct_solver_events train_events = { .iteration = note_loss };

static enum ct_status open_solver(const struct drawn *c, const struct way *w,
                                  const struct ct_device *dev,
                                  struct result *out, struct ct_solver **s)
{
    const struct ct_solver_options o = { .device     = dev,
                                         .keep_blobs = w->kind == WAY_STEP };

    CT_TRY(ct_solver_create(c->solver, &o, s));
    CT_TRY(data_feed(c, ct_solver_net(*s)));
    for (int i = 0; i < ct_solver_n_test_nets(*s); i++)
        CT_TRY(data_feed(c, ct_solver_test_net(*s, i)));
    return ct_solver_listen(*s, &train_events, out);
}

static enum ct_status resume(const struct drawn *c, const struct way *w,
                             const struct ct_device *dev, struct result *out,
                             struct ct_solver **s)
{
    char *path = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_snapshot(*s));
    CT_TRY(ct_solver_newest_snapshot(*s, &path));
    ct_solver_destroy(*s);
    *s = NULL;
    st = open_solver(c, w, dev, out, s);
    if (st == CT_OK)
        st = ct_solver_restore(*s, path);
    (void)unlink(path); /* a smaller case may stop earlier */
    ct_free(path);
    return st;
}

/* What `cortado test` does with the weights that training gave. */
static enum ct_status fold(const struct drawn *c, struct ct_solver *s,
                           struct result *out)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TEST,
                                      .seed = s->seed, .quiet = true,
                                      .forward_only = true,
                                      .fixed_params = true };
    Caffe__NetParameter *weights = NULL;
    struct ct_net *net = NULL;
    enum ct_status st;

    CT_TRY(collect_params(s, true, out));
    CT_TRY(ct_net_to_message(ct_solver_net(s), false, &weights));
    CT_TRY_GOTO(ct_net_create(c->solver->net_param, &o, &net), st, out);
    CT_TRY_GOTO(ct_net_copy_weights(net, weights, "drawn"), st, out);
    CT_TRY_GOTO(data_feed(c, net), st, out);
    st = collect_outputs(net, out);
out:
    ct_net_destroy(net);
    ct_message_free(weights);
    return st;
}

/* steps.py trains the case from its prototxt and leaves the weights. */
static enum ct_status train_python(const struct drawn *c, struct result *out)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN,
                                      .seed = c->seed, .quiet = true };
    char path[512], command[2048];
    struct ct_net *net = NULL;
    enum ct_status st;
    float *v;

    snprintf(path, sizeof(path), "%s.prototxt", c->solver->snapshot_prefix);
    CT_TRY(ct_text_write(c->solver, path));
    snprintf(command, sizeof(command), "%s '%s' '%s.caffemodel'",
             getenv("CORTADO_RANDOM_PYTHON"), path,
             c->solver->snapshot_prefix);
    if (system(command) != 0)
        return ct_fail(CT_EINVAL, "%s failed", command);
    snprintf(path, sizeof(path), "%s.caffemodel", c->solver->snapshot_prefix);
    CT_TRY(ct_net_create(c->solver->net_param, &o, &net));
    st = ct_net_load(net, path);
    for (int i = 0; i < ct_net_n_params(net) && st == CT_OK; i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        snprintf(path, sizeof(path), "%s[%d]",
                 ct_net_layer(net, p->layer)->name, p->index);
        st = result_add(out, path, p->blob->count, &v);
        if (st == CT_OK)
            st = ct_blob_pull(p->blob, false, v);
    }
    ct_net_destroy(net);
    return st;
}

/* Gives the parameters of `out` the values of `from` as their start. */
static void take_start(const struct result *from, struct result *out)
{
    for (int i = 0; i < from->n_arrays; i++)
        for (int k = 0; k < out->n_arrays; k++)
            if (strcmp(from->array[i].name, out->array[k].name) == 0) {
                out->array[k].start = from->array[i].v;
                from->array[i].v    = NULL;
            }
}

/* Rounding makes other choices in other ways, and then nothing is alike. */
static enum ct_status refuse_turns(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_layers(net); i++)
        if (edge_turns_choice(net, i))
            return ct_fail(CT_ENOTFOUND, "layer %s may choose otherwise",
                           ct_net_layer(net, i)->name);
    return CT_OK;
}

/* One iteration after the other; notes where parameters began. */
static enum ct_status train_steps(const struct drawn *c, const struct way *w,
                                  struct ct_solver *s, struct result *out)
{
    struct result start = { 0 };
    enum ct_status st   = collect_params(s, false, &start);

    for (int i = 0; i < c->solver->max_iter && st == CT_OK; i++) {
        st = ct_solver_step(s, 1);
        if (st == CT_OK && w == &way_plainest)
            st = refuse_turns(ct_solver_net(s));
    }
    if (st == CT_OK)
        st = train_collect(s, true, true, out);
    take_start(&start, out);
    result_fini(&start);
    return st;
}

static enum ct_status train_alone(const struct drawn *c, const struct way *w,
                                  const struct ct_device *dev, int nudge,
                                  struct result *out, struct ct_solver **s)
{
    const int n     = c->solver->max_iter;
    const int first = w->kind == WAY_RESUME ? 1 + (int)(c->seed % (unsigned)n)
                                            : n;

    if (w->kind == WAY_PYTHON)
        return train_python(c, out);
    CT_TRY(open_solver(c, w, dev, out, s));
    if (nudge > 0)
        train_nudge(ct_solver_net(*s), nudge);
    if (w->kind == WAY_STEP)
        return train_steps(c, w, *s, out);
    CT_TRY(ct_solver_step(*s, first));
    if (w->kind == WAY_RESUME) {
        CT_TRY(resume(c, w, dev, out, s));
        if (first < n)
            CT_TRY(ct_solver_step(*s, n - first));
    }
    if (w->kind == WAY_FOLD)
        return fold(c, *s, out);
    return train_collect(*s, true, true, out);
}

void train_case(const struct drawn *c, const struct way *w, int nudge,
                struct result *out)
{
    const struct ct_device *dev = NULL;
    struct ct_solver *s = NULL;

    *out = (struct result){ 0 };
    setenv("CORTADO_IMPL", w->impl ? w->impl : "", 1);
    ct_device_cpu_set_threads(w->threads ? w->threads : 1);
    if (w->kind == WAY_RANKS || w->kind == WAY_CANON) {
        train_ranks(c, w, w->n_ranks ? w->n_ranks : c->canonical_ranks, out);
        return;
    }
    if (w->kind == WAY_ELASTIC) {
        train_elastic(c, w, out);
        return;
    }
    out->st = w->gpu ? ct_device_cuda_open(0, CT_FP32, &dev) : CT_OK;
    if (out->st == CT_OK)
        out->st = train_alone(c, w, dev, nudge, out, &s);
    if (out->st != CT_OK)
        snprintf(out->why, sizeof(out->why), "%s", ct_last_error());
    ct_solver_destroy(s);
    ct_device_close(dev);
}
