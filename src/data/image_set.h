/* image_set.h - a database from a list of image files, what Caffe's
 * convert_imageset does.
 *
 * Record i has the key "%08d_<name>" and is a Datum: C x H x W bytes with
 * their shape, or with `encoded` an image file.  A file that needs no change
 * is taken byte by byte; others are resized or recoloured and encoded. */
#ifndef CT_DATA_IMAGE_SET_H
#define CT_DATA_IMAGE_SET_H

#include <stdbool.h>

#include "data/db.h"
#include "data/image_list.h"
#include "data/onlooker.h"

struct ct_image_set {
    const char *root;        /* goes before every name, as it stands */
    const char *backend;
    const char *encode_type; /* "png", "jpg"; NULL: as the file's name says */
    bool        encoded, gray, shuffle, check_size;
    int         width, height; /* both 0: as the file is */
    /* The shorter side becomes min_dim, the longer one at most max_dim, the
     * shape stays; 0: none of this. */
    int         min_dim, max_dim;
    /* NULL, or makes the record of line `line` from its datum, a message; the
     * size is the file's. */
    enum ct_status (*wrap)(void *arg, int64_t line, int width, int height,
                           struct ct_bytes datum, struct ct_text *out);
    void       *wrap_arg;
    uint64_t    seed;          /* of the shuffled order */
};

struct ct_image_set_counts {
    int64_t n_written, n_unreadable;
};

/* A file that cannot be read is logged and counted; with none that can there
 * is no database.  `check_size` refuses the first image of another size. */
CT_MUST_CHECK enum ct_status ct_image_set_write(
    const struct ct_image_set *set, const struct ct_image_list *list,
    const char *path, const struct ct_watch *watch,
    struct ct_image_set_counts *out);

#endif
