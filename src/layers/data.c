/* data.c - batches from a database, Caffe type "Data".
 *
 *     top 0: N x C x H x W, transformed      top 1: N labels, optional
 *
 * Records are Datum messages (raw bytes, floats, or an encoded image) in LMDB
 * or LevelDB, taken in the order of their keys, or shuffled.  Every batch has
 * the shape of its first record.  With several ranks each takes its part of
 * every step's records in TRAIN; in TEST it reads all, unless ranks deal out
 * test batches too.
 *
 * Own fields of data_param: shuffle; on_error (STOP names the key of a broken
 * record, SKIP puts the next record in its place, so that no other moves);
 * threads; mode.  rand_skip is read and, as in Caffe, not used. */
#include "layers/records.h"

#include "data/datum.h"
#include "data/sample.h"

static enum ct_status data_measure(struct ct_records *r, struct ct_worker *w,
                                   struct ct_shape *out)
{
    struct ct_pixels size;
    struct ct_datum datum;

    CT_TRY(ct_records_fetch(r, w));
    CT_TRY(ct_datum_read(w->record.value, &datum));
    CT_TRY(ct_datum_peek(&datum, r->mode, &w->codec, &size));
    return ct_batches_shape(&r->batches, &size, out);
}

static enum ct_status data_shape(void *loader, struct ct_worker *w,
                                 struct ct_shape *out)
{
    struct ct_records *r = loader;

    for (int tries = 1;; tries++) {
        enum ct_status st = data_measure(r, w, out);

        if (st == CT_OK)
            return CT_OK;
        CT_TRY(ct_records_after(r, w, tries, st));
    }
}

static enum ct_status data_convert(struct ct_records *r, struct ct_worker *w,
                                   const struct ct_shape *shape, float *data,
                                   float *label)
{
    struct ct_pixels in;
    struct ct_datum datum;

    CT_TRY(ct_records_fetch(r, w));
    CT_TRY(ct_datum_read(w->record.value, &datum));
    CT_TRY(ct_datum_pixels(&datum, r->mode, &w->codec, &w->image, &w->floats,
                           &in));
    CT_TRY(ct_batches_run(&r->batches, w, &in, shape, data));
    *label = (float)datum.label;
    return CT_OK;
}

static enum ct_status data_load(void *loader, struct ct_worker *w,
                                const struct ct_shape *shape, float *data,
                                float *label)
{
    struct ct_records *r = loader;

    for (int tries = 1;; tries++) {
        enum ct_status st = data_convert(r, w, shape, data, label);

        if (st == CT_OK)
            return CT_OK;
        CT_TRY(ct_records_after(r, w, tries, st));
    }
}

static const struct ct_loader_ops data_loader = {
    .pick  = ct_records_pick,
    .shape = data_shape,
    .load  = data_load,
};

static enum ct_status data_setup(struct ct_layer *l, const struct ct_io *io)
{
    (void)io;
    CT_TRY(ct_records_open(l, &data_loader));
    return ct_records_probe(l);
}

const struct ct_layer_type ct_layer_data = {
    .name       = "Data",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_BETWEEN(1, 2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct ct_records),
    .setup      = data_setup,
    .reshape    = ct_batches_reshape,
    .forward    = { [CT_CPU] = ct_records_forward },
    .forward_to = ct_records_forward_to,
    .seek       = ct_records_seek,
    .records    = ct_records_count,
    .report     = ct_batches_report,
    .teardown   = ct_records_teardown,
};
