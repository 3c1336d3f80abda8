/* fuzz_standing.c - what a newcomer is told of a training; the first byte
 * chooses by whom.
 *
 *     0   rank 0, before anybody has trained: where it stands, how far the
 *         tests are, parameters and histories
 *     1   a rank that has parameters: the same
 *     2   rank 0, which has read a snapshot: whether it could, the head of the
 *         message, its arrays, parameters, and where it stands then
 *
 * All of it is laid over zeroes, or over what the newcomer thinks itself.  One
 * that takes it trains. */
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/access.h"
#include "cortado/log.h"
#include "data/db_writer.h"
#include "solver/solver_inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_ITERS = 3 }; /* that count, wherever the others are to end */

/* What is still to be told. */
static const uint8_t *rest;
static size_t n_rest;
static int n_iters;
static char folder[128];
static Caffe__SolverParameter *param;

/* ---- The others, who agree to everything. */

static void lay_over(void *at, size_t bytes)
{
    uint8_t *to    = at;
    const size_t n = bytes < n_rest ? bytes : n_rest;

    for (size_t i = 0; i < n; i++)
        to[i] ^= rest[i];
    rest += n;
    n_rest -= n;
}

static enum ct_status spread(struct ct_exchange *x, void *data, size_t bytes)
{
    (void)x;
    lay_over(data, bytes);
    return CT_OK;
}

/* More arrays or values than any here would ask for time and memory alone, but
 * for those that are too many for all. */
static void limit(uint64_t *count)
{
    if (*count < UINT64_C(1) << 42)
        *count &= 0xff;
}

static enum ct_status broadcast(struct ct_exchange *x, void *data,
                                size_t bytes)
{
    uint64_t *count = data;

    (void)x;
    lay_over(data, bytes);
    if (bytes == sizeof(*count)) {
        limit(count);
    } else if (bytes == (2 + CT_MAX_AXES) * sizeof(*count)) {
        limit(count);
        limit(count + 1);
    }
    return CT_OK;
}

static enum ct_status gather(struct ct_exchange *x, const void *mine,
                             const size_t *bytes, void *out)
{
    uint8_t *to = out;

    for (int r = 0; r < x->facts.size; r++) {
        memmove(to, mine, bytes[r]);
        to += bytes[r];
    }
    return CT_OK;
}

static enum ct_status none(struct ct_exchange *x)
{
    (void)x;
    return CT_OK;
}

static enum ct_status none_at(struct ct_exchange *x, int i)
{
    (void)x, (void)i;
    return CT_OK;
}

static enum ct_status commit(struct ct_exchange *x, int i)
{
    (void)x, (void)i;
    return n_iters++ < MOST_ITERS ? CT_OK : ct_fail(CT_EIO, "that is enough");
}

static enum ct_status share(struct ct_exchange *x, struct ct_net *net,
                            const struct ct_params_user *user,
                            struct ct_shared_params *out)
{
    (void)x, (void)net, (void)user, (void)out;
    return CT_OK;
}

static bool no_mark(struct ct_exchange *x, uint64_t *seen, struct ct_mark *out)
{
    (void)x, (void)seen, (void)out;
    return false;
}

static bool no_hint(struct ct_exchange *x, struct ct_expected *out)
{
    (void)x, (void)out;
    return false;
}

static void last(struct ct_exchange *x, int iter)
{
    (void)x, (void)iter;
}

static enum ct_status fits(struct ct_exchange *x,
                           const struct ct_device *device)
{
    (void)x, (void)device;
    return CT_OK;
}

static const struct ct_job_ops job_ops = {
    .meet      = none,
    .share     = share,
    .gather    = gather,
    .broadcast = broadcast,
    .spread    = spread,
    .supply    = spread,
    .next_mark = no_mark,
    .mark      = none,
    .hold      = none_at,
    .commit    = commit,
    .last      = last,
    .check     = none,
    .fit       = fits,
    .expects   = no_hint,
};

/* ---- Sums of one rank, its own. */

static enum ct_status attach(struct ct_exchange *x, struct ct_net *net,
                             const struct ct_trainer *t,
                             struct ct_attached *out)
{
    (void)t;
    x->state = net;
    *out     = (struct ct_attached){ .lazy = false };
    return CT_OK;
}

static void detach(struct ct_exchange *x, const struct ct_net *net)
{
    (void)net;
    x->state = NULL;
}

static enum ct_status finish(struct ct_exchange *x, struct ct_answer *out)
{
    (void)x;
    *out = (struct ct_answer){ .loss = 1 };
    return CT_OK;
}

static bool ready(struct ct_exchange *x, int i)
{
    (void)x, (void)i;
    return true;
}

static enum ct_status wait(struct ct_exchange *x, int i, const float **sum)
{
    *sum = ct_diff(ct_net_param(x->state, i)->blob);
    return CT_OK;
}

static enum ct_status updated(struct ct_exchange *x, int iter, float rate)
{
    (void)x, (void)iter, (void)rate;
    return CT_OK;
}

static enum ct_status settle(struct ct_exchange *x, int iter,
                             enum ct_settle why)
{
    (void)x, (void)iter, (void)why;
    return CT_OK;
}

static enum ct_status keep(struct ct_exchange *x, const struct ct_keep *k)
{
    (void)x, (void)k;
    return CT_OK;
}

static const struct ct_exchange_ops ops = {
    .name       = "fuzz",
    .attach     = attach,
    .detach     = detach,
    .fetch      = none_at,
    .begin      = none_at,
    .fold       = none_at,
    .queued     = none_at,
    .layer_done = none_at,
    .finish     = finish,
    .ready      = ready,
    .wait       = wait,
    .updated    = updated,
    .settle     = settle,
    .keep       = keep,
};

/* ---- The newcomer. */

static const char solver[] =
    "net_param { name: 'd' "
    "layer { name: 'd' type: 'Data' top: 'x' top: 'y' "
    "  data_param { source: '%s/db' batch_size: 4 backend: LMDB } }"
    "layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'n' }"
    "layer { name: 'f' type: 'InnerProduct' bottom: 'n' top: 'f' "
    "  inner_product_param { num_output: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'y' "
    "  top: 'loss' } } base_lr: 0.01 lr_policy: 'multistep' gamma: 0.5 "
    "stepvalue: 5 stepvalue: 9 momentum: 0.9 test_iter: 1 test_interval: 1000 "
    "test_initialization: false random_seed: 7 snapshot_after_train: false";

static int remove_one(const char *path, const struct stat *s, int flag,
                      struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path);
}

static void remove_all(void)
{
    ct_message_free(param);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_data(void)
{
    uint8_t pixel[4] = { 1, 2, 3, 4 };
    char path[160];
    struct ct_db_writer *w;

    snprintf(path, sizeof(path), "%s/db", folder);
    if (ct_db_writer_create("lmdb", path, &w) != CT_OK)
        abort();
    for (int i = 0; i < 10; i++) {
        struct ct_datum d = { .channels = 4, .height = 1, .width = 1,
                              .label = i % 3,
                              .data = { pixel, sizeof(pixel) } };

        pixel[i % 4] += 40;
        if (ct_db_writer_put_datum(w, 5, i, &d,
                                   CT_DATUM_SHAPE | CT_DATUM_LABEL,
                                   NULL) != CT_OK)
            abort();
    }
    if (ct_db_writer_finish(w) != CT_OK)
        abort();
    ct_db_writer_destroy(w);
}

static void start(void)
{
    char text[2048];
    int n;

    if (param)
        return;
    ct_log_set_level(CT_LOG_FATAL);
    snprintf(folder, sizeof(folder), "%s/cortado_standing_%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    if (mkdir(folder, 0700) != 0)
        abort();
    atexit(remove_all);
    make_data();
    n = snprintf(text, sizeof(text), solver, folder);
    if (ct_text_parse(&caffe__solver_parameter__descriptor, text, (size_t)n,
                      "fuzz", &param) != CT_OK)
        abort();
}

static void go_on(struct ct_solver *s)
{
    CT_ASSERT(s->iter >= 0 && s->current_step >= 0);
    if (ct_solver_step(s, 1) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
}

static void join(struct ct_solver *s, int n_full, bool restores)
{
    struct ct_exchange x = {
        .facts = { .rank = 1, .size = 2, .scale = 1, .loss_scale = 1,
                   .global_batch = true, .commits = true, .n_full = n_full,
                   .n_have = n_full > 0 ? n_full : 1 },
        .ops = &ops, .job = &job_ops };
    const size_t n = n_rest;

    if (restores)
        n_rest = 0;
    if (solver_join(s, &x) != CT_OK) {
        CT_ASSERT(ct_last_error()[0]);
        CT_ASSERT(!s->options.exchange);
        return;
    }
    n_rest += restores ? n : 0;
    if (restores && ct_solver_restore(s, "snapshot") != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    else
        go_on(s);
    ct_solver_leave(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ct_solver_options o = { .device = ct_device_cpu() };
    struct ct_solver *s        = NULL;
    size_t n_before;

    start();
    if (size == 0)
        return 0;
    n_before = ct_mem_stats().n_live;
    if (ct_solver_create(param, &o, &s) != CT_OK)
        abort();
    rest    = data + 1;
    n_rest  = size - 1;
    n_iters = 0;
    join(s, data[0] & 1, data[0] & 2);
    ct_solver_destroy(s);
    CT_ASSERT(ct_mem_stats().n_live == n_before);
    return 0;
}
