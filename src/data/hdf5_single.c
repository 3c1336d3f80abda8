/* hdf5_single.c - single numbers and strings in HDF5 files: datasets of one
 * value, and attributes.
 *
 * Integers are written as int where they fit and strings with a fixed length,
 * which is what Caffe's solver states hold; both kinds of string are read. */
#include "data/hdf5_inner.h"

#ifdef CT_HAVE_HDF5
#include <limits.h>
#include <string.h>

#include "base/mem.h"

enum ct_status ct_hdf5_read_int(struct ct_hdf5 *h, const char *name,
                                int64_t *out)
{
    struct h5_guard g = ct_h5_enter();
    struct ct_shape shape;
    hid_t set, space;
    enum ct_status st = ct_h5_dataset(h, name, &set, &space, &shape);

    if (st == CT_OK && ct_shape_count(&shape, 0, CT_END) != 1)
        st = ct_fail(CT_ESHAPE, "%s: dataset %s is not one number", h->path,
                     name);
    if (st == CT_OK &&
        H5Dread(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        st = ct_h5_refused(h, "read dataset", name);
    ct_h5_close(space);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}

enum ct_status ct_hdf5_write_int(struct ct_hdf5 *h, const char *name,
                                 int64_t value)
{
    struct h5_guard g = ct_h5_enter();
    bool small        = value >= INT_MIN && value <= INT_MAX;
    enum ct_status st =
        ct_h5_write(h, name, small ? H5T_NATIVE_INT : H5T_NATIVE_INT64,
                    H5T_NATIVE_INT64, CT_SHAPE(1), &value);

    ct_h5_leave(g);
    return st;
}

/* A string type of `size` bytes, the last of them zero. */
static hid_t h5_string_type(size_t size)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, size);
    H5Tset_strpad(type, H5T_STR_NULLTERM);
    return type;
}

enum ct_status ct_hdf5_write_string(struct ct_hdf5 *h, const char *name,
                                    const char *value)
{
    struct h5_guard g = ct_h5_enter();
    hid_t type        = h5_string_type(strlen(value) + 1);
    enum ct_status st = ct_h5_write(h, name, type, type, CT_SCALAR, value);

    ct_h5_close(type);
    ct_h5_leave(g);
    return st;
}

/* One string of a dataset (`set`) or else of an attribute (`attr`).  A string
 * of variable length is the library's memory, which it takes back. */
static enum ct_status h5_read_string(hid_t set, hid_t attr, hid_t type,
                                     hid_t space, char **out)
{
    bool varies = H5Tis_variable_str(type) > 0;
    size_t size = varies ? sizeof(char *) : H5Tget_size(type);
    char *text  = NULL, *buffer;
    hid_t memory;
    herr_t rc;

    if (H5Tget_class(type) != H5T_STRING ||
        H5Sget_simple_extent_npoints(space) != 1)
        return ct_fail(CT_EINVAL, "not one string");
    CT_TRY(ct_alloc(size + 1, 1, "hdf5 string", &buffer));
    memory = h5_string_type(varies ? H5T_VARIABLE : size + 1);
    H5Tset_cset(memory, H5Tget_cset(type));
    rc = set >= 0 ? H5Dread(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer)
                  : H5Aread(attr, memory, buffer);
    if (varies && rc >= 0) {
        memcpy(&text, buffer, sizeof(text));
        *out = ct_strdup(text ? text : "", "hdf5 string");
        H5Dvlen_reclaim(memory, space, H5P_DEFAULT, buffer);
        ct_free(buffer);
    } else {
        *out = buffer;
    }
    ct_h5_close(memory);
    if (rc >= 0)
        return *out ? CT_OK : CT_ENOMEM;
    ct_free(buffer);
    *out = NULL;
    return ct_fail(CT_EIO, "cannot read the string");
}

enum ct_status ct_hdf5_read_string(struct ct_hdf5 *h, const char *name,
                                   char **out)
{
    struct h5_guard g = ct_h5_enter();
    hid_t set, type = -1, space = -1;
    enum ct_status st = ct_h5_object(h, name, &set);

    if (st == CT_OK && H5Iget_type(set) != H5I_DATASET)
        st = ct_fail(CT_EINVAL, "%s: %s is no dataset", h->path, name);
    if (st == CT_OK) {
        type  = H5Dget_type(set);
        space = H5Dget_space(set);
        st    = h5_read_string(set, -1, type, space, out);
        if (st != CT_OK)
            ct_fail_in(st, "%s: dataset %s", h->path, name);
    }
    ct_h5_close(space);
    ct_h5_close(type);
    ct_h5_close(set);
    ct_h5_leave(g);
    return st;
}

/* Attribute `name` of `object`; *attr is closed by the caller, also after a
 * failure. */
static enum ct_status h5_attribute(const struct ct_hdf5 *h, const char *object,
                                   const char *name, hid_t *attr)
{
    hid_t id;

    *attr = -1;
    CT_TRY(ct_h5_object(h, object, &id));
    if (H5Aexists(id, name) > 0)
        *attr = H5Aopen(id, name, H5P_DEFAULT);
    ct_h5_close(id);
    if (*attr < 0)
        return ct_fail(CT_ENOTFOUND, "%s: %s has no attribute %s", h->path,
                       object, name);
    return CT_OK;
}

enum ct_status ct_hdf5_get_number(struct ct_hdf5 *h, const char *object,
                                  const char *name, double *out)
{
    struct h5_guard g = ct_h5_enter();
    hid_t attr, type = -1, space = -1;
    enum ct_status st = h5_attribute(h, object, name, &attr);

    if (st == CT_OK) {
        type  = H5Aget_type(attr);
        space = H5Aget_space(attr);
        if ((H5Tget_class(type) != H5T_FLOAT &&
             H5Tget_class(type) != H5T_INTEGER) ||
            H5Sget_simple_extent_npoints(space) != 1)
            st = ct_fail(CT_EINVAL, "%s: attribute %s of %s is not one number",
                         h->path, name, object);
        else if (H5Aread(attr, H5T_NATIVE_DOUBLE, out) < 0)
            st = ct_h5_refused(h, "read attribute", name);
    }
    ct_h5_close(space);
    ct_h5_close(type);
    ct_h5_close(attr);
    ct_h5_leave(g);
    return st;
}

enum ct_status ct_hdf5_get_string(struct ct_hdf5 *h, const char *object,
                                  const char *name, char **out)
{
    struct h5_guard g = ct_h5_enter();
    hid_t attr, type = -1, space = -1;
    enum ct_status st = h5_attribute(h, object, name, &attr);

    if (st == CT_OK) {
        type  = H5Aget_type(attr);
        space = H5Aget_space(attr);
        st    = h5_read_string(-1, attr, type, space, out);
        if (st != CT_OK)
            ct_fail_in(st, "%s: attribute %s of %s", h->path, name, object);
    }
    ct_h5_close(space);
    ct_h5_close(type);
    ct_h5_close(attr);
    ct_h5_leave(g);
    return st;
}

/* Replaces attribute `name` of `object` by one value of `type`. */
static enum ct_status h5_set(struct ct_hdf5 *h, const char *object,
                             const char *name, hid_t type, const void *value)
{
    hid_t id, attr = -1, space = H5Screate(H5S_SCALAR);
    enum ct_status st = ct_h5_object(h, object, &id);

    if (st == CT_OK) {
        if (H5Aexists(id, name) > 0)
            H5Adelete(id, name);
        attr = H5Acreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (attr < 0 || H5Awrite(attr, type, value) < 0)
            st = ct_h5_refused(h, "write attribute", name);
    }
    ct_h5_close(attr);
    ct_h5_close(id);
    ct_h5_close(space);
    return st;
}

enum ct_status ct_hdf5_set_number(struct ct_hdf5 *h, const char *object,
                                  const char *name, double value)
{
    struct h5_guard g = ct_h5_enter();
    enum ct_status st = h5_set(h, object, name, H5T_NATIVE_DOUBLE, &value);

    ct_h5_leave(g);
    return st;
}

enum ct_status ct_hdf5_set_string(struct ct_hdf5 *h, const char *object,
                                  const char *name, const char *value)
{
    struct h5_guard g = ct_h5_enter();
    hid_t type        = h5_string_type(strlen(value) + 1);
    enum ct_status st = h5_set(h, object, name, type, value);

    ct_h5_close(type);
    ct_h5_leave(g);
    return st;
}
#endif
