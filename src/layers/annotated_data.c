/* annotated_data.c - batches of images with boxes, SSD's type
 * "AnnotatedData".
 *
 *     top 0: N x C x H x W, transformed
 *     top 1: 1 x 1 x G x 8, a row for each object of the batch:
 *            item, label, instance, xmin, ymin, xmax, ymax, difficult
 *
 * Records are AnnotatedDatum messages in LMDB or LevelDB, in the order of Data
 * layers and with their own fields of data_param.  Images are distorted,
 * expanded, cropped to a sampled part, resized and made noisy (data/scene.h),
 * then cropped and mirrored as those of Data; boxes follow and are in parts of
 * what comes out.  A batch without objects has one row of -1.
 *
 * G changes from batch to batch.  Batches for a GPU have rows of -1 up to a
 * number that hardly changes, so that a recorded pass can be replayed, unless
 * somebody reads them to whom such rows mean something.
 *
 * Records that have no annotation type give labels instead: top 1 is N. */
#include "layers/records.h"

#include <stdatomic.h>
#include <string.h>

#include "data/sample.h"
#include "data/scene.h"
#include "proto/params.h"

enum { ROW = 8, ROWS_AT_ONCE = 64 };

struct annotated_data {
    struct ct_records records; /* first: records.h finds it there */
    const struct ct_layer *layer; /* whose state this is */
    struct ct_scene   scene;
    struct ct_objects first; /* of the first sample */
    struct ct_objects measured; /* of the sample that gives a batch's shape */
    bool              boxes; /* top 1 has boxes, not labels */
    atomic_llong      rows;  /* of the batches for a GPU */
};

static enum ct_status annotated_read(struct annotated_data *d,
                                     struct ct_worker *w,
                                     struct ct_annotated *out)
{
    const struct ct_layer *l = d->records.batches.layer;

    CT_TRY(ct_records_fetch(&d->records, w));
    CT_TRY(ct_annotated_read(w->record.value, out, w->objects));
    if (w == &d->records.batches.probe)
        d->boxes = out->has_boxes ||
                   ct_annotated_data_param(l->param)->has_anno_type;
    if (d->boxes && !out->has_boxes &&
        !ct_annotated_data_param(l->param)->has_anno_type)
        return ct_fail(CT_EPARSE, "the record has no annotation type, but "
                       "others have");
    if (!out->datum.encoded && !out->datum.data.n)
        return ct_fail(CT_ENOTSUP, "AnnotatedData takes images, and this "
                       "record has float_data");
    if (!out->datum.encoded && out->datum.channels > 4)
        return ct_fail(CT_ESHAPE, "an image of %d channels; AnnotatedData "
                       "takes 1 to 4", out->datum.channels);
    return CT_OK;
}

static enum ct_status annotated_measure(struct annotated_data *d,
                                        struct ct_worker *w,
                                        struct ct_shape *out)
{
    struct ct_scene_plan plan;
    struct ct_annotated a;
    struct ct_pixels size;

    CT_TRY(annotated_read(d, w, &a));
    CT_TRY(ct_datum_peek(&a.datum, d->records.mode, &w->codec, &size));
    CT_TRY(ct_scene_plan(&d->scene, w->epoch, w->sample, size.width,
                         size.height, w->objects, &plan));
    size.width  = plan.out_w;
    size.height = plan.out_h;
    return ct_batches_shape(&d->records.batches, &size, out);
}

/* Calls come one at a time, and the sample's own list is not there yet. */
static enum ct_status annotated_shape(void *loader, struct ct_worker *w,
                                      struct ct_shape *out)
{
    struct annotated_data *d = loader;

    w->objects = &d->measured;
    for (int tries = 1;; tries++) {
        enum ct_status st = annotated_measure(d, w, out);

        if (st == CT_OK)
            break;
        CT_TRY(ct_records_after(&d->records, w, tries, st));
    }
    w->objects = w == &d->records.batches.probe ? &d->first : NULL;
    return CT_OK;
}

/* Raw pixels, plane by plane, become an image. */
static enum ct_status image_of(const struct ct_datum *datum,
                               struct ct_image *out)
{
    const size_t ch = (size_t)datum->channels;
    const size_t n  = (size_t)datum->width * (size_t)datum->height;
    const unsigned char *in = datum->data.ptr;

    CT_TRY(ct_image_size(out, datum->width, datum->height, datum->channels));
    for (size_t c = 0; c < ch; c++)
        for (size_t i = 0; i < n; i++)
            out->pixels[i * ch + c] = in[c * n + i];
    return CT_OK;
}

/* What the transform crops and mirrors, the boxes follow. */
static enum ct_status boxes_follow(struct annotated_data *d,
                                   struct ct_worker *w,
                                   const struct ct_pixels *in,
                                   const struct ct_shape *shape)
{
    const float width = (float)in->width, height = (float)in->height;
    struct ct_crop win = { 0 };

    CT_TRY(ct_transform_draw(d->records.batches.transform, in, w->epoch,
                             w->sample, &win));
    if (shape->dim[2] != in->height || shape->dim[3] != in->width)
        ct_scene_project(&d->scene, (struct ct_bbox){
            (float)win.column / width,
            (float)win.row / height,
            (float)(win.column + shape->dim[3]) / width,
            (float)(win.row + shape->dim[2]) / height,
        }, w->objects);
    if (win.mirror)
        ct_scene_mirror(w->objects);
    return CT_OK;
}

static enum ct_status annotated_convert(struct annotated_data *d,
                                        struct ct_worker *w,
                                        const struct ct_shape *shape,
                                        float *data, float *label)
{
    const struct ct_scene_work work = { &w->codec, &w->image, &w->part,
                                        &w->resized, &w->floats };
    struct ct_scene_plan plan;
    struct ct_annotated a;
    struct ct_pixels in;

    CT_TRY(annotated_read(d, w, &a));
    if (a.datum.encoded)
        CT_TRY(ct_image_decode(&w->codec, a.datum.data, d->records.mode,
                               &w->image));
    else
        CT_TRY(image_of(&a.datum, &w->image));
    CT_TRY(ct_scene_plan(&d->scene, w->epoch, w->sample, w->image.width,
                         w->image.height, w->objects, &plan));
    CT_TRY(ct_scene_run(&d->scene, &plan, w->epoch, w->sample, &work, &in));
    CT_TRY(ct_batches_run(&d->records.batches, w, &in, shape, data));
    *label = (float)a.datum.label;
    return boxes_follow(d, w, &in, shape);
}

static enum ct_status annotated_load(void *loader, struct ct_worker *w,
                                     const struct ct_shape *shape, float *data,
                                     float *label)
{
    struct annotated_data *d = loader;

    for (int tries = 1;; tries++) {
        enum ct_status st = annotated_convert(d, w, shape, data, label);

        if (st == CT_OK)
            return CT_OK;
        CT_TRY(ct_records_after(&d->records, w, tries, st));
    }
}

/* Rows for n objects on a GPU: never fewer than before. */
static int64_t steady_rows(struct annotated_data *d, int64_t n)
{
    const long long want = (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE *
                           ROWS_AT_ONCE;
    long long rows = atomic_load(&d->rows);

    while (rows < want && !atomic_compare_exchange_weak(&d->rows, &rows, want))
        ;
    return rows > want ? rows : want;
}

static enum ct_status annotated_finish(void *loader,
                                       const struct ct_prefetch *p,
                                       struct ct_batch *b)
{
    struct annotated_data *d = loader;
    int64_t n = 0, rows;
    float *row;

    if (!d->boxes)
        return CT_OK;
    for (int64_t i = 0; i < b->shape.dim[0]; i++)
        n += b->objects[i].n;
    rows = n > 0 ? n : 1;
    if (d->records.batches.config.gpu && (d->layer->may_pad & 1 << 1))
        rows = steady_rows(d, rows);
    CT_TRY(ct_batch_labels(p, b, CT_SHAPE(1, 1, rows, ROW)));
    row = b->label->ptr;
    for (int64_t i = 0; i < b->shape.dim[0]; i++)
        for (int64_t k = 0; k < b->objects[i].n; k++, row += ROW) {
            const struct ct_object *o = &b->objects[i].at[k];
            const float one[ROW] = { (float)i, (float)o->label,
                                     (float)o->instance, o->box.xmin,
                                     o->box.ymin, o->box.xmax, o->box.ymax,
                                     o->difficult };

            memcpy(row, one, sizeof(one));
        }
    for (int64_t i = n * ROW; i < rows * ROW; i++)
        b->label->ptr[i] = -1;
    return CT_OK;
}

static const struct ct_loader_ops annotated_loader = {
    .pick   = ct_records_pick,
    .shape  = annotated_shape,
    .load   = annotated_load,
    .finish = annotated_finish,
};

static enum ct_status annotated_setup(struct ct_layer *l,
                                      const struct ct_io *io)
{
    const Caffe__TransformationParameter *t = ct_transform_param(l->param);
    struct annotated_data *d                = l->state;
    struct ct_batches *b                    = &d->records.batches;

    (void)io;
    d->layer = l;
    CT_TRY(ct_records_open(l, &annotated_loader));
    d->scene = (struct ct_scene){ t, ct_annotated_data_param(l->param),
                                  b->transform, ct_key(l->key, "scene") };
    CT_TRY(ct_scene_check(&d->scene, l->name));
    if (t->resize_param && b->batch_size != 1 &&
        t->resize_param->resize_mode ==
            CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_SMALL_SIZE)
        return ct_fail(CT_EINVAL, "layer %s: with FIT_SMALL_SIZE every image "
                       "has a size of its own; set batch_size to 1", l->name);
    b->config.objects = true;
    return ct_records_probe(l);
}

static enum ct_status annotated_reshape(struct ct_layer *l,
                                        const struct ct_io *io)
{
    const struct annotated_data *d = l->state;

    CT_TRY(ct_batches_reshape(l, io));
    if (io->n_top < 2 || !d->boxes)
        return CT_OK;
    return ct_reshape(io->top[1], CT_SHAPE(1, 1, d->first.n > 0 ? d->first.n
                                                                : 1, ROW));
}

static void annotated_teardown(struct ct_layer *l)
{
    struct annotated_data *d = l->state;

    ct_records_teardown(l);
    ct_objects_fini(&d->first);
    ct_objects_fini(&d->measured);
}

const struct ct_layer_type ct_layer_annotated_data = {
    .name       = "AnnotatedData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP |
                  CT_LAYER_EXACT,
    .state_size = sizeof(struct annotated_data),
    .setup      = annotated_setup,
    .reshape    = annotated_reshape,
    .forward    = { [CT_CPU] = ct_records_forward },
    .forward_to = ct_records_forward_to,
    .seek       = ct_records_seek,
    .records    = ct_records_count,
    .report     = ct_batches_report,
    .teardown   = annotated_teardown,
};
