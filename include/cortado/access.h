/* cortado/access.h - the API for bindings: other languages call these without
 * knowing how a C struct lies in memory.
 *
 * Numbers, strings and opaque pointers go in and out.  An index is in range:
 * the caller has asked for the count. */
#ifndef CT_ACCESS_H
#define CT_ACCESS_H

#include "cortado/log.h"
#include "cortado/solver.h"

#ifdef __cplusplus
extern "C" {
#endif

CT_API const char *ct_version(void); /* "0.2.0" */

/* Allocations of the library that are not freed yet. */
CT_API uint64_t ct_n_live_allocations(void);

/* ct_fail() and ct_log_write() without a format. */
CT_API enum ct_status ct_fail_text(enum ct_status code, const char *text);
CT_API void ct_log_text(enum ct_log_level level, const char *file, int line,
                        const char *text);

CT_API int      ct_blob_n_axes(const struct ct_blob *b);
CT_API int64_t  ct_blob_dim(const struct ct_blob *b, int i);
CT_API int64_t  ct_blob_count(const struct ct_blob *b);
CT_API uint32_t ct_blob_version(const struct ct_blob *b);
CT_API CT_MUST_CHECK enum ct_status ct_blob_reshape(struct ct_blob *b,
                                                    int n_axes,
                                                    const int64_t *dim);

/* Where the values (or the gradient) lie at this moment; NULL: nowhere. */
CT_API float *ct_blob_address(const struct ct_blob *b, bool diff);

/* Values for keeps: gives the blob memory where it has none, and counts
 * that memory once more in *hold, so that *values stays valid, whatever
 * becomes of the blob, until ct_blob_release(*hold).  *hold may be NULL:
 * then the memory is the blob's owner's.  Only values in the host's memory,
 * in plain layout. */
CT_API CT_MUST_CHECK enum ct_status ct_blob_hold(struct ct_blob *b, bool diff,
                                                 float **values,
                                                 struct ct_buffer **hold);
CT_API void ct_blob_release(struct ct_buffer *hold); /* takes NULL */

/* Whether a blob's values are where ct_blob_hold() finds them; and those of
 * any blob, plain, to and from the host's memory.  A part that has no memory
 * reads as zeros, and gets some when it is written. */
CT_API bool ct_blob_on_host(const struct ct_blob *b);
CT_API CT_MUST_CHECK enum ct_status ct_blob_pull(const struct ct_blob *b,
                                                 bool diff, float *to);
CT_API CT_MUST_CHECK enum ct_status ct_blob_push(struct ct_blob *b, bool diff,
                                                 const float *from);

/* The precision, an enum ct_precision, that the words of a net's or of a
 * solver's file ask for. */
CT_API CT_MUST_CHECK enum ct_status ct_precision_asked(const char *path,
                                                       bool solver, int *out);

/* The name of layer type i of ct_layer_n_types(). */
CT_API const char *ct_layer_type_at(int i);

CT_API const char *ct_layer_name(const struct ct_layer *l);
CT_API const char *ct_layer_type_name(const struct ct_layer *l);
CT_API int         ct_layer_phase(const struct ct_layer *l);
CT_API int         ct_layer_n_blobs(const struct ct_layer *l);
CT_API struct ct_blob *ct_layer_blob(const struct ct_layer *l, int i);
/* Who the layer's net is among the ranks of one training run, and the key of
 * the layer's random draws, the same on all of them. */
CT_API int      ct_layer_rank(const struct ct_layer *l);
CT_API int      ct_layer_size(const struct ct_layer *l);
CT_API uint64_t ct_layer_key(const struct ct_layer *l);
/* What `batch_size` of data_param says for this rank; -1: nothing. */
CT_API int64_t ct_layer_batch_size(const struct ct_layer *l);
/* Where a source of the train net with this batch reads in its pass t, of the
 * samples of all ranks: at position t / out[3] * out[0] + out[1] + t % out[3] *
 * out[2] and the out[2] - 1 after it. */
CT_API void ct_layer_shard(const struct ct_layer *l, int64_t batch,
                           int64_t out[4]);
/* A parameter of zeros; only while the layer is set up. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_add_zeros(struct ct_layer *l,
                                                       int n_axes,
                                                       const int64_t *dim);
/* Reshape for these blobs, outside a pass. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_shape_tops(
    struct ct_layer *l, struct ct_blob *const *bottom, int n_bottom,
    struct ct_blob *const *top, int n_top);

/* A net that keeps every blob readable.  rank and size as in ct_run. */
CT_API CT_MUST_CHECK enum ct_status ct_net_open(
    const char *path, const struct ct_device *device, int phase, int level,
    const char *const *stage, int n_stage, uint64_t seed, int rank, int size,
    struct ct_net **out);
CT_API int ct_net_n_bottoms(const struct ct_net *net, int layer);
CT_API int ct_net_n_tops(const struct ct_net *net, int layer);

/* A solver whose nets keep every blob readable.  `type` takes the place of
 * the file's own where it is not NULL, `seed` that of an absent random_seed
 * where it is not below 0.  `exchange` and `action` as in ct_solver_options;
 * an exchange brings rank and size. */
typedef enum ct_solver_action (*ct_action_fn)(void *arg);
CT_API CT_MUST_CHECK enum ct_status ct_solver_open(
    const char *path, const struct ct_device *device, const char *type,
    int64_t seed, int rank, int size, struct ct_exchange *exchange,
    ct_action_fn action, void *arg, struct ct_solver **out);
CT_API const char *ct_solver_type(const struct ct_solver *s);
CT_API int   ct_solver_max_iter(const struct ct_solver *s);
CT_API int   ct_solver_display(const struct ct_solver *s);
CT_API int   ct_solver_iter_size(const struct ct_solver *s);
CT_API bool  ct_solver_layer_wise_reduce(const struct ct_solver *s);
CT_API float ct_solver_base_lr(const struct ct_solver *s);
CT_API void  ct_solver_set_base_lr(struct ct_solver *s, float rate);
/* CT_ACTION_STOP was asked for, here or elsewhere. */
CT_API bool ct_solver_is_stopped(const struct ct_solver *s);
/* Among ranks that come and go, after a step that was stopped: the snapshot
 * that ct_solver_solve() would write then.  All ranks call it. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_stop_snapshot(
    struct ct_solver *s);
/* Forget that CT_ACTION_STOP was asked for, so that training can go on. */
CT_API void ct_solver_clear_stop(struct ct_solver *s);

/* With peers.  A number that is the same on ranks whose solvers fit together:
 * of the prototxt without its file names, and of the parameters' shapes. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_digest(const struct ct_solver *s,
                                                     uint64_t *out);
/* What the first step does by itself: rank 0's parameters become everyone's.
 * All ranks call it. */
CT_API CT_MUST_CHECK enum ct_status ct_solver_attach(struct ct_solver *s);
/* Send gradients when the backward pass is over, not during it: for those who
 * want to see or change them first. */
CT_API void ct_solver_send_late(struct ct_solver *s, bool late);
/* Train alone from here on; before the peers go. */
CT_API void ct_solver_leave(struct ct_solver *s);

#ifdef __cplusplus
}
#endif
#endif
