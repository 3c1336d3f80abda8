/* cmd_classify.c - `cortado classify`: the likeliest labels of images, as
 * Caffe's example classification.bin prints them.
 *
 * An image is resized to the net's input, and each channel loses the mean of
 * that channel's mean image. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/images.h"
#include "data/mean.h"
#include "net_flags.h"
#include "tool.h"

enum { SHOWN = 5 };

struct classifier {
    struct ct_net  *net;
    struct ct_blob *input, *output;
    double         *mean; /* one a channel */
    char           *text; /* of the file of labels; lines end in zeros */
    const char    **label;
    int64_t         n_labels;
};

static enum ct_status open_net(struct classifier *c, const char *model,
                               const char *weights,
                               const struct net_flags *flags)
{
    struct ct_net_options o = net_flags_options(flags, CAFFE__PHASE__TEST);
    struct ct_shape shape;

    o.forward_only = true;
    CT_TRY(ct_net_create_file(model, &o, &c->net));
    CT_TRY(ct_net_load(c->net, weights));
    if (ct_net_n_inputs(c->net) != 1 || ct_net_n_outputs(c->net) != 1)
        return ct_fail(CT_EINVAL, "%s has %d inputs and %d outputs: a deploy "
                       "net with one of each is needed", model,
                       ct_net_n_inputs(c->net), ct_net_n_outputs(c->net));
    c->input  = ct_net_blob(c->net, ct_net_input_id(c->net, 0));
    c->output = ct_net_blob(c->net, ct_net_output_id(c->net, 0));
    shape     = c->input->shape;
    if (shape.n_axes != 4 || (shape.dim[1] != 1 && shape.dim[1] != 3))
        return ct_fail(CT_ESHAPE, "input %s of %s is no image of 1 or 3 "
                       "channels", c->input->name, model);
    shape.dim[0] = 1;
    CT_TRY(ct_reshape(c->input, shape));
    return ct_net_reshape(c->net);
}

static enum ct_status read_mean(struct classifier *c, const char *path)
{
    const int64_t channels = c->input->shape.dim[1];
    Caffe__BlobProto *p    = NULL;
    enum ct_status st;

    CT_TRY(ct_binary_read(&caffe__blob_proto__descriptor, path, &p));
    if (p->channels != channels || p->height < 1 || p->width < 1 ||
        (int64_t)p->n_data != channels * p->height * p->width)
        CT_TRY_GOTO(ct_fail(CT_ESHAPE, "the mean in %s is %d x %d x %d with "
                            "%zu values; the net takes %d channels", path,
                            p->channels, p->height, p->width, p->n_data,
                            (int)channels), st, out);
    CT_TRY_GOTO(ct_alloc((size_t)channels, sizeof(*c->mean), "channel means",
                         &c->mean), st, out);
    ct_mean_channels(p, c->mean);
    st = CT_OK;
out:
    ct_message_free(p);
    return st;
}

static enum ct_status read_labels(struct classifier *c, const char *path)
{
    size_t n, at = 0;

    CT_TRY(ct_file_read(path, &c->text, &n));
    CT_TRY(ct_alloc(n + 1, sizeof(*c->label), "labels", &c->label));
    while (at < n) {
        size_t length = strcspn(c->text + at, "\n");

        c->label[c->n_labels++] = c->text + at;
        if (length && c->text[at + length - 1] == '\r')
            c->text[at + length - 1] = '\0';
        c->text[at + length] = '\0';
        at += length + 1;
    }
    if (c->n_labels != c->output->count)
        return ct_fail(CT_ESHAPE, "%s has %lld labels, output %s %lld values",
                       path, (long long)c->n_labels, c->output->name,
                       (long long)c->output->count);
    return CT_OK;
}

static enum ct_status put_image(const struct classifier *c,
                                const struct ct_image *im)
{
    const int64_t plane = (int64_t)im->width * im->height;
    float *x            = NULL;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)c->input->count, sizeof(*x), "an image", &x));
    for (int k = 0; k < im->channels; k++)
        for (int64_t i = 0; i < plane; i++)
            x[k * plane + i] = (float)(im->pixels[i * im->channels + k] -
                                       c->mean[k]);
    st = ct_blob_put(c->input, false, x);
    ct_free(x);
    return st;
}

static enum ct_status load_image(const struct classifier *c, const char *path)
{
    const int64_t *dim      = c->input->shape.dim;
    struct ct_codec codec   = { 0 };
    struct ct_room file     = { 0 };
    struct ct_image scratch = { 0 }, im = { 0 };
    enum ct_status st;

    st = ct_image_load(&codec, path, dim[1] == 1 ? CT_IMAGE_GRAY
                                                 : CT_IMAGE_COLOR,
                       (int)dim[3], (int)dim[2], &file, &scratch, &im);
    if (st == CT_OK)
        st = put_image(c, &im);
    ct_image_fini(&im);
    ct_image_fini(&scratch);
    ct_room_fini(&file);
    ct_codec_fini(&codec);
    return st;
}

/* The largest first; of equal ones that which comes first. */
static void print_best(const struct classifier *c, const float *score)
{
    int64_t last = -1;

    for (int k = 0; k < SHOWN && k < c->n_labels; k++) {
        int64_t best = -1;

        for (int64_t i = 0; i < c->n_labels; i++) {
            bool shown = last >= 0 && (score[i] > score[last] ||
                                       (score[i] == score[last] && i <= last));

            if (!shown && (best < 0 || score[i] > score[best]))
                best = i;
        }
        if (best < 0)
            return; /* what is left are not numbers */
        printf("%.4f - \"%s\"\n", (double)score[best], c->label[best]);
        last = best;
    }
}

static enum ct_status classify(const struct classifier *c, const char *path)
{
    const float *score = NULL;
    float *room        = NULL;
    enum ct_status st;

    CT_TRY(load_image(c, path));
    CT_TRY(ct_net_forward(c->net, NULL));
    st = ct_blob_read(c->output, &room, &score);
    if (st == CT_OK) {
        printf("---------- Prediction for %s ----------\n", path);
        print_best(c, score);
    }
    ct_free(room);
    return st;
}

static enum ct_status run(struct net_flags *flags, int n, char **arg)
{
    struct classifier c = { 0 };
    enum ct_status st;

    CT_TRY(net_flags_apply(flags));
    CT_TRY_GOTO(open_net(&c, arg[0], arg[1], flags), st, out);
    CT_TRY_GOTO(read_mean(&c, arg[2]), st, out);
    CT_TRY_GOTO(read_labels(&c, arg[3]), st, out);
    for (int i = 4; i < n; i++)
        CT_TRY_GOTO(classify(&c, arg[i]), st, out);
    st = CT_OK;
out:
    ct_net_destroy(c.net);
    ct_free(c.mean);
    ct_free(c.text);
    ct_free(c.label);
    return st;
}

int cmd_classify(int argc, char **argv)
{
    struct net_flags f = { 0 };
    const struct flag flags[] = {
        NET_FLAGS(f),
        FLAG_END,
    };
    int code;

    if (!tool_parse(flags, 5, INT_MAX,
                    &argc, argv, &code))
        return code;
    code = tool_end(run(&f, argc - 1, argv + 1));
    net_flags_fini(&f);
    return code;
}
