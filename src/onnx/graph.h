/* graph.h - an ONNX model that is being written.
 *
 * The first failure stays in `status`; calls after it do nothing, so a writer
 * checks once, at the end.  Names returned here live as long as the graph. */
#ifndef CT_ONNX_GRAPH_H
#define CT_ONNX_GRAPH_H

#include "cortado/shape.h"
#include "onnx/onnx.pb-c.h"

enum onnx_type {
    ONNX_FLOAT   = 1,
    ONNX_UINT8   = 2,
    ONNX_INT8    = 3,
    ONNX_INT32   = 6,
    ONNX_INT64   = 7,
    ONNX_BOOL    = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE  = 11
};

enum onnx_attribute {
    ONNX_ATTR_FLOAT  = 1,
    ONNX_ATTR_INT    = 2,
    ONNX_ATTR_STRING = 3,
    ONNX_ATTR_TENSOR = 4,
    ONNX_ATTR_FLOATS = 6,
    ONNX_ATTR_INTS   = 7
};

struct onnx_graph {
    Onnx__ModelProto *model; /* owned */
    size_t            room_node, room_tensor;
    enum ct_status    status;
    char            **name; /* owned, each too */
    size_t            n_names, room_names;
};

CT_MUST_CHECK enum ct_status onnx_graph_init(struct onnx_graph *g,
                                             const char *title, int opset);
void onnx_graph_fini(struct onnx_graph *g);

/* A name made of `fmt`, with a number behind it if it is taken. */
CT_PRINTF(2, 3) const char *onnx_name(struct onnx_graph *g, const char *fmt,
                                      ...);

/* ONNX_IN("a", "b"): the inputs of a node; "" leaves an optional one out. */
#define ONNX_IN(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* A node `name` of operator `op` that writes `out`.  NULL after a failure,
 * which the functions below take. */
Onnx__NodeProto *onnx_add(struct onnx_graph *g, const char *name,
                          const char *op, const char *const *in,
                          const char *out);
void onnx_add_input(struct onnx_graph *g, Onnx__NodeProto *n, const char *in);
void onnx_add_output(struct onnx_graph *g, Onnx__NodeProto *n,
                     const char *out);
void onnx_set_int(struct onnx_graph *g, Onnx__NodeProto *n, const char *name,
                  int64_t value);
void onnx_set_ints(struct onnx_graph *g, Onnx__NodeProto *n, const char *name,
                   int n_values, const int64_t *value);
void onnx_set_float(struct onnx_graph *g, Onnx__NodeProto *n,
                    const char *name, float value);
void onnx_set_string(struct onnx_graph *g, Onnx__NodeProto *n,
                     const char *name, const char *value);

/* Constants.  `name` comes from onnx_name() and is returned. */
const char *onnx_floats(struct onnx_graph *g, const char *name,
                        const struct ct_shape *shape, const float *value);
const char *onnx_float(struct onnx_graph *g, const char *name, float value);
const char *onnx_longs(struct onnx_graph *g, const char *name, int n,
                       const int64_t *value);

/* Inputs and outputs of the graph: floats.  A dimension below 0 is open:
 * -1 is called N, others have no name. */
void onnx_add_value(struct onnx_graph *g, bool input, const char *name,
                    const struct ct_shape *shape);

/* An entry in the model's metadata. */
void onnx_add_note(struct onnx_graph *g, const char *key, const char *value);

#endif
