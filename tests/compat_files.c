/* compat_files.c - files that nets of tests/compat read and write. */
#include "compat_files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "data/annotation.h"
#include "data/db.h"
#include "data/hdf5.h"

enum { SIDE = 8, MOST = 256 };

static char folder[64];

enum ct_status compat_enter(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cortado_compat_XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0
               ? CT_OK : ct_fail(CT_EIO, "no folder %s", folder);
}

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *f)
{
    (void)st;
    (void)flag;
    (void)f;
    return remove(path);
}

void compat_leave(void)
{
    if (chdir("/") == 0)
        (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

enum ct_status compat_write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (!f)
        return ct_fail(CT_EIO, "%s cannot be written", path);
    fprintf(f, "%s\n", text);
    return fclose(f) == 0 ? CT_OK
                          : ct_fail(CT_EIO, "%s cannot be written", path);
}

static enum ct_status put(struct ct_db *db, const struct ct_objects *objects)
{
    char pixels[SIDE * SIDE];
    const struct ct_datum datum = { .channels = 1, .height = SIDE,
                                    .width = SIDE,
                                    .data = { pixels, sizeof(pixels) } };
    struct ct_text image = { 0 }, record = { 0 };
    enum ct_status st;

    memset(pixels, 100, sizeof(pixels));
    CT_TRY_GOTO(ct_datum_write(&datum, CT_DATUM_SHAPE, NULL, &image), st,
                out);
    CT_TRY_GOTO(ct_annotated_write((struct ct_bytes){ image.s, image.n_bytes },
                                   objects, &record), st, out);
    CT_TRY_GOTO(ct_db_put(db, (struct ct_bytes){ "0", 1 },
                          (struct ct_bytes){ record.s, record.n_bytes }),
                st, out);
    st = ct_db_commit(db);
out:
    ct_text_fini(&image);
    ct_text_fini(&record);
    return st;
}

enum ct_status compat_write_objects(const char *path, const float *value,
                                    int n)
{
    struct ct_objects objects = { 0 };
    struct ct_db *db = NULL;
    enum ct_status st;

    for (int i = 0; i + 5 <= n; i += 5) {
        const struct ct_object one = {
            .label = (int32_t)value[i],
            .box   = { value[i + 1], value[i + 2], value[i + 3],
                       value[i + 4] },
        };

        CT_TRY_GOTO(ct_objects_add(&objects, &one), st, out);
    }
    CT_TRY_GOTO(ct_db_open("lmdb", path, CT_DB_NEW, &db), st, out);
    st = put(db, &objects);
    ct_db_close(db);
out:
    ct_objects_fini(&objects);
    return st;
}

enum ct_status compat_read_hdf5(const char *path, int dataset, float *out,
                                int most, int *n)
{
    const char *name = dataset == 0 ? "data" : "label";
    struct ct_hdf5 *h = NULL;
    struct ct_shape shape;
    enum ct_status st;

    CT_TRY(ct_hdf5_open(path, &h));
    st = ct_hdf5_shape(h, name, &shape);
    if (st == CT_OK) {
        *n = (int)ct_shape_count(&shape, 0, CT_END);
        st = *n <= most ? ct_hdf5_read(h, name, *n, out)
                        : ct_fail(CT_ESHAPE, "%s has %d values", path, *n);
    }
    (void)ct_hdf5_close(h);
    return st;
}

static enum ct_status same_params(const struct ct_net *a,
                                  const struct ct_net *b)
{
    for (int i = 0; i < ct_net_n_params(a); i++) {
        const struct ct_blob *x = ct_net_param(a, i)->blob;
        const struct ct_blob *y = ct_net_param(b, i)->blob;
        float was[MOST], is[MOST];

        if (x->count > MOST || x->count != y->count)
            return ct_fail(CT_ESHAPE, "parameter %d is too large", i);
        CT_TRY(ct_blob_get(x, false, was));
        CT_TRY(ct_blob_get(y, false, is));
        if (memcmp(was, is, (size_t)x->count * sizeof(float)) != 0)
            return ct_fail(CT_EINVAL, "parameter %d is not what was stored",
                           i);
    }
    return CT_OK;
}

enum ct_status compat_store(const struct ct_net *net, const char *prototxt,
                            const char *path)
{
    const struct ct_net_options o = { .phase = CAFFE__PHASE__TRAIN,
                                      .quiet = true, .seed = 7 };
    struct ct_net *other = NULL;
    enum ct_status st;

    CT_TRY(ct_net_save_hdf5(net, path, false));
    CT_TRY(ct_net_create_file(prototxt, &o, &other));
    st = ct_net_load(other, path);
    if (st == CT_OK)
        st = same_params(net, other);
    ct_net_destroy(other);
    return st;
}
