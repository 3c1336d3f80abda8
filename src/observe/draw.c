/* draw.c - a net's boxes and arrows, and both as SVG or in Graphviz's
 * language. */
#include "observe/draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { BOX_WIDTH = 200, BOX_HEIGHT = 46, ROUND = 7 };

/* ---- boxes and arrows */

static unsigned size_of(size_t n, const uint32_t *list, unsigned other)
{
    return n ? list[0] : other;
}

static void detail_of(const Caffe__LayerParameter *l, char *out, size_t bytes)
{
    const Caffe__ConvolutionParameter *c = l->convolution_param;
    const Caffe__PoolingParameter *p     = l->pooling_param;

    if (c) {
        const unsigned h = c->has_kernel_h
                               ? c->kernel_h
                               : size_of(c->n_kernel_size, c->kernel_size, 0);
        const unsigned w = c->has_kernel_w ? c->kernel_w : h;
        const unsigned s = c->has_stride_h
                               ? c->stride_h
                               : size_of(c->n_stride, c->stride, 1);

        if (s > 1)
            snprintf(out, bytes, "%u x %ux%u, stride %u", c->num_output, h, w,
                     s);
        else
            snprintf(out, bytes, "%u x %ux%u", c->num_output, h, w);
    } else if (p && p->global_pooling) {
        snprintf(out, bytes, "whole image");
    } else if (p) {
        const unsigned h = p->has_kernel_h ? p->kernel_h : p->kernel_size;
        const unsigned w = p->has_kernel_w ? p->kernel_w : h;

        snprintf(out, bytes, "%s %ux%u, stride %u",
                 p->pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE
                     ? "mean" : "max", h, w,
                 p->has_stride_h ? p->stride_h : p->stride);
    } else if (l->inner_product_param) {
        snprintf(out, bytes, "%u outputs",
                 l->inner_product_param->num_output);
    } else if (l->dropout_param) {
        snprintf(out, bytes, "%g", (double)l->dropout_param->dropout_ratio);
    }
}

/* The last layer before `layer` that makes the blob; -1: none. */
static int maker_of(const Caffe__NetParameter *net, size_t layer,
                    const char *blob)
{
    for (size_t i = layer; i-- > 0;)
        for (size_t t = 0; t < net->layer[i]->n_top; t++)
            if (strcmp(net->layer[i]->top[t], blob) == 0)
                return (int)i;
    return -1;
}

enum ct_status draw_graph_make(const Caffe__NetParameter *net,
                               struct draw_graph *out)
{
    size_t n = 0;

    *out = (struct draw_graph){ 0 };
    for (size_t i = 0; i < net->n_layer; i++)
        n += net->layer[i]->n_bottom;
    if (net->n_layer == 0)
        return ct_fail(CT_EINVAL, "the net has no layers to draw");
    CT_TRY(ct_alloc(net->n_layer, sizeof(*out->box), "drawing", &out->box));
    CT_TRY(ct_alloc(n + 1, sizeof(*out->arrow), "drawing", &out->arrow));
    for (size_t i = 0; i < net->n_layer; i++) {
        const Caffe__LayerParameter *l = net->layer[i];
        struct draw_box *b             = &out->box[out->n_boxes++];

        b->name = l->name ? l->name : "";
        b->type = l->type ? l->type : "";
        detail_of(l, b->detail, sizeof(b->detail));
        for (size_t k = 0; k < l->n_bottom; k++) {
            const int from = maker_of(net, i, l->bottom[k]);

            if (from < 0)
                return ct_fail(CT_EINVAL, "layer %s: no layer before it makes "
                               "its bottom %s; is --phase right?", b->name,
                               l->bottom[k]);
            out->arrow[out->n_arrows++] =
                (struct draw_arrow){ from, (int)i, l->bottom[k] };
        }
    }
    return CT_OK;
}

void draw_graph_fini(struct draw_graph *g)
{
    ct_free(g->box);
    ct_free(g->arrow);
    *g = (struct draw_graph){ 0 };
}

/* By what a layer does: fill and frame. */
static const char *const *colors_of(const char *type)
{
    static const struct {
        const char *word, *color[2];
    } kinds[] = {
        { "Loss", { "#fee2e2", "#dc2626" } },
        { "Accuracy", { "#fee2e2", "#dc2626" } },
        { "Data", { "#dcfce7", "#16a34a" } },
        { "Input", { "#dcfce7", "#16a34a" } },
        { "onvolution", { "#dbeafe", "#2563eb" } },
        { "InnerProduct", { "#ede9fe", "#7c3aed" } },
        { "Pooling", { "#ffedd5", "#ea580c" } },
        { "LU", { "#fef9c3", "#ca8a04" } },
        { "Sigmoid", { "#fef9c3", "#ca8a04" } },
        { "TanH", { "#fef9c3", "#ca8a04" } },
        { "Norm", { "#e0f2fe", "#0284c7" } },
        { "LRN", { "#e0f2fe", "#0284c7" } },
        { "Scale", { "#e0f2fe", "#0284c7" } },
    };
    static const char *const other[2] = { "#f3f4f6", "#6b7280" };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(type, kinds[i].word))
            return kinds[i].color;
    return other;
}

/* ---- SVG */

/* For text and attributes; bytes that no XML may have become '?'. */
static void add_escaped(struct ct_text *t, const char *s, size_t most)
{
    const bool cut = strlen(s) > most;

    for (size_t i = 0; s[i] && i < (cut ? most - 2 : most); i++) {
        if (s[i] == '<')
            ct_text_add(t, "&lt;");
        else if (s[i] == '&')
            ct_text_add(t, "&amp;");
        else if (s[i] == '\'')
            ct_text_add(t, "&#39;");
        else
            ct_text_addf(t, "%c", (unsigned char)s[i] < 0x20 ? '?' : s[i]);
    }
    if (cut)
        ct_text_add(t, "..");
}

static void add_box(struct ct_text *t, const struct draw_box *b,
                    struct draw_point at)
{
    const char *const *color = colors_of(b->type);

    ct_text_addf(t, "<g><title>");
    add_escaped(t, b->name, 400);
    ct_text_addf(t, "</title><rect x='%.1f' y='%.1f' width='%d' height='%d' "
                 "rx='%d' fill='%s' stroke='%s'/><text class='n' x='%.1f' "
                 "y='%.1f'>", at.x - BOX_WIDTH / 2.0,
                 at.y - BOX_HEIGHT / 2.0, BOX_WIDTH, BOX_HEIGHT, ROUND,
                 color[0], color[1], at.x, at.y - 4);
    add_escaped(t, b->name, 24);
    ct_text_addf(t, "</text><text x='%.1f' y='%.1f'>", at.x, at.y + 13);
    add_escaped(t, b->type, 26);
    if (b->detail[0] && strlen(b->type) + strlen(b->detail) < 33) {
        ct_text_add(t, " ");
        add_escaped(t, b->detail, 40);
    }
    ct_text_add(t, "</text></g>\n");
}

/* From point to point in curves that start and end upright. */
static void add_arrow(struct ct_text *t, const struct draw_arrow *a,
                      const struct draw_layout *l, int number)
{
    struct draw_point at = l->box[a->from];

    at.y += BOX_HEIGHT / 2.0;
    ct_text_addf(t, "<path d='M%.1f %.1f", at.x, at.y);
    for (int i = l->first[number]; i <= l->first[number + 1]; i++) {
        struct draw_point to = i < l->first[number + 1] ? l->bend[i]
                                                        : l->box[a->to];
        double middle;

        if (i == l->first[number + 1])
            to.y -= BOX_HEIGHT / 2.0 + 5;
        middle = (at.y + to.y) / 2;
        ct_text_addf(t, "C%.1f %.1f %.1f %.1f %.1f %.1f", at.x, middle, to.x,
                     middle, to.x, to.y);
        at = to;
    }
    ct_text_add(t, "' marker-end='url(#tip)'><title>");
    add_escaped(t, a->blob, 400);
    ct_text_add(t, "</title></path>\n");
}

enum ct_status ct_draw_net(const Caffe__NetParameter *net,
                           struct ct_text *svg)
{
    struct draw_graph g;
    struct draw_layout l = { 0 };
    enum ct_status st    = draw_graph_make(net, &g);

    if (st == CT_OK)
        st = draw_layout_make(&g, BOX_WIDTH, BOX_HEIGHT, &l);
    if (st == CT_OK) {
        ct_text_addf(svg, "<svg xmlns='http://www.w3.org/2000/svg' "
                     "width='%.0f' height='%.0f' viewBox='0 0 %.0f %.0f'>\n"
                     "<style>text{font:11px 'DejaVu Sans',Helvetica,Arial,"
                     "sans-serif;fill:#374151;text-anchor:middle}"
                     ".n{font-weight:bold;font-size:12px;fill:#111827}"
                     "path{fill:none;stroke:#6b7280;stroke-width:1.3}</style>"
                     "\n<defs><marker id='tip' viewBox='0 0 8 8' refX='3' "
                     "refY='4' markerWidth='7' markerHeight='7' "
                     "orient='auto'><path d='M0 0L8 4L0 8z' "
                     "style='fill:#6b7280;stroke:none'/></marker></defs>\n"
                     "<rect width='100%%' height='100%%' fill='#ffffff'/>\n",
                     l.width, l.height, l.width, l.height);
        for (int i = 0; i < g.n_arrows; i++)
            add_arrow(svg, &g.arrow[i], &l, i);
        for (int i = 0; i < g.n_boxes; i++)
            add_box(svg, &g.box[i], l.box[i]);
        ct_text_add(svg, "</svg>\n");
        st = svg->failed ? CT_ENOMEM : CT_OK;
    }
    draw_layout_fini(&l);
    draw_graph_fini(&g);
    return st;
}

/* ---- Graphviz */

static void add_quoted(struct ct_text *t, const char *s)
{
    for (; *s; s++)
        ct_text_addf(t, *s == '"' || *s == '\\' ? "\\%c" : "%c",
                     (unsigned char)*s < 0x20 ? '?' : *s);
}

enum ct_status ct_draw_dot(const Caffe__NetParameter *net,
                           struct ct_text *dot)
{
    struct draw_graph g;
    enum ct_status st = draw_graph_make(net, &g);

    ct_text_add(dot, "digraph net {\n  node [shape=box style=\"rounded,filled"
                     "\" fontname=\"DejaVu Sans\" fontsize=11];\n");
    for (int i = 0; st == CT_OK && i < g.n_boxes; i++) {
        const char *const *color = colors_of(g.box[i].type);

        ct_text_addf(dot, "  l%d [label=\"", i);
        add_quoted(dot, g.box[i].name);
        ct_text_add(dot, "\\n");
        add_quoted(dot, g.box[i].type);
        ct_text_addf(dot, "%s%s\" fillcolor=\"%s\" color=\"%s\"];\n",
                     g.box[i].detail[0] ? "\\n" : "", g.box[i].detail,
                     color[0], color[1]);
    }
    for (int i = 0; st == CT_OK && i < g.n_arrows; i++) {
        ct_text_addf(dot, "  l%d -> l%d [tooltip=\"", g.arrow[i].from,
                     g.arrow[i].to);
        add_quoted(dot, g.arrow[i].blob);
        ct_text_add(dot, "\"];\n");
    }
    ct_text_add(dot, "}\n");
    draw_graph_fini(&g);
    return st == CT_OK && dot->failed ? CT_ENOMEM : st;
}
