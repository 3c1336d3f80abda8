/* summary.c - prints a net as a table.
 *
 *     layer   type         output        parameters   multiply-adds   memory
 *     conv1   Convolution  64 20 24 24         520         18.4 M     2.8 MB */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/net_inner.h"

enum { N_COLUMNS = 6, CELL = 96 };

struct row {
    char cell[N_COLUMNS][CELL];
};

/* Three digits and a unit: 18.4 M, 2.8 G. */
static void short_number(char *out, double v, const char *unit)
{
    static const char *const prefix[] = { "", "k", "M", "G", "T", "P" };
    int i = 0;

    while (v >= 1000 && i < 5) {
        v /= 1000;
        i++;
    }
    if (v == 0)
        snprintf(out, CELL, "-");
    else if (i == 0)
        snprintf(out, CELL, "%.0f%s%s", v, *unit ? " " : "", unit);
    else
        snprintf(out, CELL, "%.*f %s%s", v < 10 ? 2 : v < 100 ? 1 : 0, v,
                 prefix[i], unit);
}

static void with_commas(char *out, int64_t v)
{
    char digits[32];
    int n   = snprintf(digits, sizeof(digits), "%" PRId64, v);
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    if (v == 0)
        snprintf(out, CELL, "-");
}

static void shapes_cell(char *out, const struct net_layer *l)
{
    size_t used = 0;

    out[0] = '\0';
    for (int t = 0; t < l->n_top; t++) {
        const struct ct_shape *s = &l->top[t]->shape;

        if (used > CELL - 32) {
            snprintf(out + used, CELL - used, " ...");
            return;
        }
        if (t)
            used += (size_t)snprintf(out + used, CELL - used, " | ");
        if (s->n_axes == 0)
            used += (size_t)snprintf(out + used, CELL - used, "scalar");
        for (int i = 0; i < s->n_axes && used < CELL - 24; i++)
            used += (size_t)snprintf(out + used, CELL - used, "%s%" PRId64,
                                     i ? " " : "", s->dim[i]);
    }
}

struct totals {
    int64_t params;
    double  macs, bytes;
};

static void fill_row(const struct ct_net *net, int i, struct row *r,
                     struct totals *sum)
{
    const struct net_layer *l = &net->layer[i];
    struct ct_io io           = net_io(l);
    double macs = l->layer->type->macs ? l->layer->type->macs(l->layer, &io)
                                       : 0;
    double bytes   = 0;
    int64_t params = 0;

    for (int b = 0; b < l->layer->n_blob; b++) {
        const struct ct_net_param *p = &net->params[l->param_id[b]];

        if (p->layer == i && p->index == b)
            params += p->blob->count;
    }
    for (int t = 0; t < l->n_top; t++) {
        bool in_place = t < l->n_bottom && l->top_id[t] == l->bottom_id[t];

        if (!in_place && !(l->layer->type->flags & CT_LAYER_ALIAS_DATA))
            bytes += (double)l->top[t]->count * sizeof(float);
    }
    snprintf(r->cell[0], CELL, "%s", l->layer->name);
    snprintf(r->cell[1], CELL, "%s", l->layer->type->name);
    shapes_cell(r->cell[2], l);
    with_commas(r->cell[3], params);
    short_number(r->cell[4], macs, "");
    short_number(r->cell[5], bytes, "B");
    sum->params += params;
    sum->macs += macs;
    sum->bytes += bytes;
}

static void print_row(struct ct_text *t, const struct row *r, const int *width)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        bool right = c >= 3;

        ct_text_addf(t, right ? "%*s" : "%-*s", width[c], r->cell[c]);
        if (c + 1 < N_COLUMNS)
            ct_text_add(t, "  ");
    }
    while (t->n_bytes && t->s[t->n_bytes - 1] == ' ')
        t->s[--t->n_bytes] = '\0';
    ct_text_add(t, "\n");
}

static void widen(const struct row *r, int *width)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        int n = (int)strlen(r->cell[c]);

        width[c] = n > width[c] ? n : width[c];
    }
}

enum ct_status ct_net_summary(const struct ct_net *net, char **out)
{
    static const struct row head = { { "layer", "type", "output",
                                       "parameters", "multiply-adds",
                                       "memory" } };
    struct totals sum = { 0 };
    struct ct_text t  = { 0 };
    int width[N_COLUMNS] = { 0 };
    struct row r, total  = { { "total" } };
    char shared[CELL], plain[CELL];

    widen(&head, width);
    for (int i = 0; i < net->n_layer; i++) {
        fill_row(net, i, &r, &sum);
        widen(&r, width);
    }
    with_commas(total.cell[3], sum.params);
    short_number(total.cell[4], sum.macs, "");
    short_number(total.cell[5], sum.bytes, "B");
    widen(&total, width);
    print_row(&t, &head, width);
    for (int i = 0; i < net->n_layer; i++) {
        struct totals unused = { 0 };

        fill_row(net, i, &r, &unused);
        print_row(&t, &r, width);
    }
    print_row(&t, &total, width);
    short_number(shared, (double)net->activation_bytes, "B");
    short_number(plain, (double)net->unshared_bytes, "B");
    ct_text_addf(&t, "Memory required for data: %zu (%s planned by lifetime, "
                 "%s without)\n", net->activation_bytes, shared, plain);
    *out = t.s;
    return t.failed ? CT_ENOMEM : CT_OK;
}
