/* db_writer.h - a whole new database, or none.
 *
 * Records go into a folder beside the final one, which gets its name when all
 * are in: a run that fails or is stopped leaves nothing under that name, and
 * what is there already is never touched.
 *
 *     CT_TRY(ct_db_writer_create("lmdb", "train_lmdb", &w));
 *     while (...)
 *         CT_TRY_GOTO(ct_db_writer_put(w, key, value), st, out);
 *     st = ct_db_writer_finish(w);
 * out:
 *     ct_db_writer_destroy(w);                                          */
#ifndef CT_DATA_DB_WRITER_H
#define CT_DATA_DB_WRITER_H

#include "data/datum.h"
#include "data/db.h"

struct ct_db_writer; /* one thread's */

/* CT_EEXIST when something has this name already. */
CT_MUST_CHECK enum ct_status ct_db_path_is_free(const char *path);

/* Refuses a path that is taken, with CT_EEXIST. */
CT_MUST_CHECK enum ct_status ct_db_writer_create(const char *backend,
                                                 const char *path,
                                                 struct ct_db_writer **out);
/* Takes NULL.  Removes what was not finished. */
void ct_db_writer_destroy(struct ct_db_writer *w);

/* Every 1000 records are committed, as Caffe's tools do. */
CT_MUST_CHECK enum ct_status ct_db_writer_put(struct ct_db_writer *w,
                                              struct ct_bytes key,
                                              struct ct_bytes value);
/* A datum under the key `number` of `digits` digits, the way Caffe counts. */
CT_MUST_CHECK enum ct_status ct_db_writer_put_datum(struct ct_db_writer *w,
                                                    int digits, int64_t number,
                                                    const struct ct_datum *d,
                                                    unsigned fields,
                                                    const float *floats);
/* Commits and closes; the name still has to come.  For several databases that
 * are to appear together; finish does it by itself. */
CT_MUST_CHECK enum ct_status ct_db_writer_seal(struct ct_db_writer *w);
CT_MUST_CHECK enum ct_status ct_db_writer_finish(struct ct_db_writer *w);

int64_t ct_db_writer_n(const struct ct_db_writer *w); /* records put */

#endif
