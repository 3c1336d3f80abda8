/* image_pnm.c - the portable formats: PBM, PGM and PPM, as text or bytes.
 *
 *     "P1" .. "P6", width, height, the largest value (not P1 and P4), one
 *     blank, samples.  `#` begins a comment up to the end of its line. */
#include <string.h>

#include "data/image_format.h"

struct pnm {
    const unsigned char *p;
    size_t               n, at;
    int                  kind; /* 1 to 6 */
    unsigned             width, height, most;
};

static bool pnm_is(struct ct_bytes file)
{
    const unsigned char *p = file.ptr;

    return file.n >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' &&
           (p[2] == '#' || p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'));
}

static enum ct_status pnm_number(struct pnm *f, unsigned *out)
{
    bool any = false;

    *out = 0;
    for (; f->at < f->n; f->at++) {
        const int c = f->p[f->at];

        if (c == '#') {
            while (f->at < f->n && f->p[f->at] != '\n')
                f->at++;
            continue;
        }
        if (c != ' ' && !(c >= '\t' && c <= '\r'))
            break;
    }
    for (; f->at < f->n && f->p[f->at] >= '0' && f->p[f->at] <= '9'; f->at++) {
        any  = true;
        *out = 10 * *out + (f->p[f->at] - '0');
        if (*out > 1000000)
            break;
    }
    return any && *out <= 1000000
               ? CT_OK
               : ct_fail(CT_EPARSE, "a broken PNM: no number at byte %zu",
                         f->at);
}

static enum ct_status pnm_start(struct pnm *f, struct ct_bytes file)
{
    *f = (struct pnm){ file.ptr, file.n, 2, ((const char *)file.ptr)[1] - '0',
                       0, 0, 1 };
    CT_TRY(pnm_number(f, &f->width));
    CT_TRY(pnm_number(f, &f->height));
    if (f->kind != 1 && f->kind != 4)
        CT_TRY(pnm_number(f, &f->most));
    if (f->most < 1 || f->most > 65535)
        return ct_fail(CT_EPARSE, "a broken PNM: values up to %u", f->most);
    f->at++; /* one blank before the samples */
    return CT_OK;
}

static int pnm_channels(const struct pnm *f)
{
    return f->kind == 3 || f->kind == 6 ? 3 : 1;
}

/* Sample i of a file of bytes; a bit map has rows of whole bytes, and 1 is
 * black. */
static unsigned pnm_sample(const struct pnm *f, size_t i)
{
    const unsigned char *p = f->p + f->at;

    if (f->kind == 4) {
        const size_t x = i % f->width, pitch = (f->width + 7) / 8;

        return !(p[i / f->width * pitch + x / 8] >> (7 - x % 8) & 1);
    }
    return f->most > 255 ? (unsigned)(p[2 * i] << 8 | p[2 * i + 1]) : p[i];
}

static enum ct_status pnm_next(struct pnm *f, size_t i, unsigned *out)
{
    if (f->kind > 3) {
        *out = pnm_sample(f, i);
        return CT_OK;
    }
    if (f->kind != 1)
        return pnm_number(f, out);
    while (f->at < f->n && f->p[f->at] != '0' && f->p[f->at] != '1')
        f->at++;
    if (f->at == f->n)
        return ct_fail(CT_EPARSE, "a broken PNM: the file ends early");
    *out = f->p[f->at++] == '0';
    return CT_OK;
}

static size_t pnm_need(const struct pnm *f)
{
    const size_t n = (size_t)f->width * f->height * (size_t)pnm_channels(f);

    return f->kind < 4    ? 0
           : f->kind == 4 ? (size_t)((f->width + 7) / 8) * f->height
                          : n * (f->most > 255 ? 2 : 1);
}

static enum ct_status pnm_peek(struct ct_codec *c, struct ct_bytes file,
                               enum ct_image_mode mode, struct ct_image *out)
{
    struct pnm f;

    (void)c;
    CT_TRY(pnm_start(&f, file));
    out->width    = (int)f.width;
    out->height   = (int)f.height;
    out->channels = ct_image_channels(mode, pnm_channels(&f));
    return CT_OK;
}

static enum ct_status pnm_decode(struct ct_codec *c, struct ct_bytes file,
                                 enum ct_image_mode mode,
                                 struct ct_image *out)
{
    struct pnm f;
    size_t n;
    int ch;

    CT_TRY(pnm_start(&f, file));
    ch = pnm_channels(&f);
    CT_TRY(ct_image_size(out, (int)f.width, (int)f.height, ch));
    n = (size_t)f.width * f.height * (size_t)ch;
    if (f.at > f.n || pnm_need(&f) > f.n - f.at)
        return ct_fail(CT_EPARSE, "a broken PNM: the file ends early");
    for (size_t i = 0; i < n; i++) {
        const size_t to = ch == 1 ? i : i / 3 * 3 + 2 - i % 3;
        unsigned v;

        CT_TRY(pnm_next(&f, i, &v));
        v = v > f.most ? f.most : v;
        out->pixels[to] = (unsigned char)(f.most == 255 ? v
                                          : f.most > 255 ? v >> 8
                                          : (v * 255 + f.most / 2) / f.most);
    }
    return ct_image_convert(c, out, mode);
}

const struct ct_image_format ct_image_pnm = {
    .name   = "ppm",
    .also   = "pgm",
    .is     = pnm_is,
    .peek   = pnm_peek,
    .decode = pnm_decode,
};
