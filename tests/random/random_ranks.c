/* random_ranks.c - trains a drawn case by ranks that are threads of this
 * process.
 *
 * The batch of the case is that of all ranks together, so they must come to
 * what one rank with all of it comes to. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "comm/transport.h"
#include "cortado/events.h"
#include "cortado/solver.h"
#include "dist/engine.h"
#include "train_steps.h"

struct trainee {
    const struct drawn                *c;
    const struct way                  *w;
    const Caffe__DistributedParameter *options;
    struct ct_transport               *transport;
    struct result                      result;
    bool                               serves;
};

static enum ct_status train_rank(struct trainee *t, struct ct_dist *d,
                                 const struct ct_device *dev)
{
    struct ct_solver_options o = { .device   = dev,
                                   .rank     = ct_dist_rank(d),
                                   .size     = ct_dist_size(d),
                                   .exchange = ct_dist_exchange(d) };
    struct ct_solver *s = NULL;
    enum ct_status st;

    CT_TRY(ct_solver_create(t->c->solver, &o, &s));
    st = ct_solver_listen(s, &train_events, &t->result);
    if (st == CT_OK)
        st = ct_solver_step(s, t->c->solver->max_iter);
    if (st == CT_OK && !t->serves)
        st = train_collect(s, t->w->exact && !o.exchange->facts.remote, false,
                           &t->result);
    ct_solver_destroy(s);
    return st;
}

static void *rank_thread(void *arg)
{
    struct trainee *t = arg;
    struct result *r  = &t->result;
    struct ct_dist *d = NULL;
    const struct ct_device *dev = ct_device_cpu();

    ct_device_cpu_set_threads(1);
    r->st = dist_create_over(t->transport, t->options, &d);
    if (r->st == CT_OK && t->w->gpu)
        r->st = ct_device_cuda_open(0, CT_FP32, &dev);
    if (r->st == CT_OK)
        r->st = train_rank(t, d, dev);
    if (r->st != CT_OK) {
        snprintf(r->why, sizeof(r->why), "%s", ct_last_error());
        ct_dist_abort(d, 1);
    }
    ct_dist_destroy(d);
    ct_device_close(dev);
    return NULL;
}

/* Every rank that trains holds what the first one holds, bit for bit. */
static void check_equal(struct trainee *t, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = 0; k < t->result.n_arrays; k++)
            if (t->result.st == CT_OK && t[i].result.st == CT_OK &&
                memcmp(t->result.array[k].v, t[i].result.array[k].v,
                       (size_t)t->result.array[k].n * sizeof(float)) != 0) {
                t->result.st = CT_EINVAL;
                snprintf(t->result.why, sizeof(t->result.why),
                         "%s of rank %d is not that of rank 0",
                         t->result.array[k].name, i);
            }
}

/* A rank that failed first knows why; others only that it has gone. */
static void take_failure(struct trainee *t, int n)
{
    for (int i = 1; i < n; i++)
        if (t[i].result.st != CT_OK &&
            (t->result.st == CT_OK || strstr(t->result.why, "abort") ||
             strstr(t->result.why, "died") || strstr(t->result.why, "gone"))) {
            t->result.st = t[i].result.st;
            memcpy(t->result.why, t[i].result.why, sizeof(t->result.why));
        }
}

enum ct_status train_options(const struct drawn *c, const struct way *w,
                             Caffe__DistributedParameter **out)
{
    char text[256];

    snprintf(text, sizeof(text), "%s ", w->options);
    if (w->exact)
        snprintf(text + strlen(text), 32, "parts: %d", c->parts);
    return ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                         strlen(text), w->name, out);
}

void train_ranks(const struct drawn *c, const struct way *w, int n_ranks,
                 struct result *out)
{
    const struct ct_loopback_options loop = { 0 };
    struct ct_transport *transport[MOST_RANKS];
    struct trainee t[MOST_RANKS] = { 0 };
    pthread_t thread[MOST_RANKS];
    Caffe__DistributedParameter *options = NULL;

    out->st = train_options(c, w, &options);
    if (out->st == CT_OK)
        out->st = ct_loopback_create(n_ranks, &loop, transport);
    if (out->st != CT_OK) {
        snprintf(out->why, sizeof(out->why), "%s", ct_last_error());
        ct_message_free(options);
        return;
    }
    for (int i = 0; i < n_ranks; i++) {
        t[i].c         = c;
        t[i].w         = w;
        t[i].options   = options;
        t[i].transport = transport[i];
        t[i].serves    = i >= n_ranks - w->n_servers;
        pthread_create(&thread[i], NULL, rank_thread, &t[i]);
    }
    for (int i = 0; i < n_ranks; i++)
        pthread_join(thread[i], NULL);
    check_equal(t, n_ranks - w->n_servers);
    take_failure(t, n_ranks);
    *out = t->result;
    for (int i = 1; i < n_ranks; i++)
        result_fini(&t[i].result);
    ct_message_free(options);
}
