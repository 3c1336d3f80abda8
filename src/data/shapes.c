/* shapes.c - pictures of simple shapes on backgrounds. */
#include "data/shapes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/db_writer.h"
#include "data/draws.h"

enum { MOST = 4, TRIES = 50, STEP = 100 };

const char *const ct_shape_names[CT_N_SHAPES] = { "background", "disc",
                                                  "rectangle", "triangle" };

struct shape {
    int           label, x, y, w, h; /* in pixels */
    bool          flipped;           /* a triangle that stands on its tip */
    unsigned char colour[3];
};

static unsigned char to_byte(float v)
{
    return (unsigned char)(v <= 0 ? 0 : v >= 255 ? 255 : v);
}

static void draw_background(struct ct_draws *d, struct ct_image *im)
{
    const int side = im->width;
    const float slope = ct_draws_between(d, -1, 1);
    float from[3], to[3];
    int at[3], dark;

    for (int c = 0; c < 3; c++) {
        from[c] = ct_draws_between(d, 40, 160);
        to[c]   = ct_draws_between(d, 40, 160);
        at[c]   = (int)ct_draws_below(d, (uint32_t)side);
    }
    dark = (int)ct_draws_below(d, 2) ? 60 : -40;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const float f = ((float)y + slope * (float)(x - y)) / (float)side;
            const bool line = (x + 2 * y) % side == at[0] ||
                              (2 * x - y + side) % side == at[1] ||
                              y == at[2];

            for (int c = 0; c < 3; c++)
                im->pixels[(y * side + x) * 3 + c] = to_byte(
                    from[c] + (to[c] - from[c]) * f +
                    ct_draws_between(d, -12, 12) + (float)(line ? dark : 0));
        }
}

static bool covers(const struct shape *s, int x, int y)
{
    const float u = ((float)(x - s->x) + .5f) / (float)s->w * 2 - 1;
    const float v = ((float)(y - s->y) + .5f) / (float)s->h;

    if (s->label == 1)
        return u * u + (2 * v - 1) * (2 * v - 1) <= 1;
    if (s->label == 2)
        return true;
    return fabsf(u) <= (s->flipped ? 1 - v : v);
}

static void draw_shape(const struct shape *s, struct ct_draws *d,
                       struct ct_image *im)
{
    for (int y = s->y; y < s->y + s->h; y++)
        for (int x = s->x; x < s->x + s->w; x++)
            for (int c = 0; c < 3 && covers(s, x, y); c++)
                im->pixels[(y * im->width + x) * 3 + c] =
                    to_byte((float)s->colour[c] + ct_draws_between(d, -10,
                                                                   10));
}

static struct ct_bbox box_of(const struct shape *s, int side)
{
    const float by = (float)side;

    return (struct ct_bbox){ (float)s->x / by, (float)s->y / by,
                             (float)(s->x + s->w) / by,
                             (float)(s->y + s->h) / by };
}

/* Bright where one channel is high, and another one is low. */
static struct shape any_shape(struct ct_draws *d, int side)
{
    const int most    = side / 2;
    const int size    = side / 5 + (int)ct_draws_below(d, (uint32_t)(most -
                                                                side / 5));
    const float wide  = ct_draws_between(d, .75f, 1.33f);
    const int high    = (int)ct_draws_below(d, 3);
    struct shape s    = { .label = 1 + (int)ct_draws_below(d, 3) };

    s.w = (int)((float)size * sqrtf(s.label == 1 ? 1 : wide));
    s.h = (int)((float)size / sqrtf(s.label == 1 ? 1 : wide));
    s.x = (int)ct_draws_below(d, (uint32_t)(side - s.w + 1));
    s.y = (int)ct_draws_below(d, (uint32_t)(side - s.h + 1));
    s.flipped = ct_draws_below(d, 2);
    for (int c = 0; c < 3; c++)
        s.colour[c] = to_byte(ct_draws_between(d, 0, 255));
    s.colour[high]           = to_byte(ct_draws_between(d, 220, 255));
    s.colour[(high + 1) % 3] = to_byte(ct_draws_between(d, 0, 60));
    return s;
}

/* For qsort(): by label, so that a record has one group for each. */
static int by_label(const void *a, const void *b)
{
    const struct ct_object *x = a, *y = b;

    return x->label != y->label ? (x->label < y->label ? -1 : 1)
                                : x->instance - y->instance;
}

enum ct_status ct_shapes_draw(uint64_t seed, uint64_t index, int side,
                              struct ct_image *out,
                              struct ct_objects *objects)
{
    struct ct_draws d = { ct_key(seed, "shapes"), 0, (int64_t)index, 0 };
    int wanted, count[CT_N_SHAPES] = { 0 };

    CT_TRY(ct_image_size(out, side, side, 3));
    draw_background(&d, out);
    objects->n = 0;
    wanted     = 1 + (int)ct_draws_below(&d, MOST);
    for (int tries = 0; tries < TRIES && objects->n < wanted; tries++) {
        const struct shape s = any_shape(&d, side);
        struct ct_object o   = { box_of(&s, side), s.label, 0, false };
        bool free            = true;

        for (int64_t i = 0; i < objects->n; i++)
            free = free && ct_bbox_overlap(o.box, objects->at[i].box) < .05f;
        if (!free)
            continue;
        o.instance = count[s.label]++;
        draw_shape(&s, &d, out);
        CT_TRY(ct_objects_add(objects, &o));
    }
    qsort(objects->at, (size_t)objects->n, sizeof(*objects->at), by_label);
    return CT_OK;
}

/* What writing a set needs from picture to picture. */
struct writer {
    struct ct_image   image;
    struct ct_objects objects;
    struct ct_text    pixels, datum, record;
};

static void writer_fini(struct writer *w)
{
    ct_image_fini(&w->image);
    ct_objects_fini(&w->objects);
    ct_text_fini(&w->pixels);
    ct_text_fini(&w->datum);
    ct_text_fini(&w->record);
}

static enum ct_status put_picture(struct writer *w, struct ct_db_writer *db,
                                  const struct ct_shape_set *set, int64_t i)
{
    struct ct_datum datum = { .channels = 3, .height = set->side,
                              .width = set->side, .encoded = true };
    char key[32];

    CT_TRY(ct_shapes_draw(set->seed, set->first + (uint64_t)i, set->side,
                          &w->image, &w->objects));
    CT_TRY(ct_image_encode(&w->image, "png", &w->pixels));
    datum.data = (struct ct_bytes){ w->pixels.s, w->pixels.n_bytes };
    CT_TRY(ct_datum_write(&datum, CT_DATUM_SHAPE | CT_DATUM_ENCODED, NULL,
                          &w->datum));
    CT_TRY(ct_annotated_write((struct ct_bytes){ w->datum.s,
                                                 w->datum.n_bytes },
                              &w->objects, &w->record));
    snprintf(key, sizeof(key), "%08lld", (long long)i);
    return ct_db_writer_put(db, (struct ct_bytes){ key, strlen(key) },
                            (struct ct_bytes){ w->record.s,
                                               w->record.n_bytes });
}

enum ct_status ct_shape_set_write(const struct ct_shape_set *set,
                                  const char *backend, const char *path,
                                  ct_shape_progress_fn progress, void *arg)
{
    struct ct_db_writer *db = NULL;
    struct writer w         = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(ct_db_writer_create(backend, path, &db), st, out);
    for (int64_t i = 0; i < set->n; i++) {
        CT_TRY_GOTO(put_picture(&w, db, set, i), st, out);
        if (progress && ((i + 1) % STEP == 0 || i + 1 == set->n))
            progress(arg, i + 1, set->n);
    }
    st = ct_db_writer_finish(db);
out:
    ct_db_writer_destroy(db);
    writer_fini(&w);
    return st;
}

static void add_xml(struct ct_text *t, const struct ct_objects *objects,
                    const char *name, int side)
{
    const float by = (float)side;

    t->n_bytes = 0;
    ct_text_addf(t, "<annotation>\n <filename>%s</filename>\n <size><width>%d"
                 "</width><height>%d</height><depth>3</depth></size>\n", name,
                 side, side);
    for (int64_t i = 0; i < objects->n; i++) {
        const struct ct_object *o = &objects->at[i];

        ct_text_addf(t, " <object>\n  <name>%s</name>\n  <difficult>0"
                     "</difficult>\n  <bndbox><xmin>%.0f</xmin><ymin>%.0f"
                     "</ymin><xmax>%.0f</xmax><ymax>%.0f</ymax></bndbox>\n"
                     " </object>\n", ct_shape_names[o->label],
                     (double)(o->box.xmin * by), (double)(o->box.ymin * by),
                     (double)(o->box.xmax * by), (double)(o->box.ymax * by));
    }
    ct_text_add(t, "</annotation>\n");
}

static enum ct_status write_picture(struct writer *w,
                                    const struct ct_shape_set *set, int64_t i,
                                    const char *path, struct ct_text *list)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char name[4096];

    CT_TRY(ct_shapes_draw(set->seed, set->first + (uint64_t)i, set->side,
                          &w->image, &w->objects));
    CT_TRY(ct_image_encode(&w->image, "png", &w->pixels));
    snprintf(name, sizeof(name), "%s/%08lld.png", path, (long long)i);
    CT_TRY(ct_file_write(name, w->pixels.s, w->pixels.n_bytes));
    add_xml(&w->record, &w->objects, strrchr(name, '/') + 1, set->side);
    snprintf(name, sizeof(name), "%s/%08lld.xml", path, (long long)i);
    CT_TRY(ct_file_write(name, w->record.s, w->record.n_bytes));
    ct_text_addf(list, "%s/%08lld.png %s/%08lld.xml\n", base, (long long)i,
                 base, (long long)i);
    return CT_OK;
}

enum ct_status ct_shape_set_write_images(const struct ct_shape_set *set,
                                         const char *path,
                                         ct_shape_progress_fn progress,
                                         void *arg)
{
    struct ct_text list = { 0 }, name = { 0 };
    struct writer w     = { 0 };
    enum ct_status st   = CT_OK;

    if (mkdir(path, 0777) != 0)
        return ct_fail(errno == EEXIST ? CT_EEXIST : CT_EIO, "%s: %s", path,
                       strerror(errno));
    for (int64_t i = 0; i < set->n; i++) {
        CT_TRY_GOTO(write_picture(&w, set, i, path, &list), st, out);
        if (progress && ((i + 1) % STEP == 0 || i + 1 == set->n))
            progress(arg, i + 1, set->n);
    }
    ct_text_addf(&name, "%s.txt", path);
    st = list.failed || name.failed
             ? ct_fail(CT_ENOMEM, "no memory for a list")
             : ct_file_write(name.s, list.s, list.n_bytes);
out:
    ct_text_fini(&list);
    ct_text_fini(&name);
    writer_fini(&w);
    return st;
}

enum ct_status ct_shapes_label_map(struct ct_text *out)
{
    for (int i = 0; i < CT_N_SHAPES; i++)
        ct_text_addf(out, "item { name: \"%s\" label: %d display_name: \"%s\" "
                     "}\n", i ? ct_shape_names[i] : "none_of_the_above", i,
                     ct_shape_names[i]);
    return out->failed ? ct_fail(CT_ENOMEM, "no memory for a label map")
                       : CT_OK;
}
