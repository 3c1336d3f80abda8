/* sources.c - where the data of a drawn net comes from. */
#include <stdio.h>
#include <string.h>

#include "drawing.h"

static bool add_source(struct drawing *d, const char *type, const char *words,
                       int n_tops, const char *const *top)
{
    struct ct_text *t = open_layer(d, type);

    for (int i = 0; i < n_tops; i++)
        name_top(d, top[i], true);
    ct_text_add(t, words);
    return close_layer(d);
}

static struct value *blob_named(struct drawing *d, const char *name)
{
    for (int i = 0; i < d->n_blobs; i++)
        if (strcmp(d->blob[i].name, name) == 0)
            return &d->blob[i];
    return NULL;
}

/* Images from a database, some of them mirrored. */
static bool draw_database(struct drawing *d, const char *const *top)
{
    const bool level = stream_chance(&d->r, 30);
    char words[512];

    if (data_write_db(d->out->seed, d->folder, level ? "leveldb" : "lmdb",
                      &d->data) != CT_OK)
        return false;
    snprintf(words, sizeof(words), "transform_param { scale: 0.01 "
             "mean_value: 120 mirror: %s } data_param { source: '%s/db' "
             "batch_size: %d backend: %s %s} ",
             stream_chance(&d->r, 50) ? "true" : "false", d->folder,
             d->out->batch, level ? "LEVELDB" : "LMDB",
             stream_chance(&d->r, 50) ? "shuffle: true " : "");
    return add_source(d, "Data", words, 2, top);
}

static bool draw_image_files(struct drawing *d, const char *const *top)
{
    char words[512];

    if (data_write_images(d->out->seed, d->folder, &d->data) != CT_OK)
        return false;
    snprintf(words, sizeof(words), "transform_param { scale: 0.01 "
             "mean_value: 120 } image_data_param { source: '%s/images.txt' "
             "batch_size: %d is_color: %s %s} ", d->folder, d->out->batch,
             d->data.channels == 3 ? "true" : "false",
             stream_chance(&d->r, 50) ? "shuffle: true " : "");
    return add_source(d, "ImageData", words, 2, top);
}

static bool draw_memory(struct drawing *d, const char *const *top)
{
    char words[256];

    if (data_make_arrays(d->out->seed, &d->data, d->out) != CT_OK)
        return false;
    snprintf(words, sizeof(words), "memory_data_param { batch_size: %d "
             "channels: %d height: %d width: %d } ", d->out->batch,
             d->data.channels, d->data.height, d->data.width);
    d->out->deals = false;
    return add_source(d, "MemoryData", words, 2, top);
}

/* Most kinds of blobs come out of an HDF5 file: some of them, or all. */
static bool draw_file(struct drawing *d, const char *const *all)
{
    int n = stream_chance(&d->r, 12) ? 7 : 2 + stream_below(&d->r, 4);
    const char *top[8];
    char words[512];

    memcpy(top, all, (size_t)n * sizeof(*top));
    if (stream_chance(&d->r, 10)) {
        top[n++]      = "rois";
        d->out->deals = false; /* they name images of the batch */
    }
    snprintf(words, sizeof(words), "hdf5_data_param { source: '%s/list.txt' "
             "batch_size: %d } ", d->folder, d->out->batch);
    return add_source(d, "HDF5Data", words, n, top);
}

/* A second source; one that draws at random every time. */
static bool draw_dummy(struct drawing *d)
{
    static const char *const more[] = { "u" };
    char words[256];

    snprintf(words, sizeof(words), "dummy_data_param { shape { dim: %d "
             "dim: %d dim: %d dim: %d } data_filler { type: '%s' "
             "value: 0.3 std: 0.6 } } ", d->out->batch, d->data.channels,
             d->data.height, d->data.width,
             stream_chance(&d->r, 50) ? "gaussian" : "constant");
    d->out->deals = false;
    return add_source(d, "DummyData", words, 1, more);
}

bool draw_sources(struct drawing *d)
{
    static const char *const all[] = { "x", "y", "x2", "t", "v", "seq",
                                       "cont", "rois" };
    const int kind = stream_below(&d->r, 100);
    const bool pictures = d->data.channels == 1 || d->data.channels == 3;
    bool ok;

    if (kind < 16)
        ok = draw_database(d, all);
    else if (kind < 30 && pictures)
        ok = draw_image_files(d, all);
    else if (kind < 36)
        ok = draw_memory(d, all);
    else
        ok = draw_file(d, all);
    if (!ok)
        return false;
    blob_named(d, "y")->label = true;
    for (int i = 5; i < 8; i++) {
        struct value *b = blob_named(d, all[i]);

        if (!b)
            continue;
        b->steps = true;
        b->batch = false;
        if (i == 7)
            continue;
        d->out->deals = false;
        /* A test begins with the states that the last one left. */
        d->out->has_test = false;
    }
    return !stream_chance(&d->r, 15) || draw_dummy(d);
}
