/* training_log.c - the reader, line by line, without a copy. */
#include "observe/training_log.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A number beyond that names no test net. */
enum { MOST_NETS = 1 << 20 };

/* Where the reader stands: the test net and iteration of the lines below. */
struct place {
    double iteration;
    int    net;
};

/* Passes over `word` at *p, or returns false and leaves *p alone. */
static bool skip(const char **p, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*p, word, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Where `word` begins between p and end, or NULL; a number may have led p
 * beyond the end of its line. */
static const char *find(const char *p, const char *end, const char *word)
{
    size_t n = strlen(word);

    for (; p < end && (size_t)(end - p) >= n; p++)
        if (*p == *word && strncmp(p, word, n) == 0)
            return p;
    return NULL;
}

static bool number(const char **p, double *out)
{
    char *end;

    *out = strtod(*p, &end);
    if (end == *p)
        return false;
    *p = end;
    return true;
}

static struct ct_curve *curve_find(struct ct_training_log *log,
                                   enum ct_curve_kind kind, const char *name)
{
    struct ct_curve *c;

    for (int i = 0; i < log->n_curves; i++)
        if (log->curve[i].kind == kind && !strcmp(log->curve[i].name, name))
            return &log->curve[i];
    if (log->n_curves == CT_LOG_MAX_CURVES)
        return NULL;
    c  = &log->curve[log->n_curves++];
    *c = (struct ct_curve){ .kind = kind };
    snprintf(c->name, sizeof(c->name), "%s", name);
    return c;
}

static enum ct_status curve_add(struct ct_curve *c, double x, double y)
{
    if (!isfinite(y))
        return CT_OK; /* a gap in the line; the log itself shows the value */
    while (c->n && c->x[c->n - 1] >= x)
        c->n--;
    if (c->n == c->capacity) {
        size_t more = c->capacity ? 2 * c->capacity : 64;
        double *nx  = ct_realloc(c->x, more * sizeof(*nx), "curve x");
        double *ny;

        if (!nx)
            return CT_ENOMEM;
        c->x = nx;
        ny   = ct_realloc(c->y, more * sizeof(*ny), "curve y");
        if (!ny)
            return CT_ENOMEM;
        c->y        = ny;
        c->capacity = more;
    }
    c->x[c->n]   = x;
    c->y[c->n++] = y;
    return CT_OK;
}

/* "Iteration N ...": the loss of the training net, or a test that begins. */
static enum ct_status read_iteration(struct ct_training_log *log,
                                     struct place *at, const char *p,
                                     const char *end)
{
    const char *loss;
    struct ct_curve *c;
    double iteration, value;

    if (!number(&p, &iteration))
        return CT_OK;
    at->iteration = iteration;
    if (skip(&p, ", Testing net (#")) {
        if (number(&p, &value) && value >= 0 && value < MOST_NETS)
            at->net = (int)value;
        return CT_OK;
    }
    loss = find(p, end, ", loss = ");
    if (!loss)
        return CT_OK;
    loss += strlen(", loss = ");
    if (!number(&loss, &value))
        return CT_OK;
    c = curve_find(log, CT_CURVE_TRAIN_LOSS, "training loss");
    return c ? curve_add(c, iteration, value) : CT_OK;
}

/* "K: NAME = VALUE" and, when it counts into the loss, "(* W = V loss)". */
static enum ct_status read_test_output(struct ct_training_log *log,
                                       const struct place *at, const char *p,
                                       const char *end)
{
    const char *name = find(p, end, ": "), *equals = find(p, end, " = ");
    enum ct_curve_kind kind = CT_CURVE_SCORE;
    struct ct_curve *c;
    char text[80];
    double value;

    if (!name || !equals || name > equals)
        return CT_OK;
    if (find(equals, end, " (* "))
        kind = CT_CURVE_TEST_LOSS;
    name += 2;
    snprintf(text, sizeof(text), "%s%.*s",
             kind == CT_CURVE_TEST_LOSS ? "test " : "", (int)(equals - name),
             name);
    if (at->net > 0) {
        size_t n = strlen(text);

        snprintf(text + n, sizeof(text) - n, " (net %d)", at->net);
    }
    equals += 3;
    if (!number(&equals, &value))
        return CT_OK;
    c = curve_find(log, kind, text);
    return c ? curve_add(c, at->iteration, value) : CT_OK;
}

enum ct_status ct_training_log_read(struct ct_training_log *log,
                                    const char *text)
{
    struct place at = { 0, 0 };

    while (*text) {
        const char *end = strchr(text, '\n'), *p;

        end = end ? end : text + strlen(text);
        p   = find(text, end, "] ");
        p   = p ? p + 2 : text;
        while (*p == ' ')
            p++;
        if (skip(&p, "Iteration "))
            CT_TRY(read_iteration(log, &at, p, end));
        else if (skip(&p, "Test net output #"))
            CT_TRY(read_test_output(log, &at, p, end));
        text = *end ? end + 1 : end;
    }
    return CT_OK;
}

enum ct_status ct_training_log_join(struct ct_training_log *log,
                                    struct ct_training_log *from,
                                    const char *name)
{
    for (int i = 0; i < from->n_curves; i++) {
        struct ct_curve *c = &from->curve[i];
        char text[sizeof(c->name)];

        snprintf(text, sizeof(text), "%s%s%.60s", name ? name : "",
                 name ? ": " : "", c->name);
        if (log->n_curves == CT_LOG_MAX_CURVES)
            return ct_fail(CT_EINVAL, "more than %d curves in one picture",
                           CT_LOG_MAX_CURVES);
        memcpy(c->name, text, sizeof(text));
        log->curve[log->n_curves++] = *c;
        c->x = c->y = NULL;
    }
    from->n_curves = 0;
    return CT_OK;
}

void ct_training_log_fini(struct ct_training_log *log)
{
    for (int i = 0; i < log->n_curves; i++) {
        ct_free(log->curve[i].x);
        ct_free(log->curve[i].y);
    }
    log->n_curves = 0;
}

const struct ct_curve *ct_training_log_find(const struct ct_training_log *log,
                                            const char *name)
{
    for (int i = 0; i < log->n_curves; i++)
        if (!strcmp(log->curve[i].name, name))
            return &log->curve[i];
    return NULL;
}
