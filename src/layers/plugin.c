/* plugin.c - layer types from shared objects. */
#include "cortado/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "layers/plugins.h"
#include "proto/nearest.h"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool environment_done; /* under the lock */

static enum ct_status check_type(const struct ct_layer_type *t,
                                 const char *plugin)
{
    if (!t || !t->name || !t->name[0])
        return ct_fail(CT_EINVAL, "plug-in %s: a layer type has no name",
                       plugin);
    if (!t->reshape || !t->forward[CT_CPU])
        return ct_fail(CT_EINVAL, "plug-in %s: layer type %s lacks reshape or "
                       "forward", plugin, t->name);
    if (!t->backward[CT_CPU] &&
        !(t->flags & (CT_LAYER_NO_GRAD | CT_LAYER_SOURCE)))
        return ct_fail(CT_EINVAL, "plug-in %s: layer type %s has no backward; "
                       "give it CT_LAYER_NO_GRAD if that is meant", plugin,
                       t->name);
    return CT_OK;
}

/* Was it compiled for this library? */
static enum ct_status check_plugin(const struct ct_plugin *p, const char *path)
{
    if (!p)
        return ct_fail(CT_EINVAL, "plug-in %s: " CT_PLUGIN_ENTRY "() returns "
                       "NULL", path);
    if (p->version != CT_PLUGIN_VERSION)
        return ct_fail(CT_ENOTSUP, "plug-in %s is compiled for version %d of "
                       "the plug-in interface, and this is version %d: "
                       "compile it again", path, p->version,
                       CT_PLUGIN_VERSION);
    if (p->layer_type_bytes != sizeof(struct ct_layer_type) ||
        p->layer_bytes != sizeof(struct ct_layer) ||
        p->blob_bytes != sizeof(struct ct_blob))
        return ct_fail(CT_ENOTSUP, "plug-in %s is compiled with the headers "
                       "of another Cortado: compile it again", path);
    if (!p->layers || p->n_layers < 1)
        return ct_fail(CT_EINVAL, "plug-in %s has no layer types", path);
    for (int i = 0; i < p->n_layers; i++)
        CT_TRY(check_type(p->layers[i], path));
    return CT_OK;
}

/* Plug-ins find the library's functions among global symbols.  A program that
 * loaded the library for itself alone (Python does) has none, so it is made
 * global here. */
static void show_library(void)
{
    Dl_info here;

    if (dladdr(&environment_done, &here) && here.dli_fname)
        (void)dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static enum ct_status load(const char *name)
{
    char path[4096];
    ct_plugin_fn entry;
    const struct ct_plugin *p;
    void *plugin, *symbol;

    snprintf(path, sizeof(path), "%s%s",
             !strchr(name, '/') && access(name, R_OK) == 0 ? "./" : "", name);
    show_library();
    plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin)
        return ct_fail(CT_ENOTFOUND, "cannot load plug-in %s: %s", name,
                       dlerror());
    symbol = dlsym(plugin, CT_PLUGIN_ENTRY);
    if (!symbol) {
        dlclose(plugin);
        return ct_fail(CT_EINVAL, "%s is no plug-in for layers: it has no "
                       "function " CT_PLUGIN_ENTRY "() (CT_PLUGIN in "
                       "cortado/plugin.h)", name);
    }
    memcpy(&entry, &symbol, sizeof(entry));
    p = entry();
    CT_TRY(check_plugin(p, name));
    for (int i = 0; i < p->n_layers; i++)
        if (ct_layer_find(p->layers[i]->name) != p->layers[i]) {
            enum ct_status st = ct_layer_register(p->layers[i]);

            if (st != CT_OK)
                return ct_fail_in(st, "plug-in %s", name);
            CT_INFO("Layer type %s from plug-in %s", p->layers[i]->name, name);
        }
    return CT_OK;
}

enum ct_status ct_plugin_load(const char *path)
{
    enum ct_status st;

    pthread_mutex_lock(&load_lock);
    st = load(path);
    pthread_mutex_unlock(&load_lock);
    return st;
}

/* Those of CORTADO_PLUGINS, with the lock held. */
static enum ct_status load_environment(void)
{
    const char *text = getenv("CORTADO_PLUGINS");
    char *list, *rest, *name;
    enum ct_status st = CT_OK;

    if (environment_done || !text || !text[0])
        return CT_OK;
    list = rest = ct_strdup(text, "plug-ins");
    if (!list)
        return CT_ENOMEM;
    while (st == CT_OK && (name = strsep(&rest, ":")))
        if (*name)
            st = load(name);
    ct_free(list);
    environment_done = st == CT_OK;
    return st == CT_OK ? st : ct_fail_in(st, "CORTADO_PLUGINS");
}

enum ct_status ct_plugins_load_asked(const Caffe__NetParameter *param)
{
    enum ct_status st;

    pthread_mutex_lock(&load_lock);
    st = load_environment();
    for (size_t i = 0; i < param->n_plugin && st == CT_OK; i++)
        st = load(param->plugin[i]);
    pthread_mutex_unlock(&load_lock);
    return st;
}

static const Caffe__PluginParameter *find_param(const struct ct_layer *l,
                                                const char *name)
{
    for (size_t i = 0; i < l->param->n_plugin_param; i++) {
        const Caffe__PluginParameter *p = l->param->plugin_param[i];

        if (p->name && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

double ct_layer_number(const struct ct_layer *l, const char *name,
                       double initial)
{
    const Caffe__PluginParameter *p = find_param(l, name);

    return p && p->has_number ? p->number : initial;
}

const char *ct_layer_text(const struct ct_layer *l, const char *name,
                          const char *initial)
{
    const Caffe__PluginParameter *p = find_param(l, name);

    return p && p->text && p->text[0] ? p->text : initial;
}

enum ct_status ct_layer_knows(const struct ct_layer *l,
                              const char *const *names)
{
    for (size_t i = 0; i < l->param->n_plugin_param; i++) {
        const char *name = l->param->plugin_param[i]->name
                               ? l->param->plugin_param[i]->name
                               : "";
        struct ct_nearest near = ct_nearest(name, strlen(name));
        bool known             = false;

        for (const char *const *k = names; *k && !known; k++) {
            known = strcmp(name, *k) == 0;
            ct_nearest_try(&near, *k, strlen(*k));
        }
        if (!known)
            return ct_fail(CT_EINVAL, "layer %s: type %s has no plugin_param "
                           "\"%s\"%s%s%s", l->name, l->type->name, name,
                           near.best ? "; did you mean \"" : "",
                           near.best ? near.best : "",
                           near.best ? "\"?" : "");
    }
    return CT_OK;
}
