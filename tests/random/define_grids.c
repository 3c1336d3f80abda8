/* define_grids.c - definitions of losses of boxes on a grid: RegionLoss and
 * Yolov3.
 *
 * Bottom 0 has x, y, w, h, o and the classes of each anchor in each cell,
 * bottom 1 truths: label, centre, size.  What the top shows is the sum of
 * squares of the gradient; what the gradient is of is a sum of terms for each
 * box, in which the choices (which box answers for a truth, which boxes hold
 * nothing, how they overlap) are constant. */
#include <math.h>
#include <string.h>

#include "define.h"
#include "proto/params.h"

enum { MOST_ANCHORS = 8, MOST_TRUTHS = 8 };

/* A loss of either type. */
struct grid {
    bool    region, logic, rescore, bias_match;
    int64_t n, anchors, classes, height, width, truths;
    int64_t n_all;                /* anchors, of which mask has some */
    double  anchor[MOST_ANCHORS][2]; /* as parts of the image */
    int64_t mask[MOST_ANCHORS];
    double  thresh, object, no_object, of_class, coord;
    const struct tensor *truth;
};

struct box {
    double x, y, w, h;
};

static struct grid grid_of(const struct definition *d)
{
    const Caffe__RegionLossParameter *r = ct_region_loss_param(d->param);
    const Caffe__Yolov3Parameter *y     = ct_yolov3_param(d->param);
    struct grid g = { .region = strcmp(d->param->type, "RegionLoss") == 0,
                      .truth  = &d->bottom[1] };
    const float *side = g.region ? r->biases : y->biases;

    g.n       = define_dim(d->bottom, 0);
    g.height  = define_dim(d->bottom, 2);
    g.width   = define_dim(d->bottom, 3);
    g.truths  = define_count(&d->bottom[1], 1, 99) / 5;
    g.anchors = g.region ? r->num : y->num;
    g.classes = define_dim(d->bottom, 1) / g.anchors - 5;
    g.n_all   = (int64_t)(g.region ? r->n_biases : y->n_biases) / 2;
    for (int64_t a = 0; a < g.n_all; a++) {
        const double cell = g.region ? 1 : (double)y->anchors_scale;

        g.anchor[a][0] = (double)side[2 * a] / ((double)g.width * cell);
        g.anchor[a][1] = (double)side[2 * a + 1] / ((double)g.height * cell);
    }
    for (int64_t a = 0; a < g.anchors; a++)
        g.mask[a] = g.region ? a : (int64_t)y->mask[a];
    g.logic      = !g.region && y->use_logic_gradient;
    g.rescore    = g.region && r->rescore;
    g.bias_match = !g.region || r->bias_match;
    g.thresh     = (double)(g.region ? r->thresh : y->thresh);
    g.object     = g.region ? (double)r->object_scale
                   : g.logic ? (double)y->object_scale : 1;
    g.no_object  = g.region ? (double)r->noobject_scale : 1;
    g.of_class   = (double)(g.region ? r->class_scale : y->class_scale);
    g.coord      = (double)(g.region ? r->coord_scale : y->coord_scale);
    return g;
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* Value k of anchor a in a cell of image b. */
static int64_t at(const struct grid *g, int64_t b, int64_t a, int64_t k,
                  int64_t cell)
{
    return ((b * g->anchors + a) * (5 + g->classes) + k) * g->height *
               g->width + cell;
}

static struct box predicted(const struct grid *g, const double *x, int64_t b,
                            int64_t a, int64_t cell)
{
    const double *side = g->anchor[g->mask[a]];

    return (struct box){
        ((double)(cell % g->width) + logistic(x[at(g, b, a, 0, cell)])) /
            (double)g->width,
        ((double)(cell / g->width) + logistic(x[at(g, b, a, 1, cell)])) /
            (double)g->height,
        exp(x[at(g, b, a, 2, cell)]) * side[0],
        exp(x[at(g, b, a, 3, cell)]) * side[1],
    };
}

static double overlap(struct box a, struct box b)
{
    const double w = fmin(a.x + a.w / 2, b.x + b.w / 2) -
                     fmax(a.x - a.w / 2, b.x - b.w / 2);
    const double h = fmin(a.y + a.h / 2, b.y + b.h / 2) -
                     fmax(a.y - a.h / 2, b.y - b.h / 2);

    return w <= 0 || h <= 0 ? 0 : w * h / (a.w * a.h + b.w * b.h - w * h);
}

/* Truths of image b; returns how many there are before one without a size. */
static int64_t truths_of(const struct grid *g, int64_t b,
                         struct box out[MOST_TRUTHS])
{
    int64_t n = 0;

    for (; n < g->truths && n < MOST_TRUTHS; n++) {
        const double *v = g->truth->v + (b * g->truths + n) * 5;

        if (!(v[3] > 0 && v[4] > 0))
            break;
        out[n] = (struct box){ v[1], v[2], v[3], v[4] };
    }
    return n;
}

static int64_t cell_of(const struct grid *g, struct box t)
{
    return (int64_t)floor(t.y * (double)g->height) * g->width +
           (int64_t)floor(t.x * (double)g->width);
}

/* The anchor that answers for a truth; -1: none of this layer. */
static int64_t owner(const struct grid *g, const double *x, int64_t b,
                     struct box truth)
{
    const int64_t cell = cell_of(g, truth);
    int64_t found = g->region ? 0 : -1;
    double best = 0;

    for (int64_t k = 0; k < g->n_all; k++) {
        struct box is = { 0, 0, g->anchor[k][0], g->anchor[k][1] };
        const struct box like = { 0, 0, truth.w, truth.h };
        int64_t mine = -1;

        for (int64_t a = 0; a < g->anchors; a++)
            mine = g->mask[a] == k ? a : mine;
        if (!g->bias_match) {
            is   = predicted(g, x, b, mine, cell);
            is.x = is.y = 0;
        }
        if (overlap(is, like) > best) {
            best  = overlap(is, like);
            found = mine;
        }
    }
    return found;
}

/* Whether no truth overlaps this box enough: it is to say so. */
static bool is_empty(const struct grid *g, const double *x, int64_t b,
                     int64_t a, int64_t cell)
{
    struct box t[MOST_TRUTHS];
    const int64_t n = truths_of(g, b, t);
    bool empty = true;

    for (int64_t i = 0; i < n; i++)
        empty = empty &&
                overlap(predicted(g, x, b, a, cell), t[i]) <= g->thresh;
    return empty;
}

/* What one box is asked for. */
struct asked {
    bool   object, coords;
    double o, o_weight;             /* what `o` should be, and how much */
    double place[4], weight;        /* x, y, w, h */
    int64_t label;                  /* RegionLoss; -1: none */
    bool   is_class[64], any_class; /* Yolov3: which classes should be 1 */
};

static void ask_place(const struct grid *g, struct asked *q, struct box t,
                      int64_t a, int64_t cell, double weight)
{
    const double *side = g->anchor[g->mask[a]];

    q->coords   = true;
    q->weight   = weight;
    q->place[0] = t.x * (double)g->width - (double)(cell % g->width);
    q->place[1] = t.y * (double)g->height - (double)(cell / g->width);
    q->place[2] = log(t.w / side[0]);
    q->place[3] = log(t.h / side[1]);
}

/* By the choices that the bottom `seen` leads to. */
static struct asked ask(const struct grid *g, const double *seen, int64_t b,
                        int64_t a, int64_t cell)
{
    struct asked q = { .label = -1 };
    struct box t[MOST_TRUTHS];
    const int64_t n = truths_of(g, b, t);

    if (is_empty(g, seen, b, a, cell)) {
        q.object   = true;
        q.o_weight = g->no_object;
    }
    if (g->region) { /* few samples have been seen: boxes are like anchors */
        const struct box like = {
            ((double)(cell % g->width) + 0.5) / (double)g->width,
            ((double)(cell / g->width) + 0.5) / (double)g->height,
            g->anchor[a][0], g->anchor[a][1]
        };

        ask_place(g, &q, like, a, cell, 0.01);
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t label = (int64_t)g->truth->v[(b * g->truths + i) * 5];

        if (cell_of(g, t[i]) != cell || owner(g, seen, b, t[i]) != a)
            continue;
        ask_place(g, &q, t[i], a, cell,
                  g->coord * (g->rescore ? 1 : 2 - t[i].w * t[i].h));
        q.object   = true;
        q.o_weight = g->object;
        q.o = g->rescore ? overlap(predicted(g, seen, b, a, cell), t[i]) : 1;
        q.label           = label;
        q.is_class[label] = q.any_class = true;
    }
    return q;
}

/* A term of one value: by how much it counts, its gradient by x, and the
 * gradient that the top shows. */
struct term {
    double loss, shown;
};

/* (s - t)^2 / 2 of a logistic function s of x, or its cross entropy. */
static struct term of_logistic(const struct grid *g, double x, double t,
                               double weight)
{
    const double s = logistic(x), off = weight * (s - t);

    if (g->region)
        return (struct term){ off * (s - t) / 2, off * s * (1 - s) };
    if (g->logic)
        return (struct term){ off * (s - t) / 2, off };
    return (struct term){ weight * (log(1 + exp(x)) - t * x), off };
}

static struct term of_class(const struct grid *g, const struct asked *q,
                            const double *x, int64_t step, int64_t k)
{
    double all = 0;

    if (!g->region)
        return of_logistic(g, x[k * step], q->is_class[k], g->of_class);
    for (int64_t j = 0; j < g->classes; j++)
        all += exp(x[j * step] - x[k * step]);
    return (struct term){ k == q->label ? g->of_class * log(all) : 0,
                          g->of_class * (1 / all - (k == q->label)) };
}

static void add(struct term t, double *loss, double *shown)
{
    *loss += t.loss;
    *shown += t.shown * t.shown;
}

/* All terms of one box. */
static void add_box(const struct grid *g, const struct asked *q,
                    const double *x, int64_t step, double *loss, double *shown)
{
    for (int k = 0; k < 4 && q->coords; k++) {
        const double v = x[k * step], off = q->weight * (v - q->place[k]);

        add(k < 2 ? of_logistic(g, v, q->place[k], q->weight)
                  : (struct term){ off * (v - q->place[k]) / 2, off },
            loss, shown);
    }
    if (q->object)
        add(of_logistic(g, x[4 * step], q->o, q->o_weight), loss, shown);
    for (int64_t k = 0; k < g->classes && q->any_class; k++)
        add(of_class(g, q, x + 5 * step, step, k), loss, shown);
}

static void grid_loss(const struct definition *d)
{
    const struct grid g = grid_of(d);
    const int64_t cells = g.height * g.width;
    double loss = 0, shown = 0;

    for (int64_t i = 0; i < g.n * g.anchors * cells; i++) {
        const int64_t b = i / cells / g.anchors, a = i / cells % g.anchors;
        const struct asked q = ask(&g, d->seen_bottom->v, b, a, i % cells);

        add_box(&g, &q, d->bottom->v + at(&g, b, a, 0, i % cells), cells,
                &loss, &shown);
    }
    *d->minimised = loss / (double)g.n;
    d->top->v[0]  = shown / (double)g.n;
}

int64_t define_grid_choice(const struct definition *d, int *out)
{
    const struct grid g = grid_of(d);
    const int64_t cells = g.height * g.width;
    int64_t n = 0;

    for (int64_t b = 0; b < g.n; b++) {
        struct box t[MOST_TRUTHS];
        const int64_t n_truths = truths_of(&g, b, t);

        for (int64_t i = 0; i < n_truths; i++) {
            out[n++] = (int)cell_of(&g, t[i]);
            out[n++] = (int)owner(&g, d->bottom->v, b, t[i]);
        }
        for (int64_t i = 0; i < g.anchors * cells; i++)
            out[n++] = is_empty(&g, d->bottom->v, b, i / cells, i % cells);
    }
    return n;
}

const struct define_entry define_grids[] = {
    { "RegionLoss", grid_loss },
    { "Yolov3", grid_loss },
    { NULL, NULL },
};
