/* cmd_convert_mnist_data.c - `cortado convert_mnist_data`: a database from
 * MNIST's idx files. */
#include <inttypes.h>

#include "data/idx.h"
#include "tool.h"

static enum ct_status convert(const char *backend, const char *image_path,
                              const char *label_path, const char *db_path)
{
    struct ct_idx images = { 0 }, labels = { 0 };
    struct progress p;
    enum ct_status st;

    CT_TRY_GOTO(ct_idx_read(image_path, 3, &images), st, out);
    CT_TRY_GOTO(ct_idx_read(label_path, 1, &labels), st, out);
    CT_INFO("A total of %" PRId64 " items.", images.dim[0]);
    CT_INFO("Rows: %" PRId64 " Cols: %" PRId64, images.dim[1], images.dim[2]);
    progress_start(&p, 0);
    st = ct_idx_to_db(&images, &labels, backend, db_path, &p.watch);
    progress_end(&p, st);
    if (st == CT_OK)
        CT_INFO("Processed %" PRId64 " files.", p.done);
out:
    ct_idx_fini(&images);
    ct_idx_fini(&labels);
    return st;
}

int cmd_convert_mnist_data(int argc, char **argv)
{
    const char *backend = "lmdb";
    const struct flag flags[] = {
        TOOL_BACKEND(backend),
        { NULL, FLAG_END, NULL, NULL },
    };
    int code;

    if (!tool_parse(flags, "usage: cortado convert_mnist_data [FLAGS] "
                    "IMAGE_FILE LABEL_FILE DB_NAME", 3, 3, &argc, argv, &code))
        return code;
    return tool_end(convert(backend, argv[1], argv[2], argv[3]));
}
