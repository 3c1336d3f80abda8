/* sample.c - a datum as pixels. */
#include "data/sample.h"

struct ct_pixels ct_image_pixels(const struct ct_image *im)
{
    return (struct ct_pixels){ im->pixels, false, false, im->channels,
                               im->height, im->width };
}

enum ct_status ct_datum_peek(const struct ct_datum *d, enum ct_image_mode mode,
                             struct ct_codec *codec, struct ct_pixels *out)
{
    struct ct_image size = { 0 };

    *out = (struct ct_pixels){ NULL, d->data.n == 0, true, d->channels,
                               d->height, d->width };
    if (!d->encoded)
        return CT_OK;
    CT_TRY(ct_image_peek(codec, d->data, mode, &size));
    *out = ct_image_pixels(&size);
    return CT_OK;
}

enum ct_status ct_datum_pixels(const struct ct_datum *d,
                               enum ct_image_mode mode, struct ct_codec *codec,
                               struct ct_image *image, struct ct_room *floats,
                               struct ct_pixels *out)
{
    if (d->encoded) {
        CT_TRY(ct_image_decode(codec, d->data, mode, image));
        *out = ct_image_pixels(image);
        return CT_OK;
    }
    *out = (struct ct_pixels){ d->data.ptr, false, true, d->channels,
                               d->height, d->width };
    if (d->data.n)
        return CT_OK;
    CT_TRY(ct_room_grow(floats, (size_t)d->n_floats * sizeof(float)));
    ct_datum_floats(d, floats->ptr);
    out->ptr      = floats->ptr;
    out->is_float = true;
    return CT_OK;
}
