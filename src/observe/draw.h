/* draw.h - nets as pictures.
 *
 * Layers become boxes, from the data at the top to the losses below; an arrow
 * is a blob.  Nothing is built, so data need not be there. */
#ifndef CT_OBSERVE_DRAW_H
#define CT_OBSERVE_DRAW_H

#include "base/text.h"
#include "cortado/proto.h"

/* A net as boxes and arrows. */
struct draw_box {
    const char *name, *type; /* of the layer; borrowed */
    char        detail[64];  /* "64 outputs, 3x3" or empty */
};
struct draw_arrow {
    int         from, to;
    const char *blob; /* borrowed */
};
struct draw_graph {
    struct draw_box   *box;
    struct draw_arrow *arrow;
    int                n_boxes, n_arrows;
};

/* Out of a net's layers as they stand.  Everything points into `net`; the
 * caller frees `out` either way.  A bottom that no layer makes is refused. */
CT_MUST_CHECK enum ct_status draw_graph_make(const Caffe__NetParameter *net,
                                             struct draw_graph *out);
void draw_graph_fini(struct draw_graph *g);

/* Where the boxes go: their middles, and the bends of arrows. */
struct draw_point {
    double x, y;
};
struct draw_layout {
    struct draw_point *box;   /* one per box; owned */
    struct draw_point *bend;  /* of all arrows; owned */
    int               *first; /* per arrow, its bends; one more; owned */
    double             width, height;
};
/* draw_layout.c: boxes of one size, in rows, with few crossings. */
CT_MUST_CHECK enum ct_status draw_layout_make(const struct draw_graph *g,
                                              double box_width,
                                              double box_height,
                                              struct draw_layout *out);
void draw_layout_fini(struct draw_layout *l);

/* An SVG by our own layout.  `svg` starts empty; the caller frees it. */
CT_MUST_CHECK enum ct_status ct_draw_net(const Caffe__NetParameter *net,
                                         struct ct_text *svg);
/* The same in Graphviz's language. */
CT_MUST_CHECK enum ct_status ct_draw_dot(const Caffe__NetParameter *net,
                                         struct ct_text *dot);
/* render.c: Graphviz's library makes an SVG of it.  CT_ENOTSUP: it is not on
 * this machine. */
CT_MUST_CHECK enum ct_status ct_render_dot(const struct ct_text *dot,
                                           struct ct_text *svg);
/* render.c: an SVG as a PNG file, by librsvg.  CT_ENOTSUP: it is not on this
 * machine. */
CT_MUST_CHECK enum ct_status ct_render_png(const struct ct_text *svg,
                                           const char *path);

#endif
