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
                      &d->data, DATA_PLAIN) != CT_OK)
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

/* An image of labels with each image, as segmentation has them. */
static bool draw_maps(struct drawing *d, const char *const *top)
{
    char words[512];

    if (data_write_maps(d->out->seed, d->folder, &d->data) != CT_OK)
        return false;
    snprintf(words, sizeof(words), "transform_param { scale: 0.01 "
             "mean_value: 120 } dense_image_data_param { "
             "source: '%s/pairs.txt' batch_size: %d is_color: %s %s} ",
             d->folder, d->out->batch,
             d->data.channels == 3 ? "true" : "false",
             stream_chance(&d->r, 50) ? "shuffle: true " : "");
    return add_source(d, "DenseImageData", words, 2, top);
}

/* DeepLab's: an image of labels, or one label for all of its pixels; and on
 * request the size that it had. */
static bool draw_segments(struct drawing *d, const char *const *top)
{
    const bool pixels = stream_chance(&d->r, 60);
    const char *const tops[] = { top[0], top[1], "size" };
    const int side = d->data.height < d->data.width ? d->data.height
                                                    : d->data.width;
    char words[512], crop[32] = "";

    if (data_write_maps(d->out->seed, d->folder, &d->data) != CT_OK)
        return false;
    if (side > 1 && stream_chance(&d->r, 40)) {
        d->data.height = d->data.width = 1 + stream_below(&d->r, side);
        snprintf(crop, sizeof(crop), "crop_size: %d ", d->data.width);
    }
    snprintf(words, sizeof(words), "transform_param { scale: 0.01 "
             "mean_value: 120 mirror: %s %s} image_data_param { "
             "source: '%s/%s.txt' batch_size: %d is_color: %s %s"
             "label_type: %s } ", stream_chance(&d->r, 50) ? "true" : "false",
             crop, d->folder, pixels ? "pairs" : "images", d->out->batch,
             d->data.channels == 3 ? "true" : "false",
             stream_chance(&d->r, 50) ? "shuffle: true " : "",
             pixels ? "PIXEL" : "IMAGE");
    return add_source(d, "ImageSegData", words, 2 + stream_below(&d->r, 2),
                      tops);
}

/* What SSD does with an image before a net sees it. */
static void add_scene(struct drawing *d, struct ct_text *t)
{
    const int side = 4 + stream_below(&d->r, 6);

    if (stream_chance(&d->r, 50)) {
        ct_text_addf(t, "resize_param { resize_mode: WARP height: %d "
                     "width: %d } ", side, side);
        d->data.height = d->data.width = side;
    }
    if (d->data.channels == 3 && stream_chance(&d->r, 30))
        ct_text_add(t, "distort_param { brightness_prob: 0.5 "
                    "brightness_delta: 20 contrast_prob: 0.5 "
                    "contrast_lower: 0.7 contrast_upper: 1.3 } ");
    if (stream_chance(&d->r, 30))
        ct_text_add(t, "emit_constraint { emit_type: CENTER } ");
}

/* Images with objects; or with labels, in records of that kind. */
static bool draw_annotated(struct drawing *d, const char *const *top)
{
    const bool level = stream_chance(&d->r, 30);
    const bool boxes = stream_chance(&d->r, 80);
    const char *const tops[] = { top[0], boxes ? "truth" : top[1] };
    struct ct_text t = { 0 };
    bool ok;

    if (data_write_db(d->out->seed, d->folder, level ? "leveldb" : "lmdb",
                      &d->data, boxes ? DATA_OBJECTS : DATA_LABELS) != CT_OK)
        return false;
    ct_text_addf(&t, "transform_param { scale: 0.01 mean_value: 120 "
                 "mirror: %s ", stream_chance(&d->r, 50) ? "true" : "false");
    if (boxes)
        add_scene(d, &t);
    ct_text_addf(&t, "} data_param { source: '%s/db' batch_size: %d "
                 "backend: %s %s} ", d->folder, d->out->batch,
                 level ? "LEVELDB" : "LMDB",
                 stream_chance(&d->r, 50) ? "shuffle: true " : "");
    if (boxes && strstr(t.s, "resize_param") && stream_chance(&d->r, 50))
        ct_text_add(&t, "annotated_data_param { batch_sampler { sampler { "
                    "min_scale: 0.5 max_scale: 1 min_aspect_ratio: 0.7 "
                    "max_aspect_ratio: 1.4 } sample_constraint { "
                    "min_jaccard_overlap: 0.1 } max_sample: 1 "
                    "max_trials: 20 } } ");
    ok = !t.failed && add_source(d, "AnnotatedData", t.s, 2, tops);
    ct_text_fini(&t);
    return ok;
}

/* Windows of images, which every batch draws anew. */
static bool draw_windows(struct drawing *d, const char *const *top)
{
    char words[512];

    if (data_write_windows(d->out->seed, d->folder, &d->data) != CT_OK)
        return false;
    d->data.height = d->data.width = 3 + stream_below(&d->r, 6);
    snprintf(words, sizeof(words), "transform_param { scale: 0.01 "
             "mean_value: 120 crop_size: %d mirror: true } "
             "window_data_param { source: '%s/windows.txt' batch_size: %d "
             "fg_fraction: 0.5 %s} ", d->data.width, d->folder,
             d->out->batch,
             stream_chance(&d->r, 50) ? "crop_mode: 'square' " : "");
    d->out->deals = false; /* a batch has its own parts of both kinds */
    return add_source(d, "WindowData", words, 2, top);
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
    const int more = stream_below(&d->r, 100);
    const char *top[8];
    char words[512];

    memcpy(top, all, (size_t)n * sizeof(*top));
    if (more < 18) {
        top[n++]      = more < 10 ? "rois" : "truth";
        d->out->deals = false; /* they name images of the batch */
    } else if (more < 30) {
        top[n++] = "boxes";
    }
    snprintf(words, sizeof(words), "hdf5_data_param { source: '%s/list.txt' "
             "batch_size: %d } ", d->folder, d->out->batch);
    return add_source(d, "HDF5Data", words, n, top);
}

/* What only layers of one kind read: sequences, regions, objects. */
static void hide_special(struct drawing *d)
{
    static const char *const steps[] = { "seq", "cont" };
    static const char *const other[] = { "rois", "truth", "boxes", "size" };

    for (int i = 0; i < 2; i++) {
        struct value *b = blob_named(d, steps[i]);

        if (!b)
            continue;
        b->steps = true;
        b->batch = false;
        d->out->deals = false;
        /* A test begins with the states that the last one left. */
        d->out->has_test = false;
    }
    for (int i = 0; i < 4; i++) {
        struct value *b = blob_named(d, other[i]);

        if (!b)
            continue;
        b->steps = true;
        b->batch = false;
        b->label = i > 0;
    }
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
                                       "cont" };
    const int kind = stream_below(&d->r, 100);
    const bool pictures = d->data.channels == 1 || d->data.channels == 3;
    struct value *y;
    bool ok;

    if (kind < 15)
        ok = draw_database(d, all);
    else if (kind < 27 && pictures)
        ok = draw_image_files(d, all);
    else if (kind < 33)
        ok = draw_memory(d, all);
    else if (kind < 82 || !pictures)
        ok = draw_file(d, all);
    else if (kind < 91)
        ok = draw_annotated(d, all);
    else if (kind < 95)
        ok = draw_segments(d, all);
    else if (kind < 98 || d->data.channels != 3)
        ok = draw_maps(d, all);
    else
        ok = draw_windows(d, all);
    if (!ok)
        return false;
    y = blob_named(d, "y");
    if (y)
        y->label = true;
    hide_special(d);
    return !stream_chance(&d->r, 15) || draw_dummy(d);
}
