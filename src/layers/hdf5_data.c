/* hdf5_data.c - rows of datasets in HDF5 files, Caffe type "HDF5Data".
 *
 * `source` is a text file that lists HDF5 files.  Each top takes the dataset
 * of its name; the first axis counts rows, and row i of all datasets belongs
 * together.  Files follow each other without a gap and then start over, so a
 * batch may reach from one file, or epoch, into the next.
 *
 *     row g of the endless sequence = epoch R + (row in the epoch)
 *     batch p, entry i of rank r:  g = (p P + r) batch_size + i
 *
 * R is the rows of all files and P the ranks that share the run; where ranks
 * do not deal (in tests, by default) P = 1 and r = 0.  With `shuffle` the order
 * of files and the order of rows in a file are drawn for every epoch, from
 * the layer's key alone, so all ranks agree and a resumed run repeats them.
 *
 * One file at a time is in memory, as in Caffe. */
#include "cortado/layer.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/hdf5.h"
#include "layers/deal.h"
#include "layers/hand_over.h"
#include "proto/params.h"

struct hdf5_data {
    char    *list;                /* the source file; paths point into it */
    char   **path;
    int64_t *n_rows;              /* of each file */
    int      n_files;
    struct ct_hdf5 *file;         /* a handle for all files, in turn */
    int64_t  batch, total, most;  /* rows: a batch, all, the largest file */
    bool     shuffle;
    uint64_t next;                /* the batch that the next pass gives */
    float  **rows;                /* a top's dataset of the file in memory */
    struct ct_shape *shape;       /* a top's row: dim[0] is 1 */
    int      n_tops;
    uint64_t epoch;               /* whose orders `files` and `order` are */
    int64_t *files, *order;
    int      loaded;              /* file in memory, or -1 */
    int64_t  order_of;            /* file whose rows `order` permutes, or -1 */
    float  **tops;                /* where a pass writes on the CPU */
    struct ct_hand_over over;     /* where the net is on a GPU */
};

/* Splits the list at white space; counts only where `path` is NULL. */
static int hd_split(char *list, char **path)
{
    int n = 0;

    for (char *s = list; *s;) {
        while (isspace((unsigned char)*s))
            s++;
        if (!*s)
            break;
        if (path)
            path[n] = s;
        n++;
        while (*s && !isspace((unsigned char)*s))
            s++;
        if (path && *s)
            *s++ = '\0';
    }
    return n;
}

static enum ct_status hd_read_list(struct ct_layer *l)
{
    const char *source  = ct_hdf5_data_param(l->param)->source;
    struct hdf5_data *d = l->state;
    size_t n_bytes;

    if (!source || !*source)
        return ct_fail(CT_EINVAL, "layer %s: hdf5_data_param needs a source",
                       l->name);
    if (ct_file_read(source, &d->list, &n_bytes) != CT_OK)
        return ct_fail_in(CT_EIO, "layer %s", l->name);
    d->n_files = hd_split(d->list, NULL);
    if (d->n_files == 0)
        return ct_fail(CT_EINVAL, "layer %s: %s lists no files", l->name,
                       source);
    CT_TRY(ct_alloc((size_t)d->n_files, sizeof(*d->path), "hdf5 paths",
                    &d->path));
    hd_split(d->list, d->path);
    return CT_OK;
}

/* Shapes of top i's dataset in file f against those of file 0 and top 0. */
static enum ct_status hd_check(struct ct_layer *l, struct ct_hdf5 *h, int f,
                               int i)
{
    struct hdf5_data *d = l->state;
    const char *name    = l->param->top[i];
    struct ct_shape shape;

    CT_TRY(ct_hdf5_shape(h, name, &shape));
    if (shape.n_axes < 1 || shape.dim[0] < 1)
        return ct_fail(CT_ESHAPE, "%s: dataset %s has no rows", d->path[f],
                       name);
    if (i == 0)
        d->n_rows[f] = shape.dim[0];
    if (shape.dim[0] != d->n_rows[f])
        return ct_fail(CT_ESHAPE, "%s: dataset %s has %" PRId64 " rows, %s "
                       "has %" PRId64, d->path[f], name, shape.dim[0],
                       l->param->top[0], d->n_rows[f]);
    shape.dim[0] = 1;
    if (f == 0)
        d->shape[i] = shape;
    if (!ct_shape_equal(&shape, &d->shape[i]))
        return ct_fail(CT_ESHAPE, "%s: rows of dataset %s are not shaped as "
                       "in %s", d->path[f], name, d->path[0]);
    return CT_OK;
}

static enum ct_status hd_scan(struct ct_layer *l)
{
    struct hdf5_data *d = l->state;

    for (int f = 0; f < d->n_files; f++) {
        enum ct_status st = d->file ? ct_hdf5_reopen(d->file, d->path[f])
                                    : ct_hdf5_open(d->path[f], &d->file);

        for (int i = 0; i < d->n_tops && st == CT_OK; i++)
            st = hd_check(l, d->file, f, i);
        if (st != CT_OK)
            return ct_fail_in(st, "layer %s", l->name);
        d->total += d->n_rows[f];
        d->most = d->n_rows[f] > d->most ? d->n_rows[f] : d->most;
    }
    return CT_OK;
}

static enum ct_status hd_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__HDF5DataParameter *p = ct_hdf5_data_param(l->param);
    struct hdf5_data *d               = l->state;
    size_t n_tops                     = (size_t)io->n_top;

    d->loaded   = -1;
    d->order_of = -1;
    d->batch    = p->batch_size;
    d->shuffle  = p->shuffle;
    d->epoch    = UINT64_MAX;
    if (l->param->n_top != n_tops)
        return ct_fail(CT_EINVAL, "layer %s: tops need names: they are those "
                       "of the datasets", l->name);
    if (d->batch == 0)
        return ct_fail(CT_EINVAL, "layer %s: hdf5_data_param needs a "
                       "batch_size", l->name);
    if (l->param->transform_param)
        return ct_fail(CT_EINVAL, "layer %s: HDF5Data does not transform: "
                       "remove transform_param and store the data as the net "
                       "takes it", l->name);
    CT_TRY(hd_read_list(l));
    CT_TRY(ct_alloc((size_t)d->n_files, sizeof(*d->n_rows), "hdf5 rows",
                    &d->n_rows));
    CT_TRY(ct_alloc((size_t)d->n_files, sizeof(*d->files), "hdf5 order",
                    &d->files));
    CT_TRY(ct_alloc(n_tops, sizeof(*d->shape), "hdf5 shapes", &d->shape));
    CT_TRY(ct_alloc(n_tops, sizeof(*d->rows), "hdf5 rows", &d->rows));
    CT_TRY(ct_alloc(n_tops, sizeof(*d->tops), "hdf5 tops", &d->tops));
    d->n_tops = io->n_top;
    CT_TRY(hd_scan(l));
    CT_TRY(ct_alloc((size_t)d->most, sizeof(*d->order), "hdf5 order",
                    &d->order));
    for (int i = 0; i < d->n_tops; i++)
        CT_TRY(ct_alloc((size_t)(d->most *
                                 ct_shape_count(&d->shape[i], 0, CT_END)),
                        sizeof(**d->rows), "hdf5 file in memory",
                        &d->rows[i]));
    return CT_OK;
}

static enum ct_status hd_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct hdf5_data *d = l->state;

    for (int i = 0; i < io->n_top; i++) {
        struct ct_shape shape = d->shape[i];

        shape.dim[0] = d->batch;
        CT_TRY(ct_reshape(io->top[i], shape));
    }
    return CT_OK;
}

/* 0..n-1, shuffled with words of `stream` where the layer shuffles. */
static void hd_permute(const struct ct_layer *l, uint64_t stream, int64_t n,
                       int64_t *out)
{
    const struct hdf5_data *d = l->state;

    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = n - 1; d->shuffle && i > 0; i--) {
        uint64_t word = ct_philox_word(l->key, stream, (uint64_t)i);
        int64_t j     = (int64_t)(word * (uint64_t)(i + 1) >> 32);
        int64_t kept  = out[i];

        out[i] = out[j];
        out[j] = kept;
    }
}

static enum ct_status hd_load(struct ct_layer *l, int f)
{
    struct hdf5_data *d = l->state;
    enum ct_status st   = ct_hdf5_reopen(d->file, d->path[f]);

    d->loaded = -1;
    for (int i = 0; i < d->n_tops && st == CT_OK; i++)
        st = ct_hdf5_read(d->file, l->param->top[i],
                          d->n_rows[f] *
                              ct_shape_count(&d->shape[i], 1, CT_END),
                          d->rows[i]);
    if (st == CT_OK)
        st = ct_hdf5_reopen(d->file, NULL);
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s", l->name);
    d->loaded = f;
    return CT_OK;
}

/* Brings the file of row g into memory and finds the row in it. */
static enum ct_status hd_seek_row(struct ct_layer *l, uint64_t g, int64_t *row)
{
    struct hdf5_data *d  = l->state;
    uint64_t epoch       = g / (uint64_t)d->total;
    int64_t left         = (int64_t)(g % (uint64_t)d->total);
    uint64_t first_draw  = epoch * ((uint64_t)d->n_files + 1);
    int at               = 0;
    int64_t f;

    if (epoch != d->epoch) {
        hd_permute(l, first_draw, d->n_files, d->files);
        d->epoch    = epoch;
        d->order_of = -1;
    }
    while (left >= d->n_rows[d->files[at]])
        left -= d->n_rows[d->files[at++]];
    f = d->files[at];
    if (d->loaded != f)
        CT_TRY(hd_load(l, (int)f));
    if (d->order_of != f)
        hd_permute(l, first_draw + 1 + (uint64_t)f, d->n_rows[f], d->order);
    d->order_of = f;
    *row        = d->order[left];
    return CT_OK;
}

/* The next batch, each top's part to a place of its own. */
static enum ct_status hd_write(struct ct_layer *l, float *const *to)
{
    struct hdf5_data *d = l->state;
    struct ct_shard shard = ct_deal_shard(l, d->batch);

    shard.skew = ct_deal_skew(l, &shard);
    for (int64_t b = 0; b < d->batch; b++) {
        int64_t row;

        CT_TRY(hd_seek_row(l, (uint64_t)ct_shard_position(
                                  &shard, 0, (int64_t)d->next, b), &row));
        for (int i = 0; i < d->n_tops; i++) {
            int64_t width = ct_shape_count(&d->shape[i], 1, CT_END);

            memcpy(to[i] + b * width, d->rows[i] + row * width,
                   (size_t)width * sizeof(float));
        }
    }
    d->next++;
    return CT_OK;
}

static enum ct_status hd_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct hdf5_data *d = l->state;

    for (int i = 0; i < io->n_top; i++)
        d->tops[i] = ct_data(io->top[i]);
    return hd_write(l, d->tops);
}

static enum ct_status hd_forward_to(struct ct_layer *l, const struct ct_io *io,
                                    struct ct_blob *const *top)
{
    struct hdf5_data *d = l->state;

    CT_TRY(ct_hand_over_begin(&d->over, l, io));
    CT_TRY(hd_write(l, d->over.to));
    return ct_hand_over_end(&d->over, io, top);
}

static enum ct_status hd_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct hdf5_data *d = l->state;

    d->next = n_passes;
    return CT_OK;
}

static void hd_teardown(struct ct_layer *l)
{
    struct hdf5_data *d = l->state;

    ct_hand_over_fini(&d->over);
    ct_hdf5_close(d->file);
    for (int i = 0; i < d->n_tops; i++)
        ct_free(d->rows[i]);
    ct_free(d->tops);
    ct_free(d->rows);
    ct_free(d->shape);
    ct_free(d->order);
    ct_free(d->files);
    ct_free(d->n_rows);
    ct_free(d->path);
    ct_free(d->list);
}

static int64_t hd_records(const struct ct_layer *l)
{
    const struct hdf5_data *d = l->state;

    return d->total;
}

const struct ct_layer_type ct_layer_hdf5_data = {
    .name       = "HDF5Data",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_AT_LEAST(1),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_NO_GRAD,
    .state_size = sizeof(struct hdf5_data),
    .setup      = hd_setup,
    .reshape    = hd_reshape,
    .forward    = { [CT_CPU] = hd_forward },
    .forward_to = hd_forward_to,
    .seek       = hd_seek,
    .records    = hd_records,
    .teardown   = hd_teardown,
};
