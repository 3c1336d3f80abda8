/* codec.c - the table of codecs, and their predicted costs. */
#include "dist/codec/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "dist/codec/code_runs.h"
#include "dist/codec/codecs.h"

static const struct dist_codec_type *const types[] = {
#define DIST_CODEC(name) &dist_codec_##name,
#include "dist/codec/codecs.def"
#undef DIST_CODEC
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

void dist_codec_choices(struct ct_text *out)
{
    const char *word[N_TYPES + 1] = { "none" };

    for (int i = 0; i < N_TYPES; i++)
        word[i + 1] = types[i]->usage ? types[i]->usage : types[i]->name;
    ct_text_add_choices(out, word, N_TYPES + 1);
}

static enum ct_status unknown(const char *text)
{
    struct ct_text choices = { 0 };

    dist_codec_choices(&choices);
    ct_fail(CT_EINVAL, "--compress=%s: use %s", text,
            choices.s ? choices.s : "another");
    ct_text_fini(&choices);
    return CT_EINVAL;
}

enum ct_status dist_codec_parse(const char *text, struct dist_codec *out)
{
    size_t n = strcspn(text, ":");

    *out = (struct dist_codec){ 0 };
    if (strcmp(text, "none") == 0)
        return CT_OK;
    for (int i = 0; i < N_TYPES; i++) {
        const struct dist_codec_type *t = types[i];

        if (strlen(t->name) != n || strncmp(text, t->name, n) != 0)
            continue;
        out->type = t;
        if (t->parse)
            return t->parse(text[n] ? text + n + 1 : NULL, out);
        if (text[n])
            return ct_fail(CT_EINVAL, "--compress=%s: %s takes no argument",
                           text, t->name);
        return CT_OK;
    }
    return unknown(text);
}

void dist_codec_schedule(struct dist_codec *codec, int max_iter)
{
    if (codec->warmup < 0)
        codec->warmup = max_iter / 10;
    codec->end = max_iter - codec->warmup / 2;
    if (codec->end >= max_iter || codec->end <= codec->warmup)
        codec->end = 0;
}

bool dist_codec_rests(const struct dist_codec *codec, int64_t iter)
{
    return iter < codec->warmup || (codec->end && iter >= codec->end);
}

bool dist_codec_parse_warmup(const char *text, struct dist_codec *out)
{
    char *end;

    out->warmup = -1;
    if (!*text)
        return true;
    if (*text != ':' || !text[1])
        return false;
    out->warmup = strtoll(text + 1, &end, 10);
    return !*end && out->warmup >= 0;
}

static bool taken(const struct dist_codec *codec, int64_t rows, int64_t cols)
{
    return codec->type && codec->type->takes(codec, rows, cols);
}

double dist_codec_bytes(const struct dist_codec *codec, int size, int64_t rows,
                        int64_t cols)
{
    double n     = (double)rows * (double)cols;
    double share = 2.0 * (size - 1) / size; /* of an allreduce */
    double dense = 4 * n * share;

    if (!taken(codec, rows, cols))
        return dense;
    return codec->type->bytes
               ? dist_run_sends(codec->type, rows * cols, 0, size)
               : codec->type->predict(codec, size, rows, cols, dense);
}

double dist_codec_seconds(const struct dist_codec *codec, int size,
                          int64_t rows, int64_t cols)
{
    double n = (double)rows * (double)cols;

    (void)size;
    return taken(codec, rows, cols) ? 1e-9 * codec->type->ns_per_float * n : 0;
}
