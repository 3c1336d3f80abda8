/* draw_layout.c - boxes in rows, with few crossings.
 *
 * The way of Sugiyama, Tagawa and Toda, in four steps: a box stands one row
 * below the lowest that it reads from; an arrow over several rows gets a
 * stand-in in each row between; rows are put in order by the mean place of
 * their neighbours above and below, back and forth; then boxes move sideways
 * towards their neighbours as far as the order and the space between allow. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "observe/draw.h"

enum { SWEEPS = 24, GAP_X = 28, GAP_Y = 34, MARGIN = 24, STAND_IN = 14 };

/* A box, or the stand-in of an arrow. */
struct node {
    int    row, place; /* place: in its row */
    double x, width, key;
    int    up, down;   /* of a stand-in: its neighbours; -1 for a box */
};

struct plan {
    const struct draw_graph *graph;
    struct node *node;
    int          n;
    int        **row; /* nodes of each row, in order */
    int         *n_in_row;
    int          n_rows;
    int         *first; /* stand-ins of each arrow, one behind the other */
    int         *link;  /* pairs: upper node, lower node */
    int          n_links;
};

static enum ct_status find_rows(struct plan *p)
{
    const struct draw_graph *g = p->graph;
    bool moved                 = true;

    /* Arrows lead to later layers, so one pass would do; but in any order. */
    for (int i = 0; i < g->n_boxes && moved; i++) {
        moved = false;
        for (int a = 0; a < g->n_arrows; a++) {
            const int below = p->node[g->arrow[a].from].row + 1;

            if (p->node[g->arrow[a].to].row < below) {
                p->node[g->arrow[a].to].row = below;
                moved = true;
            }
        }
    }
    if (moved)
        return ct_fail(CT_EINVAL, "the net goes in a circle");
    /* Sources come down to who reads them first. */
    for (int b = 0; b < g->n_boxes; b++) {
        int least = -1;
        bool reads = false;

        for (int a = 0; a < g->n_arrows; a++) {
            reads |= g->arrow[a].to == b;
            if (g->arrow[a].from == b &&
                (least < 0 || p->node[g->arrow[a].to].row < least))
                least = p->node[g->arrow[a].to].row;
        }
        if (!reads && least > 0)
            p->node[b].row = least - 1;
    }
    return CT_OK;
}

static enum ct_status add_stand_ins(struct plan *p, double box_width)
{
    const struct draw_graph *g = p->graph;
    int n = g->n_boxes, k = 0;

    for (int a = 0; a < g->n_arrows; a++)
        n += p->node[g->arrow[a].to].row - p->node[g->arrow[a].from].row - 1;
    CT_TRY(ct_alloc((size_t)(n + g->n_arrows) + 1, 2 * sizeof(*p->link),
                    "drawing", &p->link));
    p->node = ct_realloc(p->node, (size_t)n * sizeof(*p->node), "drawing");
    if (!p->node)
        return CT_ENOMEM;
    for (int b = 0; b < g->n_boxes; b++)
        p->node[b].width = box_width;
    p->n = g->n_boxes;
    for (int a = 0; a < g->n_arrows; a++) {
        int above = g->arrow[a].from;

        p->first[a] = p->n;
        for (int r = p->node[above].row + 1;
             r < p->node[g->arrow[a].to].row; r++) {
            p->node[p->n] = (struct node){ .row = r, .width = STAND_IN };
            p->link[2 * k]     = above;
            p->link[2 * k++ + 1] = above = p->n++;
        }
        p->link[2 * k]       = above;
        p->link[2 * k++ + 1] = g->arrow[a].to;
    }
    p->first[g->n_arrows] = p->n;
    p->n_links            = k;
    return CT_OK;
}

static enum ct_status fill_rows(struct plan *p)
{
    for (int i = 0; i < p->n; i++)
        p->n_rows = p->node[i].row >= p->n_rows ? p->node[i].row + 1
                                                : p->n_rows;
    CT_TRY(ct_alloc((size_t)p->n_rows + 1, sizeof(*p->row), "drawing",
                    &p->row));
    CT_TRY(ct_alloc((size_t)p->n_rows + 1, sizeof(*p->n_in_row), "drawing",
                    &p->n_in_row));
    for (int i = 0; i < p->n; i++)
        p->n_in_row[p->node[i].row]++;
    for (int r = 0; r < p->n_rows; r++) {
        CT_TRY(ct_alloc((size_t)p->n_in_row[r] + 1, sizeof(**p->row),
                        "drawing", &p->row[r]));
        p->n_in_row[r] = 0;
    }
    for (int i = 0; i < p->n; i++) {
        struct node *x = &p->node[i];

        x->place = p->n_in_row[x->row]++;
        p->row[x->row][x->place] = i;
    }
    return CT_OK;
}

/* Each node's key: the mean of `value` over its neighbours above, or below;
 * its own where it has none. */
static void find_keys(struct plan *p, bool above,
                      double (*value)(const struct node *x))
{
    double *sum = NULL;
    int *n      = NULL;

    if (ct_alloc((size_t)p->n, sizeof(*sum), "drawing", &sum) == CT_OK &&
        ct_alloc((size_t)p->n, sizeof(*n), "drawing", &n) == CT_OK) {
        for (int i = 0; i < p->n_links; i++) {
            const int up = p->link[2 * i], down = p->link[2 * i + 1];

            sum[above ? down : up] += value(&p->node[above ? up : down]);
            n[above ? down : up]++;
        }
        for (int i = 0; i < p->n; i++)
            p->node[i].key = n[i] ? sum[i] / n[i] : value(&p->node[i]);
    }
    ct_free(sum);
    ct_free(n);
}

static double place_of(const struct node *x)
{
    return x->place;
}

static double x_of(const struct node *x)
{
    return x->x;
}

static int by_key(const void *a, const void *b, void *arg)
{
    const struct node *node = arg;
    const struct node *x = &node[*(const int *)a], *y = &node[*(const int *)b];

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->place - y->place;
}

static void order_rows(struct plan *p)
{
    for (int s = 0; s < SWEEPS; s++) {
        const bool down = s % 2 == 0;

        for (int k = 0; k < p->n_rows; k++) {
            const int r = down ? k : p->n_rows - 1 - k;

            find_keys(p, down, place_of);
            qsort_r(p->row[r], (size_t)p->n_in_row[r], sizeof(**p->row),
                    by_key, p->node);
            for (int i = 0; i < p->n_in_row[r]; i++)
                p->node[p->row[r][i]].place = i;
        }
    }
}

/* The least distance of the middles of two neighbours in a row. */
static double apart(const struct node *a, const struct node *b)
{
    return (a->width + b->width) / 2 + GAP_X;
}

/* Every node of a row as near to its key as the others let it: runs that
 * would overlap become one, which stands where its members want it on
 * average. */
static void settle_row(struct plan *p, int r)
{
    const int n = p->n_in_row[r];
    int begin   = 0;

    for (int i = 0; i < n; i++)
        p->node[p->row[r][i]].x = p->node[p->row[r][i]].key;
    for (int turn = 0; turn < n; turn++) {
        bool moved = false;

        for (begin = 0; begin < n;) {
            double offset = 0, sum = 0;
            int end = begin + 1;

            while (end < n) {
                const struct node *a = &p->node[p->row[r][end - 1]];
                const struct node *b = &p->node[p->row[r][end]];

                if (b->x - a->x >= apart(a, b) - 1e-6 &&
                    (b->x - a->x > apart(a, b) + 1e-6 || turn == 0))
                    break;
                moved |= b->x - a->x < apart(a, b) - 1e-6;
                end++;
            }
            for (int i = begin; i < end; i++) {
                const struct node *x = &p->node[p->row[r][i]];

                if (i > begin)
                    offset += apart(&p->node[p->row[r][i - 1]], x);
                sum += x->key - offset;
            }
            offset = sum / (end - begin);
            for (int i = begin; i < end; i++) {
                if (i > begin)
                    offset += apart(&p->node[p->row[r][i - 1]],
                                    &p->node[p->row[r][i]]);
                p->node[p->row[r][i]].x = offset;
            }
            begin = end;
        }
        if (!moved)
            return;
    }
}

static void place_nodes(struct plan *p)
{
    for (int r = 0; r < p->n_rows; r++) {
        double x = 0;

        for (int i = 0; i < p->n_in_row[r]; i++) {
            struct node *a = &p->node[p->row[r][i]];

            x += i ? apart(&p->node[p->row[r][i - 1]], a) : 0;
            a->x = x;
        }
    }
    for (int s = 0; s < SWEEPS; s++)
        for (int k = 0; k < p->n_rows; k++) {
            find_keys(p, s % 2 == 0, x_of);
            settle_row(p, s % 2 == 0 ? k : p->n_rows - 1 - k);
        }
}

static enum ct_status write_layout(const struct plan *p, double box_height,
                                   struct draw_layout *out)
{
    const struct draw_graph *g = p->graph;
    const int n_bends          = p->n - g->n_boxes;
    double low = 1e300, high = -1e300;

    CT_TRY(ct_alloc((size_t)g->n_boxes + 1, sizeof(*out->box), "drawing",
                    &out->box));
    CT_TRY(ct_alloc((size_t)n_bends + 1, sizeof(*out->bend), "drawing",
                    &out->bend));
    CT_TRY(ct_alloc((size_t)g->n_arrows + 1, sizeof(*out->first), "drawing",
                    &out->first));
    for (int i = 0; i < p->n; i++) {
        low  = fmin(low, p->node[i].x - p->node[i].width / 2);
        high = fmax(high, p->node[i].x + p->node[i].width / 2);
    }
    for (int i = 0; i < p->n; i++) {
        struct draw_point *to = i < g->n_boxes ? &out->box[i]
                                               : &out->bend[i - g->n_boxes];

        to->x = p->node[i].x - low + MARGIN;
        to->y = MARGIN + box_height / 2 +
                p->node[i].row * (box_height + GAP_Y);
    }
    for (int a = 0; a <= g->n_arrows; a++)
        out->first[a] = p->first[a] - g->n_boxes;
    out->width  = high - low + 2 * MARGIN;
    out->height = p->n_rows * (box_height + GAP_Y) - GAP_Y + 2 * MARGIN;
    return CT_OK;
}

enum ct_status draw_layout_make(const struct draw_graph *g, double box_width,
                                double box_height, struct draw_layout *out)
{
    struct plan p = { .graph = g };
    enum ct_status st;

    *out = (struct draw_layout){ 0 };
    CT_TRY_GOTO(ct_alloc((size_t)g->n_boxes + 1, sizeof(*p.node), "drawing",
                         &p.node), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)g->n_arrows + 1, sizeof(*p.first),
                         "drawing", &p.first), st, out);
    CT_TRY_GOTO(find_rows(&p), st, out);
    CT_TRY_GOTO(add_stand_ins(&p, box_width), st, out);
    CT_TRY_GOTO(fill_rows(&p), st, out);
    order_rows(&p);
    place_nodes(&p);
    st = write_layout(&p, box_height, out);
out:
    for (int r = 0; p.row && r < p.n_rows; r++)
        ct_free(p.row[r]);
    ct_free(p.row);
    ct_free(p.n_in_row);
    ct_free(p.link);
    ct_free(p.first);
    ct_free(p.node);
    return st;
}

void draw_layout_fini(struct draw_layout *l)
{
    ct_free(l->box);
    ct_free(l->bend);
    ct_free(l->first);
    *l = (struct draw_layout){ 0 };
}
