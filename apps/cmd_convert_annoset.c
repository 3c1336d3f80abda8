/* cmd_convert_annoset.c - `cortado convert_annoset`: a database for
 * AnnotatedData layers from image files and files of boxes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "annotation_file.h"
#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "data/image_set.h"
#include "file_pairs.h"
#include "tool.h"

struct annoset {
    struct annotation_source source;
    const char              *root;
    struct pairs             pairs;
    struct ct_objects        objects;
    bool                     boxes;
};

/* Boxes of line `line` beside its datum. */
static enum ct_status wrap(void *arg, int64_t line, int width, int height,
                           struct ct_bytes datum, struct ct_text *out)
{
    struct annoset *a   = arg;
    struct ct_text path = { 0 };
    char *text          = NULL;
    enum ct_status st;
    size_t n;

    if (!a->boxes) /* the datum has the label */
        return ct_annotated_write_datum(datum, out);
    ct_text_addf(&path, "%s%s", a->root, pairs_second(&a->pairs, line));
    if (path.failed)
        return ct_fail(CT_ENOMEM, "no memory for a path");
    st = ct_file_read(path.s, &text, &n);
    if (st == CT_OK)
        st = annotation_read(&a->source, text, n, path.s, width, height,
                             &a->objects);
    if (st == CT_OK)
        st = ct_annotated_write(datum, &a->objects, out);
    ct_free(text);
    ct_text_fini(&path);
    return st;
}

static enum ct_status convert(struct annoset *a, struct ct_image_set *set,
                              const char *list, const char *db)
{
    struct ct_image_set_counts count = { 0 };
    struct progress p;
    enum ct_status st;

    CT_TRY(pairs_read(list, !a->boxes, &a->pairs));
    CT_INFO("A total of %" PRId64 " images.", a->pairs.list.n);
    set->wrap     = wrap;
    set->wrap_arg = a;
    progress_start(&p, 1000);
    st = ct_image_set_write(set, &a->pairs.list, db, &p.watch, &count);
    progress_end(&p, st);
    if (st == CT_OK && count.n_unreadable)
        CT_WARN("%" PRId64 " of %" PRId64 " images could not be read and are "
                "not in %s", count.n_unreadable, a->pairs.list.n, db);
    return st;
}

static enum ct_status run(struct annoset *a, struct ct_image_set *set,
                          const char *map_file, const char *list,
                          const char *db)
{
    Caffe__LabelMap *map = NULL;
    enum ct_status st    = CT_OK;

    if (map_file[0] && a->boxes)
        CT_TRY(ct_text_read(&caffe__label_map__descriptor, map_file, &map));
    a->source.map = map;
    if (a->boxes)
        st = annotation_source_check(&a->source);
    if (st == CT_OK)
        st = convert(a, set, list, db);
    pairs_fini(&a->pairs);
    ct_objects_fini(&a->objects);
    ct_message_free(map);
    return st;
}

int cmd_convert_annoset(int argc, char **argv)
{
    struct ct_image_set set = { .backend = "lmdb" };
    struct annoset a        = { .source = { .form = "xml" } };
    const char *type = "", *kind = "detection", *map = "";
    bool check_label = false;
    int seed = 1, code;
    const struct flag flags[] = {
        FLAG("gray", &set.gray),
        FLAG("shuffle", &set.shuffle),
        FLAG("seed", &seed),
        FLAG("backend", &set.backend),
        FLAG("anno_type", &kind),
        FLAG("label_type", &a.source.form),
        FLAG("label_map_file", &map),
        FLAG("check_label", &check_label),
        FLAG("min_dim", &set.min_dim),
        FLAG("max_dim", &set.max_dim),
        FLAG("resize_width", &set.width),
        FLAG("resize_height", &set.height),
        FLAG("check_size", &set.check_size),
        FLAG("encoded", &set.encoded),
        FLAG("encode_type", &type),
        FLAG_END,
    };

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    if (strcmp(kind, "detection") != 0 && strcmp(kind, "classification") != 0)
        return tool_end(ct_fail(CT_EINVAL, "--anno_type is \"%s\"; use "
                                "detection or classification", kind));
    a.boxes  = strcmp(kind, "detection") == 0;
    a.root   = set.root = argv[1];
    set.seed = (uint64_t)seed;
    if (type[0]) {
        set.encode_type = type;
        set.encoded     = true;
    }
    return tool_end(run(&a, &set, map, argv[2], argv[3]));
}
