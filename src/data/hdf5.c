/* hdf5.c - HDF5 files through the HDF5 C library.
 *
 * Each public function takes the lock, works, closes every identifier it
 * opened and lets go; inner functions run with the lock held.  An
 * identifier that was never opened is below zero, and closing such a one does
 * nothing, so every function has one way out. */
#include "data/hdf5_inner.h"

#ifdef CT_HAVE_HDF5
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/fork.h"
#include "base/mem.h"

static pthread_mutex_t h5_lock = PTHREAD_MUTEX_INITIALIZER;
CT_FORK_SAFE(h5_lock, CT_FORK_FILES)

/* A file that a full disk kept from being closed makes the library's own end
 * at exit crash.  Every file is closed by its owner, so nothing is lost. */
__attribute__((constructor)) static void h5_no_end(void)
{
    H5dont_atexit();
}

struct h5_guard ct_h5_enter(void)
{
    struct h5_guard g = { NULL, NULL };

    pthread_mutex_lock(&h5_lock);
    H5Eget_auto2(H5E_DEFAULT, &g.fn, &g.arg);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return g;
}

void ct_h5_leave(struct h5_guard g)
{
    /* A thread that ends with errors on its stack upsets the library's end. */
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, g.fn, g.arg);
    pthread_mutex_unlock(&h5_lock);
}

void ct_h5_close(hid_t id)
{
    if (id < 0)
        return;
    switch (H5Iget_type(id)) {
    case H5I_DATASET:
        H5Dclose(id);
        break;
    case H5I_DATASPACE:
        H5Sclose(id);
        break;
    case H5I_DATATYPE:
        H5Tclose(id);
        break;
    case H5I_ATTR:
        H5Aclose(id);
        break;
    case H5I_GENPROP_LST:
        H5Pclose(id);
        break;
    default:
        H5Oclose(id);
        break;
    }
}

enum ct_status ct_h5_refused(const struct ct_hdf5 *h, const char *verb,
                                 const char *name)
{
    return ct_fail(CT_EIO, "%s: cannot %s %s", h->path, verb, name);
}

bool ct_hdf5_is(const char *path)
{
    struct h5_guard g = ct_h5_enter();
    bool is           = H5Fis_hdf5(path) > 0;

    ct_h5_leave(g);
    return is;
}

static enum ct_status h5_handle(const char *path, struct ct_hdf5 **out)
{
    struct ct_hdf5 *h;

    CT_TRY(ct_alloc(1, sizeof(*h), "hdf5 file", &h));
    h->file       = -1;
    h->path_bytes = strlen(path) + 1;
    h->path       = ct_strdup(path, "hdf5 path");
    if (!h->path) {
        ct_free(h);
        return CT_ENOMEM;
    }
    *out = h;
    return CT_OK;
}

static enum ct_status h5_open_file(struct ct_hdf5 *h)
{
    struct h5_guard g;

    if (!ct_file_exists(h->path))
        return ct_fail(CT_ENOTFOUND, "%s: there is no such file", h->path);
    g       = ct_h5_enter();
    h->file = H5Fopen(h->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    ct_h5_leave(g);
    if (h->file < 0)
        return ct_fail(CT_EPARSE, "%s: not a readable HDF5 file", h->path);
    return CT_OK;
}

static enum ct_status h5_close_file(struct ct_hdf5 *h)
{
    struct h5_guard g;
    herr_t rc;

    if (h->file < 0)
        return CT_OK;
    g       = ct_h5_enter();
    rc      = H5Fclose(h->file);
    h->file = -1;
    ct_h5_leave(g);
    if (rc < 0)
        return ct_fail(CT_EIO, "%s: cannot write the end of the file",
                       h->path);
    return CT_OK;
}

static void h5_free(struct ct_hdf5 *h)
{
    ct_free(h->path);
    ct_free(h);
}

enum ct_status ct_hdf5_open(const char *path, struct ct_hdf5 **out)
{
    enum ct_status st;
    struct ct_hdf5 *h;

    CT_TRY(h5_handle(path, &h));
    st = h5_open_file(h);
    if (st != CT_OK) {
        h5_free(h);
        return st;
    }
    *out = h;
    return CT_OK;
}

enum ct_status ct_hdf5_reopen(struct ct_hdf5 *h, const char *path)
{
    size_t bytes = path ? strlen(path) + 1 : 0;

    CT_TRY(h5_close_file(h));
    if (!path)
        return CT_OK;
    if (bytes > h->path_bytes) {
        char *longer = ct_realloc(h->path, bytes, "hdf5 path");

        if (!longer)
            return CT_ENOMEM;
        h->path       = longer;
        h->path_bytes = bytes;
    }
    memcpy(h->path, path, bytes);
    return h5_open_file(h);
}

enum ct_status ct_hdf5_create(const char *path, struct ct_hdf5 **out)
{
    enum ct_status st = CT_OK;
    struct h5_guard g;
    struct ct_hdf5 *h;

    CT_TRY(h5_handle(path, &h));
    g = ct_h5_enter();
    (void)unlink(path); /* never through a link that waits there */
    errno   = 0;
    h->file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (h->file < 0)
        st = ct_fail(CT_EIO, "%s: cannot create an HDF5 file: %s", path,
                     errno ? strerror(errno) : "it is open elsewhere");
    ct_h5_leave(g);
    if (st != CT_OK) {
        h5_free(h);
        return st;
    }
    *out = h;
    return CT_OK;
}

enum ct_status ct_hdf5_close(struct ct_hdf5 *h)
{
    enum ct_status st;

    if (!h)
        return CT_OK;
    st = h5_close_file(h);
    h5_free(h);
    return st;
}

/* Whether every part of a path is there: HDF5 asks for one link at a time. */
static bool h5_has(const struct ct_hdf5 *h, const char *name)
{
    char usual[1024], *part = usual; /* only the longest names allocate */
    size_t n = strlen(name);
    bool has;

    if (n < sizeof(usual))
        memcpy(usual, name, n + 1);
    else
        part = ct_strdup(name, "hdf5 path");
    has = part && n > 0;
    for (size_t i = 1; i <= n && has; i++) {
        if (i < n && name[i] != '/')
            continue;
        part[i] = '\0';
        has     = strspn(part, "/") == i ||
              H5Lexists(h->file, part, H5P_DEFAULT) > 0;
        part[i] = name[i];
    }
    if (part != usual)
        ct_free(part);
    return has;
}

bool ct_hdf5_has(struct ct_hdf5 *h, const char *name)
{
    struct h5_guard g = ct_h5_enter();
    bool has          = h5_has(h, name);

    ct_h5_leave(g);
    return has;
}

enum ct_status ct_h5_object(const struct ct_hdf5 *h, const char *name,
                                hid_t *out)
{
    *out = -1;
    if (!h5_has(h, name))
        return ct_fail(CT_ENOTFOUND, "%s: there is no %s", h->path, name);
    *out = H5Oopen(h->file, name, H5P_DEFAULT);
    return *out < 0 ? ct_h5_refused(h, "open", name) : CT_OK;
}

/* What h5_visit collects; `names` grows one by one. */
struct h5_names {
    H5O_type_t     type;
    char         **names;
    int            n;
    enum ct_status st;
};

static herr_t h5_visit(hid_t group, const char *name, const H5L_info_t *link,
                       void *arg)
{
    struct h5_names *list = arg;
    H5O_info_t info;
    char **more;

    (void)link;
    if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0 ||
        info.type != list->type)
        return 0;
    more = ct_realloc(list->names, ((size_t)list->n + 1) * sizeof(*more),
                      "hdf5 names");
    if (!more) {
        list->st = CT_ENOMEM;
        return -1;
    }
    list->names   = more;
    more[list->n] = ct_strdup(name, "hdf5 name");
    if (!more[list->n]) {
        list->st = CT_ENOMEM;
        return -1;
    }
    list->n++;
    return 0;
}

static int h5_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ct_status ct_hdf5_list(struct ct_hdf5 *h, const char *group,
                            enum ct_hdf5_kind kind, char ***out, int *n)
{
    struct h5_names list = {
        kind == CT_HDF5_GROUPS ? H5O_TYPE_GROUP : H5O_TYPE_DATASET, NULL, 0,
        CT_OK
    };
    struct h5_guard g = ct_h5_enter();
    hid_t id;
    enum ct_status st = ct_h5_object(h, group, &id);

    if (st == CT_OK &&
        H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, NULL, h5_visit, &list) < 0)
        st = list.st != CT_OK ? list.st : ct_h5_refused(h, "list", group);
    ct_h5_close(id);
    ct_h5_leave(g);
    if (st != CT_OK) {
        ct_hdf5_list_free(list.names, list.n);
        return st;
    }
    if (list.n > 1)
        qsort(list.names, (size_t)list.n, sizeof(*list.names), h5_compare);
    *out = list.names;
    *n   = list.n;
    return CT_OK;
}

void ct_hdf5_list_free(char **names, int n)
{
    for (int i = 0; i < n; i++)
        ct_free(names[i]);
    ct_free(names);
}

enum ct_status ct_h5_dataset(const struct ct_hdf5 *h, const char *name,
                                 hid_t *set, hid_t *space,
                                 struct ct_shape *shape)
{
    hsize_t dim[H5S_MAX_RANK];
    H5T_class_t class;
    hid_t type;

    *set = *space = -1;
    if (!h5_has(h, name))
        return ct_fail(CT_ENOTFOUND, "%s: there is no dataset %s", h->path,
                       name);
    *set = H5Dopen2(h->file, name, H5P_DEFAULT);
    if (*set < 0)
        return ct_h5_refused(h, "open dataset", name);
    type  = H5Dget_type(*set);
    class = H5Tget_class(type);
    ct_h5_close(type);
    if (class != H5T_FLOAT && class != H5T_INTEGER)
        return ct_fail(CT_EINVAL, "%s: dataset %s does not hold numbers",
                       h->path, name);
    *space = H5Dget_space(*set);
    if (*space < 0 || H5Sget_simple_extent_type(*space) == H5S_NULL)
        return ct_fail(CT_EINVAL, "%s: dataset %s is empty", h->path, name);
    shape->n_axes = H5Sget_simple_extent_dims(*space, dim, NULL);
    if (shape->n_axes < 0 || shape->n_axes > CT_MAX_AXES)
        return ct_h5_refused(h, "read the shape of dataset", name);
    for (int i = 0; i < shape->n_axes; i++) {
        if (dim[i] > INT64_MAX)
            return ct_h5_refused(h, "hold dataset", name);
        shape->dim[i] = (int64_t)dim[i];
    }
    if (ct_shape_check(shape) != CT_OK)
        return ct_fail_in(CT_ESHAPE, "%s: dataset %s", h->path, name);
    return CT_OK;
}

enum ct_status ct_hdf5_read(struct ct_hdf5 *h, const char *name, int64_t count,
                            float *out)
{
    struct h5_guard g = ct_h5_enter();
    struct ct_shape shape;
    hid_t set, space;
    enum ct_status st = ct_h5_dataset(h, name, &set, &space, &shape);
    int64_t n         = st == CT_OK ? ct_shape_count(&shape, 0, CT_END) : 0;

    if (st == CT_OK && n != count)
        st = ct_fail(CT_ESHAPE, "%s: dataset %s has %" PRId64 " values, not %"
                     PRId64, h->path, name, n, count);
    if (st == CT_OK && n > 0 &&
        H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        st = ct_h5_refused(h, "read dataset", name);
    ct_h5_close(space);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}

/* Selects rows [first, first + n) of `space` and moves them from or to
 * memory; `in` or `out` is NULL. */
static enum ct_status h5_rows(const struct ct_hdf5 *h, const char *name,
                              hid_t set, hid_t space,
                              const struct ct_shape *shape, int64_t first,
                              int64_t n, const float *in, float *out)
{
    hsize_t start[CT_MAX_AXES] = { (hsize_t)first };
    hsize_t count[CT_MAX_AXES] = { (hsize_t)n };
    enum ct_status st          = CT_OK;
    hid_t memory;
    herr_t rc;

    for (int i = 1; i < shape->n_axes; i++)
        count[i] = (hsize_t)shape->dim[i];
    memory = H5Screate_simple(shape->n_axes, count, NULL);
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) <
        0)
        rc = -1;
    else if (in)
        rc = H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, in);
    else
        rc = H5Dread(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, out);
    if (rc < 0)
        st = ct_h5_refused(h, in ? "write rows to dataset"
                              : "read rows of dataset", name);
    ct_h5_close(memory);
    return st;
}

enum ct_status ct_hdf5_read_rows(struct ct_hdf5 *h, const char *name,
                                 int64_t first, int64_t n, float *out)
{
    struct h5_guard g = ct_h5_enter();
    struct ct_shape shape;
    hid_t set, space;
    enum ct_status st = ct_h5_dataset(h, name, &set, &space, &shape);

    if (st == CT_OK && (shape.n_axes < 1 || first < 0 || n < 0 ||
                        first > shape.dim[0] - n))
        st = ct_fail(CT_ESHAPE, "%s: dataset %s has no rows %" PRId64 " to %"
                     PRId64, h->path, name, first, first + n - 1);
    if (st == CT_OK && n * ct_shape_count(&shape, 1, CT_END) > 0)
        st = h5_rows(h, name, set, space, &shape, first, n, NULL, out);
    ct_h5_close(space);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}

/* A new dataset, with the groups on the way to it; *set is closed by the
 * caller, also after a failure. */
static enum ct_status h5_make(const struct ct_hdf5 *h, const char *name,
                              hid_t type, hid_t space, hid_t creation,
                              hid_t *set)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE);

    *set = -1;
    if (h5_has(h, name)) {
        ct_h5_close(links);
        return ct_fail(CT_EEXIST, "%s: there is already a dataset %s", h->path,
                       name);
    }
    H5Pset_create_intermediate_group(links, 1);
    *set = H5Dcreate2(h->file, name, type, space, links, creation,
                      H5P_DEFAULT);
    ct_h5_close(links);
    return *set < 0 ? ct_h5_refused(h, "create dataset", name) : CT_OK;
}

static hid_t h5_space(const struct ct_shape *shape, bool grows)
{
    hsize_t dim[CT_MAX_AXES], most[CT_MAX_AXES];

    for (int i = 0; i < shape->n_axes; i++)
        dim[i] = most[i] = (hsize_t)shape->dim[i];
    if (grows)
        most[0] = H5S_UNLIMITED;
    return H5Screate_simple(shape->n_axes, dim, most);
}

enum ct_status ct_h5_write(const struct ct_hdf5 *h, const char *name,
                           hid_t file, hid_t memory, struct ct_shape shape,
                           const void *values)
{
    hid_t space = h5_space(&shape, false);
    hid_t set;
    enum ct_status st = h5_make(h, name, file, space, H5P_DEFAULT, &set);

    if (st == CT_OK && ct_shape_count(&shape, 0, CT_END) > 0 &&
        H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        st = ct_h5_refused(h, "write dataset", name);
    ct_h5_close(set);
    ct_h5_close(space);
    return st;
}

enum ct_status ct_hdf5_write(struct ct_hdf5 *h, const char *name,
                             struct ct_shape shape, const float *values)
{
    struct h5_guard g = ct_h5_enter();
    enum ct_status st = ct_h5_write(h, name, H5T_NATIVE_FLOAT,
                                    H5T_NATIVE_FLOAT, shape, values);

    ct_h5_leave(g);
    return st;
}

/* A dataset whose first axis may grow, in chunks of about 64 KiB. */
static enum ct_status h5_make_growing(const struct ct_hdf5 *h,
                                      const char *name, struct ct_shape shape,
                                      hid_t *set)
{
    int64_t row   = ct_shape_count(&shape, 1, CT_END);
    hid_t created = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[CT_MAX_AXES];
    hid_t space;
    enum ct_status st;

    chunk[0] = (hsize_t)(row > 0 && row < 16384 ? 16384 / row : 1);
    for (int i = 1; i < shape.n_axes; i++)
        chunk[i] = (hsize_t)(shape.dim[i] > 0 ? shape.dim[i] : 1);
    H5Pset_chunk(created, shape.n_axes, chunk);
    shape.dim[0] = 0;
    space        = h5_space(&shape, true);
    st = h5_make(h, name, H5T_NATIVE_FLOAT, space, created, set);
    ct_h5_close(space);
    ct_h5_close(created);
    return st;
}

/* Whether rows of `shape` go behind those of `to`. */
static bool h5_same_rows(const struct ct_shape *shape,
                         const struct ct_shape *to)
{
    struct ct_shape like = *shape;

    like.dim[0] = to->dim[0];
    return ct_shape_equal(&like, to);
}

enum ct_status ct_hdf5_append(struct ct_hdf5 *h, const char *name,
                              struct ct_shape shape, const float *values)
{
    hsize_t dim[CT_MAX_AXES];
    struct ct_shape there;
    struct h5_guard g;
    hid_t set = -1, space = -1;
    enum ct_status st = CT_OK;

    if (shape.n_axes < 1)
        return ct_fail(CT_ESHAPE, "%s: dataset %s: a scalar has no rows",
                       h->path, name);
    g = ct_h5_enter();
    if (!h5_has(h, name))
        CT_TRY_GOTO(h5_make_growing(h, name, shape, &set), st, out);
    ct_h5_close(set);
    CT_TRY_GOTO(ct_h5_dataset(h, name, &set, &space, &there), st, out);
    if (!h5_same_rows(&shape, &there))
        st = ct_fail(CT_ESHAPE, "%s: dataset %s: the rows changed shape",
                     h->path, name);
    if (st != CT_OK || ct_shape_count(&shape, 0, CT_END) == 0)
        goto out;
    for (int i = 0; i < there.n_axes; i++)
        dim[i] = (hsize_t)there.dim[i];
    dim[0] += (hsize_t)shape.dim[0];
    if (H5Dset_extent(set, dim) < 0) {
        st = ct_h5_refused(h, "extend dataset", name);
        goto out;
    }
    ct_h5_close(space);
    space = H5Dget_space(set);
    st = h5_rows(h, name, set, space, &there, there.dim[0], shape.dim[0],
                 values, NULL);
out:
    ct_h5_close(space);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}

enum ct_status ct_hdf5_add_group(struct ct_hdf5 *h, const char *name)
{
    struct h5_guard g = ct_h5_enter();
    hid_t links       = H5Pcreate(H5P_LINK_CREATE);
    enum ct_status st = CT_OK;
    hid_t id          = -1;

    H5Pset_create_intermediate_group(links, 1);
    if (!h5_has(h, name)) {
        id = H5Gcreate2(h->file, name, links, H5P_DEFAULT, H5P_DEFAULT);
        st = id < 0 ? ct_h5_refused(h, "create group", name) : CT_OK;
    }
    ct_h5_close(id);
    ct_h5_close(links);
    ct_h5_leave(g);
    return st;
}
#endif
