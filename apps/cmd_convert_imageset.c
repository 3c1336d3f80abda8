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

static const char *const usage =
    "usage: cortado convert_imageset [FLAGS] ROOTFOLDER/ LISTFILE DB_NAME\n\n"
    "Makes the database DB_NAME from the images that LISTFILE names, a line\n"
    "\"file label\" each.  ROOTFOLDER/ is put before every name.";

int cmd_convert_imageset(int argc, char **argv)
{
    struct ct_image_set set = { .backend = "lmdb" };
    const char *type = "";
    int seed = 1, code;
    const struct flag flags[] = {
        { "gray", FLAG_SWITCH, &set.gray, "one channel, not three" },
        { "shuffle", FLAG_SWITCH, &set.shuffle, "in random order" },
        { "seed", FLAG_INT, &seed, "another seed, another order (1)" },
        TOOL_BACKEND(set.backend),
        { "resize_width", FLAG_INT, &set.width, "scale to this width" },
        { "resize_height", FLAG_INT, &set.height, "and this height" },
        { "check_size", FLAG_SWITCH, &set.check_size,
          "refuse images of different sizes" },
        { "encoded", FLAG_SWITCH, &set.encoded,
          "keep image files, not pixels" },
        { "encode_type", FLAG_STRING, &type,
          "encode as png or jpg; otherwise as the file's name says" },
        { NULL, FLAG_END, NULL, NULL },
    };

    if (!tool_parse(flags, usage, 3, 3, &argc, argv, &code))
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
