/* hdf5_output.c - writes two bottoms to an HDF5 file, Caffe type "HDF5Output".
 *
 * Bottom 0 becomes dataset "data" and bottom 1 "label"; every pass appends its
 * rows.  A bottom of fewer than four axes is written with four, ones behind,
 * as Caffe writes it.  (Caffe's file holds the rows of one pass and a second
 * pass ends the program.)
 *
 * The rows go to a file beside `file_name`, which takes its name when the
 * layer is destroyed: a run that dies leaves an older file as it was.  Ranks
 * other than 0 append their number, FILE.1, so that none overwrites another. */
#include "cortado/layer.h"

#include <inttypes.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"
#include "data/hdf5.h"
#include "proto/params.h"

static const char *const dataset[] = { "data", "label" };

struct hdf5_output {
    char           *path, *temp;
    struct ct_hdf5 *file;
};

static enum ct_status ho_setup(struct ct_layer *l, const struct ct_io *io)
{
    const char *name      = ct_hdf5_output_param(l->param)->file_name;
    struct hdf5_output *o = l->state;
    struct ct_text path   = { 0 };
    enum ct_status st;

    (void)io;
    if (!name || !*name)
        return ct_fail(CT_EINVAL, "layer %s: hdf5_output_param needs a "
                       "file_name", l->name);
    ct_text_add(&path, name);
    if (l->run->rank > 0)
        ct_text_addf(&path, ".%d", l->run->rank);
    o->path = path.s;
    if (path.failed)
        return CT_ENOMEM;
    CT_TRY(ct_file_temp(o->path, &o->temp));
    st = ct_hdf5_create(o->temp, &o->file);
    return st == CT_OK ? CT_OK : ct_fail_in(st, "layer %s", l->name);
}

static enum ct_status ho_reshape(struct ct_layer *l, const struct ct_io *io)
{
    const struct ct_shape *a = &io->bottom[0]->shape;
    const struct ct_shape *b = &io->bottom[1]->shape;

    if (a->n_axes < 1 || b->n_axes < 1 || a->dim[0] != b->dim[0])
        return ct_fail(CT_ESHAPE, "layer %s: data and label need the same "
                       "first dimension", l->name);
    return CT_OK;
}

static enum ct_status ho_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct hdf5_output *o = l->state;

    for (int i = 0; i < 2; i++) {
        struct ct_shape shape = io->bottom[i]->shape;
        enum ct_status st;

        while (shape.n_axes < 4)
            shape.dim[shape.n_axes++] = 1;
        st = ct_hdf5_append(o->file, dataset[i], shape,
                            ct_data(io->bottom[i]));
        if (st != CT_OK)
            return ct_fail_in(st, "layer %s", l->name);
    }
    return CT_OK;
}

static void ho_teardown(struct ct_layer *l)
{
    struct hdf5_output *o = l->state;

    if (o->file && (ct_hdf5_close(o->file) != CT_OK ||
                    ct_file_commit(o->temp, o->path) != CT_OK)) {
        CT_ERROR("layer %s: %s", l->name, ct_last_error());
        ct_file_discard(o->temp);
    }
    ct_free(o->temp);
    ct_free(o->path);
}

const struct ct_layer_type ct_layer_hdf5_output = {
    .name       = "HDF5Output",
    .bottoms    = CT_EXACTLY(2),
    .tops       = CT_EXACTLY(0),
    .flags      = CT_LAYER_NO_GRAD | CT_LAYER_CARRIES,
    .state_size = sizeof(struct hdf5_output),
    .setup      = ho_setup,
    .reshape    = ho_reshape,
    .forward    = { [CT_CPU] = ho_forward },
    .teardown   = ho_teardown,
};
