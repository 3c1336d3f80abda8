/* random_data.c - the data of a drawn case: an HDF5 file with every kind of
 * blob that sources give; and images in a database, in files or in memory.
 *
 *     x, x2   rows x channels x height x width     y     rows, classes
 *     t       rows x classes, targets              v     rows x width2
 *     seq     rows x time x 5, steps               cont  rows x time, 0 or 1
 *     rois    rows x 5: an image of the batch, x1, y1, x2, y2
 *     truth   rows x 2 x 8: objects of SSD
 *     boxes   rows x 3 x 5: objects of YOLO */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/annotation.h"
#include "data/datum.h"
#include "data/db.h"
#include "data/hdf5.h"
#include "cortado/memory_data.h"
#include "cortado/net.h"
#include "random_draw.h"

enum { SEQ_WIDTH = 5 };

static void draw_values(const struct data_shape *d, uint64_t key, int64_t n,
                        float *v)
{
    (void)d;
    for (int64_t i = 0; i < n; i++)
        v[i] = 0.7f * ct_normal(key, 2, (uint64_t)i);
}

static void draw_below(uint32_t end, uint64_t key, int64_t n, float *v)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(ct_philox_word(key, 3, (uint64_t)i) % end);
}

static void draw_classes(const struct data_shape *d, uint64_t key, int64_t n,
                         float *v)
{
    draw_below((uint32_t)d->classes, key, n, v);
}

static void draw_bits(const struct data_shape *d, uint64_t key, int64_t n,
                      float *v)
{
    (void)d;
    draw_below(2, key, n, v);
}

/* Whole pixels, so that no rounding moves a corner. */
static void draw_regions(const struct data_shape *d, uint64_t key, int64_t n,
                         float *v)
{
    struct stream r = { .key = key };

    for (int64_t i = 0; i < n / 5; i++) {
        const int x = stream_below(&r, d->width);
        const int y = stream_below(&r, d->height);

        v[5 * i]     = (float)stream_below(&r, d->batch);
        v[5 * i + 1] = (float)x;
        v[5 * i + 2] = (float)y;
        v[5 * i + 3] = (float)(x + stream_below(&r, d->width - x));
        v[5 * i + 4] = (float)(y + stream_below(&r, d->height - y));
    }
}

/* A box inside of the image, by its corners as parts of it. */
static struct ct_bbox draw_box(struct stream *r)
{
    const float x = (float)stream_between(r, 0.02, 0.6);
    const float y = (float)stream_between(r, 0.02, 0.6);

    return (struct ct_bbox){ x, y, x + (float)stream_between(r, 0.15, 0.38),
                             y + (float)stream_between(r, 0.15, 0.38) };
}

/* Objects of any image of the batch, or of none. */
static void draw_truth(const struct data_shape *d, uint64_t key, int64_t n,
                       float *v)
{
    struct stream r = { .key = key };

    for (int64_t i = 0; i < n / 8; i++) {
        const struct ct_bbox b = draw_box(&r);
        const float row[8] = { stream_chance(&r, 85)
                                   ? (float)stream_below(&r, d->batch) : -1,
                               (float)(1 + stream_below(&r, d->classes - 1)),
                               0, b.xmin, b.ymin, b.xmax, b.ymax,
                               (float)stream_chance(&r, 20) };

        memcpy(v + 8 * i, row, sizeof(row));
    }
}

/* Up to three objects of each image, by their centres. */
static void draw_boxes(const struct data_shape *d, uint64_t key, int64_t n,
                       float *v)
{
    struct stream r = { .key = key };

    for (int64_t i = 0; i < n / 5; i++) {
        const struct ct_bbox b = draw_box(&r);
        const float row[5] = { (float)stream_below(&r, d->classes),
                               (b.xmin + b.xmax) / 2, (b.ymin + b.ymax) / 2,
                               b.xmax - b.xmin, b.ymax - b.ymin };

        memcpy(v + 5 * i, row, sizeof(row));
        if (stream_chance(&r, 30))
            v[5 * i + 3] = 0; /* no more of this image */
    }
}

static enum ct_status write_all(struct ct_hdf5 *h, uint64_t seed,
                                const struct data_shape *d)
{
    const struct ct_shape image =
        CT_SHAPE(d->rows, d->channels, d->height, d->width);
    const struct {
        const char     *name;
        struct ct_shape shape;
        void (*draw)(const struct data_shape *d, uint64_t key, int64_t n,
                     float *v);
    } all[] = {
        { "x", image, draw_values },
        { "x2", image, draw_values },
        { "t", CT_SHAPE(d->rows, d->classes), draw_values },
        { "v", CT_SHAPE(d->rows, d->width2), draw_values },
        { "seq", CT_SHAPE(d->rows, d->time, SEQ_WIDTH), draw_values },
        { "cont", CT_SHAPE(d->rows, d->time), draw_bits },
        { "rois", CT_SHAPE(d->rows, 5), draw_regions },
        { "truth", CT_SHAPE(d->rows, 2, 8), draw_truth },
        { "boxes", CT_SHAPE(d->rows, 3, 5), draw_boxes },
        { "y", CT_SHAPE(d->rows), draw_classes },
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const int64_t n = ct_shape_count(&all[i].shape, 0, CT_END);
        float *v        = NULL;
        enum ct_status st;

        CT_TRY(ct_alloc((size_t)n, sizeof(*v), "drawn data", &v));
        all[i].draw(d, ct_key(seed, all[i].name), n, v);
        st = ct_hdf5_write(h, all[i].name, all[i].shape, v);
        ct_free(v);
        CT_TRY(st);
    }
    return CT_OK;
}

/* The bytes of image `row`, and its class. */
static uint8_t pixel(uint64_t seed, int row, size_t i)
{
    return (uint8_t)ct_philox_word(ct_key(seed, "db"), (uint64_t)row, i);
}

static int class_of(uint64_t seed, int row, const struct data_shape *d)
{
    return (int)(ct_philox_word(ct_key(seed, "y"), 3, (uint64_t)row) %
                 (uint32_t)d->classes);
}

/* The datum becomes a record with objects, or with its label alone. */
static enum ct_status annotate(uint64_t seed, int row,
                               const struct data_shape *d,
                               enum data_notes notes, struct ct_text *record)
{
    struct stream r = { .key = ct_key(seed, "objects") + (uint64_t)row };
    const struct ct_bytes datum = { record->s, record->n_bytes };
    struct ct_objects objects = { 0 };
    struct ct_text out        = { 0 };
    enum ct_status st         = CT_OK;

    for (int i = stream_below(&r, 4); i > 0 && st == CT_OK; i--) {
        const struct ct_object one = {
            .box       = draw_box(&r),
            .label     = 1 + stream_below(&r, d->classes - 1),
            .difficult = stream_chance(&r, 20),
        };

        st = ct_objects_add(&objects, &one);
    }
    if (st == CT_OK)
        st = notes == DATA_OBJECTS
                 ? ct_annotated_write(datum, &objects, &out)
                 : ct_annotated_write_datum(datum, &out);
    ct_objects_fini(&objects);
    ct_text_fini(record);
    *record = out;
    return st;
}

static enum ct_status put_image(struct ct_db *db, uint64_t seed, int row,
                                const struct data_shape *d,
                                enum data_notes notes)
{
    const size_t n = (size_t)(d->channels * d->height * d->width);
    struct ct_datum datum = { .channels = d->channels, .height = d->height,
                              .width = d->width };
    struct ct_text record = { 0 };
    uint8_t *v = NULL;
    char key[16];
    enum ct_status st;

    CT_TRY(ct_alloc(n, sizeof(*v), "drawn image", &v));
    for (size_t i = 0; i < n; i++)
        v[i] = pixel(seed, row, i);
    datum.data  = (struct ct_bytes){ v, n };
    datum.label = class_of(seed, row, d);
    snprintf(key, sizeof(key), "%08d", row);
    st = ct_datum_write(&datum, CT_DATUM_SHAPE | CT_DATUM_LABEL, NULL,
                        &record);
    if (st == CT_OK && notes != DATA_PLAIN)
        st = annotate(seed, row, d, notes, &record);
    if (st == CT_OK)
        st = ct_db_put(db, (struct ct_bytes){ key, strlen(key) },
                       (struct ct_bytes){ record.s, record.n_bytes });
    ct_text_fini(&record);
    ct_free(v);
    return st;
}

enum ct_status data_write_db(uint64_t seed, const char *folder,
                             const char *backend, const struct data_shape *d,
                             enum data_notes notes)
{
    struct ct_db *db = NULL;
    char path[512];
    enum ct_status st;

    snprintf(path, sizeof(path), "%s/db", folder);
    CT_TRY(ct_db_open(backend, path, CT_DB_NEW, &db));
    for (int i = 0; i < d->rows; i++)
        CT_TRY_GOTO(put_image(db, seed, i, d, notes), st, out);
    st = ct_db_commit(db);
out:
    ct_db_close(db);
    return st;
}

/* PGM for one channel, PPM for three. */
static enum ct_status write_image(const char *path, uint64_t seed, int row,
                                  const struct data_shape *d)
{
    FILE *f = fopen(path, "wb");

    if (!f)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    fprintf(f, "P%d %d %d 255\n", d->channels == 1 ? 5 : 6, d->width,
            d->height);
    for (int i = 0; i < d->channels * d->height * d->width; i++)
        fputc(pixel(seed, row, (size_t)i), f);
    return fclose(f) == 0 ? CT_OK
                          : ct_fail(CT_EIO, "%s cannot be written", path);
}

enum ct_status data_write_images(uint64_t seed, const char *folder,
                                 const struct data_shape *d)
{
    char path[512];
    FILE *list;

    snprintf(path, sizeof(path), "%s/images.txt", folder);
    list = fopen(path, "w");
    if (!list)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    for (int i = 0; i < d->rows; i++)
        fprintf(list, "%s/%d.pnm %d\n", folder, i, class_of(seed, i, d));
    fclose(list);
    for (int i = 0; i < d->rows; i++) {
        snprintf(path, sizeof(path), "%s/%d.pnm", folder, i);
        CT_TRY(write_image(path, seed, i, d));
    }
    return CT_OK;
}

/* A class for each pixel, in a gray image. */
static enum ct_status write_map(const char *path, uint64_t seed, int row,
                                const struct data_shape *d)
{
    FILE *f = fopen(path, "wb");

    if (!f)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    fprintf(f, "P5 %d %d 255\n", d->width, d->height);
    for (int i = 0; i < d->height * d->width; i++)
        fputc(pixel(seed + 1, row, (size_t)i) % d->classes, f);
    return fclose(f) == 0 ? CT_OK
                          : ct_fail(CT_EIO, "%s cannot be written", path);
}

enum ct_status data_write_maps(uint64_t seed, const char *folder,
                               const struct data_shape *d)
{
    char path[512];
    FILE *list;

    CT_TRY(data_write_images(seed, folder, d));
    snprintf(path, sizeof(path), "%s/pairs.txt", folder);
    list = fopen(path, "w");
    if (!list)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    for (int i = 0; i < d->rows; i++)
        fprintf(list, "%s/%d.pnm %s/%d.pgm\n", folder, i, folder, i);
    fclose(list);
    for (int i = 0; i < d->rows; i++) {
        snprintf(path, sizeof(path), "%s/%d.pgm", folder, i);
        CT_TRY(write_map(path, seed, i, d));
    }
    return CT_OK;
}

enum ct_status data_write_windows(uint64_t seed, const char *folder,
                                  const struct data_shape *d)
{
    char path[512];
    FILE *list;

    CT_TRY(data_write_images(seed, folder, d));
    snprintf(path, sizeof(path), "%s/windows.txt", folder);
    list = fopen(path, "w");
    if (!list)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    for (int i = 0; i < d->rows; i++)
        fprintf(list, "# %d\n%s/%d.pnm\n%d\n%d\n%d\n2\n"
                "%d 0.9 0 0 %d %d\n0 0.1 0 0 %d %d\n", i, folder, i,
                d->channels, d->height, d->width,
                1 + class_of(seed, i, d) % (d->classes - 1), d->width - 1,
                d->height - 1, d->width / 2, d->height / 2);
    fclose(list);
    return CT_OK;
}

enum ct_status data_make_arrays(uint64_t seed, const struct data_shape *d,
                                struct drawn *out)
{
    const int64_t n = out->batch * 2; /* whole batches */
    const int64_t size = d->channels * d->height * d->width;

    CT_TRY(ct_alloc((size_t)(n * size), sizeof(float), "drawn data",
                    &out->arrays[0]));
    CT_TRY(ct_alloc((size_t)n, sizeof(float), "drawn data", &out->arrays[1]));
    for (int64_t i = 0; i < n * size; i++)
        out->arrays[0][i] = 0.7f * ct_normal(ct_key(seed, "x"), 2,
                                             (uint64_t)i);
    for (int64_t i = 0; i < n; i++)
        out->arrays[1][i] = (float)class_of(seed, (int)i, d);
    return CT_OK;
}

enum ct_status data_feed(const struct drawn *c, struct ct_net *net)
{
    for (int i = 0; c->arrays[0] && i < ct_net_n_layers(net); i++)
        if (strcmp(ct_net_layer(net, i)->type->name, "MemoryData") == 0)
            CT_TRY(ct_memory_data_set(ct_net_layer(net, i), c->arrays[0],
                                      c->arrays[1], 2 * c->batch));
    return CT_OK;
}

enum ct_status data_write(uint64_t seed, const char *folder,
                          const struct data_shape *d)
{
    char path[512];
    struct ct_hdf5 *h = NULL;
    FILE *list;

    snprintf(path, sizeof(path), "%s/data.h5", folder);
    CT_TRY(ct_hdf5_create(path, &h));
    CT_TRY(write_all(h, seed, d));
    CT_TRY(ct_hdf5_close(h));
    snprintf(path, sizeof(path), "%s/list.txt", folder);
    list = fopen(path, "w");
    if (!list)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    fprintf(list, "%s/data.h5\n", folder);
    fclose(list);
    return CT_OK;
}
