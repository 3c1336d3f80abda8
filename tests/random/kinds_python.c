/* kinds_python.c - layers of drawn_layers.py.
 *
 * Where there is no Python each has a layer of the engine in its place, so
 * that a seed gives much the same net. */
#include <stdlib.h>
#include <string.h>

#include "drawing.h"

bool draw_has_python(void)
{
    return getenv("CORTADO_RANDOM_LAYERS") != NULL;
}

/* Opens the layer; *words: what is to stand in it. */
static struct ct_text *open_python(struct drawing *d, const char *python,
                                   const char *type, const char **words)
{
    if (!draw_has_python())
        return open_layer(d, type);
    d->out->python = true;
    *words         = python;
    return open_layer(d, "Python");
}

#define MODULE(name)                                                         \
    "python_param { module: 'drawn_layers' layer: '" name "' } "

/* Whether a layer in place may overwrite b: the net does not part a Python
 * layer from it (net/part.c), so nobody may need what was there. */
static bool is_free(const struct drawing *d, const struct value *b)
{
    const char *type = d->n_layers > 0 ? d->layer[d->n_layers - 1].type : "";

    return b == &d->blob[d->n_blobs - 1] && b->readers == 0 &&
           (strcmp(type, "Convolution") == 0 ||
            strcmp(type, "InnerProduct") == 0);
}

static bool one_bottom(struct drawing *d)
{
    static const char *const python[] = { MODULE("Line"), MODULE("Square"),
                                          MODULE("Gain") };
    static const char *const type[] = { "Power", "Power", "Scale" };
    static const char *const plain[] = {
        "power_param { scale: -0.5 shift: 0.2 } ",
        "power_param { power: 2 scale: 0.8 } ",
        "scale_param { axis: 0 num_axes: 0 filler { value: 0.7 } } ",
    };
    struct value *b   = pick(d, 0);
    const int kind    = stream_below(&d->r, 3);
    const char *words = plain[kind];
    const bool free   = b && is_free(d, b);
    struct ct_text *t;

    if (!b)
        return false;
    t = open_python(d, python[kind], type[kind], &words);
    add_bottom(d, b);
    if (kind == 0 && free)
        add_top_or_in_place(d, b);
    else
        add_top(d, b->batch);
    ct_text_add(t, words);
    return close_layer(d);
}

bool draw_python_loss(struct drawing *d)
{
    struct value *a   = pick(d, 0), *b;
    const char *words = "";
    struct ct_text *t;

    if (!a || a->shape.n_axes < 2)
        return false;
    b = pick_like(d, a);
    if (!b)
        return false;
    t = open_python(d, MODULE("Distance") "loss_weight: 1 ", "EuclideanLoss",
                    &words);
    add_bottom(d, a);
    add_bottom(d, b);
    ct_text_add(t, words);
    return close_loss(d, t);
}

const struct kind kinds_python[] = {
    { 1, one_bottom },
    { 0, NULL },
};
