/* mean.h - the mean image of a database, what Caffe's compute_image_mean
 * does. */
#ifndef CT_DATA_MEAN_H
#define CT_DATA_MEAN_H

#include "cortado/proto.h"
#include "data/onlooker.h"

/* A BlobProto of 1 x C x H x W in the old form, which every Caffe reads.
 * Encoded images count with the channels they have.  Sums are exact where
 * Caffe's, in single precision, are not (beyond 65,000 images).  Refuses an
 * empty database and records of several sizes, naming the key. */
CT_MUST_CHECK enum ct_status ct_mean_of_db(const char *backend,
                                           const char *path,
                                           const struct ct_watch *watch,
                                           Caffe__BlobProto **out);

/* The mean of each channel; there are p->channels. */
void ct_mean_channels(const Caffe__BlobProto *p, double *out);

#endif
