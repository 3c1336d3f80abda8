/* mean.c - the mean image of a database. */
#include "data/mean.h"

#include "base/mem.h"
#include "data/sample.h"
#include "proto/edit.h"

struct mean {
    double         *sum;
    int64_t         n;
    int             channels, height, width;
    struct ct_codec codec;
    struct ct_image image;
    struct ct_room  floats;
};

static enum ct_status mean_start(struct mean *m, const struct ct_pixels *p)
{
    m->channels = p->channels;
    m->height   = p->height;
    m->width    = p->width;
    return ct_alloc((size_t)p->channels * (size_t)p->height *
                    (size_t)p->width, sizeof(*m->sum), "image sums", &m->sum);
}

static double pixel(const struct ct_pixels *p, int64_t i)
{
    return p->is_float ? (double)((const float *)p->ptr)[i]
                       : (double)((const unsigned char *)p->ptr)[i];
}

static enum ct_status mean_add(struct mean *m, struct ct_bytes record)
{
    struct ct_datum d;
    struct ct_pixels p;
    int64_t plane, channels;

    CT_TRY(ct_datum_read(record, &d));
    CT_TRY(ct_datum_pixels(&d, CT_IMAGE_NATIVE, &m->codec, &m->image,
                           &m->floats, &p));
    if (!m->sum)
        CT_TRY(mean_start(m, &p));
    if (p.channels != m->channels || p.height != m->height ||
        p.width != m->width)
        return ct_fail(CT_ESHAPE, "%d x %d x %d, the first record is %d x %d "
                       "x %d; a mean image needs records of one size",
                       p.channels, p.height, p.width, m->channels, m->height,
                       m->width);
    plane    = (int64_t)p.height * p.width;
    channels = p.channels;
    if (p.planar)
        for (int64_t i = 0; i < plane * channels; i++)
            m->sum[i] += pixel(&p, i);
    else
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < plane; i++)
                m->sum[c * plane + i] += pixel(&p, i * channels + c);
    m->n++;
    return CT_OK;
}

static enum ct_status mean_walk(struct mean *m, struct ct_db *db,
                                const struct ct_watch *watch)
{
    struct ct_cursor *c = NULL;
    int64_t total;
    char key[128];
    enum ct_status st;

    CT_TRY(ct_db_count(db, &total));
    if (total == 0)
        return ct_fail(CT_EINVAL, "database %s is empty", ct_db_path(db));
    CT_TRY(ct_cursor_create(db, &c));
    for (st = CT_OK; ct_cursor_valid(c);) {
        st = mean_add(m, ct_cursor_value(c));
        if (st != CT_OK) {
            ct_key_text(ct_cursor_key(c), key, sizeof(key));
            st = ct_fail_in(st, "database %s, record %s", ct_db_path(db), key);
            break;
        }
        CT_TRY_GOTO(ct_watch_step(watch, m->n, total), st, out);
        CT_TRY_GOTO(ct_cursor_next(c), st, out);
    }
out:
    ct_cursor_destroy(c);
    return st;
}

static enum ct_status mean_proto(const struct mean *m, Caffe__BlobProto **out)
{
    Caffe__BlobProto *p = NULL;
    size_t n = (size_t)m->channels * (size_t)m->height * (size_t)m->width;
    enum ct_status st;

    CT_TRY(ct_edit_create(&caffe__blob_proto__descriptor, &p));
    st = ct_edit_resize(&p->data, n, sizeof(*p->data));
    if (st != CT_OK) {
        ct_message_free(p);
        return st;
    }
    p->n_data  = n;
    p->has_num = p->has_channels = p->has_height = p->has_width = 1;
    p->num      = 1;
    p->channels = m->channels;
    p->height   = m->height;
    p->width    = m->width;
    for (size_t i = 0; i < n; i++)
        p->data[i] = (float)(m->sum[i] / (double)m->n);
    *out = p;
    return CT_OK;
}

enum ct_status ct_mean_of_db(const char *backend, const char *path,
                             const struct ct_watch *watch,
                             Caffe__BlobProto **out)
{
    struct mean m    = { 0 };
    struct ct_db *db = NULL;
    enum ct_status st;

    CT_TRY(ct_db_open(backend, path, CT_DB_READ, &db));
    st = mean_walk(&m, db, watch);
    if (st == CT_OK)
        st = mean_proto(&m, out);
    ct_db_close(db);
    ct_free(m.sum);
    ct_codec_fini(&m.codec);
    ct_image_fini(&m.image);
    ct_room_fini(&m.floats);
    return st;
}

void ct_mean_channels(const Caffe__BlobProto *p, double *out)
{
    int64_t plane = (int64_t)p->height * p->width;

    for (int64_t c = 0; c < p->channels; c++) {
        out[c] = 0;
        for (int64_t i = 0; i < plane; i++)
            out[c] += (double)p->data[c * plane + i];
        out[c] /= (double)plane;
    }
}
