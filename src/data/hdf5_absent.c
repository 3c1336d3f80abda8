/* hdf5_absent.c - the answers of hdf5.h in a build without HDF5. */
#include "data/hdf5.h"

#ifndef CT_HAVE_HDF5
/* Says so once for all of them, whatever they were asked. */
static enum ct_status h5_absent(const void *asked, const void *about,
                                const void *with)
{
    (void)asked, (void)about, (void)with;
    return ct_fail(CT_ENOTSUP, "built without HDF5: install libhdf5-dev and "
                   "build again");
}

bool ct_hdf5_is(const char *path)
{
    (void)path;
    return false;
}

enum ct_status ct_hdf5_close(struct ct_hdf5 *h)
{
    (void)h;
    return CT_OK;
}

bool ct_hdf5_has(struct ct_hdf5 *h, const char *name)
{
    (void)h, (void)name;
    return false;
}

void ct_hdf5_list_free(char **names, int n)
{
    (void)names, (void)n;
}

enum ct_status ct_hdf5_open(const char *path, struct ct_hdf5 **out)
{
    return h5_absent(path, out, NULL);
}

enum ct_status ct_hdf5_create(const char *path, struct ct_hdf5 **out)
{
    return h5_absent(path, out, NULL);
}

enum ct_status ct_hdf5_reopen(struct ct_hdf5 *h, const char *path)
{
    return h5_absent(h, path, NULL);
}

enum ct_status ct_hdf5_list(struct ct_hdf5 *h, const char *group,
                            enum ct_hdf5_kind kind, char ***out, int *n)
{
    (void)n, (void)kind;
    return h5_absent(h, group, out);
}

enum ct_status ct_hdf5_shape(struct ct_hdf5 *h, const char *name,
                             struct ct_shape *out)
{
    return h5_absent(h, name, out);
}

enum ct_status ct_hdf5_read(struct ct_hdf5 *h, const char *name, int64_t count,
                            float *out)
{
    (void)count;
    return h5_absent(h, name, out);
}

enum ct_status ct_hdf5_read_rows(struct ct_hdf5 *h, const char *name,
                                 int64_t first, int64_t n, float *out)
{
    (void)first, (void)n;
    return h5_absent(h, name, out);
}

enum ct_status ct_hdf5_write(struct ct_hdf5 *h, const char *name,
                             struct ct_shape shape, const float *values)
{
    (void)shape;
    return h5_absent(h, name, values);
}

enum ct_status ct_hdf5_append(struct ct_hdf5 *h, const char *name,
                              struct ct_shape shape, const float *values)
{
    (void)shape;
    return h5_absent(h, name, values);
}

enum ct_status ct_hdf5_add_group(struct ct_hdf5 *h, const char *name)
{
    return h5_absent(h, name, NULL);
}

enum ct_status ct_hdf5_read_int(struct ct_hdf5 *h, const char *name,
                                int64_t *out)
{
    return h5_absent(h, name, out);
}

enum ct_status ct_hdf5_write_int(struct ct_hdf5 *h, const char *name,
                                 int64_t value)
{
    (void)value;
    return h5_absent(h, name, NULL);
}

enum ct_status ct_hdf5_read_string(struct ct_hdf5 *h, const char *name,
                                   char **out)
{
    return h5_absent(h, name, out);
}

enum ct_status ct_hdf5_write_string(struct ct_hdf5 *h, const char *name,
                                    const char *value)
{
    return h5_absent(h, name, value);
}

enum ct_status ct_hdf5_get_number(struct ct_hdf5 *h, const char *object,
                                  const char *name, double *out)
{
    (void)out;
    return h5_absent(h, object, name);
}

enum ct_status ct_hdf5_set_number(struct ct_hdf5 *h, const char *object,
                                  const char *name, double value)
{
    (void)value;
    return h5_absent(h, object, name);
}

enum ct_status ct_hdf5_get_string(struct ct_hdf5 *h, const char *object,
                                  const char *name, char **out)
{
    (void)out;
    return h5_absent(h, object, name);
}

enum ct_status ct_hdf5_set_string(struct ct_hdf5 *h, const char *object,
                                  const char *name, const char *value)
{
    (void)value;
    return h5_absent(h, object, name);
}
#endif
