/* import.h - an ONNX model on its way to a net.
 *
 * Nodes are read in order.  One whose inputs are all constants is computed
 * (import_fold.c); any other needs a line in import.def, with a function that
 * makes layers of it.  Each layer is set up by itself when it is made, so all
 * shapes are known and what does not fit is refused at its node. */
#ifndef CT_ONNX_IMPORT_H
#define CT_ONNX_IMPORT_H

#include "cortado/onnx.h"
#include "onnx/graph.h"

/* Values of a blob: the whole net is built once, to see that it works, and a
 * small file must not take all of the memory. */
enum { ONNX_MOST_VALUES = 1 << 27 };

/* A tensor of the model: a blob of the net, or a constant. */
struct onnx_value {
    const char     *name; /* borrowed from the model */
    char           *blob; /* owned; NULL for a constant */
    struct ct_shape shape;
    bool            ints; /* the constant is in i and not in f */
    float          *f;    /* owned */
    int64_t        *i;    /* owned */
};

struct onnx_import {
    const Onnx__ModelProto *model; /* borrowed */
    const char             *source;
    Caffe__NetParameter    *net; /* owned */
    struct onnx_value      *value; /* owned; grows */
    size_t                  n_value, room_value;
    int64_t                 opset;
    int64_t                 batch;
    const Onnx__NodeProto  *node; /* the one that is read */
};

typedef enum ct_status (*onnx_read_fn)(struct onnx_import *m);

/* Refuses the node. */
CT_PRINTF(2, 3)
enum ct_status onnx_reject(const struct onnx_import *m, const char *fmt, ...);

/* Input i of the node; NULL where it is left out.  Fails where nobody makes
 * it.  Borrowed until the next value is added. */
CT_MUST_CHECK enum ct_status onnx_input(struct onnx_import *m, size_t i,
                                        struct onnx_value **out);
/* Input i, which must be a blob, or a constant; a constant that must be a blob
 * becomes a Parameter layer. */
CT_MUST_CHECK enum ct_status onnx_input_blob(struct onnx_import *m, size_t i,
                                             struct onnx_value **out);
CT_MUST_CHECK enum ct_status onnx_input_floats(struct onnx_import *m,
                                               size_t i,
                                               struct onnx_value **out);
/* A list of numbers, at most `room`: attribute `name` if it is there, else
 * input i if `i` is above 0.  *n is -1 where neither is. */
CT_MUST_CHECK enum ct_status onnx_numbers(struct onnx_import *m,
                                          const char *name, size_t i,
                                          int room, int64_t *v, int *n);

const Onnx__AttributeProto *onnx_attribute(const struct onnx_import *m,
                                           const char *name);
int64_t onnx_get_int(const struct onnx_import *m, const char *name,
                     int64_t otherwise);
float onnx_get_float(const struct onnx_import *m, const char *name,
                     float otherwise);
/* Whether a string attribute has this value; a missing one has `otherwise`. */
bool onnx_is_string(const struct onnx_import *m, const char *name,
                    const char *value, const char *otherwise);
/* An axis of `shape`, from either end. */
CT_MUST_CHECK enum ct_status onnx_axis(const struct onnx_import *m,
                                       const struct ct_shape *shape,
                                       int64_t axis, int *out);

/* Layers.  Each reads blobs `bottom`, a NULL-terminated list, and makes n_top
 * blobs.  `fmt` is the prototxt of its parameters.  Blobs come after it. */
struct onnx_blob {
    struct ct_shape shape;
    const float    *value;
};

struct onnx_made {
    const char *type;
    const char *const *bottom;
    int n_top;
    const struct onnx_blob *blob; /* learned ones, n_blob of them */
    int n_blob;
};

/* A layer in the middle: *out is the name of its top, borrowed from the net,
 * and *shape (may be NULL) its shape. */
CT_PRINTF(5, 6)
CT_MUST_CHECK enum ct_status onnx_layer_between(struct onnx_import *m,
                                                const struct onnx_made *made,
                                                const char **out,
                                                struct ct_shape *shape,
                                                const char *fmt, ...);
/* Top `which` of a Slice of *blob at `points`, whose other tops are silenced;
 * *blob and *shape become its. */
CT_MUST_CHECK enum ct_status onnx_layer_part(struct onnx_import *m,
                                             const char **blob, int axis,
                                             const char *points, int n_top,
                                             int which,
                                             struct ct_shape *shape);
/* The node's last layer, whose tops are the node's outputs. */
CT_PRINTF(3, 4)
CT_MUST_CHECK enum ct_status onnx_layer_end(struct onnx_import *m,
                                            const struct onnx_made *made,
                                            const char *fmt, ...);
/* The node's output 0 is the blob `name` itself. */
CT_MUST_CHECK enum ct_status onnx_pass_on(struct onnx_import *m,
                                          const char *blob,
                                          const struct ct_shape *shape);
/* Reshape to `to`, as the node's last layer. */
CT_MUST_CHECK enum ct_status onnx_reshape_end(struct onnx_import *m,
                                              const char *from,
                                              const struct ct_shape *to);
CT_MUST_CHECK enum ct_status onnx_reshape_between(struct onnx_import *m,
                                                  const char *from,
                                                  const struct ct_shape *to,
                                                  const char **out);

#define ONNX_BLOBS(...) ONNX_IN(__VA_ARGS__)

/* Values.  A constant takes the memory that it is given. */
CT_MUST_CHECK enum ct_status onnx_add_constant(struct onnx_import *m,
                                               const char *name,
                                               const struct ct_shape *shape,
                                               float *f, int64_t *i);
struct onnx_value *onnx_find(struct onnx_import *m, const char *name);
CT_MUST_CHECK enum ct_status onnx_add_blob(struct onnx_import *m,
                                           const char *name, const char *blob,
                                           const struct ct_shape *shape);

/* import_tensor.c: a tensor of the file as a constant. */
CT_MUST_CHECK enum ct_status onnx_read_tensor(struct onnx_import *m,
                                              const Onnx__TensorProto *t,
                                              const char *name);

/* import_fold.c: computes the node if its inputs are constants; *done says
 * whether it did. */
CT_MUST_CHECK enum ct_status onnx_fold_node(struct onnx_import *m, bool *done);

/* import_shape.c: what Reshape, Flatten, Squeeze and Unsqueeze make of a
 * shape; and the order of a Transpose. */
CT_MUST_CHECK enum ct_status onnx_new_shape(struct onnx_import *m,
                                            const struct ct_shape *from,
                                            struct ct_shape *to);
CT_MUST_CHECK enum ct_status onnx_permutation(struct onnx_import *m,
                                              const struct ct_shape *from,
                                              int64_t *perm, int *n);

/* import_layer.c: layers that an export left in the metadata; *done says
 * whether the node belongs to one. */
CT_MUST_CHECK enum ct_status onnx_recall(struct onnx_import *m, bool *done);
/* import_in_place.c: layers of the net that may overwrite their bottom do. */
CT_MUST_CHECK enum ct_status onnx_work_in_place(struct onnx_import *m);
/* export.c */
bool onnx_is_exported(const char *type);

#define ONNX_READ(op, fn) enum ct_status fn(struct onnx_import *m);
#include "onnx/import.def"
#undef ONNX_READ

#endif
