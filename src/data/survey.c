/* survey.c - what is in a database. */
#include "data/survey.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "data/annotation.h"
#include "data/fields.h"
#include "data/sample.h"

struct work {
    struct ct_survey *s;
    bool              deep;
    int64_t           n_sized, label_room;
    struct ct_codec   codec;
    struct ct_image   image;
    struct ct_room    floats;
    struct ct_objects objects;
};

static bool folder_has(const char *path, const char *file)
{
    struct ct_text whole = { 0 };
    bool has;

    ct_text_addf(&whole, "%s/%s", path, file);
    has = !whole.failed && ct_file_exists(whole.s);
    ct_text_fini(&whole);
    return has;
}

const char *ct_survey_backend(const char *path)
{
    return folder_has(path, "data.mdb")  ? "lmdb"
           : folder_has(path, "CURRENT") ? "leveldb"
                                         : NULL;
}

static void range_add(struct ct_survey_range *r, int v, bool first)
{
    r->min = first || v < r->min ? v : r->min;
    r->max = first || v > r->max ? v : r->max;
}

/* Where `label` is, or where it belongs. */
static int64_t label_place(const struct ct_survey *s, int32_t label)
{
    int64_t from = 0, to = s->n_labels;

    while (from < to) {
        int64_t middle = (from + to) / 2;

        if (s->label[middle].label < label)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static enum ct_status label_add(struct work *w, int32_t label)
{
    struct ct_survey *s = w->s;
    int64_t at          = label_place(s, label);

    if (at < s->n_labels && s->label[at].label == label) {
        s->label[at].n++;
        return CT_OK;
    }
    if (s->n_labels == CT_SURVEY_LABELS) {
        s->more_labels = true;
        return CT_OK;
    }
    if (s->n_labels == w->label_room) {
        struct ct_survey_label *more;

        w->label_room = w->label_room ? 2 * w->label_room : 64;
        more = ct_realloc(s->label, (size_t)w->label_room * sizeof(*more),
                          "label counts");
        if (!more)
            return CT_ENOMEM;
        s->label = more;
    }
    memmove(s->label + at + 1, s->label + at,
            (size_t)(s->n_labels - at) * sizeof(*s->label));
    s->label[at] = (struct ct_survey_label){ label, 1 };
    s->n_labels++;
    return CT_OK;
}

/* The datum's size, and whether it holds what it says. */
static enum ct_status record_look(struct work *w, const struct ct_datum *d,
                                  struct ct_pixels *out)
{
    if (w->deep && d->encoded)
        return ct_datum_pixels(d, CT_IMAGE_NATIVE, &w->codec, &w->image,
                               &w->floats, out);
    return ct_datum_peek(d, CT_IMAGE_NATIVE, &w->codec, out);
}

/* A datum, or an annotated one, which begins with a message where a datum has
 * a number. */
static enum ct_status record_read(struct work *w, struct ct_bytes value,
                                  struct ct_datum *out, bool *boxes)
{
    const unsigned char *first = value.ptr;
    struct ct_annotated a;

    if (value.n == 0 || *first != (1 << 3 | CT_BYTES))
        return ct_datum_read(value, out);
    CT_TRY(ct_annotated_read(value, &a, &w->objects));
    *out   = a.datum;
    *boxes = a.has_boxes;
    return CT_OK;
}

static enum ct_status record_add(struct work *w, struct ct_bytes value)
{
    struct ct_survey *s = w->s;
    bool first          = w->n_sized == 0;
    bool boxes          = false;
    struct ct_pixels p;
    struct ct_datum d;

    CT_TRY(record_read(w, value, &d, &boxes));
    CT_TRY(record_look(w, &d, &p));
    s->n_encoded += d.encoded;
    s->n_raw += !d.encoded && d.data.n;
    s->n_float += !d.encoded && !d.data.n;
    range_add(&s->channels, p.channels, first);
    range_add(&s->height, p.height, first);
    range_add(&s->width, p.width, first);
    w->n_sized++;
    s->n_annotated += boxes;
    s->n_objects += boxes ? w->objects.n : 0;
    for (int64_t i = 0; boxes && i < w->objects.n; i++)
        CT_TRY(label_add(w, w->objects.at[i].label));
    return boxes ? CT_OK : label_add(w, d.label);
}

static enum ct_status survey_record(struct work *w, const struct ct_cursor *c)
{
    struct ct_survey *s   = w->s;
    struct ct_bytes value = ct_cursor_value(c);
    enum ct_status st     = record_add(w, value);

    ct_key_text(ct_cursor_key(c), s->last_key, sizeof(s->last_key));
    if (s->n_records < CT_SURVEY_KEYS)
        memcpy(s->first_key[s->n_records], s->last_key, sizeof(s->last_key));
    s->n_records++;
    s->n_bytes += (int64_t)value.n;
    if (st == CT_OK || st == CT_ENOMEM)
        return st;
    if (s->n_damaged++ == 0)
        snprintf(s->first_damage, sizeof(s->first_damage), "%.80s: %.170s",
                 s->last_key, ct_last_error());
    return CT_OK;
}

static enum ct_status survey_walk(struct work *w, struct ct_db *db,
                                  const struct ct_watch *watch)
{
    struct ct_cursor *c = NULL;
    enum ct_status st   = ct_cursor_create(db, &c);
    int64_t total       = 0;

    /* LevelDB would walk over everything only to say how much it is. */
    if (st == CT_OK && strcmp(w->s->backend, "lmdb") == 0)
        st = ct_db_count(db, &total);
    while (st == CT_OK && ct_cursor_valid(c)) {
        CT_TRY_GOTO(survey_record(w, c), st, out);
        CT_TRY_GOTO(ct_watch_step(watch, w->s->n_records, total), st, out);
        st = ct_cursor_next(c);
    }
    if (st != CT_OK && st != CT_ENOMEM) {
        snprintf(w->s->end, sizeof(w->s->end), "%.250s", ct_last_error());
        st = CT_OK;
    }
out:
    ct_cursor_destroy(c);
    return st;
}

enum ct_status ct_survey_db(const char *path, bool deep,
                            const struct ct_watch *watch,
                            struct ct_survey *out)
{
    struct work w    = { .s = out, .deep = deep };
    struct ct_db *db = NULL;
    enum ct_status st;

    *out         = (struct ct_survey){ 0 };
    out->backend = ct_survey_backend(path);
    if (!out->backend)
        return ct_fail(CT_ENOTFOUND, "%s is no LMDB or LevelDB database", path);
    CT_TRY(ct_db_open(out->backend, path, CT_DB_READ, &db));
    st = survey_walk(&w, db, watch);
    ct_db_close(db);
    ct_codec_fini(&w.codec);
    ct_image_fini(&w.image);
    ct_room_fini(&w.floats);
    ct_objects_fini(&w.objects);
    if (st != CT_OK)
        ct_survey_fini(out);
    return st;
}

void ct_survey_fini(struct ct_survey *s)
{
    ct_free(s->label);
    *s = (struct ct_survey){ 0 };
}
