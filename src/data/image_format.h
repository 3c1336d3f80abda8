/* image_format.h - what a picture format offers to image.c. */
#ifndef CT_DATA_IMAGE_FORMAT_H
#define CT_DATA_IMAGE_FORMAT_H

#include "data/image.h"

struct ct_image_format {
    const char *name, *also;
    bool (*is)(struct ct_bytes file); /* by the first bytes */
    enum ct_status (*peek)(struct ct_codec *c, struct ct_bytes file,
                           enum ct_image_mode mode, struct ct_image *out);
    enum ct_status (*decode)(struct ct_codec *c, struct ct_bytes file,
                             enum ct_image_mode mode, struct ct_image *out);
    enum ct_status (*encode)(const struct ct_image *im, struct ct_text *out);
    void (*fini)(struct ct_codec *c); /* may be NULL */
};

extern const struct ct_image_format ct_image_jpeg, ct_image_png;

/* A header may name any size; more than this is a broken one. */
enum { CT_IMAGE_MAX_SIDE = 65500 };
#define CT_IMAGE_MAX_PIXELS ((int64_t)1 << 28)

#endif
