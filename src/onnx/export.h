/* export.h - a net on its way to ONNX.
 *
 * Each layer type that ONNX can express has a line in the table of export.c:
 * its type and a function of type onnx_emit_fn that writes its nodes.  The
 * families are in export_*.c. */
#ifndef CT_ONNX_EXPORT_H
#define CT_ONNX_EXPORT_H

#include "cortado/onnx.h"
#include "layers/fold.h"
#include "onnx/graph.h"

struct onnx_export {
    struct onnx_graph graph;
    struct ct_net    *net; /* borrowed */
    bool              fold, dynamic;
    int               opset;
    const char      **value; /* per blob: the tensor that holds it, or NULL */
    bool             *constant; /* per blob: depends on shapes only */
    bool             *read;     /* per blob: a node reads it */
    bool             *alias;    /* per blob: `value` is another blob's */
    int              *origin;   /* per blob: the one it is a Split's copy of */
    struct ct_shape  *other; /* per blob: its shape with another batch size */
    bool             *done;  /* per layer: its work is in a node before */
    struct ct_fold    folded; /* what the layer that is written takes in */
};

/* One layer, for its function. */
struct onnx_layer {
    const struct ct_layer *layer;
    struct ct_io           io;
    int                    index;
    const char            *name;
    const char           **in, **out; /* tensors, per bottom and top */
};

typedef enum ct_status (*onnx_emit_fn)(struct onnx_export *x,
                                       const struct onnx_layer *l);

/* Refuses the layer. */
CT_PRINTF(2, 3)
enum ct_status onnx_refuse(const struct onnx_layer *l, const char *fmt, ...);

/* A name inside the layer: "conv1/what", for a node and the tensor it makes. */
const char *onnx_part(struct onnx_export *x, const struct onnx_layer *l,
                      const char *what);
/* A node of one output under such a name; returns the name. */
const char *onnx_step(struct onnx_export *x, const struct onnx_layer *l,
                      const char *op, const char *const *in);
/* The layer's last node, which makes top 0 and has its name. */
Onnx__NodeProto *onnx_end(struct onnx_export *x, const struct onnx_layer *l,
                          const char *op, const char *const *in);

/* Constants that belong to the layer. */
const char *onnx_weight(struct onnx_export *x, const struct onnx_layer *l,
                        const char *what, const struct ct_shape *shape,
                        const float *value);
const char *onnx_number(struct onnx_export *x, const struct onnx_layer *l,
                        const char *what, float value);
const char *onnx_list(struct onnx_export *x, const struct onnx_layer *l,
                      const char *what, int n, const int64_t *value);

/* Dimension `axis` of a bottom or top for the target of a Reshape: -1 where it
 * follows from an open batch size. */
int64_t onnx_dim(const struct onnx_export *x, const struct onnx_layer *l,
                 bool top, int i, int axis);
/* Reshape `from` to the dimensions; refuses two that are open. */
CT_MUST_CHECK enum ct_status onnx_reshape(struct onnx_export *x,
                                          const struct onnx_layer *l,
                                          const char *from,
                                          const struct ct_shape *to,
                                          const char *out);
/* A Reshape to the shape of a top, as the layer's last node. */
CT_MUST_CHECK enum ct_status onnx_reshape_top(struct onnx_export *x,
                                              const struct onnx_layer *l,
                                              const char *from, int top);

/* A Transpose that makes `out`. */
void onnx_transpose(struct onnx_export *x, const char *name, const char *in,
                    int n_axes, const int64_t *order, const char *out);
/* `from` as another type: as `out`, which is the layer's top and last node, or
 * where that is NULL as a new tensor, which is returned. */
const char *onnx_cast(struct onnx_export *x, const struct onnx_layer *l,
                      const char *from, enum onnx_type to, const char *out);

/* Keeps the layer's prototxt in the model's metadata, with tensors as bottoms
 * and tops, so that an import gets the layer back.  For layers whose nodes say
 * less than the layer did.  Learned blobs are found as constants
 * "<layer>.blob<i>". */
void onnx_remember(struct onnx_export *x, const struct onnx_layer *l);
#define ONNX_LAYER_NOTE "cortado.layer."

/* A blob's values, plain; *room is ct_free'd by the caller. */
CT_MUST_CHECK enum ct_status onnx_values(const struct ct_blob *b,
                                         float **room);

/* export_fold.c: finds the BatchNorm and Scale behind layer `index` that its
 * node can do as well, marks them as done and puts them into x->folded.
 * Returns the last layer that the node stands for. */
int onnx_fold_behind(struct onnx_export *x, int index);

/* The families. */
#define ONNX_EMIT(type, fn)                                                  \
    enum ct_status fn(struct onnx_export *x, const struct onnx_layer *l);
#include "onnx/export.def"
#undef ONNX_EMIT

#endif
