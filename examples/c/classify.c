/* classify.c - says what images show.
 *
 *     classify DEPLOY.prototxt WEIGHTS SCALE IMAGE...
 *
 * DEPLOY is a net with one image as input and one row of scores as output.
 * Pixels, 0 to 255, are multiplied by SCALE before the net sees them; LeNet
 * takes 0.00390625.  Prints a line per image: its name, the class with the
 * highest score, and the score. */
#include <cortado/image.h>
#include <cortado/log.h>
#include <cortado/net.h>
#include <stdio.h>
#include <stdlib.h>

struct classifier {
    struct ct_net  *net;
    struct ct_blob *input, *output; /* the net's */
    float           scale;
    float          *pixels, *scores; /* ours: one image, one row */
};

/* The net for one image at a time.  What fails leaves its reason in
 * ct_last_error(), and CT_TRY passes the status on. */
static enum ct_status open_net(struct classifier *c, const char *model,
                               const char *weights)
{
    struct ct_net_options options = { .phase        = CAFFE__PHASE__TEST,
                                      .forward_only = true,
                                      .quiet        = true };
    struct ct_shape shape;

    CT_TRY(ct_net_create_file(model, &options, &c->net));
    CT_TRY(ct_net_load(c->net, weights));
    if (ct_net_n_inputs(c->net) != 1 || ct_net_n_outputs(c->net) != 1)
        return ct_fail(CT_EINVAL, "%s needs one input and one output", model);
    c->input  = ct_net_blob(c->net, ct_net_input_id(c->net, 0));
    c->output = ct_net_blob(c->net, ct_net_output_id(c->net, 0));
    shape     = c->input->shape;
    if (shape.n_axes != 4)
        return ct_fail(CT_ESHAPE, "the input of %s is no image", model);
    shape.dim[0] = 1;
    CT_TRY(ct_reshape(c->input, shape));
    return ct_net_reshape(c->net);
}

static enum ct_status classify(struct classifier *c, const char *path)
{
    const int64_t *dim = c->input->shape.dim;
    int64_t best       = 0;

    CT_TRY(ct_image_read(path, (int)dim[1], (int)dim[2], (int)dim[3],
                         c->pixels));
    for (int64_t i = 0; i < c->input->count; i++)
        c->pixels[i] *= c->scale;
    CT_TRY(ct_blob_put(c->input, false, c->pixels));
    CT_TRY(ct_net_forward(c->net, NULL));
    CT_TRY(ct_blob_get(c->output, false, c->scores));
    for (int64_t i = 1; i < c->output->count; i++)
        if (c->scores[i] > c->scores[best])
            best = i;
    printf("%s %lld %.4f\n", path, (long long)best, (double)c->scores[best]);
    return CT_OK;
}

static enum ct_status run(struct classifier *c, int n, char **arg)
{
    CT_TRY(open_net(c, arg[0], arg[1]));
    c->scale  = strtof(arg[2], NULL);
    c->pixels = malloc((size_t)c->input->count * sizeof(*c->pixels));
    c->scores = malloc((size_t)c->output->count * sizeof(*c->scores));
    if (!c->pixels || !c->scores)
        return ct_fail(CT_ENOMEM, "no memory for an image");
    for (int i = 3; i < n; i++)
        CT_TRY(classify(c, arg[i]));
    return CT_OK;
}

int main(int argc, char **argv)
{
    struct classifier c = { 0 };
    enum ct_status st;

    if (argc < 5) {
        fprintf(stderr, "usage: classify DEPLOY.prototxt WEIGHTS SCALE "
                        "IMAGE...\n");
        return 1;
    }
    ct_log_set_level(CT_LOG_WARNING);
    st = run(&c, argc - 1, argv + 1);
    if (st != CT_OK)
        fprintf(stderr, "classify: %s\n", ct_last_error());
    ct_net_destroy(c.net);
    free(c.pixels);
    free(c.scores);
    return st == CT_OK ? 0 : 2;
}
