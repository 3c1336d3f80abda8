/* image_data.c - batches from a list of image files, Caffe type "ImageData".
 *
 *     top 0: N x C x H x W, transformed      top 1: N labels
 *
 * The list has a line a file: its name below root_folder, a space, its label.
 * Images are B G R, or gray with `is_color: false`, and resized to new_height
 * x new_width where both are given.  Every batch has the shape of its first
 * image.  rand_skip starts the first epoch at a random line below it.
 *
 * With several ranks each takes its part of every step's files in TRAIN,
 * where Caffe gives all ranks the same. */
#include "layers/batches.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "data/sample.h"
#include "layers/deal.h"
#include "proto/params.h"

struct line {
    size_t path; /* where in `paths` */
    long   label;
};

struct image_data {
    struct ct_batches batches; /* first: batches.h finds it there */
    const Caffe__ImageDataParameter *param;
    struct line    *line;
    int64_t         n_lines;
    struct ct_text  paths;
    struct ct_order order;
    int64_t         start, pass, item, epoch;
};

static enum ct_status images_add(struct image_data *d, char *line,
                                 int number, int64_t *room)
{
    char *space = strrchr(line, ' '), *end;
    const char *label = space ? space + 1 : line;
    const long value  = strtol(label, &end, 10);

    /* A line without a label has 0, as in Caffe. */
    if (space && end == label)
        return ct_fail(CT_EPARSE, "%s:%d: label \"%s\" is no number",
                       d->param->source, number, label);
    if (d->n_lines == *room) {
        struct line *more;

        *room = *room ? 2 * *room : 256;
        more  = ct_realloc(d->line, (size_t)*room * sizeof(*more),
                           "image list");
        if (!more)
            return CT_ENOMEM;
        d->line = more;
    }
    d->line[d->n_lines++] = (struct line){ d->paths.n_bytes, value };
    if (space)
        *space = '\0';
    ct_text_addf(&d->paths, "%s%s", d->param->root_folder, line);
    ct_text_add_bytes(&d->paths, "", 1);
    return d->paths.failed ? CT_ENOMEM : CT_OK;
}

static enum ct_status images_read_list(struct ct_layer *l)
{
    struct image_data *d = l->state;
    enum ct_status st    = CT_OK;
    int64_t room         = 0;
    int number           = 0; /* of the line */
    size_t n;
    char *text = NULL;

    CT_INFO("Opening file %s", d->param->source);
    CT_TRY(ct_file_read(d->param->source, &text, &n));
    for (char *at = text; *at && st == CT_OK;) {
        size_t length = strcspn(at, "\n");
        bool last     = at[length] == '\0';

        number++;
        at[length] = '\0';
        if (at[strspn(at, " \t\r")])
            st = images_add(d, at, number, &room);
        at += length + !last;
    }
    ct_free(text);
    if (st == CT_OK && d->n_lines == 0)
        st = ct_fail(CT_EINVAL, "%s names no images", d->param->source);
    return st;
}

static const char *images_path(const struct image_data *d,
                               const struct ct_worker *w)
{
    return d->paths.s + d->line[w->number].path;
}

static enum ct_status images_pick(void *loader, struct ct_worker *w,
                                  int64_t item)
{
    struct image_data *d = loader;
    struct ct_sample place =
        ct_order_at(&d->order, ct_shard_position(&d->batches.shard, d->start,
                                                 d->pass, item));

    if (place.epoch > d->epoch)
        CT_INFO("Restarting data prefetching from start.");
    d->epoch  = place.epoch;
    w->epoch  = place.epoch;
    w->sample = w->number = place.index;
    if (item == d->batches.batch_size - 1)
        d->pass++;
    return CT_OK;
}

static enum ct_image_mode images_mode(const struct image_data *d)
{
    return d->param->is_color ? CT_IMAGE_COLOR : CT_IMAGE_GRAY;
}

static enum ct_status images_measure(struct image_data *d,
                                     struct ct_worker *w, struct ct_shape *out)
{
    struct ct_image size = { .width    = (int)d->param->new_width,
                             .height   = (int)d->param->new_height,
                             .channels = d->param->is_color ? 3 : 1 };
    struct ct_pixels pixels;
    struct ct_bytes file;

    if (size.width == 0) {
        CT_TRY(ct_room_read_file(&w->file, images_path(d, w), &file));
        CT_TRY(ct_image_peek(&w->codec, file, images_mode(d), &size));
    }
    pixels = ct_image_pixels(&size);
    return ct_batches_shape(&d->batches, &pixels, out);
}

static enum ct_status images_convert(struct image_data *d,
                                     struct ct_worker *w,
                                     const struct ct_shape *shape, float *data,
                                     float *label)
{
    struct ct_pixels in;

    CT_TRY(ct_image_load(&w->codec, images_path(d, w), images_mode(d),
                         (int)d->param->new_width, (int)d->param->new_height,
                         &w->file, &w->image, &w->resized));
    in = ct_image_pixels(&w->resized);
    CT_TRY(ct_batches_run(&d->batches, w, &in, shape, data));
    *label = (float)d->line[w->number].label;
    return CT_OK;
}

/* Names the file; false when the sample's failure stands. */
static bool images_skip(struct image_data *d, struct ct_worker *w,
                        enum ct_status *st, int tries)
{
    const char *path = images_path(d, w);

    *st = strstr(ct_last_error(), path)
              ? ct_fail_in(*st, "layer %s", d->batches.layer->name)
              : ct_fail_in(*st, "layer %s: image %s", d->batches.layer->name,
                           path);
    if (!ct_batches_skips(&d->batches, *st, tries))
        return false;
    w->number = (w->number + 1) % d->n_lines;
    return true;
}

static enum ct_status images_shape(void *loader, struct ct_worker *w,
                                   struct ct_shape *out)
{
    struct image_data *d = loader;
    enum ct_status st;
    int tries = 0;

    do
        st = images_measure(d, w, out);
    while (st != CT_OK && images_skip(d, w, &st, ++tries));
    return st;
}

static enum ct_status images_load(void *loader, struct ct_worker *w,
                                  const struct ct_shape *shape, float *data,
                                  float *label)
{
    struct image_data *d = loader;
    enum ct_status st;
    int tries = 0;

    do
        st = images_convert(d, w, shape, data, label);
    while (st != CT_OK && images_skip(d, w, &st, ++tries));
    return st;
}

static const struct ct_loader_ops images_loader = {
    .pick  = images_pick,
    .shape = images_shape,
    .load  = images_load,
};

static enum ct_status images_check(const struct ct_layer *l,
                                   const Caffe__ImageDataParameter *p)
{
    if (!p->source || !p->source[0])
        return ct_fail(CT_EINVAL, "layer %s: image_data_param has no source",
                       l->name);
    if ((p->new_height == 0) != (p->new_width == 0))
        return ct_fail(CT_EINVAL, "layer %s: give new_height and new_width, "
                       "or neither", l->name);
    if (p->new_height > 65500 || p->new_width > 65500)
        return ct_fail(CT_EINVAL, "layer %s: new_height and new_width are at "
                       "most 65500", l->name);
    return CT_OK;
}

static enum ct_status images_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct image_data *d = l->state;

    ct_batches_stop(&d->batches);
    d->batches.shard.skew = ct_deal_skew(l, &d->batches.shard);
    d->pass  = (int64_t)n_passes;
    d->epoch = ct_shard_position(&d->batches.shard, d->start, d->pass, 0) /
               d->order.n;
    return CT_OK;
}

static enum ct_status images_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__ImageDataParameter *p = ct_image_data_param(l->param);
    struct image_data *d               = l->state;
    enum ct_status st;

    (void)io;
    CT_TRY(images_check(l, p));
    d->param = p;
    CT_TRY(ct_batches_init(l, &images_loader, p->batch_size, 4, p->threads,
                           p->on_error ==
                               CAFFE__DATA_PARAMETER__ON_ERROR__SKIP));
    st = images_read_list(l);
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s", l->name);
    CT_INFO("A total of %lld images.", (long long)d->n_lines);
    ct_order_init(&d->order, l->run->seed, d->n_lines, p->shuffle);
    if (p->rand_skip) {
        d->start = ct_draw_below(~l->key, 0, 0, 0, p->rand_skip);
        CT_INFO("Skipping first %lld data points.", (long long)d->start);
        if (d->start >= d->n_lines)
            return ct_fail(CT_EINVAL, "layer %s: rand_skip skips all %lld "
                           "images", l->name, (long long)d->n_lines);
    }
    CT_TRY(ct_batches_probe(l));
    return images_seek(l, 0);
}

static void images_teardown(struct ct_layer *l)
{
    struct image_data *d = l->state;

    if (d->batches.layer)
        ct_batches_fini(&d->batches);
    ct_text_fini(&d->paths);
    ct_free(d->line);
}

static int64_t images_records(const struct ct_layer *l)
{
    const struct image_data *d = l->state;

    return d->order.n;
}

const struct ct_layer_type ct_layer_image_data = {
    .name       = "ImageData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_EXACTLY(2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_DYNAMIC |
                  CT_LAYER_NO_GRAD | CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct image_data),
    .setup      = images_setup,
    .reshape    = ct_batches_reshape,
    .forward    = { [CT_CPU] = ct_batches_forward },
    .forward_to = ct_batches_forward_to,
    .seek       = images_seek,
    .records    = images_records,
    .report     = ct_batches_report,
    .teardown   = images_teardown,
};
