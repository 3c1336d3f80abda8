/* journal_ranks.c - how all ranks are doing: a line now and then, and a file
 * for this moment. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "device/nvml.h"
#include "observe/journal_inner.h"
#include "observe/json.h"
#include "observe/tfevents.h"

enum { MOST_TAGS = 16 }; /* ranks that have scalars of their own */

struct row {
    struct ct_rank_state state;
    double speed; /* iterations a second, since it was written before */
    double wait;  /* share of the time that it waited */
    double sent;  /* bytes a second */
    int    temperature; /* of its GPU, degrees Celsius; 0: unknown */
};

/* A run of one rank has no peers to ask. */
static void look_alone(struct ct_journal *j, struct ct_rank_state *s)
{
    const struct ct_pulse_view v = ct_pulse_view(j->pulse);
    const uint64_t now           = ct_pulse_now();

    *s = (struct ct_rank_state){ .waiting_for = -1, .iter = v.iter,
                                 .pid = (int)getpid() };
    snprintf(s->phase, sizeof(s->phase), "%s", ct_pulse_phase_name(v.phase));
    snprintf(s->layer, sizeof(s->layer), "%s", v.layer);
    s->moved_ago = now > v.changed ? 1e-6 * (double)(now - v.changed) : 0;
    s->memory    = ct_process_memory();
}

/* Of a GPU of this host, by its number, which ranks of a host share. */
static int temperature_of(struct ct_journal *j, const struct ct_rank_state *s)
{
    const struct ct_device *dev = j->n_ranks == 1 ? journal_device(j) : NULL;
    char host[sizeof(s->host)]  = "", bus[32];
    int id                      = -1;

    if (dev && dev->kind == CT_CUDA)
        id = dev->id;
    else if (gethostname(host, sizeof(host) - 1) != 0 ||
             strcmp(host, s->host) != 0 ||
             sscanf(s->device, "GPU %d", &id) != 1)
        return 0;
    if (!j->sought_nvml)
        j->nvml = ct_nvml_open(NULL);
    j->sought_nvml = true;
    return j->nvml && ct_device_cuda_bus(id, bus, sizeof(bus))
               ? ct_nvml_temperature(j->nvml, bus)
               : 0;
}

static void look_at(struct ct_journal *j, enum journal_ranks file, int r,
                    double now, struct row *out)
{
    struct journal_rank *before = &j->before[file][r];
    const double lapse          = now - before->time;

    *out = (struct row){ .speed = 0 };
    if (!ct_dist_rank_state(j->dist, r, &out->state) && j->n_ranks == 1)
        look_alone(j, &out->state);
    else if (!out->state.phase[0]) /* those who come and go are in step */
        out->state.iter = atomic_load(&j->iter);
    if (before->time > 0 && lapse > 0) {
        out->speed = (out->state.iter - before->iter) / lapse;
        out->wait  = (out->state.waited - before->waited) / lapse;
        out->sent  = out->state.bytes_sent >= before->sent
                         ? (double)(out->state.bytes_sent - before->sent) /
                               lapse
                         : 0;
    }
    out->temperature = temperature_of(j, &out->state);
    *before = (struct journal_rank){ now, out->state.waited,
                                     out->state.bytes_sent, out->state.iter };
}

static double number_of(const struct row *r, int column)
{
    const struct ct_rank_state *s = &r->state;
    const double values[] = { s->iter, r->speed, r->wait < 1 ? r->wait : 1,
                              s->waiting, s->waiting_for, s->moved_ago,
                              (double)s->bytes_sent, r->sent,
                              (double)s->memory, (double)s->device_memory,
                              (double)s->gone, r->temperature };

    return values[column];
}

static const char *const columns[] = {
    "iter", "iterations_per_second", "wait", "waiting", "waiting_for",
    "moved_ago", "sent", "sent_per_second", "memory", "device_memory", "gone",
    "temperature",
};

static void add_column(struct ct_text *t, const struct row *row, int n,
                       int column)
{
    ct_json_key(t, columns[column]);
    ct_text_add(t, "[");
    for (int r = 0; r < n; r++) {
        ct_json_comma(t);
        ct_json_add_number(t, number_of(&row[r], column));
    }
    ct_text_add(t, "]");
}

static void add_words(struct ct_text *t, const struct row *row, int n,
                      const char *key)
{
    ct_json_key(t, key);
    ct_text_add(t, "[");
    for (int r = 0; r < n; r++) {
        ct_json_comma(t);
        ct_json_add_string(t, key[0] == 'p' ? row[r].state.phase
                                            : row[r].state.layer);
    }
    ct_text_add(t, "]");
}

enum { COMPUTE, WAIT, BYTES, N_SHARES };

static const char *const shares[] = { "compute_share", "wait_share",
                                      "bytes_per_second" };

static double share_of(const struct row *r, int share)
{
    const double wait = r->wait < 1 ? r->wait : 1;

    return share == COMPUTE ? 1 - wait : share == WAIT ? wait : r->sent;
}

static void scalar(struct ct_journal *j, const char *rank, int share,
                   double now, double value)
{
    char tag[64];

    snprintf(tag, sizeof(tag), "ranks/%s/%s", rank, shares[share]);
    ct_tf_scalar(&j->tf.pending, now, atomic_load(&j->iter), tag, value);
}

/* Over all ranks that live. */
static void add_spread(struct ct_journal *j, const struct row *row, int share,
                       double now)
{
    double least = INFINITY, most = -INFINITY, sum = 0;
    int n        = 0;

    for (int r = 0; r < j->n_ranks; r++) {
        const double v = share_of(&row[r], share);

        if (row[r].state.gone)
            continue;
        least = fmin(least, v);
        most  = fmax(most, v);
        sum += v;
        n++;
    }
    if (n == 0)
        return;
    scalar(j, "min", share, now, least);
    scalar(j, "mean", share, now, sum / n);
    scalar(j, "max", share, now, most);
}

static void add_scalars(struct ct_journal *j, const struct row *row,
                        double now)
{
    char rank[16];

    for (int s = 0; s < N_SHARES; s++) {
        for (int r = 0; r < j->n_ranks && r < MOST_TAGS; r++) {
            snprintf(rank, sizeof(rank), "%d", r);
            scalar(j, rank, s, now, share_of(&row[r], s));
        }
        if (j->n_ranks > 1)
            add_spread(j, row, s, now);
    }
}

/* One line; *row has what it is made of and is ct_free'd by the caller. */
static enum ct_status add_line(struct ct_journal *j, enum journal_ranks file,
                               double now, struct ct_text *t, struct row **row)
{
    CT_TRY(ct_alloc((size_t)j->n_ranks, sizeof(**row), "ranks", row));
    for (int r = 0; r < j->n_ranks; r++)
        look_at(j, file, r, now, &(*row)[r]);
    ct_text_add(t, "{");
    ct_json_field_number(t, "time", now);
    for (int c = 0; c < (int)(sizeof(columns) / sizeof(columns[0])); c++)
        add_column(t, *row, j->n_ranks, c);
    add_words(t, *row, j->n_ranks, "phase");
    add_words(t, *row, j->n_ranks, "layer");
    ct_text_add(t, "}\n");
    return CT_OK;
}

void journal_ranks_write(struct ct_journal *j, double now)
{
    struct row *row = NULL;

    if (add_line(j, RANKS_LINES, now, &j->ranks.pending, &row) == CT_OK)
        add_scalars(j, row, now);
    ct_free(row);
}

enum ct_status journal_ranks_write_now(struct ct_journal *j, double now)
{
    struct ct_text t = { 0 };
    struct row *row  = NULL;
    enum ct_status st;

    st = add_line(j, RANKS_NOW, now, &t, &row);
    ct_free(row);
    CT_TRY(st);
    return ct_output_replace(j->folder, "ranks_now.json", &t);
}
