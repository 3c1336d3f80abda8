/* cortado/onnx.h - nets as ONNX files.
 *
 * Export writes standard operators of opset 13 or 17, and refuses what they
 * cannot express with the name of the layer and the reason. */
#ifndef CT_ONNX_H
#define CT_ONNX_H

#include "cortado/net.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_ONNX_DYNAMIC = -1 }; /* a batch of any size */

struct ct_onnx_options {
    int     opset; /* 13 or 17; 0: 13 */
    int64_t batch; /* the first dimension of the inputs; 0: the net's own */
    bool    no_fold; /* export BatchNorm and Scale as nodes of their own */
};

/* Writes the net with its weights, as it is in the TEST phase.  Losses and
 * scores are left out: what they read becomes an output.  The net is left as
 * it is.  `options` may be NULL. */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_export(
    const struct ct_net *net, const struct ct_onnx_options *options,
    const char *path);
/* The same from files; `weights` may be NULL: as the fillers make them. */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_export_file(
    const char *model, const char *weights,
    const struct ct_onnx_options *options, const char *path);

#ifdef __cplusplus
}
#endif
#endif
