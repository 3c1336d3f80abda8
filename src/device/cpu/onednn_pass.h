/* onednn_pass.h - one pass of a convolution by oneDNN.
 *
 * oneDNN works fastest on arrays in a layout of its choice.  Each pass is a
 * primitive with three edges where an array comes in or goes out; an edge
 * whose array lies as the primitive wants passes it straight on, any other
 * goes through a buffer and a reorder:
 *
 *     x -> [src] -+                          dy -> [dst] -+
 *     w -> [weights] -> forward -> [dst] -> y        ...
 *
 * Weights and their gradients are plain or, where the user says so for a run,
 * tiles (tiles16.h), which most primitives take straight.  Weight gradients are
 * added to dw by the reorder that brings them out, or written by another one;
 * out of tiles we bring them ourselves. */
#ifndef CT_DEVICE_CPU_ONEDNN_PASS_H
#define CT_DEVICE_CPU_ONEDNN_PASS_H
#ifdef CT_HAVE_ONEDNN

#include "device/conv_impl.h"
#include "device/cpu/onednn.h"

enum ct_buffer_of { SRC, DST, WEIGHTS, BIAS, SCRATCH, N_BUFFERS };
enum ct_direction { IN, OUT, ADD };
enum { N_EDGES = 3 };

/* Passes run one after the other and share buffers and scratchpad. */
struct ct_pass_room {
    size_t bytes[N_BUFFERS];
    float *buffer[N_BUFFERS];
};

struct ct_edge {
    int               arg;
    enum ct_buffer_of buffer;
    enum ct_direction direction;
    bool              straight; /* the caller's array, without the buffer */
    bool              tiles;    /* straight where it lies in tiles */
    struct ct_prim    reorder;
    struct ct_prim    write;  /* the same where a gradient is not added */
    struct ct_prim    untile; /* the reorder where it lies in tiles */
};

struct ct_pass {
    struct ct_prim prim;
    struct ct_edge edge[N_EDGES]; /* the one that goes out is last */
};

/* Descriptions of arrays; tiles is of nothing where weights cannot lie so. */
struct ct_arrays {
    struct ct_md src, dst, weights, bias, tiles;
};

void ct_arrays_fini(struct ct_arrays *a);
void ct_pass_fini(struct ct_pass *p);
void ct_pass_need(struct ct_pass_room *r, enum ct_buffer_of b, size_t bytes);

/* Takes pd, also on failure.  CT_ENOTSUP: oneDNN has only slow loops. */
CT_MUST_CHECK enum ct_status ct_pass_init(struct ct_pass_room *r,
                                          struct ct_pass *p,
                                          dnnl_primitive_desc_t pd);
CT_MUST_CHECK enum ct_status ct_pass_edge(
    struct ct_pass_room *r, const struct ct_arrays *user, struct ct_pass *p,
    int i, int arg, dnnl_query_t what, enum ct_buffer_of buffer,
    enum ct_direction direction);
/* The arguments that never move: buffers and scratchpads; with `packed` that
 * of weights has been set. */
CT_MUST_CHECK enum ct_status ct_pass_place(const struct ct_pass_room *r,
                                           struct ct_pass *p, bool packed);

/* What the run of a pass is given: `in` and `more_in` belong to the first two
 * edges, `out` to the last.  An array that is not given is in the edge's
 * buffer already. */
struct ct_pass_args {
    const float *in, *more_in;
    float       *out;
    bool         tiles; /* weights, or their gradient, lie so */
    bool         write; /* the gradient, do not add it */
};
CT_MUST_CHECK enum ct_status ct_pass_run(const struct ct_conv *c,
                                         const struct ct_pass_room *r,
                                         struct ct_pass *p,
                                         const struct ct_pass_args *a);

#endif
#endif
