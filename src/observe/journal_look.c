/* journal_look.c - parameters and gradients: norms, histograms, filters.
 *
 * The thread that trains looks, because nobody else may, and the journal's
 * thread decides how often, by what the last look took.  Norms are exact;
 * histograms of large parameters are of every k-th value. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "observe/journal_inner.h"
#include "observe/json.h"
#include "observe/tfevents.h"

/* ---- room */

/* The first convolution that reads an image of one or three channels. */
static int find_filters(const struct ct_net *net)
{
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        const struct ct_shape *s     = &p->blob->shape;
        const char *type = ct_net_layer(net, p->layer)->type->name;

        if (strcmp(type, "Convolution") == 0 && p->index == 0)
            return s->n_axes == 4 && (s->dim[1] == 1 || s->dim[1] == 3) &&
                           s->dim[3] > 1 && p->blob->count <= JOURNAL_FILTERS
                       ? i
                       : -1;
    }
    return -1;
}

/* "conv1[0]"; NULL: no memory. */
static char *name_of(const struct ct_net *net, const struct ct_net_param *p)
{
    struct ct_text t = { 0 };
    char *out;

    ct_text_addf(&t, "%s[%d]", ct_net_layer(net, p->layer)->name, p->index);
    out = t.failed ? NULL : ct_strdup(t.s, "look");
    ct_text_fini(&t);
    return out;
}

enum ct_status journal_look_init(struct ct_journal *j)
{
    const struct ct_net *net  = ct_solver_net(j->solver);
    struct journal_look *look = &j->look;
    int64_t most              = 1;

    look->n_params = ct_net_n_params(net);
    CT_TRY(ct_alloc((size_t)look->n_params + 1, sizeof(*look->param), "look",
                    &look->param));
    CT_TRY(ct_alloc(JOURNAL_SAMPLE, sizeof(float), "look", &look->sample));
    for (int i = 0; i < look->n_params; i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        look->param[i].name = name_of(net, p);
        if (!look->param[i].name)
            return CT_ENOMEM;
        if (p->blob->dev->kind != CT_CPU && p->blob->count > most)
            most = p->blob->count;
    }
    if (most > 1)
        CT_TRY(ct_alloc((size_t)most, sizeof(float), "look", &look->host));
    look->filter_layer = find_filters(net);
    if (look->filter_layer >= 0)
        CT_TRY(ct_alloc(JOURNAL_FILTERS, sizeof(float), "look",
                        &look->filters));
    j->next_look = ct_now() + 1;
    return CT_OK;
}

void journal_look_fini(struct ct_journal *j)
{
    for (int i = 0; j->look.param && i < j->look.n_params; i++)
        ct_free(j->look.param[i].name);
    ct_free(j->look.param);
    ct_free(j->look.sample);
    ct_free(j->look.host);
    ct_free(j->look.filters);
    ct_text_fini(&j->look.roads);
}

/* ---- looking, on the thread that trains */

/* Values in any order; NULL: they cannot be read. */
static const float *values_of(struct journal_look *look,
                              const struct ct_blob *b, bool diff)
{
    if (b->dev->kind == CT_CPU)
        return diff ? ct_diff(b) : ct_data(b);
    return ct_blob_get(b, diff, look->host) == CT_OK ? look->host : NULL;
}

/* The norm of all values times scale; the histogram of some. */
static double measure(struct journal_look *look, const struct ct_blob *b,
                      bool diff, float scale, struct ct_histogram *h)
{
    const float *x      = values_of(look, b, diff);
    const int64_t step  = (b->count + JOURNAL_SAMPLE - 1) / JOURNAL_SAMPLE;
    double squares      = 0;
    int64_t n           = 0;

    *h = (struct ct_histogram){ 0 };
    if (!x ||
        ct_device_cpu()->ops->dot(ct_device_cpu(), b->count, x, x,
                                  &squares) != CT_OK)
        return -1;
    if (step <= 1) {
        ct_histogram_make(h, b->count, x, scale);
    } else {
        for (int64_t i = 0; i < b->count; i += step)
            look->sample[n++] = x[i];
        ct_histogram_make(h, n, look->sample, scale);
    }
    return sqrt(squares) * (double)fabsf(scale);
}

static void copy_filters(struct journal_look *look, const struct ct_net *net)
{
    const struct ct_blob *b;

    if (look->filter_layer < 0)
        return;
    b = ct_net_param(net, look->filter_layer)->blob;
    for (int i = 0; i < 4; i++)
        look->filter_shape[i] = (int)b->shape.dim[i];
    if (ct_blob_get(b, false, look->filters) != CT_OK)
        look->filter_layer = -1;
}

void journal_look_fill(struct ct_journal *j, struct ct_solver *s, int iter)
{
    struct journal_look *look = &j->look;
    const struct ct_net *net  = ct_solver_net(s);
    const double begun        = ct_now();

    look->iter = iter;
    look->time = journal_clock();
    for (int i = 0; i < look->n_params; i++) {
        struct journal_param *p = &look->param[i];
        const struct ct_blob *b = ct_net_param(net, i)->blob;
        const float scale       = ct_solver_gradient_scale(s, i);

        p->norm = measure(look, b, false, 1, &p->values);
        p->gradient_norm =
            scale > 0 ? measure(look, b, true, scale, &p->gradients) : -1;
    }
    copy_filters(look, net);
    ct_text_fini(&look->roads);
    journal_roads(j, &look->roads);
    look->seconds = ct_now() - begun + j->clocked.seconds;
}

/* ---- writing, on the journal's thread */

static void add_histogram(struct ct_text *t, const char *key,
                          const struct ct_histogram *h)
{
    const double n    = h->n ? (double)h->n : 1;
    const double mean = h->sum / n;

    ct_json_key(t, key);
    ct_text_add(t, "{");
    ct_json_field_number(t, "min", h->min);
    ct_json_field_number(t, "max", h->max);
    ct_json_field_number(t, "mean", mean);
    ct_json_field_number(t, "std",
                         sqrt(fmax(0, h->squares / n - mean * mean)));
    if (h->n_not_finite)
        ct_json_field_number(t, "not_finite", (double)h->n_not_finite);
    ct_json_key(t, "counts");
    ct_text_add(t, "[");
    for (int i = 0; i < CT_HISTOGRAM_BINS; i++) {
        ct_json_comma(t);
        ct_json_add_number(t, (double)h->count[i]);
    }
    ct_text_add(t, "]}");
}

static void add_param(struct ct_text *t, const struct journal_param *p)
{
    ct_json_comma(t);
    ct_text_add(t, "{");
    ct_json_field_string(t, "name", p->name);
    ct_json_field_number(t, "norm", p->norm);
    add_histogram(t, "values", &p->values);
    if (p->gradient_norm >= 0) {
        ct_json_field_number(t, "gradient_norm", p->gradient_norm);
        add_histogram(t, "gradients", &p->gradients);
    }
    ct_text_add(t, "}");
}

static void tf_histogram(struct ct_journal *j, const char *group,
                         const char *name, const struct ct_histogram *h)
{
    struct ct_text tag = { 0 };

    ct_text_addf(&tag, "%s/%s", group, name);
    if (!tag.failed)
        ct_tf_histogram(&j->tf.pending, j->look.time, j->look.iter, tag.s, h);
    ct_text_fini(&tag);
}

static void write_layers(struct ct_journal *j)
{
    const struct journal_look *look = &j->look;
    struct ct_text *t               = &j->layers.pending;

    ct_text_add(t, "{");
    ct_json_field_number(t, "iter", look->iter);
    ct_json_field_number(t, "time", look->time);
    ct_json_key(t, "params");
    ct_text_add(t, "[");
    for (int i = 0; i < look->n_params; i++) {
        const struct journal_param *p = &look->param[i];

        add_param(t, p);
        tf_histogram(j, "weights", p->name, &p->values);
        if (p->gradient_norm >= 0)
            tf_histogram(j, "gradients", p->name, &p->gradients);
    }
    ct_text_add(t, "]}\n");
}

static void write_norms(struct ct_journal *j)
{
    const struct journal_look *look = &j->look;
    struct ct_text *t               = &j->series.pending;
    double values = 0, gradients = 0;

    for (int i = 0; i < look->n_params; i++) {
        const struct journal_param *p = &look->param[i];

        values += p->norm * p->norm;
        gradients += p->gradient_norm > 0
                         ? p->gradient_norm * p->gradient_norm
                         : 0;
    }
    ct_text_add(t, "{");
    ct_json_field_string(t, "kind", "norms");
    ct_json_field_number(t, "iter", look->iter);
    ct_json_field_number(t, "time", look->time);
    ct_json_field_number(t, "weights", sqrt(values));
    ct_json_field_number(t, "gradients", sqrt(gradients));
    ct_json_field_number(t, "look_seconds", look->seconds);
    ct_text_add(t, "}\n");
    ct_tf_scalar(&j->tf.pending, look->time, look->iter, "norm/weights",
                 sqrt(values));
    ct_tf_scalar(&j->tf.pending, look->time, look->iter, "norm/gradients",
                 sqrt(gradients));
}

/* Bytes from 0 to 255, as hexadecimal digits; one scale for all filters. */
static enum ct_status write_filters(struct ct_journal *j)
{
    const struct journal_look *look = &j->look;
    const int *shape                = look->filter_shape;
    const int n = shape[0] * shape[1] * shape[2] * shape[3];
    struct ct_text t = { 0 };
    float low = INFINITY, high = -INFINITY;

    if (look->filter_layer < 0)
        return CT_OK;
    for (int i = 0; i < n; i++) {
        low  = fminf(low, look->filters[i]);
        high = fmaxf(high, look->filters[i]);
    }
    ct_text_add(&t, "{");
    ct_json_field_string(&t, "param", look->param[look->filter_layer].name);
    ct_json_field_number(&t, "iter", look->iter);
    ct_json_field_number(&t, "low", (double)low);
    ct_json_field_number(&t, "high", (double)high);
    ct_text_addf(&t, ",\"shape\":[%d,%d,%d,%d],\"bytes\":\"", shape[0],
                 shape[1], shape[2], shape[3]);
    for (int i = 0; i < n; i++) {
        const float v = high > low
                            ? (look->filters[i] - low) / (high - low)
                            : 0.5f;

        ct_text_addf(&t, "%02x", isfinite(v) ? (int)(255 * v + 0.5f) : 0);
    }
    ct_text_add(&t, "\"}\n");
    return ct_output_replace(j->folder, "filters.json", &t);
}

static enum ct_status write_roads(struct ct_journal *j)
{
    struct ct_text t = { 0 };

    if (!j->look.roads.n_bytes)
        return CT_OK;
    ct_text_add(&t, j->look.roads.s);
    return ct_output_replace(j->folder, "roads.json", &t);
}

enum ct_status journal_look_write(struct ct_journal *j)
{
    write_layers(j);
    write_norms(j);
    CT_TRY(write_filters(j));
    return write_roads(j);
}
