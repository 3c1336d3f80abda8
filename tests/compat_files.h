/* compat_files.h - files that nets of tests/compat read and write; all of them
 * are in the working folder. */
#ifndef CT_TESTS_COMPAT_FILES_H
#define CT_TESTS_COMPAT_FILES_H

#include "cortado/net.h"

/* Makes a fresh working folder; leaves it and removes what it holds. */
CT_MUST_CHECK enum ct_status compat_enter(void);
void compat_leave(void);

CT_MUST_CHECK enum ct_status compat_write_text(const char *path,
                                               const char *text);
/* An LMDB of one record: a gray image of 8 x 8, all 100, with objects of five
 * values each: label, xmin, ymin, xmax, ymax. */
CT_MUST_CHECK enum ct_status compat_write_objects(const char *path,
                                                  const float *value, int n);
/* The values of dataset "data" (0) or "label" (1), `most` at most. */
CT_MUST_CHECK enum ct_status compat_read_hdf5(const char *path, int dataset,
                                              float *out, int most, int *n);
/* Stores the net's parameters in an HDF5 file, reads them into another net of
 * the same prototxt and compares. */
CT_MUST_CHECK enum ct_status compat_store(const struct ct_net *net,
                                          const char *prototxt,
                                          const char *path);

#endif
