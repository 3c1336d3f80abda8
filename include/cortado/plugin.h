/* cortado/plugin.h - layer types of one's own, in a shared object.
 *
 * A plug-in is a shared object that defines layer types (cortado/layer.h) and
 * names them once:
 *
 *     #include <cortado/plugin.h>
 *
 *     static const struct ct_layer_type softsign = { .name = "Softsign", ... };
 *     CT_PLUGIN("softsign", &softsign)
 *
 *     cc -shared -fPIC softsign.c -o softsign.so $(pkg-config --cflags cortado)
 *
 * It is not linked with the library: whoever loads it has the library.  Nets
 * find it through `cortado train --plugin=./softsign.so`, the environment
 * variable CORTADO_PLUGINS (names with colons between), or `plugin:
 * "./softsign.so"` in the net's prototxt.  A program may also load it, or give
 * the library its own types.  Plug-ins stay until the process ends. */
#ifndef CT_PLUGIN_H
#define CT_PLUGIN_H

#include "cortado/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface: of this header, layer.h and what they
 * include.  A plug-in works with the version that it was compiled for. */
#define CT_PLUGIN_VERSION 1

struct ct_plugin {
    int         version;          /* CT_PLUGIN_VERSION */
    size_t      layer_type_bytes; /* sizeof(struct ct_layer_type) */
    size_t      layer_bytes;      /* sizeof(struct ct_layer) */
    size_t      blob_bytes;       /* sizeof(struct ct_blob) of its headers */
    const char *name;             /* for messages */
    const struct ct_layer_type *const *layers;
    int         n_layers;
};

/* What a plug-in exports, under this name whatever the version. */
typedef const struct ct_plugin *(*ct_plugin_fn)(void);
#define CT_PLUGIN_ENTRY "cortado_plugin"

#ifdef __cplusplus
#define CT_PLUGIN_SHOWN extern "C" __attribute__((visibility("default")))
#else
#define CT_PLUGIN_SHOWN __attribute__((visibility("default")))
#endif

/* CT_PLUGIN(name, &type, ...): at file scope, once. */
#define CT_PLUGIN(name, ...)                                                 \
    CT_PLUGIN_SHOWN const struct ct_plugin *cortado_plugin(void);            \
    const struct ct_plugin *cortado_plugin(void)                             \
    {                                                                        \
        static const struct ct_layer_type *const layers[] = { __VA_ARGS__ }; \
        static const struct ct_plugin plugin = {                             \
            CT_PLUGIN_VERSION, sizeof(struct ct_layer_type),                 \
            sizeof(struct ct_layer), sizeof(struct ct_blob), (name), layers, \
            (int)(sizeof(layers) / sizeof(layers[0]))                        \
        };                                                                   \
        return &plugin;                                                      \
    }

/* Loads a plug-in and adds its types; once is enough, again is fine.  A name
 * without a slash is looked for in the working folder, then where the system
 * looks for libraries. */
CT_API CT_MUST_CHECK enum ct_status ct_plugin_load(const char *path);

/* Adds one type of the program's own.  `type` must stay.  CT_EEXIST: there is
 * one of that name. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_register(
    const struct ct_layer_type *type);

/* For setup(): the values of `plugin_param { name: "scale" number: 2 }` and
 * `plugin_param { name: "mode" text: "fast" }` in the layer's prototxt, or
 * `initial` where it does not name them. */
CT_API double ct_layer_number(const struct ct_layer *l, const char *name,
                              double initial);
CT_API const char *ct_layer_text(const struct ct_layer *l, const char *name,
                                 const char *initial);
/* For setup(), so that misspelt names are noticed: fails on a plugin_param
 * that is none of `names`, a list that ends with NULL. */
CT_API CT_MUST_CHECK enum ct_status ct_layer_knows(const struct ct_layer *l,
                                                   const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
