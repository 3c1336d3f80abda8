/* hdf5.h - HDF5 files of float arrays: data sources, outputs, snapshots.
 *
 *     struct ct_hdf5 *h;
 *     CT_TRY(ct_hdf5_open("data.h5", &h));
 *     CT_TRY(ct_hdf5_shape(h, "label", &shape));
 *     CT_TRY(ct_hdf5_read(h, "label", n, values));
 *     CT_TRY(ct_hdf5_close(h));
 *
 * Names are paths inside the file: "data", "/input/x", "history/0".  Numbers
 * of any integer or floating type are read as float, double or int64.  The
 * library behind is not thread-safe, so one process-wide lock is held during
 * every call; calls from any thread are safe.  One handle has one owner.
 *
 * In a build without HDF5 every function that can fail does, with CT_ENOTSUP
 * and the name of the missing package. */
#ifndef CT_DATA_HDF5_H
#define CT_DATA_HDF5_H

#include <stdbool.h>
#include <stdint.h>

#include "cortado/blob.h"
#include "cortado/shape.h"
#include "cortado/status.h"

struct ct_hdf5; /* one open file */

enum ct_hdf5_kind { CT_HDF5_DATASETS, CT_HDF5_GROUPS };

/* True when the file is there and its content is HDF5. */
bool ct_hdf5_is(const char *path);

/* For reading; or a new file, empty, in place of what `path` was. */
CT_MUST_CHECK enum ct_status ct_hdf5_open(const char *path,
                                          struct ct_hdf5 **out);
CT_MUST_CHECK enum ct_status ct_hdf5_create(const char *path,
                                            struct ct_hdf5 **out);
/* Closes the file of `h` and opens another for reading with the same handle;
 * NULL opens none.  Allocates nothing for a path no longer than an earlier
 * one.  After a failure the handle has no file and can be tried again. */
CT_MUST_CHECK enum ct_status ct_hdf5_reopen(struct ct_hdf5 *h,
                                            const char *path);
/* Writes out what is pending and frees the handle, also when it fails.
 * Takes NULL. */
enum ct_status ct_hdf5_close(struct ct_hdf5 *h);

bool ct_hdf5_has(struct ct_hdf5 *h, const char *name);

/* The names directly below `group`, in alphabetical order by bytes.  The
 * caller frees them with ct_hdf5_list_free(). */
CT_MUST_CHECK enum ct_status ct_hdf5_list(struct ct_hdf5 *h, const char *group,
                                          enum ct_hdf5_kind kind, char ***out,
                                          int *n);
void ct_hdf5_list_free(char **names, int n);

/* Datasets of numbers.  `count` is what the caller has room for or brings,
 * and must be the whole dataset's. */
CT_MUST_CHECK enum ct_status ct_hdf5_shape(struct ct_hdf5 *h, const char *name,
                                           struct ct_shape *out);
CT_MUST_CHECK enum ct_status ct_hdf5_read(struct ct_hdf5 *h, const char *name,
                                          int64_t count, float *out);
/* Rows [first, first + n) of the first axis. */
CT_MUST_CHECK enum ct_status ct_hdf5_read_rows(struct ct_hdf5 *h,
                                               const char *name, int64_t first,
                                               int64_t n, float *out);
/* Gives `b` the dataset's shape and its data the values. */
CT_MUST_CHECK enum ct_status ct_hdf5_read_blob(struct ct_hdf5 *h,
                                               const char *name,
                                               struct ct_blob *b);

/* Reads a blob's data or diff; the blob may be on any device. */
CT_MUST_CHECK enum ct_status ct_hdf5_load(struct ct_hdf5 *h, const char *name,
                                          struct ct_blob *b, bool diff);

/* A new dataset; groups on the way are made.  Refuses one that is there. */
CT_MUST_CHECK enum ct_status ct_hdf5_write(struct ct_hdf5 *h, const char *name,
                                           struct ct_shape shape,
                                           const float *values);
/* Rows behind those of a dataset that ct_hdf5_append made, or a new one. */
CT_MUST_CHECK enum ct_status ct_hdf5_append(struct ct_hdf5 *h,
                                            const char *name,
                                            struct ct_shape shape,
                                            const float *values);
/* An empty group; one that is there already is fine. */
CT_MUST_CHECK enum ct_status ct_hdf5_add_group(struct ct_hdf5 *h,
                                               const char *name);

/* Datasets of one integer or one string, as Caffe's solver states have. */
CT_MUST_CHECK enum ct_status ct_hdf5_read_int(struct ct_hdf5 *h,
                                              const char *name, int64_t *out);
CT_MUST_CHECK enum ct_status ct_hdf5_write_int(struct ct_hdf5 *h,
                                               const char *name,
                                               int64_t value);
/* *out is ct_free'd by the caller. */
CT_MUST_CHECK enum ct_status ct_hdf5_read_string(struct ct_hdf5 *h,
                                                 const char *name, char **out);
CT_MUST_CHECK enum ct_status ct_hdf5_write_string(struct ct_hdf5 *h,
                                                  const char *name,
                                                  const char *value);

/* Attributes of a group or dataset; "/" holds those of the file. */
CT_MUST_CHECK enum ct_status ct_hdf5_get_number(struct ct_hdf5 *h,
                                                const char *object,
                                                const char *name, double *out);
CT_MUST_CHECK enum ct_status ct_hdf5_set_number(struct ct_hdf5 *h,
                                                const char *object,
                                                const char *name,
                                                double value);
CT_MUST_CHECK enum ct_status ct_hdf5_get_string(struct ct_hdf5 *h,
                                                const char *object,
                                                const char *name, char **out);
CT_MUST_CHECK enum ct_status ct_hdf5_set_string(struct ct_hdf5 *h,
                                                const char *object,
                                                const char *name,
                                                const char *value);
#endif
