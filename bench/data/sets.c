/* sets.c - made-up photographs, as a database and as a flat file.
 *
 * A picture is a sum of smooth random fields, each finer and fainter than the
 * one before, with a little grain: at quality 90 its JPEG is as long as that
 * of a photograph of its size. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#ifdef CT_HAVE_JPEG
#include <turbojpeg.h>
#endif

#include "base/mem.h"
#include "base/rng.h"
#include "data/db_writer.h"

enum { QUALITY = 90, FIELDS = 4, MOST_CELLS = 65 };

/* Adds one field: random values at the corners of cells, smooth between. */
static void add_field(uint64_t key, uint64_t number, int side, int cell,
                      float height, float *out)
{
    float corner[MOST_CELLS * MOST_CELLS];
    const int n = side / cell + 1;

    for (int i = 0; i < n * n; i++)
        corner[i] = height * (2 * ct_uniform(key, number, (uint64_t)i) - 1);
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const float *c = corner + y / cell * n + x / cell;
            float fx = (float)(x % cell) / (float)cell;
            float fy = (float)(y % cell) / (float)cell;
            float a  = c[0] + fx * (c[1] - c[0]);
            float b  = c[n] + fx * (c[n + 1] - c[n]);

            *out++ += a + fy * (b - a);
        }
}

/* side x side pixels, B G R interleaved. */
static void draw(uint64_t number, int side, float *plane, unsigned char *out)
{
    static const int cell[FIELDS]     = { 4, 8, 32, 64 };
    static const float height[FIELDS] = { 30, 30, 60, 80 };
    const int n = side * side;

    for (uint64_t c = 0; c < 3; c++) {
        for (int i = 0; i < n; i++)
            plane[i] = 128;
        for (int f = 0; f < FIELDS; f++) {
            /* Light varies finely, colour coarsely. */
            uint64_t key = f < 2 ? 1 : 2 + c;

            if (cell[f] < side)
                add_field(key, number * FIELDS + (uint64_t)f, side, cell[f],
                          height[f], plane);
        }
        for (int i = 0; i < n; i++) {
            float v = plane[i] + 16 * ct_uniform(9, number, (uint64_t)i);

            out[3 * i + (int)c] =
                (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

static enum ct_status to_jpeg(const unsigned char *pixels, int side,
                              struct ct_text *out)
{
#ifdef CT_HAVE_JPEG
    tjhandle h          = tjInitCompress();
    unsigned char *file = NULL;
    unsigned long n     = 0;
    bool good = h && tjCompress2(h, pixels, side, 0, side, TJPF_BGR, &file,
                                 &n, TJSAMP_420, QUALITY,
                                 TJFLAG_ACCURATEDCT) == 0;

    out->n_bytes = 0;
    if (good)
        ct_text_add_bytes(out, file, n);
    tjFree(file);
    if (h)
        tjDestroy(h);
    return good && !out->failed ? CT_OK : ct_fail(CT_EIO, "no JPEG");
#else
    (void)pixels, (void)side, (void)out;
    return ct_fail(CT_ENOTSUP, "this build has no JPEG");
#endif
}

static void to_planes(const unsigned char *pixels, int n, struct ct_text *out)
{
    out->n_bytes = 0;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < n; i++)
            ct_text_add_bytes(out, &pixels[3 * i + c], 1);
}

static enum ct_status put_pictures(const struct bench_set *s,
                                   struct ct_db_writer *db, float *plane,
                                   unsigned char *pixels,
                                   struct ct_text *bytes)
{
    for (int i = 0; i < s->n_records; i++) {
        struct ct_datum d = { 3, s->side, s->side, i % 10, .encoded = s->jpeg };

        draw((uint64_t)i, s->side, plane, pixels);
        if (s->jpeg)
            CT_TRY(to_jpeg(pixels, s->side, bytes));
        else
            to_planes(pixels, s->side * s->side, bytes);
        d.data = (struct ct_bytes){ bytes->s, bytes->n_bytes };
        CT_TRY(ct_db_writer_put_datum(db, 8, i, &d,
                                      CT_DATUM_SHAPE | CT_DATUM_LABEL |
                                          CT_DATUM_ENCODED, NULL));
    }
    return ct_db_writer_finish(db);
}

static enum ct_status make_database(const struct bench_set *s,
                                    const char *path)
{
    size_t n               = (size_t)s->side * (size_t)s->side;
    struct ct_db_writer *w = NULL;
    struct ct_text bytes   = { 0 };
    unsigned char *pixels  = NULL;
    float *plane           = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc(n, sizeof(*plane), "plane", &plane), st, out);
    CT_TRY_GOTO(ct_alloc(n, 3, "pixels", &pixels), st, out);
    CT_TRY_GOTO(ct_db_writer_create("lmdb", path, &w), st, out);
    st = put_pictures(s, w, plane, pixels, &bytes);
out:
    ct_db_writer_destroy(w);
    ct_text_fini(&bytes);
    ct_free(pixels);
    ct_free(plane);
    return st;
}

/* What the records hold, one after the other. */
static enum ct_status make_flat(struct bench_files *f)
{
    struct ct_cursor *c = NULL;
    struct ct_db *db    = NULL;
    struct ct_datum d;
    enum ct_status st;
    FILE *to = fopen(f->flat.s, "wb");

    if (!to)
        return ct_fail(CT_EIO, "%s: %s", f->flat.s, strerror(errno));
    CT_TRY_GOTO(ct_db_open("lmdb", f->db.s, CT_DB_READ, &db), st, out);
    CT_TRY_GOTO(ct_cursor_create(db, &c), st, out);
    for (int i = 0; i < f->set->n_records; i++) {
        if (!ct_cursor_valid(c))
            CT_TRY_GOTO(ct_fail(CT_EINVAL, "%s has %d records, not %d: remove "
                                "it", f->db.s, i, f->set->n_records), st, out);
        CT_TRY_GOTO(ct_datum_read(ct_cursor_value(c), &d), st, out);
        if (fwrite(d.data.ptr, 1, d.data.n, to) != d.data.n)
            CT_TRY_GOTO(ct_fail(CT_EIO, "%s: %s", f->flat.s,
                                strerror(errno)), st, out);
        f->at[i + 1] = f->at[i] + d.data.n;
        CT_TRY_GOTO(ct_cursor_next(c), st, out);
    }
out:
    ct_cursor_destroy(c);
    ct_db_close(db);
    if (fclose(to) != 0 && st == CT_OK)
        st = ct_fail(CT_EIO, "%s: %s", f->flat.s, strerror(errno));
    return st;
}

enum ct_status bench_files_make(const struct bench_set *set,
                                const char *folder, struct bench_files *out)
{
    struct stat info;

    *out = (struct bench_files){ .set = set };
    ct_text_addf(&out->db, "%s/%s_lmdb", folder, set->name);
    ct_text_addf(&out->flat, "%s/%s.bytes", folder, set->name);
    if (out->db.failed || out->flat.failed)
        return CT_ENOMEM;
    CT_TRY(ct_alloc((size_t)set->n_records + 1, sizeof(*out->at), "offsets",
                    &out->at));
    if (stat(out->db.s, &info) != 0)
        CT_TRY(make_database(set, out->db.s));
    return make_flat(out);
}

void bench_files_fini(struct bench_files *f)
{
    ct_text_fini(&f->db);
    ct_text_fini(&f->flat);
    ct_free(f->at);
}
