/* partition.h - a database dealt out to several, one for each rank.
 *
 * Record i goes to <prefix>_<i mod n>, key and value as they are; so the parts
 * differ in size by one record at most, and an order that runs through the
 * classes is spread over all.  `mode: LOCAL` reads them. */
#ifndef CT_DATA_PARTITION_H
#define CT_DATA_PARTITION_H

#include "data/onlooker.h"

enum { CT_PARTITION_MAX = 4096 };

/* No part gets its name before all are written.  counts[k] is the number of
 * records in part k.  Refuses more parts than there are records, and a name
 * that is taken. */
CT_MUST_CHECK enum ct_status ct_partition_db(const char *backend,
                                             const char *path, int n,
                                             const char *prefix,
                                             const struct ct_watch *watch,
                                             int64_t *counts);
#endif
