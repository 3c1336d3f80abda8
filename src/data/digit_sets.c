/* digit_sets.c - records from drawn digits, and databases from records. */
#include "data/digit_sets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/rng.h"
#include "data/datum.h"
#include "data/db.h"
#include "data/digits.h"
#include "data/images.h"

enum { SIDE = CT_DIGIT_SIDE, COLOR_SIDE = 32, BATCH = 1000 };

/* Two digits, alike in every second record on average. */
static void record_pair(const struct ct_digit_set *set, uint64_t index,
                        struct ct_digit_record *out)
{
    uint64_t key = ct_key(set->seed, "digit pairs");
    int first    = ct_digit_label(set->seed, 2 * index), second = first;
    uint32_t u   = ct_philox_word(key, index, 0);

    out->label = (int)(u & 1);
    if (!out->label)
        second = (first + 1 + (int)((u >> 1) % 9)) % 10;
    out->channels = 2;
    out->side     = SIDE;
    ct_digit_draw(set->seed, 2 * index, first, out->pixels);
    ct_digit_draw(set->seed, 2 * index + 1, second,
                  out->pixels + CT_DIGIT_BYTES);
}

/* Ink of one colour on paper of another, which fades from one side to the
 * other.  Ink and paper differ by at least 80 in some channel. */
static void record_color(const struct ct_digit_set *set, uint64_t index,
                         struct ct_digit_record *out)
{
    uint64_t key   = ct_key(set->seed, "digit colours");
    const int edge = (COLOR_SIDE - SIDE) / 2;
    uint8_t gray[CT_DIGIT_BYTES];
    int apart = (int)(ct_uniform(key, index, 9) * 3);

    out->channels = 3;
    out->side     = COLOR_SIDE;
    out->label    = ct_digit_label(set->seed, index);
    ct_digit_draw(set->seed, index, out->label, gray);
    for (int c = 0; c < 3; c++) {
        float paper = 200 * ct_uniform(key, index, (uint64_t)c);
        float ink   = 255 * ct_uniform(key, index, 3 + (uint64_t)c);
        float fade  = 2 * ct_uniform(key, index, 6 + (uint64_t)c) - 1;

        if (c == apart)
            ink = paper < 100 ? paper + 80 + ink / 4 : paper - 80 - ink / 16;
        for (int i = 0; i < COLOR_SIDE * COLOR_SIDE; i++) {
            int x = i % COLOR_SIDE - edge, y = i / COLOR_SIDE - edge;
            int on    = x >= 0 && x < SIDE && y >= 0 && y < SIDE;
            float a   = on ? (float)gray[y * SIDE + x] / 255 : 0;
            float far = paper + fade * (float)(x + y - SIDE);
            float v   = a * ink + (1 - a) * far;

            v = v < 0 ? 0 : v > 255 ? 255 : v;
            out->pixels[c * COLOR_SIDE * COLOR_SIDE + i] = (uint8_t)v;
        }
    }
}

void ct_digit_record(const struct ct_digit_set *set, int64_t i,
                     struct ct_digit_record *out)
{
    uint64_t index = set->first + (uint64_t)i;

    if (set->form == CT_DIGITS_PAIRS) {
        record_pair(set, index, out);
    } else if (set->form == CT_DIGITS_COLOR) {
        record_color(set, index, out);
    } else {
        out->channels = 1;
        out->side     = SIDE;
        out->label    = ct_digit_label(set->seed, index);
        ct_digit_draw(set->seed, index, out->label, out->pixels);
    }
}

static enum ct_status set_put(struct ct_db *db, int64_t i,
                              const struct ct_digit_record *r,
                              struct ct_text *bytes)
{
    struct ct_datum d = { .channels = r->channels,
                          .height   = r->side,
                          .width    = r->side,
                          .label    = r->label };
    char key[24];
    int n = snprintf(key, sizeof(key), "%08" PRId64, i);

    d.data.ptr = r->pixels;
    d.data.n   = (size_t)r->channels * (size_t)r->side * (size_t)r->side;
    CT_TRY(ct_datum_write(&d, CT_DATUM_SHAPE | CT_DATUM_LABEL, NULL, bytes));
    return ct_db_put(db, (struct ct_bytes){ key, (size_t)n },
                     (struct ct_bytes){ bytes->s, bytes->n_bytes });
}

enum ct_status ct_digit_set_write(const struct ct_digit_set *set,
                                  const char *backend, const char *path,
                                  ct_digit_progress_fn progress, void *arg)
{
    struct ct_digit_record r;
    struct ct_text bytes = { 0 };
    struct ct_db *db     = NULL;
    enum ct_status st;

    if (set->n < 1)
        return ct_fail(CT_EINVAL, "%s: a set of %" PRId64 " digits", path,
                       set->n);
    CT_TRY_GOTO(ct_db_open(backend, path, CT_DB_NEW, &db), st, out);
    for (int64_t i = 0; i < set->n; i++) {
        ct_digit_record(set, i, &r);
        CT_TRY_GOTO(set_put(db, i, &r, &bytes), st, out);
        if ((i + 1) % BATCH && i + 1 < set->n)
            continue;
        CT_TRY_GOTO(ct_db_commit(db), st, out);
        if (progress)
            progress(arg, i + 1, set->n);
    }
out:
    ct_db_close(db);
    ct_text_fini(&bytes);
    return st;
}

/* The record as an image file: planes of R, G, B become pixels of B, G, R. */
static enum ct_status image_write(const struct ct_digit_record *r,
                                  const char *path, struct ct_image *im,
                                  struct ct_text *bytes)
{
    int n = r->side * r->side;

    CT_TRY(ct_image_size(im, r->side, r->side, r->channels));
    for (int i = 0; i < n; i++)
        for (int c = 0; c < r->channels; c++)
            im->pixels[i * r->channels + c] =
                r->pixels[(r->channels - 1 - c) * n + i];
    CT_TRY(ct_image_encode(im, "png", bytes));
    return ct_file_write(path, bytes->s, bytes->n_bytes);
}

enum ct_status ct_digit_set_write_images(const struct ct_digit_set *set,
                                         const char *path,
                                         ct_digit_progress_fn progress,
                                         void *arg)
{
    struct ct_digit_record r;
    struct ct_image im   = { 0 };
    struct ct_text bytes = { 0 }, list = { 0 }, name = { 0 };
    enum ct_status st = CT_OK;

    if (set->n < 1 || set->form == CT_DIGITS_PAIRS)
        return ct_fail(CT_EINVAL, "%s: no images of such a set", path);
    if (mkdir(path, 0777) != 0)
        return ct_fail(errno == EEXIST ? CT_EEXIST : CT_EIO, "%s: %s", path,
                       strerror(errno));
    for (int64_t i = 0; i < set->n && st == CT_OK; i++) {
        ct_digit_record(set, i, &r);
        name.n_bytes = 0;
        ct_text_addf(&name, "%s/%08" PRId64 ".png", path, i);
        ct_text_addf(&list, "%08" PRId64 ".png %d\n", i, r.label);
        if (name.failed || list.failed)
            st = CT_ENOMEM;
        else
            st = image_write(&r, name.s, &im, &bytes);
        if (progress && ((i + 1) % BATCH == 0 || i + 1 == set->n))
            progress(arg, i + 1, set->n);
    }
    name.n_bytes = 0;
    ct_text_addf(&name, "%s.txt", path);
    if (st == CT_OK && !name.failed)
        st = ct_file_write(name.s, list.s, list.n_bytes);
    ct_image_fini(&im);
    ct_text_fini(&bytes);
    ct_text_fini(&list);
    ct_text_fini(&name);
    return st;
}
