/* window_data.c - batches of image windows, Caffe type "WindowData" (R-CNN).
 *
 *     top 0: N x C x crop_size x crop_size      top 1: N labels
 *
 * The window file repeats, for each image:
 *
 *     # index
 *     path          below root_folder
 *     channels
 *     height
 *     width
 *     n_windows
 *     label overlap x1 y1 x2 y2        n_windows times, corners included
 *
 * A window with overlap >= fg_threshold is foreground, one with less than
 * bg_threshold background with label 0, the rest are left out.  A batch has
 * N - int(N fg_fraction) background windows, then the foreground ones, drawn
 * with repetition.  Each is scaled to crop_size x crop_size (crop_mode
 * "square": from the square around it), with context_pad output pixels of
 * surroundings on every side; what lies outside of the image stays 0.
 *
 * mean, mirror and crop_size come from transform_param; so does scale where
 * window_data_param has none (Caffe reads the latter only). */
#include "layers/batches.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/sample.h"
#include "layers/deal.h"
#include "layers/window_file.h"
#include "proto/params.h"

enum { DRAW_WINDOW, DRAW_MIRROR };

struct window_data {
    struct ct_batches batches; /* first: batches.h finds it there */
    const Caffe__WindowDataParameter *param;
    struct ct_window_file file;
    struct ct_room       *cached; /* one an image; NULL: not cached */
    int64_t               n_fg;   /* of a batch */
    int64_t               pass;
    int                   channels;
    float                 scale;
    bool                  square;
};

/* Where a window lands: the part of the image, and the part of the output. */
struct warp {
    int  x1, y1, x2, y2;
    int  pad_w, pad_h, width, height;
    bool mirror;
};

static enum ct_status windows_pick(void *loader, struct ct_worker *w,
                                   int64_t item)
{
    struct window_data *d = loader;

    /* The draws are those of the sample's place in the whole run. */
    w->epoch  = 0;
    w->sample = ct_shard_position(&d->batches.shard, 0, d->pass, item);
    w->number = item >= d->batches.batch_size - d->n_fg;
    if (item == d->batches.batch_size - 1)
        d->pass++;
    return CT_OK;
}

static enum ct_status windows_shape(void *loader, struct ct_worker *w,
                                    struct ct_shape *out)
{
    struct window_data *d = loader;
    int crop              = d->batches.transform->crop;

    (void)w;
    *out = CT_SHAPE(d->batches.batch_size, d->channels, crop, crop);
    return CT_OK;
}

/* Clip an expanded window to the image, and give the output the same share
 * of padding that was cut off. */
static void warp_clip(struct warp *p, int columns, int rows, int crop)
{
    int all_w = p->x2 - p->x1 + 1, all_h = p->y2 - p->y1 + 1;
    int left  = p->x1 < 0 ? -p->x1 : 0, top = p->y1 < 0 ? -p->y1 : 0;
    int right = p->x2 - columns + 1 > 0 ? p->x2 - columns + 1 : 0;
    int low   = p->y2 - rows + 1 > 0 ? p->y2 - rows + 1 : 0;
    float scale_x = (float)crop / (float)all_w;
    float scale_y = (float)crop / (float)all_h;

    p->x1 += left;
    p->x2 -= right;
    p->y1 += top;
    p->y2 -= low;
    p->width  = (int)roundf((float)(p->x2 - p->x1 + 1) * scale_x);
    p->height = (int)roundf((float)(p->y2 - p->y1 + 1) * scale_y);
    p->pad_w  = (int)roundf((float)(p->mirror ? right : left) * scale_x);
    p->pad_h  = (int)roundf((float)top * scale_y);
    if (p->pad_h + p->height > crop)
        p->height = crop - p->pad_h;
    if (p->pad_w + p->width > crop)
        p->width = crop - p->pad_w;
}

static void warp_make(const struct window_data *d, const struct ct_window *win,
                      int columns, int rows, struct warp *p)
{
    const int crop  = d->batches.transform->crop;
    const float pad = (float)d->param->context_pad;
    float grow, half_w, half_h, centre_x, centre_y;

    p->x1    = win->x1;
    p->y1    = win->y1;
    p->x2    = win->x2;
    p->y2    = win->y2;
    p->width = p->height = crop;
    p->pad_w = p->pad_h = 0;
    if (pad == 0 && !d->square)
        return;
    grow     = (float)crop / ((float)crop - 2 * pad);
    half_h   = (float)(p->y2 - p->y1 + 1) / 2;
    half_w   = (float)(p->x2 - p->x1 + 1) / 2;
    centre_x = (float)p->x1 + half_w;
    centre_y = (float)p->y1 + half_h;
    if (d->square)
        half_w = half_h = fmaxf(half_w, half_h);
    p->x1 = (int)roundf(centre_x - half_w * grow);
    p->x2 = (int)roundf(centre_x + half_w * grow);
    p->y1 = (int)roundf(centre_y - half_h * grow);
    p->y2 = (int)roundf(centre_y + half_h * grow);
    warp_clip(p, columns, rows, crop);
}

/* The window's pixels, packed, in w->resized; then scaled, in w->image. */
static enum ct_status warp_pixels(const struct warp *p, struct ct_worker *w)
{
    const size_t channels = (size_t)w->image.channels;
    const size_t row      = (size_t)(p->x2 - p->x1 + 1) * channels;

    if (p->x1 < 0 || p->y1 < 0 || p->x2 >= w->image.width ||
        p->y2 >= w->image.height || p->x1 > p->x2 || p->y1 > p->y2)
        return ct_fail(CT_EPARSE, "window %d %d %d %d is not inside of an "
                       "image of %d x %d", p->x1, p->y1, p->x2, p->y2,
                       w->image.width, w->image.height);
    CT_TRY(ct_image_size(&w->resized, p->x2 - p->x1 + 1, p->y2 - p->y1 + 1,
                         w->image.channels));
    for (int y = p->y1; y <= p->y2; y++)
        memcpy(w->resized.pixels + (size_t)(y - p->y1) * row,
               w->image.pixels + ((size_t)y * (size_t)w->image.width +
                                  (size_t)p->x1) * channels, row);
    if (p->width < 1 || p->height < 1) {
        w->image.width = 0; /* nothing of it is visible */
        return CT_OK;
    }
    return ct_image_resize(&w->codec, &w->resized, p->width, p->height,
                           &w->image);
}

static void windows_write(const struct window_data *d, const struct warp *p,
                          const struct ct_image *im, float *out)
{
    const struct ct_transform *t = d->batches.transform;
    const int crop               = t->crop;
    const int off_x = t->mean ? (t->mean_width - crop) / 2 + p->pad_w : 0;
    const int off_y = t->mean ? (t->mean_width - crop) / 2 + p->pad_h : 0;

    memset(out, 0, (size_t)d->channels * (size_t)crop * (size_t)crop *
                       sizeof(*out));
    for (int c = 0; c < im->channels && im->width; c++)
        for (int y = 0; y < p->height; y++)
            for (int x = 0; x < p->width; x++) {
                int from = p->mirror ? p->width - 1 - x : x;
                float v  = im->pixels[(y * p->width + from) * im->channels + c];
                float mean =
                    t->mean ? t->mean[(c * t->mean_height + y + off_y) *
                                          t->mean_width + x + off_x]
                    : t->n_values ? t->param->mean_value[t->n_values > 1 ? c
                                                                         : 0]
                                  : 0;

                out[(c * crop + y + p->pad_h) * crop + x + p->pad_w] =
                    (v - mean) * d->scale;
            }
}

static enum ct_status windows_open(struct window_data *d, struct ct_worker *w,
                                   int64_t image, const char *path)
{
    struct ct_bytes file;

    if (!d->cached)
        CT_TRY(ct_room_read_file(&w->file, path, &file));
    else
        file = (struct ct_bytes){ d->cached[image].ptr,
                                  d->cached[image].bytes };
    return ct_image_decode(&w->codec, file, CT_IMAGE_COLOR, &w->image);
}

static enum ct_status windows_load(void *loader, struct ct_worker *w,
                                   const struct ct_shape *shape, float *data,
                                   float *label)
{
    struct window_data *d = loader;
    const struct ct_transform *t = d->batches.transform;
    const struct ct_window *win;
    struct warp p = { 0 };
    const char *path;
    enum ct_status st;
    int64_t n = w->number ? d->file.n_fg : d->file.n_bg;

    win  = (w->number ? d->file.fg : d->file.bg) +
           (uint64_t)ct_draw(t->key, 0, w->sample, DRAW_WINDOW) *
               (uint64_t)n / ((uint64_t)1 << 32);
    path = ct_window_path(&d->file, win);
    p.mirror = t->param->mirror &&
               ct_draw_below(t->key, 0, w->sample, DRAW_MIRROR, 2);
    st = windows_open(d, w, win->image, path);
    if (st == CT_OK && w->image.channels != shape->dim[1])
        st = ct_fail(CT_ESHAPE, "the window file promises %lld channels, the "
                     "image has %d", (long long)shape->dim[1],
                     w->image.channels);
    if (st == CT_OK) {
        warp_make(d, win, w->image.width, w->image.height, &p);
        st = warp_pixels(&p, w);
    }
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s: image %s", d->batches.layer->name,
                          path);
    windows_write(d, &p, &w->image, data);
    *label = (float)win->label;
    return CT_OK;
}

static const struct ct_loader_ops windows_loader = {
    .pick  = windows_pick,
    .shape = windows_shape,
    .load  = windows_load,
};

static enum ct_status windows_cache(struct window_data *d)
{
    if (!d->param->cache_images)
        return CT_OK;
    CT_TRY(ct_alloc((size_t)d->file.n_images, sizeof(*d->cached),
                    "window images", &d->cached));
    for (int64_t i = 0; i < d->file.n_images; i++) {
        struct ct_bytes file;

        CT_TRY(ct_room_read_file(&d->cached[i],
                                 d->file.paths.s + d->file.image[i].path,
                                 &file));
        d->cached[i].bytes = file.n;
    }
    return CT_OK;
}

static enum ct_status windows_check(struct ct_layer *l)
{
    struct window_data *d                = l->state;
    const Caffe__WindowDataParameter *p  = d->param;
    const struct ct_transform *t         = d->batches.transform;

    if (t->crop < 1)
        return ct_fail(CT_EINVAL, "layer %s: WindowData needs a crop_size in "
                       "transform_param", l->name);
    if (2 * (uint64_t)p->context_pad >= (uint64_t)t->crop)
        return ct_fail(CT_EINVAL, "layer %s: context_pad %u leaves nothing of "
                       "crop_size %d", l->name, p->context_pad, t->crop);
    if (!d->square && strcmp(p->crop_mode, "warp") != 0)
        return ct_fail(CT_EINVAL, "layer %s: crop_mode is \"%s\"; use warp or "
                       "square", l->name, p->crop_mode);
    if (t->mean && (t->mean_channels != d->channels ||
                    t->mean_width != t->mean_height || t->mean_width < t->crop))
        return ct_fail(CT_ESHAPE, "layer %s: the mean must be square, of %d "
                       "channels and at least crop_size", l->name,
                       d->channels);
    if (t->n_values > 1 && t->n_values != d->channels)
        return ct_fail(CT_EINVAL, "layer %s: %d values of mean_value for %d "
                       "channels", l->name, t->n_values, d->channels);
    if ((d->n_fg > 0 && d->file.n_fg == 0) ||
        (d->n_fg < d->batches.batch_size && d->file.n_bg == 0))
        return ct_fail(CT_EINVAL, "layer %s: %s has no %s windows", l->name,
                       p->source, d->file.n_fg ? "background" : "foreground");
    return CT_OK;
}

static enum ct_status windows_setup(struct ct_layer *l, const struct ct_io *io)
{
    const Caffe__WindowDataParameter *p = ct_window_data_param(l->param);
    struct window_data *d               = l->state;
    enum ct_status st;

    (void)io;
    if (!p->source || !p->source[0])
        return ct_fail(CT_EINVAL, "layer %s: window_data_param has no source",
                       l->name);
    if (!(p->fg_fraction >= 0 && p->fg_fraction <= 1))
        return ct_fail(CT_EINVAL, "layer %s: fg_fraction lies in [0, 1]",
                       l->name);
    d->param = p;
    CT_TRY(ct_batches_init(l, &windows_loader, p->batch_size, 4, p->threads,
                           false));
    d->square = strcmp(p->crop_mode, "square") == 0;
    d->scale  = p->has_scale ? p->scale : d->batches.transform->param->scale;
    d->n_fg   = (int64_t)((float)p->batch_size * p->fg_fraction);
    st = ct_window_file_read(&d->file, p->source, p->root_folder,
                             p->fg_threshold, p->bg_threshold);
    if (st == CT_OK)
        st = windows_cache(d);
    if (st != CT_OK)
        return ct_fail_in(st, "layer %s", l->name);
    d->channels = d->file.channels;
    CT_INFO("Number of images: %lld", (long long)d->file.n_images);
    CT_TRY(windows_check(l));
    CT_TRY(ct_batches_probe(l));
    d->pass = 0;
    return CT_OK;
}

static enum ct_status windows_seek(struct ct_layer *l, uint64_t n_passes)
{
    struct window_data *d = l->state;

    ct_batches_stop(&d->batches);
    d->batches.shard.skew = ct_deal_skew(l, &d->batches.shard);
    d->pass = (int64_t)n_passes;
    return CT_OK;
}

static void windows_teardown(struct ct_layer *l)
{
    struct window_data *d = l->state;

    if (d->batches.layer)
        ct_batches_fini(&d->batches);
    for (int64_t i = 0; d->cached && i < d->file.n_images; i++)
        ct_room_fini(&d->cached[i]);
    ct_free(d->cached);
    ct_window_file_fini(&d->file);
}

const struct ct_layer_type ct_layer_window_data = {
    .name       = "WindowData",
    .bottoms    = CT_EXACTLY(0),
    .tops       = CT_EXACTLY(2),
    .flags      = CT_LAYER_SOURCE | CT_LAYER_DEALS | CT_LAYER_NO_GRAD |
                  CT_LAYER_NO_BOTTOM | CT_LAYER_NO_TOP,
    .state_size = sizeof(struct window_data),
    .setup      = windows_setup,
    .reshape    = ct_batches_reshape,
    .forward    = { [CT_CPU] = ct_batches_forward },
    .forward_to = ct_batches_forward_to,
    .seek       = windows_seek,
    .report     = ct_batches_report,
    .teardown   = windows_teardown,
};
