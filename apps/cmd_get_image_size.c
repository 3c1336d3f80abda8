/* cmd_get_image_size.c - `cortado get_image_size`: the sizes of image files,
 * as DetectionEvaluate's name_size_file has them. */
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cortado/log.h"
#include "data/images.h"
#include "file_pairs.h"
#include "tool.h"

/* What is printed for an image: its id, or its name without folder and type.
 */
static void add_name(struct ct_text *out, const struct pairs *ids,
                     const char *name)
{
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    const char *dot  = strrchr(base, '.');
    const int n      = (int)(dot ? (size_t)(dot - base) : strlen(base));

    for (int64_t i = 0; i < ids->list.n; i++) {
        const char *known = ct_image_list_name(&ids->list, i);

        if ((int)strlen(known) == n && memcmp(known, base, (size_t)n) == 0) {
            ct_text_add(out, pairs_second(ids, i));
            return;
        }
    }
    ct_text_add_bytes(out, base, (size_t)n);
}

static enum ct_status sizes(const char *root, const struct pairs *list,
                            const struct pairs *ids, struct ct_text *out)
{
    struct ct_codec codec = { 0 };
    struct ct_image size  = { 0 };
    struct ct_room keep   = { 0 };
    struct ct_text path   = { 0 };
    enum ct_status st     = CT_OK;

    for (int64_t i = 0; i < list->list.n && st == CT_OK; i++) {
        const char *name = ct_image_list_name(&list->list, i);
        struct ct_bytes file;

        path.n_bytes = 0;
        ct_text_addf(&path, "%s%s", root, name);
        st = path.failed ? ct_fail(CT_ENOMEM, "no memory for a path")
                         : ct_room_read_file(&keep, path.s, &file);
        if (st == CT_OK)
            st = ct_image_peek(&codec, file, CT_IMAGE_NATIVE, &size);
        if (st != CT_OK) {
            st = ct_fail_in(st, "%s", path.s ? path.s : name);
            break;
        }
        add_name(out, ids, name);
        ct_text_addf(out, " %d %d\n", size.height, size.width);
    }
    ct_codec_fini(&codec);
    ct_room_fini(&keep);
    ct_text_fini(&path);
    return st == CT_OK && out->failed ? ct_fail(CT_ENOMEM, "no memory") : st;
}

static enum ct_status run(const char *root, const char *list_file,
                          const char *id_file, const char *to)
{
    struct pairs list = { 0 }, ids = { 0 };
    struct ct_text out = { 0 };
    enum ct_status st;

    CT_TRY_GOTO(pairs_read(list_file, false, &list), st, out);
    if (id_file[0])
        CT_TRY_GOTO(pairs_read(id_file, false, &ids), st, out);
    CT_TRY_GOTO(sizes(root, &list, &ids, &out), st, out);
    st = ct_file_write(to, out.s, out.n_bytes);
    if (st == CT_OK)
        CT_INFO("Sizes of %lld images are in %s", (long long)list.list.n, to);
out:
    pairs_fini(&list);
    pairs_fini(&ids);
    ct_text_fini(&out);
    return st;
}

int cmd_get_image_size(int argc, char **argv)
{
    const char *ids = "";
    int code;
    const struct flag flags[] = {
        FLAG("name_id_file", &ids),
        FLAG_END,
    };

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    return tool_end(run(argv[1], argv[2], ids, argv[3]));
}
