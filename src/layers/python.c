/* python.c - a layer whose code is Python, Caffe type "Python".
 *
 * Every step goes to the host of cortado/python.h.  Reshape runs before every
 * forward pass, as in Caffe: data layers look there at what comes next and
 * shape their tops for it.  Tops have memory of their own, so that what setup
 * or reshape writes to them stays.
 *
 * Without a host the plug-in library is looked for as $CORTADO_PYTHON_PLUGIN,
 * next to the program, next to this library, in the folders beside them where
 * `make install` puts libraries, and last where the system looks. */
#include "cortado/python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "layers/python_layer.h"
#include "proto/params.h"

#define PLUGIN "libcortado_python.so"
#ifndef CT_LIBDIR
#define CT_LIBDIR "lib"
#endif

enum { PATH_BYTES = 4096, TEXT_BYTES = 1024 };

struct python {
    bool known; /* to the host */
};

/* One interpreter serves a process, so its host is process-wide too. */
static _Atomic(const struct ct_python_host *) current_host;
static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;

void ct_python_set_host(const struct ct_python_host *host)
{
    atomic_store(&current_host, host);
}

const char *ct_python_module(const struct ct_layer *l)
{
    const Caffe__PythonParameter *p = ct_python_param(l->param);

    return p->module ? p->module : "";
}

const char *ct_python_class(const struct ct_layer *l)
{
    const Caffe__PythonParameter *p = ct_python_param(l->param);

    return p->layer ? p->layer : "";
}

const char *ct_python_param_str(const struct ct_layer *l)
{
    const Caffe__PythonParameter *p = ct_python_param(l->param);

    return p->param_str ? p->param_str : "";
}

/* Cuts the file name off a path. */
static void keep_folder(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash)
        *slash = '\0';
    else
        path[0] = '\0';
}

/* Opens folder/below/PLUGIN; NULL when it is not there or does not load. */
static void *open_in(const char *folder, const char *below)
{
    char path[PATH_BYTES + 64];

    if (!folder[0])
        return NULL;
    snprintf(path, sizeof(path), "%s%s/" PLUGIN, folder, below);
    if (access(path, R_OK) != 0)
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* The interpreter's symbols are global, because extension modules such as
 * numpy's expect to find them so. */
static void *open_plugin(void)
{
    const char *named          = getenv("CORTADO_PYTHON_PLUGIN");
    char program[PATH_BYTES]   = "", library[PATH_BYTES] = "";
    const char *const folder[] = { program, library };
    void *plugin               = NULL;
    Dl_info here;
    ssize_t n;

    if (named && named[0])
        return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[n > 0 ? n : 0] = '\0';
    keep_folder(program);
    if (dladdr(&plugin_lock, &here) && here.dli_fname &&
        realpath(here.dli_fname, library))
        keep_folder(library);
    for (int i = 0; i < 2 && !plugin; i++) {
        plugin = open_in(folder[i], "");
        if (!plugin)
            plugin = open_in(folder[i], "/cortado");
    }
    if (!plugin)
        plugin = open_in(program, "/../" CT_LIBDIR "/cortado");
    if (!plugin)
        plugin = open_in(program, "/../lib/cortado");
    return plugin ? plugin : dlopen(PLUGIN, RTLD_NOW | RTLD_GLOBAL);
}

static enum ct_status start_plugin(const struct ct_layer *l)
{
    int (*start)(char *error, size_t size);
    char error[TEXT_BYTES] = "";
    void *plugin           = open_plugin();
    void *found            = plugin ? dlsym(plugin, "cortado_python_start")
                                    : NULL;

    if (!found) {
        const char *why = dlerror();

        return ct_fail(CT_ENOTSUP, "layer %s: a layer of type Python needs "
                       "the plug-in library " PLUGIN ", which does not load "
                       "(%s); build it with python3-dev installed, or name it "
                       "in CORTADO_PYTHON_PLUGIN", l->name,
                       why ? why : "unknown");
    }
    memcpy(&start, &found, sizeof(start));
    if (start(error, sizeof(error)) != 0)
        return ct_fail(CT_ENOTSUP, "layer %s: %s", l->name, error);
    return CT_OK;
}

/* The host, started on demand. */
static enum ct_status need_host(const struct ct_layer *l,
                                const struct ct_python_host **out)
{
    enum ct_status st = CT_OK;

    *out = atomic_load(&current_host);
    if (*out)
        return CT_OK;
    pthread_mutex_lock(&plugin_lock);
    *out = atomic_load(&current_host);
    if (!*out) {
        st   = start_plugin(l);
        *out = atomic_load(&current_host);
    }
    pthread_mutex_unlock(&plugin_lock);
    if (st == CT_OK && !*out)
        st = ct_fail(CT_EINTERNAL, "layer %s: the Python plug-in started, but "
                     "its package `caffe` belongs to another library",
                     l->name);
    return st;
}

static enum ct_status run(struct ct_layer *l, enum ct_python_step step,
                          const struct ct_io *io)
{
    const struct ct_python_host *host;

    CT_TRY(need_host(l, &host));
    return host->run(l, step, io->bottom, io->n_bottom, io->top, io->n_top,
                     step == CT_PYTHON_BACKWARD ? io->want_grad : NULL,
                     host->arg);
}

static bool is_bottom(const struct ct_io *io, const struct ct_blob *top)
{
    for (int i = 0; i < io->n_bottom; i++)
        if (io->bottom[i] == top)
            return true;
    return false;
}

static enum ct_status python_setup(struct ct_layer *l, const struct ct_io *io)
{
    struct python *p = l->state;
    const struct ct_python_host *host;

    if (!ct_python_module(l)[0] || !ct_python_class(l)[0])
        return ct_fail(CT_EINVAL, "layer %s: python_param needs `module` and "
                       "`layer`, the names of a module and of a class in it",
                       l->name);
    CT_TRY(need_host(l, &host));
    for (int i = 0; i < io->n_top; i++)
        if (!is_bottom(io, io->top[i]))
            io->top[i]->planned = false;
    p->known = true;
    return run(l, CT_PYTHON_SETUP, io);
}

static enum ct_status python_reshape(struct ct_layer *l,
                                     const struct ct_io *io)
{
    CT_TRY(run(l, CT_PYTHON_RESHAPE, io));
    /* A top that nobody gave a shape is a scalar. */
    for (int i = 0; i < io->n_top; i++)
        if (io->top[i]->version == 0)
            CT_TRY(ct_reshape(io->top[i], CT_SCALAR));
    return CT_OK;
}

static enum ct_status python_forward(struct ct_layer *l,
                                     const struct ct_io *io)
{
    CT_TRY(python_reshape(l, io));
    return run(l, CT_PYTHON_FORWARD, io);
}

static enum ct_status python_backward(struct ct_layer *l,
                                      const struct ct_io *io)
{
    /* Layers whose backward() does nothing, as Faster R-CNN's, mean zeros. */
    for (int i = 0; i < io->n_bottom; i++) {
        bool shared = !io->want_grad[i];

        for (int t = 0; t < io->n_top && !shared; t++)
            shared = ct_diff(io->bottom[i]) == ct_diff(io->top[t]);
        if (!shared)
            CT_TRY(ct_fill(l->dev, io->bottom[i]->count, 0,
                           ct_diff(io->bottom[i])));
    }
    return run(l, CT_PYTHON_BACKWARD, io);
}

static enum ct_status python_seek(struct ct_layer *l, uint64_t n_passes)
{
    const struct ct_python_host *host;

    CT_TRY(need_host(l, &host));
    return host->seek ? host->seek(l, n_passes, host->arg) : CT_OK;
}

/* At the end of a process the interpreter may be gone before its layers. */
static void python_teardown(struct ct_layer *l)
{
    const struct python *p            = l->state;
    const struct ct_python_host *host = atomic_load(&current_host);

    if (p->known && host && host->forget)
        host->forget(l, host->arg);
}

const struct ct_layer_type ct_layer_python = {
    .name       = "Python",
    .bottoms    = CT_AT_LEAST(0),
    .tops       = CT_AT_LEAST(0),
    .flags      = CT_LAYER_INPLACE | CT_LAYER_DYNAMIC | CT_LAYER_CARRIES,
    .state_size = sizeof(struct python),
    .setup      = python_setup,
    .reshape    = python_reshape,
    .forward    = { [CT_CPU] = python_forward },
    .backward   = { [CT_CPU] = python_backward },
    .seek       = python_seek,
    .teardown   = python_teardown,
};

bool ct_python_finds_place(const struct ct_layer *l)
{
    const struct ct_python_host *host = atomic_load(&current_host);

    return l->type != &ct_layer_python || !host || !host->finds_place ||
           host->finds_place(l, host->arg);
}
