/* journal_facts.c - what a run is: run.json, the prototxts, net.json. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "device/cpu/loop.h"
#include "device/kernels.h"
#include "dist/engine.h"
#include "net/chain.h"
#include "observe/journal_inner.h"
#include "observe/json.h"
#include "solver/solver_inner.h"

const struct ct_device *journal_device(const struct ct_journal *j)
{
    const struct ct_net *net = ct_solver_net(j->solver);

    for (int i = 0; i < ct_net_n_layers(net); i++)
        if (ct_net_layer(net, i)->dev->kind != CT_CPU)
            return ct_net_layer(net, i)->dev;
    return ct_device_cpu();
}

static void add_ranks(struct ct_text *t, struct ct_journal *j)
{
    struct ct_rank_state s;

    ct_json_key(t, "ranks");
    ct_text_add(t, "[");
    for (int r = 0; r < j->n_ranks; r++) {
        const bool known = ct_dist_rank_state(j->dist, r, &s);
        char host[64]    = "";

        if (!known && r == 0) { /* alone */
            if (gethostname(host, sizeof(host) - 1) == 0)
                snprintf(s.host, sizeof(s.host), "%s", host);
            s.pid = (int)getpid();
        }
        if (!s.device[0] && r == ct_dist_rank(j->dist))
            snprintf(s.device, sizeof(s.device), "%s",
                     ct_device_name(journal_device(j)));
        ct_json_comma(t);
        ct_text_add(t, "{");
        ct_json_field_number(t, "rank", r);
        ct_json_field_string(t, "host", s.host);
        ct_json_field_number(t, "pid", s.pid);
        ct_json_field_string(t, "device", s.device);
        ct_json_key(t, "serves");
        ct_text_add(t, s.serves ? "true" : "false");
        if (s.samples)
            ct_json_field_number(t, "samples", (double)s.samples);
        ct_text_add(t, "}");
    }
    ct_text_add(t, "]");
}

/* The one that the solver draws from: a snapshot brings its own.  All of its
 * digits count, so it is no double. */
static void add_seed(struct ct_text *t, const struct ct_journal *j)
{
    ct_json_key(t, "seed");
    ct_text_addf(t, "%" PRIu64, j->solver->seed);
}

void journal_add_beginning(struct ct_journal *j, struct ct_text *t)
{
    ct_json_field_string(t, "version", j->version);
    ct_json_key(t, "argv");
    ct_text_add(t, j->argv);
    add_seed(t, j);
    ct_json_field_number(t, "n_ranks", j->n_ranks);
}

/* Training that begins at iteration 0 makes what came before void. */
void journal_keep_started(struct ct_journal *j)
{
    char *path       = ct_path_join(j->folder, "run.json"), *text = NULL;
    struct ct_json *run = NULL;
    size_t n_bytes   = 0;

    j->started = j->begun;
    if (j->start_iter > 0 && path &&
        ct_file_read(path, &text, &n_bytes) == CT_OK &&
        ct_json_parse(text, n_bytes, path, &run) == CT_OK)
        j->started = ct_json_number(ct_json_get(run, "started"), j->begun);
    ct_json_free(run);
    ct_free(text);
    ct_free(path);
}

/* Libraries whose arithmetic and messages a run consists of. */
static void add_libraries(struct ct_text *t, const struct ct_journal *j)
{
    char text[256];

    ct_json_key(t, "libraries");
    ct_text_add(t, "{");
    ct_json_field_string(t, "cpu", ct_cpu_kernels(text, sizeof(text)));
    if (ct_cuda_kernels(journal_device(j), text, sizeof(text)))
        ct_json_field_string(t, "gpu", text);
    if (j->dist)
        ct_json_field_string(
            t, "transport",
            ct_transport_version(j->dist->view.all->transport->type, text,
                                 sizeof(text)));
    ct_text_add(t, "}");
}

enum ct_status journal_write_run(struct ct_journal *j)
{
    const Caffe__SolverParameter *p = ct_solver_param(j->solver);
    struct ct_text t = { 0 };
    char folder[4096], why[sizeof(j->why)];
    const char *status;
    uint64_t n_lost;

    pthread_mutex_lock(&j->lock);
    status = j->status;
    memcpy(why, j->why, sizeof(why));
    n_lost = j->n_lost;
    pthread_mutex_unlock(&j->lock);
    ct_text_add(&t, "{");
    ct_json_field_number(&t, "format", 1);
    ct_json_field_string(&t, "program", "cortado");
    journal_add_beginning(j, &t);
    ct_json_field_string(&t, "command", j->command);
    if (getcwd(folder, sizeof(folder)))
        ct_json_field_string(&t, "folder", folder);
    ct_json_field_string(&t, "net", ct_net_name(ct_solver_net(j->solver)));
    ct_json_field_string(&t, "status", status);
    ct_json_field_string(&t, "why", why);
    ct_json_field_number(&t, "started", j->started);
    ct_json_field_number(&t, "begun", j->begun);
    ct_json_field_number(&t, "written", journal_clock());
    ct_json_field_number(&t, "start_iter", j->start_iter);
    ct_json_field_number(&t, "max_iter", j->max_iter);
    ct_json_field_number(&t, "iter", atomic_load(&j->iter));
    ct_json_field_string(&t, "solver", p->type);
    add_libraries(&t, j);
    ct_json_field_number(&t, "threads", ct_device_cpu_threads());
    ct_json_field_number(&t, "hosts", ct_dist_n_hosts(j->dist));
    ct_json_field_string(&t, "address", j->address);
    ct_json_field_number(&t, "lost_notes", (double)n_lost);
    add_ranks(&t, j);
    ct_text_add(&t, "}\n");
    return ct_output_replace(j->folder, "run.json", &t);
}

/* ---- its name */

enum ct_status ct_journal_default_folder(const Caffe__SolverParameter *p,
                                         char **out)
{
    const char *path  = p->net ? p->net : p->train_net ? p->train_net : "run";
    const char *slash = strrchr(path, '/');
    struct ct_text t  = { 0 };
    time_t now        = time(NULL);
    struct tm tm;
    char when[32];

    path = slash ? slash + 1 : path;
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    ct_text_addf(&t, "runs/%.*s-%s", (int)strcspn(path, "."), path, when);
    *out = t.failed ? NULL : ct_strdup(t.s, "run folder");
    ct_text_fini(&t);
    return *out ? CT_OK : CT_ENOMEM;
}

/* ---- the net */

static void add_shape(struct ct_text *t, const struct ct_blob *b)
{
    ct_json_comma(t);
    ct_text_add(t, "[");
    for (int i = 0; i < b->shape.n_axes; i++) {
        ct_json_comma(t);
        ct_json_add_number(t, (double)b->shape.dim[i]);
    }
    ct_text_add(t, "]");
}

static void add_blobs(struct ct_text *t, const struct ct_net *net, int layer,
                      bool tops)
{
    const struct ct_io io = ct_net_io(net, layer);
    const int n           = tops ? io.n_top : io.n_bottom;

    ct_json_key(t, tops ? "tops" : "bottoms");
    ct_text_add(t, "[");
    for (int i = 0; i < n; i++) {
        ct_json_comma(t);
        ct_json_add_string(
            t, ct_net_blob_name(net, tops ? ct_net_top_id(net, layer, i)
                                          : ct_net_bottom_id(net, layer, i)));
    }
    ct_text_add(t, "]");
    ct_json_key(t, tops ? "top_shapes" : "bottom_shapes");
    ct_text_add(t, "[");
    for (int i = 0; i < n; i++)
        add_shape(t, tops ? io.top[i] : io.bottom[i]);
    ct_text_add(t, "]");
}

static void add_params(struct ct_text *t, const struct ct_net *net, int layer)
{
    ct_json_key(t, "params");
    ct_text_add(t, "[");
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        if (p->layer != layer)
            continue;
        ct_json_comma(t);
        ct_text_add(t, "{");
        ct_json_field_number(t, "index", p->index);
        ct_json_field_number(t, "count", (double)p->blob->count);
        ct_json_key(t, "shape");
        add_shape(t, p->blob);
        ct_json_field_number(t, "lr_mult", (double)p->lr_mult);
        ct_json_field_number(t, "decay_mult", (double)p->decay_mult);
        ct_text_add(t, "}");
    }
    ct_text_add(t, "]");
}

/* Operations of a pass; a multiply-add counts as two. */
static void add_work(struct ct_text *t, const struct ct_net *net, int layer)
{
    const struct ct_io io    = ct_net_io(net, layer);
    struct ct_layer *l       = ct_net_layer(net, layer);
    const double forward     = l->type->macs ? 2 * l->type->macs(l, &io) : 0;
    double backward          = 0, bytes = 0;

    if (ct_net_layer_needs_backward(net, layer)) {
        backward += l->n_blob && l->blob_wants_grad[0] ? forward : 0;
        backward += io.n_bottom && io.want_grad[0] ? forward : 0;
    }
    for (int i = 0; i < io.n_top; i++)
        bytes += (double)io.top[i]->count *
                 (double)ct_dtype_bytes(io.top[i]->data.dtype);
    ct_json_field_number(t, "forward_flops", forward);
    ct_json_field_number(t, "backward_flops", backward);
    ct_json_field_number(t, "top_bytes", bytes);
}

/* The layer at whose turn this one runs, where several run as one. */
static int runs_at(const struct ct_net *net, int layer)
{
    const struct net_layer *l = &net->layer[layer];

    return l->chain ? net_chain_last(l->chain)
                    : ct_net_group_last(net, layer);
}

static void add_layer(struct ct_text *t, const struct ct_net *net, int i)
{
    const struct ct_layer *l = ct_net_layer(net, i);

    ct_json_comma(t);
    ct_text_add(t, "\n{");
    ct_json_field_string(t, "name", l->name);
    ct_json_field_string(t, "type", l->type->name);
    if (runs_at(net, i) != i)
        ct_json_field_string(t, "runs_with",
                             ct_net_layer(net, runs_at(net, i))->name);
    add_blobs(t, net, i, false);
    add_blobs(t, net, i, true);
    add_params(t, net, i);
    add_work(t, net, i);
    ct_text_add(t, "}");
}

static enum ct_status write_message(const struct ct_journal *j,
                                    const char *name, const void *message)
{
    struct ct_text t = { 0 };
    char *text       = NULL;

    CT_TRY(ct_text_print(message, &text));
    ct_text_add(&t, text);
    ct_free(text);
    return ct_output_replace(j->folder, name, &t);
}

/* As it is in force, with the seed that was drawn or came with a snapshot. */
static enum ct_status write_solver(const struct ct_journal *j)
{
    Caffe__SolverParameter p = *ct_solver_param(j->solver);

    p.has_random_seed = true;
    p.random_seed     = (int64_t)j->solver->seed;
    return write_message(j, "solver.prototxt", &p);
}

/* What the ranks do and why, then how the net runs. */
static enum ct_status write_plan(const struct ct_journal *j)
{
    struct ct_text t = { 0 };
    char *plan       = NULL;

    CT_TRY(ct_net_plan_text(ct_solver_net(j->solver), &plan));
    dist_explain(j->dist, &t);
    ct_text_addf(&t, "\n%s", plan);
    ct_free(plan);
    return ct_output_replace(j->folder, "plan.txt", &t);
}

enum ct_status journal_write_net(struct ct_journal *j)
{
    const struct ct_net *net = ct_solver_net(j->solver);
    struct ct_text t         = { 0 };

    CT_TRY(write_solver(j));
    CT_TRY(write_message(j, "net.prototxt", ct_net_param_message(net)));
    CT_TRY(write_plan(j));
    ct_text_add(&t, "{");
    ct_json_field_string(&t, "name", ct_net_name(net));
    ct_json_key(&t, "layers");
    ct_text_add(&t, "[");
    for (int i = 0; i < ct_net_n_layers(net); i++)
        add_layer(&t, net, i);
    ct_text_add(&t, "]}\n");
    return ct_output_replace(j->folder, "net.json", &t);
}
