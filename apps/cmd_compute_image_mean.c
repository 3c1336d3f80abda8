/* cmd_compute_image_mean.c - `cortado compute_image_mean`: the mean image of a
 * database, for transform_param.mean_file. */
#include "base/mem.h"
#include "data/mean.h"
#include "tool.h"

static enum ct_status log_channels(const Caffe__BlobProto *mean)
{
    double *value = NULL;

    CT_TRY(ct_alloc((size_t)mean->channels, sizeof(*value), "channel means",
                    &value));
    ct_mean_channels(mean, value);
    CT_INFO("Number of channels: %d", mean->channels);
    for (int c = 0; c < mean->channels; c++)
        CT_INFO("mean_value channel [%d]: %g", c, value[c]);
    ct_free(value);
    return CT_OK;
}

static enum ct_status compute(const char *backend, const char *db,
                              const char *output)
{
    Caffe__BlobProto *mean = NULL;
    struct progress p;
    enum ct_status st;

    CT_INFO("Starting iteration");
    progress_start(&p, 10000);
    st = ct_mean_of_db(backend, db, &p.watch, &mean);
    progress_end(&p, st);
    if (st == CT_OK && output) {
        CT_INFO("Write to %s", output);
        st = ct_binary_write(mean, output);
    }
    if (st == CT_OK)
        st = log_channels(mean);
    ct_message_free(mean);
    return st;
}

int cmd_compute_image_mean(int argc, char **argv)
{
    const char *backend = NULL;
    const struct flag flags[] = {
        FLAG("backend", &backend),
        FLAG_END,
    };
    int code;

    if (!tool_parse(flags, 1, 2, &argc, argv, &code))
        return code;
    return tool_end(compute(tool_backend(backend, argv[1]), argv[1],
                            argc > 2 ? argv[2] : NULL));
}
