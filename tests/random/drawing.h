/* drawing.h - a net while it is drawn; for the files that draw layers. */
#ifndef CT_TESTS_RANDOM_DRAWING_H
#define CT_TESTS_RANDOM_DRAWING_H

#include "base/text.h"
#include "random_draw.h"

enum { MOST_LAYERS = 64, MOST_BLOBS = 128, MOST_PARAMS = 8 };

struct spec {
    bool  given, has_lr, has_decay, permissive;
    float lr, decay;
    char  name[16]; /* empty: not shared */
};

struct piece {
    char            name[16], type[32];
    struct ct_text  text; /* of the layer, without its param specs */
    struct spec     spec[MOST_PARAMS];
    struct ct_shape shape[MOST_PARAMS];
    int             n_params;
    char            from[16]; /* its first bottom; for twins */
};

struct value {
    char            name[16];
    struct ct_shape shape;
    bool            batch;    /* axis 0 counts independent samples */
    bool            steps;    /* axis 0 counts time, axis 1 samples */
    bool            label;    /* classes, not values */
    int             readers;
};

struct drawing {
    struct stream     r;
    struct drawn     *out;
    const char       *folder;
    struct data_shape data;
    struct piece      layer[MOST_LAYERS];
    struct value      blob[MOST_BLOBS];
    int               n_layers, n_blobs, n_names;
    int               first_top; /* blobs before are not the layer's */
    bool              bottom_is_label[MOST_PARAMS]; /* of the layer at hand */
    int               n_bottoms;
    int               n_losses;
    bool              force_backward;
    bool              wide; /* channels by the sixteen */
    bool              deals_next;  /* what the layer at hand leaves of it */
    int               weighs; /* percent: its tops have loss weights */
};

/* A blob that a layer may read, or NULL.  It has `axes` axes (0: any), and
 * mostly one that nobody has read yet. */
struct value *pick(struct drawing *d, int axes);
/* One of the very shape of `like`, not `like` itself; or NULL. */
struct value *pick_like(struct drawing *d, const struct value *like);
struct value *pick_label(struct drawing *d);

/* A layer: open it, name its bottoms and tops, add its words, close it.
 * close_layer() gives false, and takes the layer back, where the net so far
 * does not build or its values leave the range. */
struct ct_text *open_layer(struct drawing *d, const char *type);
void add_bottom(struct drawing *d, struct value *b);
void add_top(struct drawing *d, bool batch);
void name_top(struct drawing *d, const char *name, bool batch);
/* A top, or the bottom itself where the type can work in place. */
void add_top_or_in_place(struct drawing *d, struct value *b);
bool close_layer(struct drawing *d);

int64_t dim(const struct value *b, int axis);
void add_filler(struct drawing *d, struct ct_text *t, const char *field);

/* kinds.c: a layer with one bottom and one top of its shape, in place or not;
 * and one whose top has another shape, samples as they were. */
bool one_to_one(struct drawing *d, const char *type, int axes,
                const char *words);
bool reshaping(struct drawing *d, const char *type, struct value *b,
               const char *words);

/* Often a ReLU behind the layer that was `drawn`, for those that do its work;
 * it has a loss weight more often than others.  Returns `drawn`. */
bool with_relu(struct drawing *d, bool drawn);

/* A kind of layer, and how often it is drawn; the last has no function. */
struct kind {
    int weight;
    bool (*draw)(struct drawing *d);
};
extern const struct kind kinds_shapes[], kinds_steps[], kinds_python[];

/* sources.c: what a net reads, before any other layer. */
bool draw_sources(struct drawing *d);
/* kinds.c: adds a layer of a random kind; false: it did not fit. */
bool draw_layer(struct drawing *d);
/* losses.c: adds a loss; names the top of one, which no layer reads, gives it
 * a weight, and closes it. */
bool draw_loss(struct drawing *d);
bool close_loss(struct drawing *d, struct ct_text *t);
/* kinds_python.c: a loss that is one. */
bool draw_python_loss(struct drawing *d);
/* losses_boxes.c: a detector with its loss, where a source has objects. */
bool can_find_boxes(struct drawing *d);
bool draw_box_loss(struct drawing *d);

#endif
