/* state.h - the content of a snapshot besides the weights, as a message.
 *
 *     the solver --take--> message --write--> file
 *     the solver <--put--- message <--read--- file
 *
 * take makes a copy, which another thread may write while training continues.
 * A message that is read may come from Caffe or from any version of Cortado. */
#ifndef CT_SOLVER_STATE_H
#define CT_SOLVER_STATE_H

#include "solver/solver_inner.h"

/* Fills `m`, an empty message.  Ranks other than 0 add only values that only
 * they have; m->n_state is 0 if there are none.  All ranks call it.  `model`:
 * the path of the weights. */
CT_MUST_CHECK enum ct_status solver_state_take(struct ct_solver *s,
                                               const char *model,
                                               Caffe__SolverState *m);
/* Sets histories, iteration and position from `m`, which fits; the net has its
 * weights already. */
CT_MUST_CHECK enum ct_status solver_state_put(struct ct_solver *s,
                                              const Caffe__SolverState *m);
/* Sets values that ranks and layers keep, from `m` and from files beside
 * `path`, the file of `m`. */
CT_MUST_CHECK enum ct_status solver_kept_put(struct ct_solver *s,
                                             const Caffe__SolverState *m,
                                             const char *path);
/* Fails if m belongs to another net or solver type. */
CT_MUST_CHECK enum ct_status solver_state_fits(const struct ct_solver *s,
                                               const Caffe__SolverState *m,
                                               const char *path);

/* state_file.c: a path that ends in .h5 is HDF5.  Writing sets m->own_crc;
 * reading checks it. */
CT_MUST_CHECK enum ct_status solver_state_write(Caffe__SolverState *m,
                                                const char *path);
CT_MUST_CHECK enum ct_status solver_state_read(const char *path,
                                               Caffe__SolverState **out);

/* The number of the elastic job that wrote it, found without its arrays; 0:
 * there is none. */
int64_t solver_state_job(const char *path);

/* state_position.c: the position of the training in its data, to a message and
 * back. */
CT_MUST_CHECK enum ct_status solver_position_take(const struct ct_solver *s,
                                                  Caffe__SolverState *m);
CT_MUST_CHECK enum ct_status solver_position_put(struct ct_solver *s,
                                                 const Caffe__SolverState *m);
/* Samples that the train nets of all ranks have drawn; 0: unknown. */
int64_t solver_samples(const struct ct_solver *s);

/* snapshot_find.c: the path of the file beside state `path` that `rank` wrote;
 * the path of the model of a state that was read from `path`, if the model is
 * complete.  The caller ct_free's both. */
CT_MUST_CHECK enum ct_status solver_rank_file(const char *path, int rank,
                                              char **out);
CT_MUST_CHECK enum ct_status solver_find_model(const Caffe__SolverState *m,
                                               const char *path, char **out);
/* The newest complete state of a prefix, of an iteration below `limit` if that
 * is not negative, of that origin; CT_ENOTFOUND: there is none.  The caller
 * ct_free's *path. */
CT_MUST_CHECK enum ct_status solver_find_newest(const char *prefix,
                                                int64_t limit,
                                                struct snapshot_origin from,
                                                char **path, int64_t *iter);
/* Seconds that it waits for one which is being written; tests set it. */
extern double solver_find_patience;
/* Removes snapshots of the prefix up to iteration `iter`, except the `keep`
 * newest of them; on ranks other than 0 only the files of `rank`. */
void solver_remove_older(const char *prefix, int rank, int64_t iter, int keep);
bool solver_ends_with(const char *s, const char *tail);

#endif
