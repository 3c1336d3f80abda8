/* cortado/python.h - layers written in Python, type "Python" in a prototxt.
 *
 * The library knows no Python.  Whoever has an interpreter is the host: the
 * package `caffe` makes itself the host when it is imported.  In a program
 * without an interpreter the first Python layer loads the plug-in library
 * libcortado_python.so, which starts one and imports `caffe`. */
#ifndef CT_PYTHON_H
#define CT_PYTHON_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ct_python_step {
    CT_PYTHON_SETUP, /* import the module, make the object, call its setup */
    CT_PYTHON_RESHAPE,
    CT_PYTHON_FORWARD,
    CT_PYTHON_BACKWARD
};

/* What the host does for a layer, on the thread that runs the net.  Failures
 * are recorded with ct_fail() or ct_fail_text(). */
struct ct_python_host {
    /* want_grad is NULL but in backward. */
    enum ct_status (*run)(struct ct_layer *l, enum ct_python_step step,
                          struct ct_blob *const *bottom, int n_bottom,
                          struct ct_blob *const *top, int n_top,
                          const bool *want_grad, void *arg);
    /* Continue as if n_passes batches were drawn. */
    enum ct_status (*seek)(struct ct_layer *l, uint64_t n_passes, void *arg);
    /* The layer is about to be destroyed. */
    void (*forget)(struct ct_layer *l, void *arg);
    void *arg;
    /* Does `seek` mean anything to it?  NULL: to all. */
    bool (*finds_place)(const struct ct_layer *l, void *arg);
};

/* Process-wide.  Borrowed until another one takes its place; NULL: none. */
CT_API void ct_python_set_host(const struct ct_python_host *host);

/* python_param of a Python layer; "" where the prototxt is silent. */
CT_API const char *ct_python_module(const struct ct_layer *l);
CT_API const char *ct_python_class(const struct ct_layer *l);
CT_API const char *ct_python_param_str(const struct ct_layer *l);

#ifdef __cplusplus
}
#endif
#endif
