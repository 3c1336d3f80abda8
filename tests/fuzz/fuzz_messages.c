/* fuzz_messages.c - what other ranks send; the first byte chooses what.
 *
 *     0   bytes of a block of records, as rank 0 sends it
 *     1   pushes to a server: a good one, with the input laid over it, so that
 *         heads are nearly right
 *     2   pulls from it, likewise
 *     3   rank 0's table of a sweep over ways to sum, likewise
 * and, divided by 4, the kind of server: bounded staleness, none, rounds with
 * a deadline, sums in step. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "comm/coll/tune.h"
#include "comm/ps/ps.h"
#include "cortado/log.h"
#include "data/feed.h"
#include "dist/feed/block.h"
#include "fuzz_file.h"

enum { N = 4, MOST_MESSAGES = 4, N_HISTORIES = 2 };

static void read_block(const uint8_t *data, size_t n_bytes)
{
    struct dist_block b = { 0 };
    struct ct_record r  = { 0 };
    size_t at           = 0;

    if (dist_block_grow(&b, n_bytes + 1) != CT_OK)
        abort();
    memcpy(b.data, data, n_bytes);
    b.bytes = n_bytes;
    while (dist_block_next(&b, &at, &r) == CT_OK) {
        const char *key = r.key.ptr, *value = r.value.ptr;

        CT_ASSERT(key >= b.data && key + r.key.n <= b.data + n_bytes);
        CT_ASSERT(value >= b.data && value + r.value.n <= b.data + n_bytes);
    }
    CT_ASSERT(ct_last_error()[0]);
    dist_block_fini(&b);
}

static enum ct_status apply(void *arg, const struct ct_ps_update *u)
{
    (void)arg;
    CT_ASSERT(u->n == N && u->clock >= 0);
    for (size_t i = 0; i < u->n; i++)
        u->value[i] += u->scale * u->sum[i];
    return CT_OK;
}

static enum ct_status read_history(void *arg, int64_t history, size_t first,
                                   size_t n, float *out)
{
    (void)arg, (void)first;
    if (history < 0 || history >= N_HISTORIES)
        return ct_fail(CT_ECOMM, "no such history");
    memset(out, 0, n * sizeof(*out));
    return CT_OK;
}

static const struct ct_ps_config kind[] = {
    { .values = true, .staleness = 2, .momentum = 0.9f },
    { .values = true, .staleness = CT_PS_ASYNC },
    { .values = true, .rounds = true, .fold = 0.5f },
    { .values = false },
};

/* As a round's deadline ends it: with whoever has come, and the late. */
static void end_round(struct ct_ps *server)
{
    struct ct_ps_round r;

    ct_ps_round(server, &r);
    if (ct_ps_mask_has(&r.got, 0) && ct_ps_close(server, &r.got) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    if (ct_ps_mask_has(&r.late, 0) && ct_ps_rejoin(server, &r.late) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
}

/* The input over a good message, behind each other. */
static size_t lay_over(const uint8_t *data, size_t n_bytes, void *message,
                       size_t bytes)
{
    uint8_t *to = message;

    if (n_bytes < bytes)
        bytes = n_bytes;
    for (size_t i = 0; i < bytes; i++)
        to[i] ^= data[i];
    return bytes;
}

static void send(struct ct_comm *from, struct ct_ps *server, int tag,
                 const void *message, size_t bytes)
{
    struct ct_request r;
    bool done = false;

    if (ct_comm_send(from, 0, tag, message, bytes, &r) != CT_OK)
        abort();
    for (int i = 0; i < 3; i++)
        if (ct_ps_progress(server) != CT_OK)
            CT_ASSERT(ct_last_error()[0]);
    if (server->config.rounds)
        end_round(server);
    if (ct_comm_test(from, &r, &done) == CT_OK && !done)
        (void)ct_comm_cancel(from, &r);
}

static void serve(int i_kind, const uint8_t *data, size_t n_bytes, bool pulls)
{
    static const size_t border[] = { 0, N };
    static const int worker[] = { 1 }, server[] = { 0 };
    struct { struct ct_ps_head head; float x[N]; } push;
    struct ct_transport *t[2];
    struct ct_comm *comm[2];
    struct ct_ps_table table;
    struct ct_ps_config c = kind[i_kind];
    struct ct_ps *ps      = NULL;
    const float x[N]      = { 0 };

    if (ct_loopback_create(2, &(struct ct_loopback_options){ 0 }, t) != CT_OK ||
        ct_comm_create(t[0], &comm[0]) != CT_OK ||
        ct_comm_create(t[1], &comm[1]) != CT_OK ||
        ct_ps_table_init(&table, border, 2, 1) != CT_OK)
        abort();
    c.comm        = comm[0];
    c.table       = &table;
    c.worker_rank = worker;
    c.server_rank = server;
    c.n_workers   = 1;
    c.apply       = apply;
    c.read        = read_history;
    if (ct_ps_create(&c, &ps) != CT_OK)
        abort();
    if (c.values)
        ct_ps_reset(ps, x, 0);
    for (uint64_t i = 0; i < MOST_MESSAGES && n_bytes > 0; i++) {
        struct ct_ps_pull pull = { .magic = CT_PS_MAGIC };
        size_t used;

        memset(&push, 0, sizeof(push));
        push.head = (struct ct_ps_head){ .magic = CT_PS_MAGIC, .seq = i,
                                         .clock = (int64_t)i, .weight = 1 };
        used = pulls ? lay_over(data, n_bytes, &pull, sizeof(pull))
                     : lay_over(data, n_bytes, &push, sizeof(push));
        if (pulls) {
            send(comm[1], ps, CT_PS_TAG_PULL, &pull, sizeof(pull));
        } else {
            send(comm[1], ps, CT_PS_TAG_HEAD, &push.head, sizeof(push.head));
            send(comm[1], ps, CT_PS_TAG_PUSH, push.x, sizeof(push.x));
        }
        data += used;
        n_bytes -= used;
    }
    ct_ps_destroy(ps);
    ct_ps_table_fini(&table);
    ct_comm_destroy(comm[1]);
    ct_comm_destroy(comm[0]);
}

/* Whatever rank 0 says, this rank sums in a way that there is. */
static void sweep(const uint8_t *data, size_t n_bytes)
{
    static const int64_t floats[] = { 256, 4 << 10, 64 << 10, 512 << 10,
                                      4 << 20 };
    struct ct_tuning t = { .n_sizes = 2, .n_known = CT_TUNE_SIZES };
    struct ct_transport *end[2];
    struct ct_comm *comm[2];

    if (ct_loopback_create(2, &(struct ct_loopback_options){ 0 }, end) !=
            CT_OK ||
        ct_comm_create(end[0], &comm[0]) != CT_OK ||
        ct_comm_create(end[1], &comm[1]) != CT_OK)
        abort();
    for (int i = 0; i < CT_TUNE_SIZES; i++)
        t.size[i].n = floats[i];
    if (n_bytes == 0)
        CT_ASSERT(ct_tuning_take(comm[1], &t) == CT_OK);
    (void)lay_over(data, n_bytes, &t, sizeof(t));
    if (ct_tuning_take(comm[1], &t) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    for (int64_t n = 1; n < INT64_C(1) << 40; n *= 16)
        CT_ASSERT(ct_allreduce_choose(comm[1], n)->name[0]);
    ct_comm_destroy(comm[1]);
    ct_comm_destroy(comm[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    switch (data[0] % 4) {
    case 0: read_block(data + 1, n_bytes - 1); break;
    case 1: serve(data[0] / 4 % 4, data + 1, n_bytes - 1, false); break;
    case 2: serve(data[0] / 4 % 4, data + 1, n_bytes - 1, true); break;
    case 3: sweep(data + 1, n_bytes - 1); break;
    }
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
