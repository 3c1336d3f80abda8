/* inspect_hdf5.c - the page of an HDF5 file: snapshots and data alike. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/hdf5.h"
#include "inspect.h"

static enum ct_status page_dataset(struct inspect *in, struct ct_hdf5 *h,
                                   const char *name)
{
    struct inspect_values v;
    struct ct_shape shape;
    enum ct_status st;
    char text[128];
    float *values = NULL;
    int64_t n;
    char *string = NULL;

    if (ct_hdf5_shape(h, name, &shape) != CT_OK) {
        st = ct_hdf5_read_string(h, name, &string);
        if (st == CT_OK)
            printf("  %-32s \"%s\"\n", name, string);
        else
            printf("  %-32s DAMAGED: %s\n", name, ct_last_error());
        in->whole &= st == CT_OK;
        ct_free(string);
        return CT_OK;
    }
    n = ct_shape_count(&shape, 0, CT_END);
    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*values), "HDF5 values", &values));
    st = ct_hdf5_read(h, name, n, values);
    printf("  %-32s ", name);
    if (st == CT_OK) {
        v = inspect_values(values, NULL, n);
        printf("%-24s ", ct_shape_text(&shape, text, sizeof(text)));
        inspect_print_values(&v);
    } else {
        printf("DAMAGED: %s\n", ct_last_error());
    }
    in->whole &= st == CT_OK;
    ct_free(values);
    return CT_OK;
}

static enum ct_status page_group(struct inspect *in, struct ct_hdf5 *h,
                                 const char *group, int depth)
{
    enum ct_status st = CT_OK;

    for (int kind = CT_HDF5_DATASETS; kind <= (int)CT_HDF5_GROUPS; kind++) {
        char **names = NULL;
        int n        = 0;

        CT_TRY(ct_hdf5_list(h, group, (enum ct_hdf5_kind)kind, &names, &n));
        for (int i = 0; i < n && st == CT_OK; i++) {
            struct ct_text path = { 0 };

            ct_text_addf(&path, "%s%s%s", group,
                         group[strlen(group) - 1] == '/' ? "" : "/", names[i]);
            if (path.failed)
                st = CT_ENOMEM;
            else if (kind == CT_HDF5_DATASETS)
                st = page_dataset(in, h, path.s);
            else if (depth < 32)
                st = page_group(in, h, path.s, depth + 1);
            ct_text_fini(&path);
        }
        ct_hdf5_list_free(names, n);
        CT_TRY(st);
    }
    return st;
}

/* Caffe's own layouts: data/<layer>/<i> and history/<i>. */
static const char *file_kind(struct ct_hdf5 *h)
{
    char **names = NULL;
    int n        = 0;

    if (ct_hdf5_has(h, "history") && ct_hdf5_has(h, "iter"))
        return "solverstate";
    if (ct_hdf5_has(h, "data") &&
        ct_hdf5_list(h, "/data", CT_HDF5_GROUPS, &names, &n) == CT_OK) {
        ct_hdf5_list_free(names, n);
        if (n > 0)
            return "caffemodel";
    }
    return "arrays";
}

enum ct_status inspect_hdf5(struct inspect *in)
{
    struct ct_hdf5 *h = NULL;
    enum ct_status st, closed;

    CT_TRY(ct_hdf5_open(in->path, &h));
    printf("%s: HDF5, %s\n", in->path, file_kind(h));
    st     = page_group(in, h, "/", 0);
    closed = ct_hdf5_close(h);
    return st == CT_OK ? closed : st;
}
