/* hdf5_inner.h - what the files behind hdf5.h share; for them alone. */
#ifndef CT_DATA_HDF5_INNER_H
#define CT_DATA_HDF5_INNER_H

#include "data/hdf5.h"

#ifdef CT_HAVE_HDF5
/* Newer libraries keep these calls under their names of version 1.10. */
#define H5_USE_110_API
#include <hdf5.h>

/* Owned by whoever opened it. */
struct ct_hdf5 {
    hid_t  file; /* below zero: none is open */
    char  *path;
    size_t path_bytes;
};

/* What the library printed its errors with before we silenced it. */
struct h5_guard {
    H5E_auto2_t fn;
    void       *arg;
};

/* Take the lock and silence the library; and undo both. */
struct h5_guard ct_h5_enter(void);
void ct_h5_leave(struct h5_guard g);

/* The rest runs with the lock held.  Closes an identifier of any kind; one
 * below zero is none. */
void ct_h5_close(hid_t id);

/* CT_EIO with "FILE: cannot VERB NAME". */
enum ct_status ct_h5_refused(const struct ct_hdf5 *h, const char *verb,
                             const char *name);

/* A group or dataset, for its attributes or members. */
enum ct_status ct_h5_object(const struct ct_hdf5 *h, const char *name,
                            hid_t *out);

/* A dataset of numbers with its space and shape; *set and *space are closed
 * by the caller, also after a failure. */
enum ct_status ct_h5_dataset(const struct ct_hdf5 *h, const char *name,
                             hid_t *set, hid_t *space, struct ct_shape *shape);

/* Values of type `memory` as a new dataset of type `file`. */
enum ct_status ct_h5_write(const struct ct_hdf5 *h, const char *name,
                           hid_t file, hid_t memory, struct ct_shape shape,
                           const void *values);
#endif
#endif
