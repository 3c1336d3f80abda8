/* segments.c - images with images of labels, from a list to the tops.
 *
 * Workers load a sample as one row of floats,
 *
 *     C H W values | H W labels | height, width | H, W
 *
 * which forward takes apart. */
#include "layers/segments.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "data/sample.h"
#include "layers/common.h"
#include "layers/deal.h"
#include "proto/params.h"

enum { TAIL = 4 };
enum { DRAW_ROW, DRAW_COLUMN, DRAW_MIRROR, DRAW_SCALE };

struct segment_line {
    size_t image, label; /* where in `paths` */
    int    number;       /* label, with CT_LABEL_IMAGE */
};

static int64_t channels(const struct ct_segments *s)
{
    return s->config.color ? 3 : 1;
}

/* A name below the root folder; returns where it stands. */
static size_t add_path(struct ct_segments *s, const char *name)
{
    const size_t at = s->paths.n_bytes;

    ct_text_addf(&s->paths, "%s%s", s->config.root, name);
    ct_text_add_bytes(&s->paths, "", 1);
    return at;
}

static enum ct_status add_line(struct ct_segments *s, char *text,
                               int64_t number, int64_t *room)
{
    static const char blank[] = " \t\r";
    struct segment_line line  = { 0 };
    char *name = text + strspn(text, blank), *label, *end;

    if (s->n_lines == *room) {
        struct segment_line *more;

        *room = *room ? 2 * *room : 256;
        more  = ct_realloc(s->line, (size_t)*room * sizeof(*more),
                           "image list");
        if (!more)
            return CT_ENOMEM;
        s->line = more;
    }
    label = name + strcspn(name, blank);
    if (*label)
        *label++ = '\0';
    label += strspn(label, blank);
    label[strcspn(label, blank)] = '\0';
    if (s->config.kind != CT_LABEL_NONE && !*label)
        return ct_fail(CT_EPARSE, "%s:%" PRId64 ": the label of %s is missing",
                       s->config.source, number, name);
    line.image = add_path(s, name);
    if (s->config.kind == CT_LABEL_PIXEL)
        line.label = add_path(s, label);
    if (s->config.kind == CT_LABEL_IMAGE) {
        long value = strtol(label, &end, 10);

        if (*end || value < INT_MIN || value > INT_MAX)
            return ct_fail(CT_EPARSE, "%s:%" PRId64 ": label %s is no number "
                           "(or set label_type: PIXEL)", s->config.source,
                           number, label);
        line.number = (int)value;
    }
    s->line[s->n_lines++] = line;
    return s->paths.failed ? CT_ENOMEM : CT_OK;
}

static enum ct_status read_list(struct ct_segments *s)
{
    enum ct_status st = CT_OK;
    int64_t room = 0, number = 0;
    size_t n;
    char *text = NULL;

    CT_INFO("Opening file %s", s->config.source);
    CT_TRY(ct_file_read(s->config.source, &text, &n));
    for (char *at = text; *at && st == CT_OK;) {
        const size_t length = strcspn(at, "\n");
        const bool last     = at[length] == '\0';

        at[length] = '\0';
        number++;
        if (at[strspn(at, " \t\r")])
            st = add_line(s, at, number, &room);
        at += length + !last;
    }
    ct_free(text);
    if (st == CT_OK && s->n_lines == 0)
        st = ct_fail(CT_EINVAL, "%s names no images", s->config.source);
    return st;
}

static enum ct_status segments_pick(void *loader, struct ct_worker *w,
                                    int64_t item)
{
    struct ct_segments *s = loader;
    struct ct_sample place =
        ct_order_at(&s->order, ct_shard_position(&s->batches.shard, s->start,
                                                 s->pass, item));

    if (place.epoch > s->epoch)
        CT_INFO("Restarting data prefetching from start.");
    s->epoch  = place.epoch;
    w->epoch  = place.epoch;
    w->sample = w->number = place.index;
    if (item == s->batches.batch_size - 1)
        s->pass++;
    return CT_OK;
}

static const char *path(const struct ct_segments *s, size_t at)
{
    return s->paths.s + at;
}

static enum ct_status measure(struct ct_segments *s, struct ct_worker *w,
                              int64_t *height, int64_t *width)
{
    const struct ct_transform *t = s->batches.transform;
    struct ct_image size         = { 0 };
    struct ct_bytes file;

    *height = t->crop ? t->crop : (int64_t)s->config.new_height;
    *width  = t->crop ? t->crop : (int64_t)s->config.new_width;
    if (*height)
        return CT_OK;
    CT_TRY(ct_room_read_file(&w->file, path(s, s->line[w->number].image),
                             &file));
    CT_TRY(ct_image_peek(&w->codec, file,
                         s->config.color ? CT_IMAGE_COLOR : CT_IMAGE_GRAY,
                         &size));
    *height = size.height;
    *width  = size.width;
    return CT_OK;
}

/* What is drawn for a sample whose image is height x width, scaled. */
struct window {
    int64_t top, left;
    bool    mirror;
};

static uint32_t draw_below(const struct ct_segments *s,
                           const struct ct_worker *w, unsigned i, int64_t n)
{
    return ct_draw_below(s->batches.transform->key, w->epoch, w->sample, i,
                         (uint32_t)n);
}

static struct window draw_window(const struct ct_segments *s,
                                 const struct ct_worker *w, int64_t rows,
                                 int64_t columns, int64_t height,
                                 int64_t width)
{
    const struct ct_transform *t = s->batches.transform;
    const int64_t down = rows > height ? rows - height : 0;
    const int64_t right = columns > width ? columns - width : 0;
    struct window out = { down / 2, right / 2, false };

    if (t->crop && t->phase == CAFFE__PHASE__TRAIN) {
        out.top  = draw_below(s, w, DRAW_ROW, down + 1);
        out.left = draw_below(s, w, DRAW_COLUMN, right + 1);
    }
    out.mirror = t->param->mirror && draw_below(s, w, DRAW_MIRROR, 2);
    return out;
}

static float draw_scale(const struct ct_segments *s,
                        const struct ct_worker *w)
{
    const Caffe__TransformationParameter *p = s->batches.transform->param;

    if (s->batches.transform->phase != CAFFE__PHASE__TRAIN)
        return 1;
    if (p->n_scale_factors > 0)
        return p->scale_factors[draw_below(s, w, DRAW_SCALE,
                                           (int64_t)p->n_scale_factors)];
    if (p->n_rand_resize == 2)
        return p->rand_resize[0] +
               (p->rand_resize[1] - p->rand_resize[0]) *
                   (float)draw_below(s, w, DRAW_SCALE, 101) / 100;
    return 1;
}

/* The image, resized and scaled, in *out, and its label, as it is, in
 * w->part. */
static enum ct_status load_pair(struct ct_segments *s, struct ct_worker *w,
                                const struct ct_image **out)
{
    const struct segment_line *line = &s->line[w->number];
    const float scale               = draw_scale(s, w);

    CT_TRY(ct_image_load(&w->codec, path(s, line->image),
                         s->config.color ? CT_IMAGE_COLOR : CT_IMAGE_GRAY,
                         (int)s->config.new_width, (int)s->config.new_height,
                         &w->file, &w->image, &w->resized));
    *out = &w->resized;
    if (s->config.kind == CT_LABEL_PIXEL) {
        CT_TRY(ct_image_load(&w->codec, path(s, line->label), CT_IMAGE_GRAY, 0,
                             0, &w->file, &w->image, &w->part));
        if (s->config.new_width == 0 &&
            (w->part.width != w->resized.width ||
             w->part.height != w->resized.height))
            return ct_fail(CT_ESHAPE, "%s has %d x %d pixels, its image %d x "
                           "%d", path(s, line->label), w->part.width,
                           w->part.height, w->resized.width,
                           w->resized.height);
    }
    if (scale == 1)
        return CT_OK;
    *out = &w->image;
    return ct_image_resize(&w->codec, &w->resized,
                           (int)fmaxf(1, roundf((float)w->resized.width *
                                                scale)),
                           (int)fmaxf(1, roundf((float)w->resized.height *
                                                scale)),
                           &w->image);
}

/* The label of row y, column x of an image of rows x columns. */
static float label_at(const struct ct_segments *s, const struct ct_worker *w,
                      int64_t y, int64_t x, int64_t rows, int64_t columns)
{
    const struct ct_image *part = &w->part;

    if (s->config.kind == CT_LABEL_NONE)
        return (float)s->config.ignore_label;
    if (s->config.kind == CT_LABEL_IMAGE)
        return (float)s->line[w->number].number;
    return (float)part->pixels[y * part->height / rows * part->width +
                               x * part->width / columns];
}

static void write_row(const struct ct_segments *s, const struct ct_worker *w,
                      const struct ct_image *im, const struct window *win,
                      int64_t y, int64_t height, int64_t width, float *data)
{
    const Caffe__TransformationParameter *p = s->batches.transform->param;
    const int64_t c_max = channels(s), plane = height * width;
    const int64_t from_y = y + win->top;
    float *label = data + c_max * plane;

    for (int64_t x = 0; x < width; x++) {
        const int64_t at     = y * width + (win->mirror ? width - 1 - x : x);
        const int64_t from_x = x + win->left;
        const bool inside = from_y < im->height && from_x < im->width;

        label[at] = inside ? label_at(s, w, from_y, from_x, im->height,
                                      im->width)
                           : (float)s->config.ignore_label;
        for (int64_t c = 0; c < c_max; c++) {
            const float mean = p->n_mean_value == 0 ? 0
                               : p->mean_value[p->n_mean_value > 1 ? c : 0];
            const unsigned char *px =
                im->pixels + (from_y * im->width + from_x) * c_max + c;

            data[c * plane + at] =
                inside ? ((float)*px - mean) * p->scale : 0;
        }
    }
}

static enum ct_status convert(struct ct_segments *s, struct ct_worker *w,
                              const struct ct_shape *shape, float *data)
{
    const bool crops = s->batches.transform->crop > 0;
    const struct ct_image *im;
    struct window win;
    int64_t height, width;
    float *tail;

    CT_TRY(load_pair(s, w, &im));
    height = crops ? s->batches.transform->crop : im->height;
    width  = crops ? s->batches.transform->crop : im->width;
    if ((channels(s) + 1) * height * width + TAIL != shape->dim[1])
        return ct_fail(CT_ESHAPE, "an image of %" PRId64 " x %" PRId64
                       " pixels in a batch of others: give all the same size, "
                       "new_height and new_width, or a crop_size", width,
                       height);
    win = draw_window(s, w, im->height, im->width, height, width);
    for (int64_t y = 0; y < height; y++)
        write_row(s, w, im, &win, y, height, width, data);
    tail    = data + (channels(s) + 1) * height * width;
    tail[0] = (float)(w->resized.height < height ? w->resized.height : height);
    tail[1] = (float)(w->resized.width < width ? w->resized.width : width);
    tail[2] = (float)height;
    tail[3] = (float)width;
    return CT_OK;
}

/* Names the file; false when the sample's failure stands. */
static bool skips(struct ct_segments *s, struct ct_worker *w,
                  enum ct_status *st, int tries)
{
    const char *name = path(s, s->line[w->number].image);

    *st = ct_fail_in(*st, "layer %s: image %s", s->batches.layer->name, name);
    if (!ct_batches_skips(&s->batches, *st, tries))
        return false;
    w->number = (w->number + 1) % s->n_lines;
    return true;
}

static enum ct_status segments_shape(void *loader, struct ct_worker *w,
                                     struct ct_shape *out)
{
    struct ct_segments *s = loader;
    int64_t height, width;
    enum ct_status st;
    int tries = 0;

    do
        st = measure(s, w, &height, &width);
    while (st != CT_OK && skips(s, w, &st, ++tries));
    if (st == CT_OK)
        *out = CT_SHAPE(s->batches.batch_size,
                        (channels(s) + 1) * height * width + TAIL);
    return st;
}

static enum ct_status segments_load(void *loader, struct ct_worker *w,
                                    const struct ct_shape *shape, float *data,
                                    float *label)
{
    struct ct_segments *s = loader;
    enum ct_status st;
    int tries = 0;

    do
        st = convert(s, w, shape, data);
    while (st != CT_OK && skips(s, w, &st, ++tries));
    *label = 0;
    return st;
}

static const struct ct_loader_ops segments_loader = {
    .pick  = segments_pick,
    .shape = segments_shape,
    .load  = segments_load,
};

static enum ct_status check(const struct ct_layer *l,
                            const struct ct_segments *s)
{
    const struct ct_segments_config *c      = &s->config;
    const Caffe__TransformationParameter *p = ct_transform_param(l->param);
    const bool scaled = p->n_scale_factors > 0 || p->n_rand_resize > 0;

    if (!c->source || !c->source[0])
        return ct_fail(CT_EINVAL, "layer %s: %s has no source", l->name,
                       c->param);
    if ((c->new_height == 0) != (c->new_width == 0) ||
        c->new_height > 65500 || c->new_width > 65500)
        return ct_fail(CT_EINVAL, "layer %s: give new_height and new_width, "
                       "at most 65500, or neither", l->name);
    if (p->mean_file || p->augment)
        return ct_fail(CT_EINVAL, "layer %s: images with labels take "
                       "mean_value, and neither mean_file nor augment",
                       l->name);
    if (p->n_mean_value > 1 && p->n_mean_value != (size_t)channels(s))
        return ct_fail(CT_EINVAL, "layer %s: %zu values of mean_value for %"
                       PRId64 " channels", l->name, p->n_mean_value,
                       channels(s));
    if ((p->n_rand_resize != 0 && p->n_rand_resize != 2) ||
        (scaled && p->crop_size == 0 && p->crop_h == 0))
        return ct_fail(CT_EINVAL, "layer %s: rand_resize takes two numbers, "
                       "and random sizes need a crop_size", l->name);
    for (size_t i = 0; i < p->n_scale_factors + p->n_rand_resize; i++) {
        const float f = i < p->n_scale_factors
                            ? p->scale_factors[i]
                            : p->rand_resize[i - p->n_scale_factors];

        if (!(f > 0 && f <= 64))
            return ct_fail(CT_EINVAL, "layer %s: a size of %g, which must be "
                           "greater than 0 and at most 64", l->name,
                           (double)f);
    }
    return CT_OK;
}

enum ct_status ct_segments_setup(struct ct_layer *l,
                                 const struct ct_segments_config *config)
{
    struct ct_segments *s = l->state;
    enum ct_status st;

    s->config = *config;
    CT_TRY(check(l, s));
    CT_TRY(ct_batches_init(l, &segments_loader, config->batch_size, 4,
                           config->threads, config->skip));
    st = read_list(s);
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s", l->name);
    CT_INFO("A total of %lld images.", (long long)s->n_lines);
    ct_order_init(&s->order, l->run->seed, s->n_lines, config->shuffle);
    if (config->rand_skip) {
        s->start = ct_draw_below(~l->key, 0, 0, 0, config->rand_skip);
        CT_INFO("Skipping first %lld data points.", (long long)s->start);
        if (s->start >= s->n_lines)
            return ct_fail(CT_EINVAL, "layer %s: rand_skip skips all %lld "
                           "images", l->name, (long long)s->n_lines);
    }
    CT_TRY(ct_batches_probe(l));
    return ct_segments_seek(l, 0);
}

static enum ct_status shape_tops(const struct ct_segments *s,
                                 const struct ct_io *io, int64_t height,
                                 int64_t width)
{
    const int64_t n = s->batches.batch_size;

    CT_TRY(ct_reshape(io->top[0], CT_SHAPE(n, channels(s), height, width)));
    CT_TRY(ct_reshape(io->top[1], CT_SHAPE(n, 1, height, width)));
    return io->n_top > 2 ? ct_reshape(io->top[2], CT_SHAPE(n, 1, 1, 2))
                         : CT_OK;
}

enum ct_status ct_segments_reshape(struct ct_layer *l, const struct ct_io *io)
{
    struct ct_segments *s = l->state;
    int64_t height, width;

    CT_TRY(measure(s, &s->batches.probe, &height, &width));
    return shape_tops(s, io, height, width);
}

enum ct_status ct_segments_forward(struct ct_layer *l, const struct ct_io *io)
{
    struct ct_segments *s = l->state;
    struct ct_batches *b  = &s->batches;
    const struct ct_batch *batch;
    const float *x;
    int64_t each, plane, values;

    if (!b->prefetch)
        CT_TRY(ct_prefetch_create(&b->config, &b->prefetch));
    CT_TRY(ct_prefetch_next(b->prefetch, &batch));
    x    = batch->data->ptr;
    each = batch->shape.dim[1];
    CT_TRY(shape_tops(s, io, (int64_t)x[each - 2], (int64_t)x[each - 1]));
    plane  = ct_count(io->top[0], 2, CT_END);
    values = channels(s) * plane;
    ct_copy_rows(b->batch_size, values, x, each, ct_data(io->top[0]), values);
    ct_copy_rows(b->batch_size, plane, x + values, each, ct_data(io->top[1]),
                 plane);
    if (io->n_top > 2)
        ct_copy_rows(b->batch_size, 2, x + values + plane, each,
                     ct_data(io->top[2]), 2);
    return CT_OK;
}

enum ct_status ct_segments_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct ct_segments *s = l->state;

    ct_batches_stop(&s->batches);
    s->batches.shard.skew = ct_deal_skew(l, &s->batches.shard);
    s->pass  = (int64_t)n_passes;
    s->epoch = ct_shard_position(&s->batches.shard, s->start, s->pass, 0) /
               s->order.n;
    return CT_OK;
}

int64_t ct_segments_records(const struct ct_layer *l)
{
    const struct ct_segments *s = l->state;

    return s->order.n;
}

void ct_segments_teardown(struct ct_layer *l)
{
    struct ct_segments *s = l->state;

    if (s->batches.layer)
        ct_batches_fini(&s->batches);
    ct_text_fini(&s->paths);
    ct_free(s->line);
}
