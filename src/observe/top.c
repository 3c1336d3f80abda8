/* top.c - a run folder as a table of ranks. */
#include "observe/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "observe/json.h"
#include "observe/run_folder.h"

enum { TAIL_BYTES = 4 << 20 };

struct top {
    struct ct_json *run, *iteration, *ranks; /* iteration, ranks: or NULL */
    int            *order; /* of ranks */
    int             n;
};

static enum ct_status read_json(const char *folder, const char *name,
                                struct ct_json **out)
{
    struct ct_text path = { 0 };
    char *text          = NULL;
    size_t n_bytes;
    enum ct_status st;

    ct_text_addf(&path, "%s/%s", folder, name);
    st = path.failed ? CT_ENOMEM : ct_file_read(path.s, &text, &n_bytes);
    if (st == CT_OK)
        st = ct_json_parse(text, n_bytes, path.s, out);
    ct_free(text);
    ct_text_fini(&path);
    return st;
}

/* The end of a file that grows: whole lines only; NULL: there is none. */
static char *read_tail(const char *folder, const char *name)
{
    struct ct_text path = { 0 };
    char *text          = NULL, *end;
    FILE *f;
    long size;
    size_t n;

    ct_text_addf(&path, "%s/%s", folder, name);
    f = path.failed ? NULL : fopen(path.s, "re");
    ct_text_fini(&path);
    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0) {
        const long from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;

        text = ct_malloc((size_t)(size - from) + 1, "top");
        if (text && fseek(f, from, SEEK_SET) == 0) {
            n       = fread(text, 1, (size_t)(size - from), f);
            text[n] = '\0';
            end     = strrchr(text, '\n');
            *(end ? end : text) = '\0';
        }
    }
    fclose(f);
    return text;
}

/* The last line that has this word in it; NULL: none. */
static struct ct_json *last_line(const char *folder, const char *name,
                                 const char *word)
{
    char *text         = read_tail(folder, name);
    struct ct_json *j  = NULL;
    char *end          = text ? text + strlen(text) : NULL;

    while (text && end > text && !j) {
        char *line;

        *end = '\0';
        line = strrchr(text, '\n');
        line = line ? line + 1 : text;
        if (strstr(line, word) &&
            ct_json_parse(line, strlen(line), name, &j) != CT_OK)
            j = NULL; /* its begin is cut off, or it is being written */
        end = line > text ? line - 1 : text;
    }
    ct_free(text);
    return j;
}

static double number(const struct ct_json *j, const char *key, double other)
{
    return ct_json_number(ct_json_get(j, key), other);
}

static double of_rank(const struct top *t, const char *key, int r,
                      double other)
{
    return ct_json_number(ct_json_at(ct_json_get(t->ranks, key), r), other);
}

static const char *word_of_rank(const struct top *t, const char *key, int r)
{
    return ct_json_text(ct_json_at(ct_json_get(t->ranks, key), r), "-");
}

static int by_wait(const void *a, const void *b, void *arg)
{
    const int x = *(const int *)a, y = *(const int *)b;
    const double p = of_rank(arg, "wait", x, 2), q = of_rank(arg, "wait", y, 2);

    return p != q ? (p < q ? -1 : 1) : x - y;
}

/* ---- words */

static void add_time(struct ct_text *out, double seconds)
{
    const long s = seconds > 0 && seconds < 1e9 ? (long)seconds : 0;

    ct_text_addf(out, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

/* 1234567 becomes 1.2M. */
static void add_amount(struct ct_text *out, double v, int width)
{
    static const char units[] = " kMGT";
    char text[32];
    int u = 0;

    while (v >= 999.5 && u < 4) {
        v /= 1000;
        u++;
    }
    snprintf(text, sizeof(text), u && v < 9.95 ? "%.1f%.*s" : "%.0f%.*s", v,
             u || width, &units[u]); /* a column has a place for the unit */
    ct_text_addf(out, "%*s", width, text);
}

static void add_head(const struct top *t, const char *folder, double now,
                     bool running, struct ct_text *out)
{
    const char *status = ct_json_text(ct_json_get(t->run, "status"), "?");
    const struct ct_json *i = t->iteration;

    ct_text_addf(out, "%s: %s, %d rank(s), since ", folder,
                 running || strcmp(status, "running") != 0 ? status
                                                           : "killed", t->n);
    add_time(out, now - number(t->run, "started", now));
    ct_text_add(out, "\n");
    if (i) {
        ct_text_addf(out, "iteration %.0f of %.0f  loss %.4g  rate %.3g  ",
                     number(i, "iter", 0), number(t->run, "max_iter", 0),
                     number(i, "smoothed", 0), number(i, "rate", 0));
        add_amount(out, number(i, "samples_per_second", 0), 0);
        ct_text_add(out, " samples/s  ");
        add_time(out, number(i, "seconds_left", 0));
        ct_text_add(out, " left\n");
    } else {
        ct_text_add(out, "no iteration yet\n");
    }
    ct_text_add(out, "\n  rank  host              iteration   it/s  wait  "
                     "sent/s  memory  at\n");
}

static const struct ct_json *card_of(const struct top *t, int r)
{
    return ct_json_at(ct_json_get(t->run, "ranks"), r);
}

static void add_row(const struct top *t, int r, struct ct_text *out)
{
    const int whom = (int)of_rank(t, "waiting_for", r, -1);

    ct_text_addf(out, "%6d  %-16.16s  %9.0f %6.1f %4.0f%%  ", r,
                 ct_json_text(ct_json_get(card_of(t, r), "host"), "-"),
                 of_rank(t, "iter", r, 0),
                 of_rank(t, "iterations_per_second", r, 0),
                 100 * of_rank(t, "wait", r, 0));
    add_amount(out, of_rank(t, "sent_per_second", r, 0), 6);
    add_amount(out, of_rank(t, "memory", r, 0), 8);
    if (of_rank(t, "gone", r, 0) > 0)
        ct_text_add(out, "  GONE");
    else
        ct_text_addf(out, "  %s%s%s", word_of_rank(t, "phase", r),
                     word_of_rank(t, "layer", r)[0] ? " " : "",
                     word_of_rank(t, "layer", r));
    if (of_rank(t, "waiting", r, 0) >= 1)
        ct_text_addf(out, ", waits %.0f s for %s%d",
                     of_rank(t, "waiting", r, 0), whom < 0 ? "all" : "rank ",
                     whom);
    ct_text_add(out, "\n");
}

static void add_rows(const struct top *t, int most, struct ct_text *out)
{
    if (!t->ranks) {
        ct_text_add(out, "  nothing is known of the ranks yet\n");
        return;
    }
    for (int i = 0; i < t->n && i < most; i++)
        add_row(t, t->order[i], out);
    if (t->n > most)
        ct_text_addf(out, "  ... and %d more; those that wait least, for whom "
                     "the others wait, stand first\n", t->n - most);
}

static enum ct_status read_top(const char *folder, int most, struct top *t)
{
    const struct ct_json *list;

    CT_TRY(read_json(folder, "run.json", &t->run));
    t->iteration = last_line(folder, "series.jsonl",
                             "\"kind\":\"iteration\"");
    if (read_json(folder, "ranks_now.json", &t->ranks) != CT_OK)
        t->ranks = NULL; /* not yet */
    list         = ct_json_get(t->run, "ranks");
    t->n         = list && list->kind == CT_JSON_LIST ? list->n : 0;
    CT_TRY(ct_alloc((size_t)t->n + 1, sizeof(*t->order), "top", &t->order));
    for (int r = 0; r < t->n; r++)
        t->order[r] = r;
    if (t->n > most && t->ranks)
        qsort_r(t->order, (size_t)t->n, sizeof(*t->order), by_wait, t);
    return CT_OK;
}

enum ct_status ct_top(const char *folder, int most, double now,
                      struct ct_text *out, bool *running)
{
    struct top t      = { 0 };
    enum ct_status st = read_top(folder, most, &t);

    if (st == CT_OK) {
        *running = strcmp(ct_json_text(ct_json_get(t.run, "status"), ""),
                          "running") == 0 &&
                   ct_run_is_alive(folder, now);
        add_head(&t, folder, now, *running, out);
        add_rows(&t, most, out);
        st = out->failed ? CT_ENOMEM : CT_OK;
    }
    ct_json_free(t.run);
    ct_json_free(t.iteration);
    ct_json_free(t.ranks);
    ct_free(t.order);
    return st;
}
