/* metrics.c - all runs in Prometheus's text format.
 *
 * One scrape covers every rank of a job.  Numbers come from the run folder, so
 * whoever serves it, the job itself or `cortado board`, gives the same. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observe/board_inner.h"
#include "observe/json.h"

/* What a run has told last. */
struct latest {
    struct ct_json *iteration, *norms, *ranks;
    struct ct_json **test; /* per net; owned */
    int              n_tests;
};

static struct ct_json *parse(const char *text)
{
    struct ct_json *j = NULL;

    if (!text || ct_json_parse(text, strlen(text), "line", &j) != CT_OK)
        return NULL;
    return j;
}

static struct ct_json *read_ranks(const struct ct_board *b, int run)
{
    struct ct_http_request r = { .method = CT_HTTP_GET };
    struct ct_http_answer a  = { .status = 200, .next = -1 };
    struct ct_json *j        = NULL;

    if (board_file(b, run, "ranks_now.json", &r, &a))
        j = parse(a.body.s);
    ct_text_fini(&a.body);
    return j;
}

static enum ct_status find_latest(struct ct_board *b, int run,
                                  struct latest *out)
{
    const struct board_latest *l = &b->latest[run];

    board_latest_read(b, run);
    CT_TRY(ct_alloc((size_t)l->n_tests + 1, sizeof(*out->test), "metrics",
                    &out->test));
    out->n_tests   = l->n_tests;
    out->iteration = parse(l->iteration);
    out->norms     = parse(l->norms);
    out->ranks     = read_ranks(b, run);
    for (int i = 0; i < l->n_tests; i++)
        out->test[i] = parse(l->test[i]);
    return CT_OK;
}

static void free_latest(struct latest *l)
{
    ct_json_free(l->iteration);
    ct_json_free(l->norms);
    ct_json_free(l->ranks);
    for (int i = 0; i < l->n_tests; i++)
        ct_json_free(l->test[i]);
    ct_free(l->test);
}

/* Backslash, quote and newline are escaped; the format has no other escapes.
 * Bytes that are no UTF-8 become question marks. */
static void add_label(struct ct_text *t, const char *key, const char *value)
{
    ct_text_addf(t, "%s=\"", key);
    while (*value) {
        const int n = ct_utf8_bytes(value);

        if (*value == '\\' || *value == '"')
            ct_text_addf(t, "\\%c", *value);
        else if (*value == '\n')
            ct_text_add(t, "\\n");
        else if (n == 0)
            ct_text_add(t, "?");
        else
            ct_text_add_bytes(t, value, (size_t)n);
        value += n ? n : 1;
    }
    ct_text_add(t, "\"");
}

static void add_value(struct ct_text *t, double v)
{
    if (isnan(v))
        ct_text_add(t, " NaN\n");
    else
        ct_text_addf(t, " %.10g\n", v);
}

static void sample(struct ct_text *t, const char *name, const char *run,
                   const struct ct_json *value)
{
    if (!value)
        return;
    ct_text_addf(t, "%s{", name);
    add_label(t, "run", run);
    ct_text_add(t, "}");
    add_value(t, ct_json_number(value, (double)NAN));
}

static void add_help(struct ct_text *t, const char *name, const char *type,
                     const char *help)
{
    ct_text_addf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* ---- of the job */

enum source { ITERATION, NORMS };

static const struct {
    const char *name, *type, *help;
    enum source source;
    const char *key;
} job[] = {
    { "cortado_iteration", "gauge", "The latest iteration.", ITERATION,
      "iter" },
    { "cortado_loss", "gauge", "Training loss of the latest iteration.",
      ITERATION, "loss" },
    { "cortado_learning_rate", "gauge", "Learning rate of its update.",
      ITERATION, "rate" },
    { "cortado_step_seconds", "gauge", "Duration of the latest iteration.",
      ITERATION, "seconds" },
    { "cortado_samples_per_second", "gauge",
      "Samples that all ranks train on per second.", ITERATION,
      "samples_per_second" },
    { "cortado_remaining_seconds", "gauge", "Time until max_iter.", ITERATION,
      "seconds_left" },
    { "cortado_update_timestamp_seconds", "gauge",
      "When the latest iteration was recorded.", ITERATION, "time" },
    { "cortado_weight_norm", "gauge", "Norm of all parameters.", NORMS,
      "weights" },
    { "cortado_gradient_norm", "gauge", "Norm of all gradients.", NORMS,
      "gradients" },
};

static void add_job(struct ct_board *b, const struct latest *l,
                    struct ct_text *t)
{
    for (size_t k = 0; k < sizeof(job) / sizeof(job[0]); k++) {
        add_help(t, job[k].name, job[k].type, job[k].help);
        for (int i = 0; i < b->n_runs; i++)
            sample(t, job[k].name, board_run_name(b, i),
                   ct_json_get(job[k].source == NORMS ? l[i].norms
                                                      : l[i].iteration,
                               job[k].key));
    }
}

static void add_test(struct ct_text *t, const char *run, int net,
                     const struct ct_json *test)
{
    const struct ct_json *o = ct_json_get(test, "outputs");

    for (o = o ? o->child : NULL; o; o = o->next) {
        ct_text_add(t, "cortado_test_output{");
        add_label(t, "run", run);
        ct_text_addf(t, ",net=\"%d\",", net);
        add_label(t, "output", o->key);
        ct_text_add(t, "}");
        add_value(t, ct_json_number(o, (double)NAN));
    }
}

static void add_tests(struct ct_board *b, const struct latest *l,
                      struct ct_text *t)
{
    add_help(t, "cortado_test_output", "gauge",
             "Mean of an output over the latest test.");
    for (int i = 0; i < b->n_runs; i++)
        for (int net = 0; net < l[i].n_tests; net++)
            add_test(t, board_run_name(b, i), net, l[i].test[net]);
}

/* ---- of the ranks */

static const struct {
    const char *name, *type, *help, *key;
} rank[] = {
    { "cortado_rank_iteration", "gauge", "Where the rank is.", "iter" },
    { "cortado_rank_iterations_per_second", "gauge", "Speed of the rank.",
      "iterations_per_second" },
    { "cortado_rank_wait_ratio", "gauge",
      "Share of the time that the rank waits for peers.", "wait" },
    { "cortado_rank_waiting_seconds", "gauge", "Duration of the wait under "
      "way.", "waiting" },
    { "cortado_rank_sent_bytes_total", "counter", "Bytes sent to peers.",
      "sent" },
    { "cortado_rank_memory_bytes", "gauge", "Main memory of the rank.",
      "memory" },
    { "cortado_rank_device_memory_bytes", "gauge",
      "Memory of the rank's GPU.", "device_memory" },
    { "cortado_rank_temperature_celsius", "gauge",
      "Temperature of the rank's GPU, where it is known.", "temperature" },
    { "cortado_rank_lost", "gauge", "1 when the rank has died.", "gone" },
};

/* 0 degrees: nobody knows. */
static bool is_known(const char *key, double v)
{
    return strcmp(key, "temperature") != 0 || v != 0;
}

static void add_ranks(struct ct_board *b, const struct latest *l,
                      struct ct_text *t)
{
    for (size_t k = 0; k < sizeof(rank) / sizeof(rank[0]); k++) {
        add_help(t, rank[k].name, rank[k].type, rank[k].help);
        for (int i = 0; i < b->n_runs; i++) {
            const struct ct_json *v = ct_json_get(l[i].ranks, rank[k].key);
            int r                   = 0;

            for (v = v ? v->child : NULL; v; v = v->next, r++) {
                const double number = ct_json_number(v, (double)NAN);

                if (!is_known(rank[k].key, number))
                    continue;
                ct_text_addf(t, "%s{", rank[k].name);
                add_label(t, "run", board_run_name(b, i));
                ct_text_addf(t, ",rank=\"%d\"}", r);
                add_value(t, number);
            }
        }
    }
}

void board_metrics(struct ct_board *b, struct ct_text *out)
{
    struct latest *l = NULL;

    out->failed |= ct_alloc((size_t)b->n_runs + 1, sizeof(*l), "metrics",
                            &l) != CT_OK;
    for (int i = 0; i < b->n_runs && !out->failed; i++)
        out->failed |= find_latest(b, i, &l[i]) != CT_OK;
    if (!out->failed) {
        add_job(b, l, out);
        add_tests(b, l, out);
        add_ranks(b, l, out);
    }
    for (int i = 0; i < b->n_runs && l; i++)
        free_latest(&l[i]);
    ct_free(l);
}
