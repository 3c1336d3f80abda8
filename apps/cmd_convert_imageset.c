/* cmd_convert_imageset.c - `cortado convert_imageset`: a database from image
 * files and a list of their labels. */
#include <inttypes.h>

#include "data/image_set.h"
#include "tool.h"

static enum ct_status convert(const struct ct_image_set *set,
                              const char *list_path, const char *db_path)
{
    struct ct_image_set_counts count = { 0 };
    struct ct_image_list list = { 0 };
    struct progress p;
    enum ct_status st;

    CT_TRY(ct_image_list_read(list_path, &list));
    if (set->shuffle)
        CT_INFO("Shuffling data");
    CT_INFO("A total of %" PRId64 " images.", list.n);
    progress_start(&p, 1000);
    st = ct_image_set_write(set, &list, db_path, &p.watch, &count);
    progress_end(&p, st);
    if (st == CT_OK && count.n_unreadable)
        CT_WARN("%" PRId64 " of %" PRId64 " images could not be read and are "
                "not in %s", count.n_unreadable, list.n, db_path);
    ct_image_list_fini(&list);
    return st;
}

int cmd_convert_imageset(int argc, char **argv)
{
    struct ct_image_set set = { .backend = "lmdb" };
    const char *type = "";
    int seed = 1, code;
    const struct flag flags[] = {
        FLAG("gray", &set.gray),
        FLAG("shuffle", &set.shuffle),
        FLAG("seed", &seed),
        FLAG("backend", &set.backend),
        FLAG("resize_width", &set.width),
        FLAG("resize_height", &set.height),
        FLAG("check_size", &set.check_size),
        FLAG("encoded", &set.encoded),
        FLAG("encode_type", &type),
        FLAG_END,
    };

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    set.root   = argv[1];
    set.seed   = (uint64_t)seed;
    set.width  = set.width > 0 ? set.width : 0;
    set.height = set.height > 0 ? set.height : 0;
    if (!set.width != !set.height)
        CT_WARN("images keep their size: resizing takes --resize_width and "
                "--resize_height");
    if (type[0]) {
        if (!set.encoded)
            CT_INFO("encode_type specified, assuming encoded=true.");
        set.encode_type = type;
        set.encoded     = true;
    }
    return tool_end(convert(&set, argv[2], argv[3]));
}
