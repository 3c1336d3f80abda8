/* cifar.c - databases from CIFAR-10's binary batches. */
#include "data/cifar.h"

#include "base/file.h"
#include "base/mem.h"
#include "data/db_writer.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, RECORD = 1 + PIXELS, CLASSES = 10 };

static enum ct_status cifar_add(struct ct_db_writer *w, const char *path,
                                const unsigned char *at, size_t n_bytes,
                                const struct ct_watch *watch)
{
    struct ct_datum d = { .channels = 3, .height = SIDE, .width = SIDE };

    if (n_bytes == 0 || n_bytes % RECORD)
        return ct_fail(CT_EPARSE, "%s is no whole CIFAR-10 batch: %zu bytes "
                       "are not a number of records of %d", path, n_bytes,
                       (int)RECORD);
    for (size_t i = 0; i < n_bytes / RECORD; i++, at += RECORD) {
        int64_t number = ct_db_writer_n(w);

        if (at[0] >= CLASSES)
            return ct_fail(CT_EPARSE, "%s is no CIFAR-10 batch: record %zu has "
                           "label %d", path, i, at[0]);
        d.label = at[0];
        d.data  = (struct ct_bytes){ at + 1, PIXELS };
        CT_TRY(ct_db_writer_put_datum(w, 5, number, &d,
                                      CT_DATUM_SHAPE | CT_DATUM_LABEL, NULL));
        CT_TRY(ct_watch_step(watch, number + 1, 0));
    }
    return CT_OK;
}

enum ct_status ct_cifar_to_db(const char *const *file, int n,
                              const char *backend, const char *path,
                              const struct ct_watch *watch)
{
    struct ct_db_writer *w = NULL;
    enum ct_status st;

    CT_TRY(ct_db_writer_create(backend, path, &w));
    for (int i = 0; i < n; i++) {
        char *bytes = NULL;
        size_t n_bytes;

        CT_TRY_GOTO(ct_file_read(file[i], &bytes, &n_bytes), st, out);
        st = cifar_add(w, file[i], (const unsigned char *)bytes, n_bytes,
                       watch);
        ct_free(bytes);
        if (st != CT_OK)
            goto out;
    }
    st = ct_db_writer_finish(w);
out:
    ct_db_writer_destroy(w);
    return st;
}
