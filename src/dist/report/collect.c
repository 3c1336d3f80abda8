/* collect.c - gathers bytes of every rank on rank 0, with the differences of
 * their clocks.
 *
 * Rank 0 asks one rank after the other:
 *
 *     0 -> r  go       r -> 0  its clock           N_PINGS times
 *     0 -> r  go       r -> 0  number of bytes, then the bytes
 *
 * A rank reads its clock after rank 0 sent the question and before the answer
 * arrives.  So the difference of clocks lies between two bounds, and every ping
 * narrows them.  Ranks of one host read the same clock and need no pings. */
#include "base/mem.h"
#include "base/trace.h"
#include "dist/engine.h"

enum { N_PINGS = 16, STEP_GO = 0, STEP_ANSWER = 1, STEP_BYTES = 2 };

struct collection {
    const void   *mine;
    size_t        bytes;
    ct_collect_fn take;
    void         *arg;
};

static enum ct_status give(struct ct_comm *c, int to, int step,
                           const void *data, size_t bytes)
{
    struct ct_request r;

    CT_TRY(ct_comm_send(c, to, ct_comm_tag(c, step), data, bytes, &r));
    return ct_comm_wait(c, to, &r);
}

static enum ct_status get(struct ct_comm *c, int from, int step, void *data,
                          size_t bytes)
{
    struct ct_request r;

    CT_TRY(ct_comm_receive(c, from, ct_comm_tag(c, step), data, bytes, &r));
    return ct_comm_wait(c, from, &r);
}

static bool one_clock(const struct ct_comm *c, int rank)
{
    return ct_place_host(&c->place, rank) == ct_place_host(&c->place, 0);
}

/* On rank 0: the offset from the clock of rank r to its own, and the error. */
static enum ct_status compare_clocks(struct ct_comm *c, int r,
                                     int64_t *offset, int64_t *error)
{
    int64_t least = INT64_MIN, most = INT64_MAX, theirs;

    *offset = *error = 0;
    if (one_clock(c, r))
        return CT_OK;
    for (int i = 0; i < N_PINGS; i++) {
        const int64_t before = (int64_t)ct_trace_now();
        int64_t after;

        CT_TRY(give(c, r, STEP_GO, &before, sizeof(before)));
        CT_TRY(get(c, r, STEP_ANSWER, &theirs, sizeof(theirs)));
        after = (int64_t)ct_trace_now();
        least = before - theirs > least ? before - theirs : least;
        most  = after - theirs < most ? after - theirs : most;
    }
    *offset = least + (most - least) / 2;
    *error  = (most - least + 1) / 2;
    return CT_OK;
}

static enum ct_status take_from(struct ct_comm *c, int r,
                                const struct collection *x)
{
    int64_t offset, error, go = 0;
    uint64_t bytes;
    char *data = NULL;
    enum ct_status st;

    CT_TRY(compare_clocks(c, r, &offset, &error));
    CT_TRY(give(c, r, STEP_GO, &go, sizeof(go)));
    CT_TRY(get(c, r, STEP_ANSWER, &bytes, sizeof(bytes)));
    CT_TRY(ct_alloc(bytes + 1, 1, "collected bytes", &data));
    CT_TRY_GOTO(get(c, r, STEP_BYTES, data, bytes), st, out);
    st = x->take(x->arg, r, data, bytes, offset, error);
out:
    ct_free(data);
    return st;
}

static enum ct_status collect_job(struct ct_comm *c, void *arg)
{
    const struct collection *x = arg;
    const uint64_t bytes       = x->bytes;
    int64_t word;

    ct_comm_begin(c, "collect", 0);
    if (c->rank == 0) {
        CT_TRY(x->take(x->arg, 0, x->mine, x->bytes, 0, 0));
        for (int r = 1; r < c->size; r++)
            CT_TRY(take_from(c, r, x));
        return CT_OK;
    }
    for (int i = 0; i < N_PINGS && !one_clock(c, c->rank); i++) {
        CT_TRY(get(c, 0, STEP_GO, &word, sizeof(word)));
        word = (int64_t)ct_trace_now();
        CT_TRY(give(c, 0, STEP_ANSWER, &word, sizeof(word)));
    }
    CT_TRY(get(c, 0, STEP_GO, &word, sizeof(word)));
    CT_TRY(give(c, 0, STEP_ANSWER, &bytes, sizeof(bytes)));
    return give(c, 0, STEP_BYTES, x->mine, x->bytes);
}

enum ct_status dist_collect(struct ct_exchange *x, const void *mine,
                            size_t bytes, ct_collect_fn take, void *arg)
{
    struct ct_dist *d   = x->state;
    struct collection c = { mine, bytes, take, arg };

    return ct_job_run(d->view.thread, collect_job, &c);
}
