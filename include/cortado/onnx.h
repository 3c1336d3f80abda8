/* cortado/onnx.h - nets to and from ONNX files.
 *
 * Export writes standard operators of opset 13 or 17.  Import reads files of
 * opset 7 and later whose operators layers can express.  Both refuse what they
 * cannot do with the name of the layer or node and the reason. */
#ifndef CT_ONNX_H
#define CT_ONNX_H

#include "cortado/net.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_ONNX_DYNAMIC = -1 }; /* a batch of any size */

struct ct_onnx_options {
    int     opset; /* 13 or 17; 0: 13 */
    /* Export: the first dimension of the inputs; 0: the net's own.
     * Import: the size in place of one that the file leaves open; 0: 1. */
    int64_t batch;
    bool    no_fold; /* export BatchNorm and Scale as nodes of their own */
};

/* Writes the net with its weights, as it is in the TEST phase.  Losses and
 * scores are left out: what they read becomes an output.  The net is left as
 * it is.  `options` may be NULL. */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_export(
    const struct ct_net *net, const struct ct_onnx_options *options,
    const char *path);
/* ct_onnx_export() from files; `weights` NULL: as the fillers make them. */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_export_file(
    const char *model, const char *weights,
    const struct ct_onnx_options *options, const char *path);

/* The net of an ONNX file, with its weights in the layers' blobs.  The caller
 * frees it with ct_message_free(). */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_import(
    const char *path, const struct ct_onnx_options *options,
    Caffe__NetParameter **out);
/* ct_onnx_import() from memory; `source` names it in messages. */
CT_API CT_MUST_CHECK enum ct_status ct_onnx_import_bytes(
    const void *data, size_t n_bytes, const char *source,
    const struct ct_onnx_options *options, Caffe__NetParameter **out);

#ifdef __cplusplus
}
#endif
#endif
