/* window_file.c - words of a window file, one after another. */
#include "layers/window_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

struct words {
    char       *at;
    const char *path; /* for messages */
    int         line;
};

/* The next word, cut off in place; NULL at the end. */
static char *word(struct words *w)
{
    char *start;

    while (isspace((unsigned char)*w->at))
        w->line += *w->at++ == '\n';
    if (!*w->at)
        return NULL;
    start = w->at;
    while (*w->at && !isspace((unsigned char)*w->at))
        w->at++;
    if (*w->at) {
        w->line += *w->at == '\n';
        *w->at++ = '\0';
    }
    return start;
}

static enum ct_status number(struct words *w, const char *what, float lo,
                             float hi, float *out)
{
    char *s = word(w), *end = s;

    *out = s ? strtof(s, &end) : 0;
    if (!s || *end || !(*out >= lo && *out <= hi))
        return ct_fail(CT_EPARSE, "%s:%d: %s is \"%s\"", w->path, w->line,
                       what, s ? s : "missing");
    return CT_OK;
}

static enum ct_status list_grow(void *list, int64_t n, int64_t *room,
                                size_t size)
{
    void *old, *more;

    if (n < *room)
        return CT_OK;
    memcpy(&old, list, sizeof(old));
    *room = *room ? 2 * *room : 256;
    more  = ct_realloc(old, (size_t)*room * size, "windows");
    if (!more)
        return CT_ENOMEM;
    memcpy(list, &more, sizeof(more));
    return CT_OK;
}

static enum ct_status window_read(struct ct_window_file *f, struct words *w,
                                  float fg, float bg)
{
    const float most = 16777216;
    float label, overlap, x1, y1, x2, y2;
    struct ct_window win;

    CT_TRY(number(w, "a label", -most, most, &label));
    CT_TRY(number(w, "an overlap", -most, most, &overlap));
    CT_TRY(number(w, "x1", -most, most, &x1));
    CT_TRY(number(w, "y1", -most, most, &y1));
    CT_TRY(number(w, "x2", -most, most, &x2));
    CT_TRY(number(w, "y2", -most, most, &y2));
    win = (struct ct_window){ f->n_images, (int)label, (int)x1,
                              (int)y1,     (int)x2,    (int)y2 };
    if (overlap >= fg) {
        if (win.label <= 0)
            return ct_fail(CT_EPARSE, "%s:%d: a foreground window has label "
                           "%d; 0 is the background's", w->path, w->line,
                           win.label);
        CT_TRY(list_grow(&f->fg, f->n_fg, &f->fg_room, sizeof(*f->fg)));
        f->fg[f->n_fg++] = win;
    } else if (overlap < bg) {
        win.label = 0;
        CT_TRY(list_grow(&f->bg, f->n_bg, &f->bg_room, sizeof(*f->bg)));
        f->bg[f->n_bg++] = win;
    }
    return CT_OK;
}

static enum ct_status image_read(struct ct_window_file *f, struct words *w,
                                 const char *root, float fg, float bg)
{
    float index, channels, height, width, n;
    char *path;

    CT_TRY(number(w, "an image index", -16777216, 16777216, &index));
    path = word(w);
    if (!path)
        return ct_fail(CT_EPARSE, "%s:%d: an image path is missing", w->path,
                       w->line);
    CT_TRY(list_grow(&f->image, f->n_images, &f->image_room,
                     sizeof(*f->image)));
    f->image[f->n_images].path = f->paths.n_bytes;
    ct_text_addf(&f->paths, "%s%s", root, path);
    ct_text_add_bytes(&f->paths, "", 1);
    if (f->paths.failed)
        return CT_ENOMEM;
    CT_TRY(number(w, "channels", 1, 4, &channels));
    CT_TRY(number(w, "a height", 1, 65500, &height));
    CT_TRY(number(w, "a width", 1, 65500, &width));
    CT_TRY(number(w, "a number of windows", 0, 16777216, &n));
    f->channels = (int)channels;
    for (int64_t i = 0; i < (int64_t)n; i++)
        CT_TRY(window_read(f, w, fg, bg));
    f->n_images++;
    return CT_OK;
}

enum ct_status ct_window_file_read(struct ct_window_file *f, const char *path,
                                   const char *root_folder, float fg_threshold,
                                   float bg_threshold)
{
    struct words w    = { NULL, path, 1 };
    enum ct_status st = CT_OK;
    char *text        = NULL, *hash;
    size_t n;

    CT_TRY(ct_file_read(path, &text, &n));
    w.at = text;
    while (st == CT_OK && (hash = word(&w)))
        st = strcmp(hash, "#") == 0
                 ? image_read(f, &w, root_folder, fg_threshold, bg_threshold)
                 : ct_fail(CT_EPARSE, "%s:%d: \"%s\" where an image's \"#\" "
                           "belongs", path, w.line, hash);
    ct_free(text);
    if (st == CT_OK && f->n_images == 0)
        st = ct_fail(CT_EINVAL, "%s names no images", path);
    return st;
}

void ct_window_file_fini(struct ct_window_file *f)
{
    ct_free(f->image);
    ct_free(f->fg);
    ct_free(f->bg);
    ct_text_fini(&f->paths);
}

const char *ct_window_path(const struct ct_window_file *f,
                           const struct ct_window *w)
{
    return f->paths.s + f->image[w->image].path;
}
