/* image_set.c - a database from a list of image files. */
#include "data/image_set.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "cortado/log.h"
#include "data/db_writer.h"
#include "data/images.h"
#include "data/order.h"

/* What is used from one image to the next. */
struct work {
    const struct ct_image_set *set;
    struct ct_codec codec;
    struct ct_image image, scratch;
    struct ct_room  file, planes;
    struct ct_bytes bytes; /* of the file */
    struct ct_text  path, key, coded, record;
    struct ct_text  wrapped;
    int             width, height, channels; /* of the first; 0: not yet */
    int             file_width, file_height, to_width, to_height;
};

static void work_fini(struct work *w)
{
    ct_codec_fini(&w->codec);
    ct_image_fini(&w->image);
    ct_image_fini(&w->scratch);
    ct_room_fini(&w->file);
    ct_room_fini(&w->planes);
    ct_text_fini(&w->path);
    ct_text_fini(&w->key);
    ct_text_fini(&w->coded);
    ct_text_fini(&w->record);
    ct_text_fini(&w->wrapped);
}

/* What stands after the last point, as Caffe looks for it. */
static const char *name_type(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : NULL;
}

/* Whether a file of this name may go into the database as it is. */
static bool type_fits(const char *name, const char *type)
{
    const char *have = name_type(name);

    type += type[0] == '.';
    return have && (strcasecmp(have, type) == 0 ||
                    (strcasecmp(have, "jpeg") == 0 &&
                     strcasecmp(type, "jpg") == 0));
}

static enum ct_status work_check_size(struct work *w)
{
    const struct ct_image *im = &w->image;

    if (w->width == 0) {
        w->width    = im->width;
        w->height   = im->height;
        w->channels = im->channels;
    }
    if (im->width == w->width && im->height == w->height &&
        im->channels == w->channels)
        return CT_OK;
    return ct_fail(CT_ESHAPE, "%s is %d x %d x %d, the first image %d x %d x "
                   "%d: resize them, or leave out the check of sizes",
                   w->path.s, im->channels, im->height, im->width, w->channels,
                   w->height, w->width);
}

static enum ct_status work_encode(struct work *w, const char *name,
                                  const char *type, struct ct_datum *d)
{
    const struct ct_image_set *s = w->set;

    d->encoded = true;
    if (w->image.width == w->file_width &&
        w->image.height == w->file_height && s->width == 0 &&
        s->height == 0 && type_fits(name, type)) {
        d->data = w->bytes;
        return CT_OK;
    }
    CT_TRY(ct_image_encode(&w->image, type, &w->coded));
    d->data = (struct ct_bytes){ w->coded.s, w->coded.n_bytes };
    return CT_OK;
}

static enum ct_status work_planes(struct work *w, struct ct_datum *d)
{
    const struct ct_image *im = &w->image;
    size_t n = (size_t)im->width * (size_t)im->height;
    size_t channels = (size_t)im->channels;
    unsigned char *to;

    CT_TRY(ct_room_grow(&w->planes, n * channels));
    to = w->planes.ptr;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < n; i++)
            *to++ = im->pixels[i * channels + c];
    d->channels = im->channels;
    d->height   = im->height;
    d->width    = im->width;
    d->data     = (struct ct_bytes){ w->planes.ptr, n * channels };
    return CT_OK;
}

/* The size that a file's image is to have. */
static void work_target(struct work *w, const struct ct_image *file)
{
    const struct ct_image_set *s = w->set;
    const int shorter = file->width < file->height ? file->width
                                                   : file->height;
    const int longer  = file->width + file->height - shorter;
    double scale      = s->min_dim > 0 ? (double)s->min_dim / shorter : 1;

    if (s->max_dim > 0 && scale * longer > s->max_dim)
        scale = (double)s->max_dim / longer;
    w->to_width  = s->width ? s->width : (int)(file->width * scale + 0.5);
    w->to_height = s->height ? s->height : (int)(file->height * scale + 0.5);
    w->to_width  = w->to_width < 1 ? 1 : w->to_width;
    w->to_height = w->to_height < 1 ? 1 : w->to_height;
}

static enum ct_status work_decode(struct work *w)
{
    const struct ct_image_set *s = w->set;
    enum ct_image_mode mode = s->gray ? CT_IMAGE_GRAY : CT_IMAGE_COLOR;
    bool resize = (s->width > 0 && s->height > 0) || s->min_dim > 0 ||
                  s->max_dim > 0;
    const struct ct_image *file = resize ? &w->scratch : &w->image;

    CT_TRY(ct_room_read_file(&w->file, w->path.s, &w->bytes));
    CT_TRY(ct_image_decode(&w->codec, w->bytes, mode,
                           resize ? &w->scratch : &w->image));
    w->file_width  = file->width;
    w->file_height = file->height;
    if (!resize)
        return CT_OK;
    work_target(w, &w->scratch);
    return ct_image_resize(&w->codec, &w->scratch, w->to_width, w->to_height,
                           &w->image);
}

/* Reads image `name`; *readable tells a bad file from a failure of ours. */
static enum ct_status work_load(struct work *w, const char *name,
                                bool *readable)
{
    enum ct_status st;

    w->path.n_bytes = 0;
    ct_text_addf(&w->path, "%s%s", w->set->root, name);
    if (w->path.failed)
        return CT_ENOMEM;
    st        = work_decode(w);
    *readable = st == CT_OK;
    if (st == CT_OK || st == CT_ENOMEM)
        return st;
    CT_ERROR("Could not open or find file %s (%s)", w->path.s,
             ct_last_error());
    return CT_OK;
}

static enum ct_status work_datum(struct work *w, const char *name, int label)
{
    const struct ct_image_set *s = w->set;
    const char *type             = s->encode_type;
    struct ct_datum d            = { .label = label };
    unsigned fields              = CT_DATUM_LABEL | CT_DATUM_ENCODED;

    if (s->encoded && !type)
        type = name_type(name);
    if (s->encoded && !type)
        return ct_fail(CT_EINVAL, "the name %s does not say which type of "
                       "image to encode: give one", name);
    if (type) {
        CT_TRY(work_encode(w, name, type, &d));
    } else {
        CT_TRY(work_planes(w, &d));
        fields |= CT_DATUM_SHAPE;
    }
    return ct_datum_write(&d, fields, NULL, &w->record);
}

static enum ct_status work_put(struct work *w, struct ct_db_writer *db,
                               const struct ct_image_list *list, int64_t number,
                               int64_t line, struct ct_image_set_counts *count)
{
    const char *name       = ct_image_list_name(list, line);
    struct ct_text *record = &w->record;
    bool readable          = false;

    CT_TRY(work_load(w, name, &readable));
    if (!readable) {
        count->n_unreadable++;
        return CT_OK;
    }
    if (w->set->check_size)
        CT_TRY(work_check_size(w));
    CT_TRY(work_datum(w, name, list->line[line].label));
    if (w->set->wrap) {
        CT_TRY(w->set->wrap(w->set->wrap_arg, line, w->file_width,
                            w->file_height,
                            (struct ct_bytes){ w->record.s,
                                               w->record.n_bytes },
                            &w->wrapped));
        record = &w->wrapped;
    }
    w->key.n_bytes = 0;
    ct_text_addf(&w->key, "%08" PRId64 "_%s", number, name);
    if (w->key.failed)
        return CT_ENOMEM;
    CT_TRY(ct_db_writer_put(db, (struct ct_bytes){ w->key.s, w->key.n_bytes },
                            (struct ct_bytes){ record->s, record->n_bytes }));
    count->n_written++;
    return CT_OK;
}

enum ct_status ct_image_set_write(const struct ct_image_set *set,
                                  const struct ct_image_list *list,
                                  const char *path,
                                  const struct ct_watch *watch,
                                  struct ct_image_set_counts *out)
{
    struct work w           = { .set = set };
    struct ct_db_writer *db = NULL;
    struct ct_order order;
    enum ct_status st;

    *out = (struct ct_image_set_counts){ 0 };
    ct_order_init(&order, set->seed, list->n, set->shuffle);
    CT_TRY_GOTO(ct_db_writer_create(set->backend, path, &db), st, out);
    for (int64_t i = 0; i < list->n; i++) {
        int64_t written = out->n_written;

        CT_TRY_GOTO(work_put(&w, db, list, i, ct_order_at(&order, i).index,
                             out), st, out);
        if (out->n_written > written)
            CT_TRY_GOTO(ct_watch_step(watch, out->n_written, list->n), st,
                        out);
    }
    if (out->n_written == 0)
        CT_TRY_GOTO(ct_fail(CT_EINVAL, "%s is not made: none of the %" PRId64
                            " images could be read", path, list->n), st, out);
    st = ct_db_writer_finish(db);
out:
    ct_db_writer_destroy(db);
    work_fini(&w);
    return st;
}
