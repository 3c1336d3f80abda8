/* plot.c - axes, lines and a legend in plain SVG, readable without scripts
 * or fonts of our own.
 *
 *     +--------------------------------------------+
 *     | title                                      |
 *     | legend                                     |
 *     | loss |                           | score   |
 *     |      |   curves                  |         |
 *     |      +---------------------------+         |
 *     |               iteration                    |
 *     +--------------------------------------------+                      */
#include "observe/plot.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH      = 860,
    HEIGHT     = 480,
    LEFT       = 76,
    RIGHT      = 786,
    TOP        = 88,
    BOTTOM     = 426,
    KEY_LEFT   = 28,
    KEY_HEIGHT = 20,
    MAX_POINTS = 700 /* of a drawn line: one a pixel is enough */
};

/* A range of values laid along a range of pixels. */
struct axis {
    double low, high, from, to;
    bool   log, percent;
};

static const char *const colors[] = { "#2563eb", "#d97706", "#059669",
                                      "#9333ea", "#dc2626", "#0891b2",
                                      "#84841d", "#db2777", "#6b7280",
                                      "#7c4a1e" };
enum { N_COLORS = sizeof(colors) / sizeof(colors[0]) };

static double axis_at(const struct axis *a, double v)
{
    double low = a->low, high = a->high;

    if (a->log) {
        low  = log10(low);
        high = log10(high);
        v    = log10(v);
    }
    return a->from + (a->to - a->from) * (v - low) / (high - low);
}

/* The step among 1, 2 and 5 times a power of ten that gives some n ticks. */
static double nice_step(double range, int n)
{
    double step = pow(10, floor(log10(range / n)));
    double left = range / n / step;

    return step * (left > 5 ? 10 : left > 2 ? 5 : left > 1 ? 2 : 1);
}

static bool on_left(const struct ct_curve *c)
{
    return c->kind != CT_CURVE_SCORE;
}

/* The values of one side; false when there are none. */
static bool axis_fit(const struct ct_training_log *log, bool left,
                     struct axis *a)
{
    double low = DBL_MAX, high = -DBL_MAX, step;

    for (int i = 0; i < log->n_curves; i++)
        for (size_t k = 0; k < log->curve[i].n; k++)
            if (on_left(&log->curve[i]) == left) {
                low  = fmin(low, log->curve[i].y[k]);
                high = fmax(high, log->curve[i].y[k]);
            }
    if (low > high)
        return false;
    a->from    = BOTTOM;
    a->to      = TOP;
    a->percent = !left && low >= 0 && high <= 1;
    a->log     = left && low > 0 && high / low > 20;
    if (a->log) {
        a->low  = low / 1.15;
        a->high = high * 1.15;
        return true;
    }
    if (left && low > 0)
        low = 0;
    if (high - low < 1e-9 * (1 + fabs(high)))
        high = low + .1;
    step    = nice_step(high - low, 5);
    a->low  = floor(low / step + 1e-9) * step;
    a->high = ceil(high / step - 1e-9) * step;
    if (a->percent) {
        a->low  = fmax(0, a->low);
        a->high = fmin(1, a->high);
    }
    return true;
}

static void axis_fit_iterations(const struct ct_training_log *log,
                                struct axis *a)
{
    *a = (struct axis){ DBL_MAX, -DBL_MAX, LEFT, RIGHT, false, false };
    for (int i = 0; i < log->n_curves; i++)
        if (log->curve[i].n) {
            a->low  = fmin(a->low, log->curve[i].x[0]);
            a->high = fmax(a->high, log->curve[i].x[log->curve[i].n - 1]);
        }
    if (a->high <= a->low)
        a->high = a->low + 1;
}

static void add_escaped(struct ct_text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            ct_text_add(t, "&lt;");
        else if (*s == '&')
            ct_text_add(t, "&amp;");
        else
            ct_text_add_bytes(t, s, 1);
    }
}

static void tick_y(struct ct_text *t, const struct axis *a, double v,
                   bool left, bool grid)
{
    double y = axis_at(a, v);

    if (!(y >= TOP - .5 && y <= BOTTOM + .5))
        return;
    if (grid)
        ct_text_addf(t, "<path class='g' d='M%d %.1fH%d'/>\n", LEFT, y,
                     RIGHT);
    ct_text_addf(t, "<text x='%d' y='%.1f' text-anchor='%s'>",
                 left ? LEFT - 8 : RIGHT + 8, y + 4, left ? "end" : "start");
    v = fabs(v) < 1e-12 ? 0 : v; /* not "-0" */
    if (a->percent)
        ct_text_addf(t, "%.4g%%", v * 100);
    else
        ct_text_addf(t, "%.4g", v);
    ct_text_add(t, "</text>\n");
}

static void ticks_y(struct ct_text *t, const struct axis *a, bool left,
                    bool grid)
{
    double step;

    if (!a->log) {
        step = nice_step(a->high - a->low, 5);
        for (double k = ceil(a->low / step - 1e-9);
             k * step <= a->high + 1e-9 * step; k++)
            tick_y(t, a, k * step, left, grid);
        return;
    }
    /* Up to two decades have their 2 and 5 labelled as well. */
    step = log10(a->high / a->low);
    for (double e = floor(log10(a->low)); e <= log10(a->high); e++) {
        double one = pow(10, e);

        tick_y(t, a, one, left, grid);
        if (step <= 2.2) {
            tick_y(t, a, 2 * one, left, grid);
            tick_y(t, a, 5 * one, left, grid);
        }
    }
}

static void tick_x(struct ct_text *t, const struct axis *a, double v)
{
    double x = axis_at(a, v);

    ct_text_addf(t,
                 "<path class='a' d='M%.1f %dv5'/>\n"
                 "<text x='%.1f' y='%d' text-anchor='middle'>%.0f</text>\n",
                 x, BOTTOM, x, BOTTOM + 20, v);
}

static void ticks_x(struct ct_text *t, const struct axis *a)
{
    double step;

    if (a->log) {
        for (double v = pow(10, ceil(log10(a->low) - 1e-9)); v <= a->high;
             v *= 10)
            tick_x(t, a, v);
        return;
    }
    step = fmax(1, nice_step(a->high - a->low, 7));
    for (double k = ceil(a->low / step); k * step <= a->high; k++)
        tick_x(t, a, k * step);
}

static void add_line(struct ct_text *t, const struct axis *ax,
                     const struct axis *ay, const double *x, const double *y,
                     size_t n, const char *style)
{
    ct_text_addf(t, "<path class='l' %s d='", style);
    for (size_t i = 0; i < n; i++)
        ct_text_addf(t, "%c%.1f %.1f", i ? 'L' : 'M', axis_at(ax, x[i]),
                     axis_at(ay, y[i]));
    ct_text_add(t, "'/>\n");
}

/* The mean of y over `width` points around each of the thinned points. */
static size_t smooth(const struct ct_curve *c, size_t width, double *x,
                     double *y)
{
    size_t n = c->n < MAX_POINTS ? c->n : MAX_POINTS;

    for (size_t i = 0; i < n; i++) {
        size_t at    = n > 1 ? i * (c->n - 1) / (n - 1) : 0;
        size_t reach = width / 2 < at ? width / 2 : at;
        size_t end   = at + reach < c->n ? at + reach : c->n - 1;
        double sum   = 0;

        /* No look ahead further than back: the steep start keeps its place. */
        for (size_t k = at - reach; k <= end; k++)
            sum += c->y[k];
        x[i] = c->x[at];
        y[i] = sum / (double)(end - (at - reach) + 1);
    }
    return n;
}

/* A curve of many points is drawn pale, with its mean as a firm line. */
static void draw_curve(struct ct_text *t, const struct ct_curve *c,
                       const struct axis *ax, const struct axis *ay,
                       const char *color)
{
    double x[MAX_POINTS], y[MAX_POINTS];
    size_t width = c->n / 40, n;
    char style[96];

    if (c->n >= 80) {
        n = smooth(c, c->n / MAX_POINTS, x, y);
        snprintf(style, sizeof(style),
                 "stroke='%s' stroke-width='1' opacity='.3'", color);
        add_line(t, ax, ay, x, y, n, style);
    } else {
        width = 0;
    }
    n = smooth(c, width, x, y);
    snprintf(style, sizeof(style), "stroke='%s'", color);
    add_line(t, ax, ay, x, y, n, style);
    if (c->n < 80)
        for (size_t i = 0; i < n && c->kind != CT_CURVE_TRAIN_LOSS; i++)
            ct_text_addf(t, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n",
                         axis_at(ax, x[i]), axis_at(ay, y[i]), color);
}

/* Where the next entry of the legend goes. */
struct key {
    double x;
    int    row;
};

/* "name  value" behind a short line in a curve's colour.  With NULL for text
 * it only makes room. */
static void add_key(struct ct_text *t, struct key *at, const char *name,
                    const char *value, const char *color)
{
    double width = 56 + 7.2 * (double)(strlen(name) + strlen(value));

    if (at->x > KEY_LEFT && at->x + width > WIDTH) {
        at->x = KEY_LEFT;
        at->row++;
    }
    if (t) {
        int y = 62 + KEY_HEIGHT * at->row;

        ct_text_addf(t,
                     "<path class='l' stroke='%s' d='M%.0f %dh20'/>\n"
                     "<text x='%.0f' y='%d'>",
                     color, at->x, y, at->x + 26, y + 4);
        add_escaped(t, name);
        ct_text_addf(t, " <tspan class='b'>%s</tspan></text>\n", value);
    }
    at->x += width;
}

/* A curve's name and its last value. */
static void draw_key(struct ct_text *t, const struct ct_curve *c,
                     struct key *at, const struct axis *ay, const char *color)
{
    double last = c->y[c->n - 1];
    char value[32];

    if (ay->percent)
        snprintf(value, sizeof(value), "%.4g%%", last * 100);
    else
        snprintf(value, sizeof(value), "%.4g", last);
    add_key(t, at, c->name, value, color);
}

static void draw_frame(struct ct_text *t, const char *title, int height)
{
    ct_text_addf(
        t,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
        "viewBox='0 0 %d %d'>\n<style>"
        "text{font:13px 'DejaVu Sans',Helvetica,Arial,sans-serif;"
        "fill:#374151}"
        ".t{font-size:17px;font-weight:bold;fill:#111827}"
        ".b{font-weight:bold;fill:#111827}"
        ".g{stroke:#e5e7eb;fill:none}.a{stroke:#9ca3af;fill:none}"
        ".l{fill:none;stroke-width:2;stroke-linejoin:round;"
        "stroke-linecap:round}</style>\n"
        "<rect width='%d' height='%d' fill='#ffffff'/>\n"
        "<text class='t' x='%d' y='34'>",
        WIDTH, height, WIDTH, height, WIDTH, height, KEY_LEFT);
    add_escaped(t, title);
    ct_text_add(t, "</text>\n");
}

static void draw_axis_names(struct ct_text *t, const char *x,
                            const char *left, const char *right,
                            const struct axis *ly)
{
    double middle = (TOP + BOTTOM) / 2.0;

    ct_text_addf(t, "<path class='a' d='M%d %dH%d'/>\n", LEFT, BOTTOM, RIGHT);
    ct_text_addf(t, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n",
                 (LEFT + RIGHT) / 2, BOTTOM + 42, x);
    if (left)
        ct_text_addf(t,
                     "<text transform='translate(24 %.0f) rotate(-90)' "
                     "text-anchor='middle'>%s%s</text>\n",
                     middle, left, ly->log ? " (logarithmic)" : "");
    if (right)
        ct_text_addf(t,
                     "<text transform='translate(%d %.0f) rotate(90)' "
                     "text-anchor='middle'>%s</text>\n",
                     WIDTH - 18, middle, right);
}

/* The curves, or without `x` the legend; both in one order and colour. */
static struct key draw_all(struct ct_text *t,
                           const struct ct_training_log *log,
                           const struct axis *x, const struct axis *left,
                           const struct axis *right)
{
    struct key key = { KEY_LEFT, 0 };
    int n          = 0;

    /* By kind, so that the training loss has one colour in all plots. */
    for (int k = 0; k < 3 * log->n_curves; k++) {
        const struct ct_curve *c = &log->curve[k % log->n_curves];
        const struct axis *y     = on_left(c) ? left : right;
        const char *color        = colors[n % N_COLORS];

        if (c->n == 0 || (int)c->kind != k / log->n_curves)
            continue;
        if (x)
            draw_curve(t, c, x, y, color);
        else
            draw_key(t, c, &key, y, color);
        n++;
    }
    return key;
}

enum ct_status ct_plot_log(const struct ct_training_log *log,
                           const char *title, struct ct_text *svg)
{
    struct axis x, left = { 0 }, right = { 0 };
    bool has_left  = axis_fit(log, true, &left);
    bool has_right = axis_fit(log, false, &right);
    int more;

    if (!has_left && !has_right)
        return ct_fail(CT_EINVAL, "no line of the log gives a loss or a test "
                                  "output: is it a training log?");
    more = KEY_HEIGHT * draw_all(NULL, log, NULL, &left, &right).row;
    axis_fit_iterations(log, &x);
    draw_frame(svg, title, HEIGHT + more);
    draw_all(svg, log, NULL, &left, &right);
    ct_text_addf(svg, "<g transform='translate(0 %d)'>\n", more);
    if (has_left)
        ticks_y(svg, &left, true, true);
    if (has_right)
        ticks_y(svg, &right, false, !has_left);
    ticks_x(svg, &x);
    draw_axis_names(svg, "iteration", has_left ? "loss" : NULL,
                    has_right ? "test score" : NULL, &left);
    draw_all(svg, log, &x, &left, &right);
    ct_text_add(svg, "</g>\n</svg>\n");
    return svg->failed ? ct_fail(CT_ENOMEM, "no memory for the plot") : CT_OK;
}

/* False when there is nothing to draw. */
static bool chart_fit(const struct ct_chart *c, struct axis *x,
                      struct axis *y)
{
    *x = (struct axis){ DBL_MAX, -DBL_MAX, LEFT, RIGHT, c->log, false };
    *y = (struct axis){ DBL_MAX, -DBL_MAX, BOTTOM, TOP, c->log, false };
    for (int k = 0; k < c->n_lines; k++)
        for (int i = 0; i < c->line[k].n; i++) {
            x->low  = fmin(x->low, c->line[k].x[i]);
            x->high = fmax(x->high, c->line[k].x[i]);
            y->low  = fmin(y->low, c->line[k].y[i]);
            y->high = fmax(y->high, c->line[k].y[i]);
        }
    if (x->low > x->high)
        return false;
    if (c->log) {
        y->low /= 1.15;
        y->high *= 1.15;
    } else {
        double step;

        y->low  = fmin(0, y->low);
        step    = nice_step(fmax(y->high - y->low, 1e-9), 5);
        y->high = ceil(y->high / step - 1e-9) * step;
    }
    if (x->high <= x->low)
        x->high = x->low * 1.15 + 1e-9;
    if (y->high <= y->low)
        y->high = y->low + 1;
    return true;
}

enum ct_status ct_plot_chart(const struct ct_chart *c, struct ct_text *svg)
{
    struct axis x, y;
    struct key key = { KEY_LEFT, 0 };
    char style[64];

    if (!chart_fit(c, &x, &y))
        return ct_fail(CT_EINVAL, "%s: there is nothing to draw", c->title);
    draw_frame(svg, c->title, HEIGHT);
    ticks_y(svg, &y, true, true);
    ticks_x(svg, &x);
    draw_axis_names(svg, c->x_name, c->y_name, NULL, &y);
    for (int k = 0; k < c->n_lines; k++) {
        const struct ct_chart_line *l = &c->line[k];

        if (l->n == 0)
            continue;
        snprintf(style, sizeof(style), "stroke='%s'", colors[k % N_COLORS]);
        add_line(svg, &x, &y, l->x, l->y, (size_t)l->n, style);
        add_key(svg, &key, l->name, "", colors[k % N_COLORS]);
    }
    ct_text_add(svg, "</svg>\n");
    return svg->failed ? ct_fail(CT_ENOMEM, "no memory for the plot") : CT_OK;
}
