/* cifar.h - CIFAR-10's binary batches, and databases from them.
 *
 *     a record:  label (1 byte) | red | green | blue (32 x 32 bytes each)  */
#ifndef CT_DATA_CIFAR_H
#define CT_DATA_CIFAR_H

#include "data/onlooker.h"

/* The records of n files, one file after the other, into a new database: keys
 * %05d, datums of 3 x 32 x 32, what Caffe's convert_cifar_data writes.  The
 * planes stay in their order. */
CT_MUST_CHECK enum ct_status ct_cifar_to_db(const char *const *file, int n,
                                            const char *backend,
                                            const char *path,
                                            const struct ct_watch *watch);
#endif
