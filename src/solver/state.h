/* state.h - what a snapshot holds besides the weights, as a message.
 *
 *     the solver --take--> message --write--> file
 *     the solver <--put--- message <--read--- file
 *
 * A message that is taken is a copy, which another thread may write while
 * training goes on.  One that is read may come from Caffe, from this version
 * or from one before. */
#ifndef CT_SOLVER_STATE_H
#define CT_SOLVER_STATE_H

#include "solver/solver_inner.h"

/* Fills `m`, an empty message.  Ranks other than 0 fill in only what they
 * keep for themselves, if they do: m->n_state is 0 otherwise.  All ranks call
 * it alike.  `model`: where the weights go. */
CT_MUST_CHECK enum ct_status solver_state_take(struct ct_solver *s,
                                               const char *model,
                                               Caffe__SolverState *m);
/* The other way, when the net has its weights and `m` fits: histories,
 * iteration, position.  Then what ranks and layers keep, which may lie in files
 * beside `path`, where `m` comes from. */
CT_MUST_CHECK enum ct_status solver_state_put(struct ct_solver *s,
                                              const Caffe__SolverState *m);
CT_MUST_CHECK enum ct_status solver_kept_put(struct ct_solver *s,
                                             const Caffe__SolverState *m,
                                             const char *path);
/* Fails where m is of another net or solver type. */
CT_MUST_CHECK enum ct_status solver_state_fits(const struct ct_solver *s,
                                               const Caffe__SolverState *m,
                                               const char *path);

/* state_file.c: both forms of file; one that ends in .h5 is HDF5.  Writing
 * sets m's own_crc; reading checks it. */
CT_MUST_CHECK enum ct_status solver_state_write(Caffe__SolverState *m,
                                                const char *path);
CT_MUST_CHECK enum ct_status solver_state_read(const char *path,
                                               Caffe__SolverState **out);

/* state_position.c: where training stands in its data, into a message and out
 * of it. */
CT_MUST_CHECK enum ct_status solver_position_take(const struct ct_solver *s,
                                                  Caffe__SolverState *m);
CT_MUST_CHECK enum ct_status solver_position_put(struct ct_solver *s,
                                                 const Caffe__SolverState *m);
/* Samples that the train nets of all ranks have drawn; 0: unknown. */
int64_t solver_samples(const struct ct_solver *s);

/* snapshot_find.c: the file beside state `path` with what `rank` keeps; the
 * model of a state that was read from `path`, where it is whole; both are
 * ct_free'd by the caller. */
CT_MUST_CHECK enum ct_status solver_rank_file(const char *path, int rank,
                                              char **out);
CT_MUST_CHECK enum ct_status solver_find_model(const Caffe__SolverState *m,
                                               const char *path, char **out);
/* The newest whole state of a prefix, of an iteration below `limit` if that is
 * not negative, written no earlier than `since` (seconds since 1970);
 * CT_ENOTFOUND: there is none.  *path is ct_free'd. */
CT_MUST_CHECK enum ct_status solver_find_newest(const char *prefix,
                                                int64_t limit, int64_t since,
                                                char **path, int64_t *iter);
/* Removes snapshots of the prefix up to iteration `iter`, but not the `keep`
 * newest of them; on ranks other than 0 only what `rank` keeps. */
void solver_remove_older(const char *prefix, int rank, int64_t iter, int keep);
/* Whether a name ends so. */
bool solver_ends_with(const char *s, const char *tail);

#endif
