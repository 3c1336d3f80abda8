/* window_file.h - the text file that WindowData reads; see window_data.c. */
#ifndef CT_LAYERS_WINDOW_FILE_H
#define CT_LAYERS_WINDOW_FILE_H

#include <stdint.h>

#include "base/text.h"
#include "cortado/status.h"

struct ct_window {
    int64_t image; /* its number in the file */
    int     label, x1, y1, x2, y2;
};

struct ct_window_image {
    size_t path; /* where in `paths` */
};

/* Embedded; zeroed is empty. */
struct ct_window_file {
    struct ct_window_image *image;
    struct ct_window       *fg, *bg;
    int64_t                 n_images, n_fg, n_bg;
    int64_t                 image_room, fg_room, bg_room;
    struct ct_text          paths; /* each ends in a zero byte */
    int                     channels; /* of the last image */
};

CT_MUST_CHECK enum ct_status ct_window_file_read(
    struct ct_window_file *f, const char *path, const char *root_folder,
    float fg_threshold, float bg_threshold);
void ct_window_file_fini(struct ct_window_file *f);

const char *ct_window_path(const struct ct_window_file *f,
                           const struct ct_window *w);
#endif
