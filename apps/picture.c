/* picture.c - an SVG into the file that a user named. */
#include "picture.h"

#include <string.h>

#include "base/file.h"
#include "observe/draw.h"

enum ct_status picture_write(const struct ct_text *svg, const char *path)
{
    const char *end = strrchr(path, '.');

    if (end && strcmp(end, ".png") == 0)
        return ct_render_png(svg, path);
    return ct_file_write(path, svg->s, svg->n_bytes);
}
