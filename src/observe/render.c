/* render.c - pictures by libraries that a machine may have: Graphviz's layout
 * and librsvg's pixels.  They are opened when they are needed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"
#include "base/mem.h"
#include "observe/draw.h"

static bool find(void *library, const char *name, void *out)
{
    void *symbol = library ? dlsym(library, name) : NULL;

    *(void **)out = symbol;
    return symbol != NULL;
}

/* ---- Graphviz: libgvc draws what libcgraph reads */

struct graphviz {
    void *(*context)(void);
    void *(*read)(const char *text);
    int (*layout)(void *context, void *graph, const char *engine);
    int (*render)(void *context, void *graph, const char *format, char **out,
                  unsigned *n_bytes);
    void (*free_data)(char *data);
    int (*free_layout)(void *context, void *graph);
    int (*close)(void *graph);
    int (*free_context)(void *context);
};

static bool open_graphviz(struct graphviz *g)
{
    void *gvc = dlopen("libgvc.so.6", RTLD_NOW | RTLD_GLOBAL);
    void *cgraph = dlopen("libcgraph.so.6", RTLD_NOW | RTLD_GLOBAL);

    return find(gvc, "gvContext", &g->context) &&
           find(cgraph, "agmemread", &g->read) &&
           find(gvc, "gvLayout", &g->layout) &&
           find(gvc, "gvRenderData", &g->render) &&
           find(gvc, "gvFreeRenderData", &g->free_data) &&
           find(gvc, "gvFreeLayout", &g->free_layout) &&
           find(cgraph, "agclose", &g->close) &&
           find(gvc, "gvFreeContext", &g->free_context);
}

enum ct_status ct_render_dot(const struct ct_text *dot, struct ct_text *svg)
{
    struct graphviz g;
    enum ct_status st = CT_OK;
    void *context, *graph;
    char *data = NULL;
    unsigned n = 0;

    if (!open_graphviz(&g))
        return ct_fail(CT_ENOTSUP, "Graphviz's library is not on this "
                       "machine: install libgvc6, or take --layout=own");
    context = g.context();
    graph   = context ? g.read(dot->s) : NULL;
    if (!graph || g.layout(context, graph, "dot") != 0 ||
        g.render(context, graph, "svg", &data, &n) != 0 || !data)
        st = ct_fail(CT_ENOTSUP, "Graphviz's library does not draw this net");
    else
        ct_text_add_bytes(svg, data, n);
    if (data)
        g.free_data(data);
    if (graph) {
        g.free_layout(context, graph);
        g.close(graph);
    }
    if (context)
        g.free_context(context);
    return st == CT_OK && svg->failed ? CT_ENOMEM : st;
}

/* ---- librsvg reads an SVG, cairo paints and writes it */

struct size {
    int    width, height;
    double em, ex;
};

struct rsvg {
    void *(*open)(const unsigned char *data, size_t n_bytes, void **error);
    void (*size)(void *handle, struct size *out);
    int (*render)(void *handle, void *cairo);
    void *(*surface)(int format, int width, int height);
    void *(*create)(void *surface);
    int (*write)(void *surface, const char *path);
    void (*destroy)(void *cairo);
    void (*destroy_surface)(void *surface);
    void (*unref)(void *object);
};

static bool open_rsvg(struct rsvg *r)
{
    void *rsvg  = dlopen("librsvg-2.so.2", RTLD_NOW | RTLD_LOCAL);
    void *cairo = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    void *glib  = dlopen("libgobject-2.0.so.0", RTLD_NOW | RTLD_LOCAL);

    return find(rsvg, "rsvg_handle_new_from_data", &r->open) &&
           find(rsvg, "rsvg_handle_get_dimensions", &r->size) &&
           find(rsvg, "rsvg_handle_render_cairo", &r->render) &&
           find(cairo, "cairo_image_surface_create", &r->surface) &&
           find(cairo, "cairo_create", &r->create) &&
           find(cairo, "cairo_surface_write_to_png", &r->write) &&
           find(cairo, "cairo_destroy", &r->destroy) &&
           find(cairo, "cairo_surface_destroy", &r->destroy_surface) &&
           find(glib, "g_object_unref", &r->unref);
}

/* Written beside its place, then put there. */
static enum ct_status write_png(const struct rsvg *r, void *surface,
                                const char *path)
{
    char *temp = NULL;
    enum ct_status st;

    CT_TRY(ct_file_temp(path, &temp));
    if (r->write(surface, temp) != 0) {
        st = ct_fail(CT_EIO, "cannot write %s", path);
        ct_file_discard(temp);
    } else {
        st = ct_file_commit(temp, path);
    }
    ct_free(temp);
    return st;
}

enum ct_status ct_render_png(const struct ct_text *svg, const char *path)
{
    enum { ARGB32 = 0 };
    struct size size = { 0 };
    struct rsvg r;
    void *handle, *surface, *cairo;
    enum ct_status st;

    if (!open_rsvg(&r))
        return ct_fail(CT_ENOTSUP, "%s: PNG takes librsvg, which is not on "
                       "this machine: install librsvg2-2, or write an .svg",
                       path);
    handle = r.open((const unsigned char *)svg->s, svg->n_bytes, NULL);
    if (!handle)
        return ct_fail(CT_EIO, "%s: librsvg does not read our SVG", path);
    r.size(handle, &size);
    surface = r.surface(ARGB32, size.width, size.height);
    cairo   = r.create(surface);
    st = r.render(handle, cairo) ? write_png(&r, surface, path)
                                 : ct_fail(CT_EIO, "%s: librsvg does not draw "
                                           "our SVG", path);
    r.destroy(cairo);
    r.destroy_surface(surface);
    r.unref(handle);
    return st;
}
