/* digits.c - the drawing of digit_shapes.h's paths.
 *
 *     path -> elastic field -> affine map -> fit into the page
 *          -> curve with a pen radius at every point
 *          -> ink by the distance of each (warped) pixel to the curve
 *
 * Two fields bend a digit.  A slow one moves the path's points, so that
 * points which coincide stay together and the habit of a writer shows; a
 * small one moves the pixels, which bends the strokes themselves.  How far
 * both go differs from image to image: most writers are tidy, a few are not. */
#include "data/digits.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "data/digit_shapes.h"

enum { SIDE = CT_DIGIT_SIDE, N_MODES = 4, MAX_POINTS = 512, PER_SPAN = 8 };

static const float two_pi = 6.28318530717958648f;

/* The random numbers of one image, one after the other. */
struct dice {
    uint64_t key, image, next;
};

struct vec {
    float x, y;
};

/* A smooth random displacement: a few plane waves. */
struct field {
    struct {
        struct vec wave, push;
        float      phase;
    } mode[N_MODES];
};

struct pen {
    float radius;  /* pixels */
    float soft;    /* width of the edge, pixels */
    float ink;     /* the darkest it gets, 0..1 */
    float press;   /* how much the radius follows the hand's pressure */
    float taper;   /* how much thinner the strokes end */
    float nib;     /* how much the radius depends on the direction */
    float nib_angle;
    float grain;   /* how much the paper's texture shows */
};

/* The curve in pixels; a point with `starts` has no segment before it. */
struct curve {
    struct vec at[MAX_POINTS];
    float      radius[MAX_POINTS], along[MAX_POINTS];
    bool       starts[MAX_POINTS];
    int        n;
};

static float dice_uniform(struct dice *d, float low, float high)
{
    return low + (high - low) * ct_uniform(d->key, d->image, d->next++);
}

static float dice_normal(struct dice *d, float mean, float std)
{
    float z = ct_normal(d->key, d->image, d->next++);

    /* Cut, so that no image is beyond recognition. */
    return mean + std * fmaxf(-2.5f, fminf(2.5f, z));
}

static struct field field_draw(struct dice *d, float slowest, float fastest,
                               float size)
{
    struct field f;

    for (int i = 0; i < N_MODES; i++) {
        float angle = dice_uniform(d, 0, two_pi);
        float rate  = two_pi * dice_uniform(d, slowest, fastest);

        f.mode[i].wave  = (struct vec){ rate * cosf(angle),
                                        rate * sinf(angle) };
        f.mode[i].push  = (struct vec){ dice_normal(d, 0, size),
                                        dice_normal(d, 0, size) };
        f.mode[i].phase = dice_uniform(d, 0, two_pi);
    }
    return f;
}

static struct vec field_move(const struct field *f, struct vec p)
{
    struct vec out = p;

    for (int i = 0; i < N_MODES; i++) {
        float s = sinf(f->mode[i].wave.x * p.x + f->mode[i].wave.y * p.y +
                       f->mode[i].phase);

        out.x += f->mode[i].push.x * s;
        out.y += f->mode[i].push.y * s;
    }
    return out;
}

static struct pen pen_draw(struct dice *d)
{
    float kind   = dice_uniform(d, 0, 1);
    struct pen p = { 0 };

    p.radius    = dice_uniform(d, .75f, 1.15f);
    p.soft      = dice_uniform(d, .7f, 1.2f);
    p.ink       = dice_uniform(d, .88f, 1);
    p.press     = dice_uniform(d, .05f, .25f);
    p.taper     = dice_uniform(d, 0, .4f);
    p.nib_angle = dice_uniform(d, .5f, 1.2f);
    if (kind < .3f) { /* a felt tip */
        p.radius = dice_uniform(d, 1.2f, 1.8f);
    } else if (kind < .5f) { /* a fountain pen */
        p.nib = dice_uniform(d, .3f, .6f);
        p.radius += .3f;
    } else if (kind < .65f) { /* a pencil */
        p.grain = dice_uniform(d, .2f, .5f);
        p.ink *= .85f;
    } /* a ball pen otherwise */
    return p;
}

static const struct digit_point *shape_choose(struct dice *d, int label)
{
    const struct digit_point *path = NULL;
    float left                     = dice_uniform(d, 0, 1);

    for (int i = 0; i < digit_n_shapes && (!path || left >= 0); i++) {
        if (digit_shapes[i].label != label)
            continue;
        path = digit_shapes[i].path;
        left -= digit_shapes[i].share;
    }
    return path;
}

/* The point at t in [0, 1] between b and c of a Catmull-Rom spline. */
static struct vec spline(struct vec a, struct vec b, struct vec c,
                         struct vec e, float t)
{
    float t2 = t * t, t3 = t2 * t;
    float wa = -.5f * t3 + t2 - .5f * t, wb = 1.5f * t3 - 2.5f * t2 + 1;
    float wc = -1.5f * t3 + 2 * t2 + .5f * t, we = .5f * t3 - .5f * t2;

    return (struct vec){ wa * a.x + wb * b.x + wc * c.x + we * e.x,
                         wa * a.y + wb * b.y + wc * c.y + we * e.y };
}

static void curve_add(struct curve *c, struct vec at, bool starts)
{
    if (c->n == MAX_POINTS)
        return;
    c->at[c->n]       = at;
    c->starts[c->n++] = starts;
}

/* One smooth stretch of n points; `starts` after the pen was lifted. */
static void curve_stretch(struct curve *c, const struct vec *p, int n,
                          bool starts)
{
    if (starts || c->n == 0)
        curve_add(c, p[0], true);
    for (int i = 0; i + 1 < n; i++)
        for (int k = 1; k <= PER_SPAN; k++)
            curve_add(c,
                      spline(p[i ? i - 1 : 0], p[i], p[i + 1],
                             p[i + 2 < n ? i + 2 : n - 1],
                             (float)k / PER_SPAN),
                      false);
}

/* The path as a curve in the unit box, points moved by the slow field.  Each
 * stroke after a lift is set down a little off. */
static void curve_follow(struct curve *c, const struct digit_point *path,
                         const struct field *f, struct dice *d, float loose)
{
    struct vec p[16], off = { 0, 0 };
    int n       = 0;
    bool starts = true;

    for (;; path++) {
        if (path->x >= 0) {
            struct vec at = { (float)path->x / 100 + off.x,
                              (float)path->y / 100 + off.y };

            p[n++] = field_move(f, at);
            continue;
        }
        curve_stretch(c, p, n, starts);
        if (path->x == DIGIT_END)
            return;
        starts = path->x == DIGIT_LIFT;
        p[0]   = p[n - 1];
        n      = starts ? 0 : 1;
        if (starts) {
            off.x = dice_normal(d, 0, .03f * loose);
            off.y = dice_normal(d, 0, .03f * loose);
        }
    }
}

/* Slant, turn and stretch, then fit the whole into the middle of the page:
 * with the pen's width some 20 pixels for the longer side, as MNIST has it. */
static void curve_place(struct curve *c, struct dice *d)
{
    float turn = dice_normal(d, 0, .1f), slant = dice_normal(d, .12f, .18f);
    float wide = expf(dice_normal(d, -.03f, .14f));
    float cs = cosf(turn), sn = sinf(turn);
    struct vec low = { 1e9f, 1e9f }, high = { -1e9f, -1e9f }, shift;
    float scale;

    for (int i = 0; i < c->n; i++) {
        float x = wide * (c->at[i].x - .5f) - slant * (c->at[i].y - .5f);
        float y = c->at[i].y - .5f;

        c->at[i] = (struct vec){ cs * x - sn * y, sn * x + cs * y };
        low.x    = fminf(low.x, c->at[i].x);
        low.y    = fminf(low.y, c->at[i].y);
        high.x   = fmaxf(high.x, c->at[i].x);
        high.y   = fmaxf(high.y, c->at[i].y);
    }
    scale = dice_uniform(d, 15.5f, 19);
    scale /= fmaxf(high.x - low.x, high.y - low.y);
    shift.x = dice_normal(d, SIDE / 2 - .5f, .9f);
    shift.y = dice_normal(d, SIDE / 2 - .5f, .9f);
    for (int i = 0; i < c->n; i++) {
        c->at[i].x = scale * (c->at[i].x - (low.x + high.x) / 2) + shift.x;
        c->at[i].y = scale * (c->at[i].y - (low.y + high.y) / 2) + shift.y;
    }
}

/* The pen's radius at every point: pressure comes and goes along the way,
 * ends are thinner, a nib draws broad across and thin along its edge. */
static void curve_press(struct curve *c, const struct pen *pen,
                        struct dice *d)
{
    float slow = dice_uniform(d, .1f, .25f), phase = dice_uniform(d, 0, two_pi);
    float way = 0;

    for (int i = 0; i < c->n; i++) {
        float dx = i ? c->at[i].x - c->at[i - 1].x : 0;
        float dy = i ? c->at[i].y - c->at[i - 1].y : 0;

        way         = c->starts[i] ? 0 : way + hypotf(dx, dy);
        c->along[i] = way;
    }
    for (int i = c->n - 1, end = i; i >= 0; i--) {
        float r = pen->radius, tail, angle;
        int k   = c->starts[i] && i + 1 < c->n ? i + 1 : i;

        if (i + 1 < c->n && c->starts[i + 1])
            end = i;
        tail = fminf(c->along[i] + 1, c->along[end] - c->along[i]);
        r *= 1 + pen->press * sinf(slow * c->along[i] * two_pi / 2 + phase);
        r *= 1 - pen->taper * expf(-tail / 1.5f);
        angle = k ? atan2f(c->at[k].y - c->at[k - 1].y,
                           c->at[k].x - c->at[k - 1].x)
                  : 0;
        r *= 1 - pen->nib * fabsf(cosf(angle + pen->nib_angle));
        c->radius[i] = r;
    }
}

/* How far p lies outside the stroke from point i - 1 to i; inside, below 0. */
static float stroke_distance(const struct curve *c, int i, struct vec p)
{
    struct vec a = c->at[i - 1], b = c->at[i];
    float dx = b.x - a.x, dy = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
    float length2 = dx * dx + dy * dy;
    float t       = length2 > 0 ? (px * dx + py * dy) / length2 : 0;

    t = fmaxf(0, fminf(1, t));
    return hypotf(px - t * dx, py - t * dy) -
           ((1 - t) * c->radius[i - 1] + t * c->radius[i]);
}

/* Ink on every pixel, 0..1, as the strokes near it say. */
static void page_ink(const struct curve *c, const struct pen *pen,
                     const struct field *warp, float ink[CT_DIGIT_BYTES])
{
    struct vec at[CT_DIGIT_BYTES];
    const float reach = 4;

    for (int i = 0; i < CT_DIGIT_BYTES; i++)
        at[i] = field_move(warp, (struct vec){ (float)(i % SIDE),
                                               (float)(i / SIDE) });
    memset(ink, 0, sizeof(ink[0]) * CT_DIGIT_BYTES);
    for (int i = 1; i < c->n; i++) {
        struct vec a = c->at[i - 1], b = c->at[i];
        int x0 = (int)fmaxf(0, floorf(fminf(a.x, b.x) - reach));
        int y0 = (int)fmaxf(0, floorf(fminf(a.y, b.y) - reach));
        int x1 = (int)fminf(SIDE - 1, ceilf(fmaxf(a.x, b.x) + reach));
        int y1 = (int)fminf(SIDE - 1, ceilf(fmaxf(a.y, b.y) + reach));

        if (c->starts[i])
            continue;
        for (int y = y0; y <= y1; y++)
            for (int x = x0; x <= x1; x++) {
                float *v = &ink[y * SIDE + x];
                float e  = stroke_distance(c, i, at[y * SIDE + x]);

                *v = fmaxf(*v, fmaxf(0, fminf(1, .5f - e / pen->soft)));
            }
    }
}

int ct_digit_label(uint64_t seed, uint64_t index)
{
    int order[10];
    struct dice d = { ct_key(seed, "digit labels"), index / 10, 0 };

    for (int i = 0; i < 10; i++) {
        int j = (int)(ct_uniform(d.key, d.image, d.next++) * (float)(i + 1));

        order[i] = order[j];
        order[j] = i;
    }
    return order[index % 10];
}

void ct_digit_draw(uint64_t seed, uint64_t index, int label,
                   uint8_t out[CT_DIGIT_BYTES])
{
    struct dice d = { ct_key(seed, "digit"), index, 0 };
    float loose   = expf(dice_normal(&d, 0, .35f));
    struct field slow, warp;
    struct pen pen = pen_draw(&d);
    struct curve c = { .n = 0 };
    float ink[CT_DIGIT_BYTES];

    CT_ASSERT(label >= 0 && label <= 9);
    slow = field_draw(&d, .3f, .9f, .029f * loose);
    warp = field_draw(&d, .04f, .12f, .22f);
    curve_follow(&c, shape_choose(&d, label), &slow, &d, loose);
    curve_place(&c, &d);
    curve_press(&c, &pen, &d);
    page_ink(&c, &pen, &warp, ink);
    for (int i = 0; i < CT_DIGIT_BYTES; i++) {
        float v = ink[i] * pen.ink;

        if (pen.grain > 0 && v > 0)
            v *= 1 - pen.grain * ct_uniform(d.key ^ 1, index, (uint64_t)i);
        out[i] = (uint8_t)lrintf(255 * v);
    }
}
