/* records.h - what the layers share that read a database: Data and
 * AnnotatedData.
 *
 * Each keeps a struct ct_records first in its state and brings shape() and
 * load() of a loader; the rest is here: the feed, the order of records, and
 * what is done about a broken one. */
#ifndef CT_LAYERS_RECORDS_H
#define CT_LAYERS_RECORDS_H

#include "layers/batches.h"

struct ct_records {
    struct ct_batches  batches; /* first: batches.h finds it there */
    struct ct_feed    *feed;    /* owned */
    enum ct_image_mode mode;    /* of encoded images */
};

/* The two halves of setup: opens the database; loads its first sample. */
CT_MUST_CHECK enum ct_status ct_records_open(struct ct_layer *l,
                                             const struct ct_loader_ops *ops);
CT_MUST_CHECK enum ct_status ct_records_probe(struct ct_layer *l);

/* pick() of the loader. */
CT_MUST_CHECK enum ct_status ct_records_pick(void *loader,
                                             struct ct_worker *w,
                                             int64_t item);
/* The record's value is in w->record. */
CT_MUST_CHECK enum ct_status ct_records_fetch(struct ct_records *r,
                                              struct ct_worker *w);
/* After try number `tries` of a sample failed with st: CT_OK when another
 * record stands in for it, which is in w then; else the failure, with the
 * record's name. */
CT_MUST_CHECK enum ct_status ct_records_after(struct ct_records *r,
                                              struct ct_worker *w, int tries,
                                              enum ct_status st);

/* Slots of the layer type. */
CT_MUST_CHECK enum ct_status ct_records_forward(struct ct_layer *l,
                                                const struct ct_io *io);
CT_MUST_CHECK enum ct_status ct_records_forward_to(struct ct_layer *l,
                                                   const struct ct_io *io,
                                                   struct ct_blob *const *top);
CT_MUST_CHECK enum ct_status ct_records_seek(struct ct_layer *l,
                                             uint64_t n_passes);
int64_t ct_records_count(const struct ct_layer *l);
void ct_records_teardown(struct ct_layer *l);

#endif
