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

/* The latest line of a kind, of a file of lines. */
struct latest {
    struct ct_json *iteration, *test, *norms, *ranks;
};

enum { TAIL = 256 << 10 };

static void read_tail(const struct ct_board *b, int run, const char *name,
                      struct ct_text *out)
{
    struct ct_http_request r = { .method = CT_HTTP_GET };
    struct ct_http_answer a  = { .status = 200, .next = -1 };

    snprintf(r.query, sizeof(r.query), "tail=%d", (int)TAIL);
    if (board_file(b, run, name, &r, &a))
        *out = a.body;
}

static struct ct_json *parse_line(const char *at, const char *end)
{
    struct ct_json *j = NULL;

    if (ct_json_parse(at, (size_t)(end - at), "line", &j) != CT_OK)
        return NULL;
    return j;
}

/* The last line that starts with this. */
static struct ct_json *last_line(const struct ct_text *t, const char *start)
{
    const char *end = t->s ? t->s + t->n_bytes : NULL;

    while (end && end > t->s) {
        const char *at = end - 1;

        while (at > t->s && at[-1] != '\n')
            at--;
        if (strncmp(at, start, strlen(start)) == 0)
            return parse_line(at, end);
        end = at;
    }
    return NULL;
}

static struct latest find_latest(const struct ct_board *b, int run)
{
    struct ct_text series = { 0 }, ranks = { 0 };
    struct latest l;

    read_tail(b, run, "series.jsonl", &series);
    read_tail(b, run, "ranks_now.json", &ranks);
    l.iteration = last_line(&series, "{\"kind\":\"iteration\"");
    l.test      = last_line(&series, "{\"kind\":\"test\"");
    l.norms     = last_line(&series, "{\"kind\":\"norms\"");
    l.ranks     = last_line(&ranks, "{");
    ct_text_fini(&series);
    ct_text_fini(&ranks);
    return l;
}

/* Label values: backslash, quote and newline are escaped, as in JSON. */
static void add_label(struct ct_text *t, const char *key, const char *value)
{
    ct_text_addf(t, "%s=", key);
    ct_json_add_string(t, value);
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

static const char *name_of(const struct ct_board *b, int run)
{
    const char *slash = strrchr(b->run[run], '/');

    return slash && slash[1] ? slash + 1 : b->run[run];
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
            sample(t, job[k].name, name_of(b, i),
                   ct_json_get(job[k].source == NORMS ? l[i].norms
                                                      : l[i].iteration,
                               job[k].key));
    }
}

static void add_tests(struct ct_board *b, const struct latest *l,
                      struct ct_text *t)
{
    add_help(t, "cortado_test_output", "gauge",
             "Mean of an output over the latest test.");
    for (int i = 0; i < b->n_runs; i++) {
        const struct ct_json *o = ct_json_get(l[i].test, "outputs");
        char net[16];

        snprintf(net, sizeof(net), "%.0f",
                 ct_json_number(ct_json_get(l[i].test, "net"), 0));
        for (o = o ? o->child : NULL; o; o = o->next) {
            ct_text_add(t, "cortado_test_output{");
            add_label(t, "run", name_of(b, i));
            ct_text_add(t, ",");
            add_label(t, "net", net);
            ct_text_add(t, ",");
            add_label(t, "output", o->key);
            ct_text_add(t, "}");
            add_value(t, ct_json_number(o, (double)NAN));
        }
    }
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
      "Temperature of the rank's GPU; 0 where it is not known.",
      "temperature" },
    { "cortado_rank_lost", "gauge", "1 when the rank has died.", "gone" },
};

static void add_ranks(struct ct_board *b, const struct latest *l,
                      struct ct_text *t)
{
    for (size_t k = 0; k < sizeof(rank) / sizeof(rank[0]); k++) {
        add_help(t, rank[k].name, rank[k].type, rank[k].help);
        for (int i = 0; i < b->n_runs; i++) {
            const struct ct_json *v = ct_json_get(l[i].ranks, rank[k].key);
            int r                   = 0;

            for (v = v ? v->child : NULL; v; v = v->next) {
                ct_text_addf(t, "%s{", rank[k].name);
                add_label(t, "run", name_of(b, i));
                ct_text_addf(t, ",rank=\"%d\"}", r++);
                add_value(t, ct_json_number(v, (double)NAN));
            }
        }
    }
}

void board_metrics(struct ct_board *b, struct ct_text *out)
{
    struct latest *l = NULL;

    if (ct_alloc((size_t)b->n_runs + 1, sizeof(*l), "metrics", &l) != CT_OK) {
        out->failed = 1;
        return;
    }
    for (int i = 0; i < b->n_runs; i++)
        l[i] = find_latest(b, i);
    add_job(b, l, out);
    add_tests(b, l, out);
    add_ranks(b, l, out);
    for (int i = 0; i < b->n_runs; i++) {
        ct_json_free(l[i].iteration);
        ct_json_free(l[i].test);
        ct_json_free(l[i].norms);
        ct_json_free(l[i].ranks);
    }
    ct_free(l);
}
