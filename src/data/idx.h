/* idx.h - MNIST's files of bytes, and databases from them.
 *
 *     0 0 8 axes | axes big-endian 32-bit dimensions | the values         */
#ifndef CT_DATA_IDX_H
#define CT_DATA_IDX_H

#include "data/onlooker.h"

enum { CT_IDX_MAX_AXES = 4 };

struct ct_idx {
    char                *file; /* owned */
    int                  n_axes;
    int64_t              dim[CT_IDX_MAX_AXES];
    const unsigned char *values; /* in file */
};

/* Refuses a file of another number of axes, and one whose length is not what
 * its head says. */
CT_MUST_CHECK enum ct_status ct_idx_read(const char *path, int n_axes,
                                         struct ct_idx *out);
void ct_idx_fini(struct ct_idx *x);

/* Images (n x rows x columns) and labels (n) into a new database: keys %08d,
 * datums of 1 x rows x columns, what Caffe's convert_mnist_data writes. */
CT_MUST_CHECK enum ct_status ct_idx_to_db(const struct ct_idx *images,
                                          const struct ct_idx *labels,
                                          const char *backend,
                                          const char *path,
                                          const struct ct_watch *watch);
/* As many pairs of images drawn at random: datums of 2 x rows x columns whose
 * label is 1 where both show the same, what Caffe's
 * convert_mnist_siamese_data writes. */
CT_MUST_CHECK enum ct_status ct_idx_pairs_to_db(const struct ct_idx *images,
                                                const struct ct_idx *labels,
                                                uint64_t seed,
                                                const char *backend,
                                                const char *path,
                                                const struct ct_watch *watch);
#endif
