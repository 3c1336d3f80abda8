/* census.c - compares the self-descriptions of all ranks. */
#include "dist/proof/census.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/file.h"
#include "base/mem.h"
#include "comm/coll/coll.h"
#include "comm/transport/transports.h"
#include "cortado/access.h"
#include "cortado/device.h"
#include "data/db.h"
#include "device/kernels.h"
#include "dist/engine.h"

static void describe(const struct ct_transport_type *transport,
                     const struct ct_device *device, struct dist_seat *s)
{
    *s = (struct dist_seat){ .device = "cpu",
                             .uuid   = ct_device_uuid(device) };
    if (device->kind == CT_CUDA) {
        snprintf(s->device, sizeof(s->device), "GPU %d", device->id);
        snprintf(s->model, sizeof(s->model), "%s", ct_device_name(device));
    } else {
        ct_cpu_kernels(s->model, sizeof(s->model));
        if (ct_device_dtype(device) == CT_BF16)
            strncat(s->model, ", bf16",
                    sizeof(s->model) - strlen(s->model) - 1);
    }
    s->scaled = ct_device_dtype(device) == CT_F16;
    if (gethostname(s->host, sizeof(s->host) - 1) != 0)
        snprintf(s->host, sizeof(s->host), "unknown");
    snprintf(s->version, sizeof(s->version), "%s", ct_version());
    ct_transport_version(transport, s->mpi, sizeof(s->mpi));
    snprintf(s->level, sizeof(s->level), "%s",
             ct_transport_thread_level(transport));
    s->cores   = ct_cores();
    s->threads = ct_device_cpu_threads();
}

enum ct_status dist_census_take(struct ct_comm *c,
                                const struct ct_device *device,
                                struct dist_census *out)
{
    const size_t n = (size_t)c->size;
    size_t *bytes  = NULL;
    struct dist_seat mine;
    enum ct_status st;

    *out = (struct dist_census){ .n = c->size };
    describe(c->transport->type, device, &mine);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*out->seat), "census", &out->seat), st,
                out);
    CT_TRY_GOTO(ct_alloc(n, sizeof(*bytes), "census", &bytes), st, out);
    for (size_t r = 0; r < n; r++)
        bytes[r] = sizeof(mine);
    st = ct_allgather(c, &mine, bytes, out->seat);
out:
    ct_free(bytes);
    if (st != CT_OK)
        dist_census_fini(out);
    return st;
}

enum ct_status dist_census_meet(struct ct_dist *d,
                                const struct ct_device *device,
                                struct dist_census *out)
{
    struct dist_seat mine;
    enum ct_status st;

    *out = (struct dist_census){ .n = d->view.size };
    describe(d->view.comm->transport->type, device, &mine);
    CT_TRY(ct_alloc((size_t)out->n, sizeof(mine), "census", &out->seat));
    st = dist_gather_each(d, &mine, sizeof(mine), out->seat);
    if (st != CT_OK)
        dist_census_fini(out);
    return st;
}

void dist_census_facts(const struct dist_census *s, struct dist_facts *f)
{
    int n_cpu = 0;

    for (int r = 0; r < s->n; r++)
        n_cpu += strcmp(s->seat[r].device, "cpu") == 0;
    f->met      = true;
    f->gpus     = dist_census_gpus(s);
    f->own_gpus = dist_census_own_gpus(s);
    f->mixed    = n_cpu > 0 && n_cpu < s->n;
    f->unlike   = dist_census_unlike(s);
}

void dist_census_fini(struct dist_census *s)
{
    ct_free(s->seat);
    *s = (struct dist_census){ 0 };
}

static enum ct_status unlike(const struct dist_census *s, int rank,
                             const char *what, const char *first,
                             const char *other)
{
    return ct_fail(CT_EINVAL, "rank 0 on %s has %s %s, rank %d on %s has %s: "
                   "install the same on all hosts", s->seat[0].host, what,
                   first, rank, s->seat[rank].host, other);
}

enum ct_status dist_census_check_rank(const struct dist_census *s, int r)
{
    const struct dist_seat *a = &s->seat[0], *b = &s->seat[r];

    if (strcmp(a->version, b->version) != 0)
        return unlike(s, r, "cortado", a->version, b->version);
    if (strcmp(a->mpi, b->mpi) != 0)
        return unlike(s, r, "the MPI", a->mpi, b->mpi);
    if (strcmp(a->level, b->level) != 0)
        return unlike(s, r, "the MPI thread level", a->level, b->level);
    if (a->scaled != b->scaled)
        return ct_fail(CT_EINVAL, "rank %d scales its losses for fp16 and "
                       "rank %d does not: give all the same --precision",
                       a->scaled ? 0 : r, a->scaled ? r : 0);
    return CT_OK;
}

enum ct_status dist_census_check(const struct dist_census *s)
{
    for (int r = 1; r < s->n; r++)
        CT_TRY(dist_census_check_rank(s, r));
    return CT_OK;
}

static bool has_gpu(const struct dist_seat *s)
{
    return strcmp(s->device, "cpu") != 0;
}

bool dist_census_gpus(const struct dist_census *s)
{
    for (int r = 0; r < s->n; r++)
        if (has_gpu(&s->seat[r]))
            return true;
    return false;
}

int dist_census_shares(const struct dist_census *s, int rank)
{
    const struct dist_seat *b = &s->seat[rank];

    for (int q = 0; q < rank && has_gpu(b); q++)
        if (has_gpu(&s->seat[q]) &&
            memcmp(&b->uuid, &s->seat[q].uuid, sizeof(b->uuid)) == 0)
            return q;
    return -1;
}

bool dist_census_own_gpus(const struct dist_census *s)
{
    for (int r = 0; r < s->n; r++)
        if (!has_gpu(&s->seat[r]) || dist_census_shares(s, r) >= 0)
            return false;
    return true;
}

bool dist_census_unlike(const struct dist_census *s)
{
    for (int r = 1; r < s->n; r++)
        if (strcmp(s->seat[r].model, s->seat[0].model) != 0)
            return true;
    return false;
}

bool dist_census_crowded(const struct dist_census *s, const char **host,
                         int *threads, int *cores)
{
    double most = 1;

    for (int r = 0; r < s->n; r++) {
        int n = 0;

        for (int q = 0; q < s->n; q++)
            if (strcmp(s->seat[q].host, s->seat[r].host) == 0)
                n += s->seat[q].threads;
        if (n <= most * s->seat[r].cores)
            continue;
        most     = (double)n / s->seat[r].cores;
        *host    = s->seat[r].host;
        *threads = n;
        *cores   = s->seat[r].cores;
    }
    return most > 1;
}

static uint64_t mix(uint64_t digest, const void *data, size_t n)
{
    /* Two 32-bit checksums with different start values make 64 bits. */
    uint32_t low  = ct_crc32c((uint32_t)digest, data, n);
    uint32_t high = ct_crc32c((uint32_t)(digest >> 32) ^ low, data, n);

    return (uint64_t)high << 32 | low;
}

/* Adds the number of records, the first key and the last key of a database; of
 * LevelDB only the first key, because it would read all data to count
 * records. */
static enum ct_status mix_database(const Caffe__DataParameter *p,
                                   uint64_t *digest)
{
    const bool lmdb     = p->backend == CAFFE__DATA_PARAMETER__DB__LMDB;
    struct ct_cursor *c = NULL;
    struct ct_db *db    = NULL;
    int64_t n           = 0;
    enum ct_status st;

    CT_TRY(ct_db_open(lmdb ? "lmdb" : "leveldb", p->source, CT_DB_READ, &db));
    CT_TRY_GOTO(ct_cursor_create(db, &c), st, out);
    if (ct_cursor_valid(c))
        *digest = mix(*digest, ct_cursor_key(c).ptr, ct_cursor_key(c).n);
    if (lmdb)
        CT_TRY_GOTO(ct_db_count(db, &n), st, out);
    *digest = mix(*digest, &n, sizeof(n));
    if (n > 0) {
        CT_TRY_GOTO(ct_cursor_seek(c, n - 1), st, out);
        *digest = mix(*digest, ct_cursor_key(c).ptr, ct_cursor_key(c).n);
    }
out:
    ct_cursor_destroy(c);
    ct_db_close(db);
    return st;
}

/* Adds a net file of a solver.  Nets inside the solver's message are compared
 * with that message. */
static enum ct_status mix_net(const char *path, bool with_data,
                              uint64_t *nets, uint64_t *data)
{
    Caffe__NetParameter *net = NULL;
    char *text               = NULL;
    enum ct_status st;

    CT_TRY(ct_net_param_read(path, &net));
    CT_TRY_GOTO(ct_text_print(net, &text), st, out);
    *nets = mix(*nets, text, strlen(text));
    for (size_t i = 0; with_data && i < net->n_layer; i++)
        if (net->layer[i]->data_param && net->layer[i]->data_param->source)
            CT_TRY_GOTO(mix_database(net->layer[i]->data_param, data), st,
                        out);
out:
    ct_free(text);
    ct_message_free(net);
    return st;
}

enum ct_status dist_input_digest(const Caffe__SolverParameter *p, bool shared,
                                 uint64_t *nets, uint64_t *data)
{
    *nets = *data = 0;
    if (p->net)
        CT_TRY(mix_net(p->net, shared, nets, data));
    if (p->train_net)
        CT_TRY(mix_net(p->train_net, shared, nets, data));
    for (size_t i = 0; i < p->n_test_net; i++)
        CT_TRY(mix_net(p->test_net[i], shared, nets, data));
    return CT_OK;
}

enum ct_status ct_dist_same_inputs(struct ct_dist *d,
                                   const Caffe__SolverParameter *solver)
{
    uint64_t nets, data;

    if (!d)
        return CT_OK;
    CT_TRY(dist_input_digest(solver, d->plan->shared_data, &nets,
                             &data));
    CT_TRY(ct_dist_same(d, "net prototxt", nets));
    return ct_dist_same(d, "database (records, first or last key)", data);
}

static enum ct_status census_job(struct ct_comm *c, void *arg)
{
    return dist_census_take(c, ct_device_cpu(), arg);
}

enum ct_status dist_selftest(struct ct_dist *d)
{
    struct dist_census census = { 0 };
    enum ct_status st;

    CT_TRY(ct_job_run(d->view.thread, census_job, &census));
    st = dist_census_check(&census);
    dist_census_fini(&census);
    return st;
}
