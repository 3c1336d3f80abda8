/* image_list.c - lists of image files with labels. */
#include "data/image_list.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* Cuts the line after its name. */
static bool list_split(char *line, int *label)
{
    char *space = strrchr(line, ' '), *end;
    long value;

    if (!space || space == line || !space[1])
        return false;
    errno = 0;
    value = strtol(space + 1, &end, 10);
    if (*end || errno || value < INT_MIN || value > INT_MAX ||
        isspace((unsigned char)space[1]))
        return false;
    *space = '\0';
    *label = (int)value;
    return true;
}

static enum ct_status list_add(struct ct_image_list *list, int64_t *room,
                               const char *name, int label)
{
    if (list->n == *room) {
        struct ct_image_line *more;

        *room = *room ? 2 * *room : 256;
        more  = ct_realloc(list->line, (size_t)*room * sizeof(*more),
                           "image list");
        if (!more)
            return CT_ENOMEM;
        list->line = more;
    }
    list->line[list->n++] = (struct ct_image_line){ list->names.n_bytes,
                                                    label };
    ct_text_add_bytes(&list->names, name, strlen(name) + 1);
    return list->names.failed ? CT_ENOMEM : CT_OK;
}

static enum ct_status list_parse(struct ct_image_list *list, char *text,
                                 const char *path)
{
    int64_t room = 0, number = 0;
    char *line, *rest = text;

    while ((line = strsep(&rest, "\n"))) {
        size_t n  = strlen(line);
        int label = 0;

        number++;
        while (n && isspace((unsigned char)line[n - 1]))
            line[--n] = '\0';
        if (n == 0)
            continue;
        if (!list_split(line, &label))
            return ct_fail(CT_EPARSE, "%s:%lld: expected a file name, a space "
                           "and a label, not \"%.200s\"", path,
                           (long long)number, line);
        CT_TRY(list_add(list, &room, line, label));
    }
    if (list->n == 0)
        return ct_fail(CT_EINVAL, "%s names no images", path);
    return CT_OK;
}

enum ct_status ct_image_list_read(const char *path, struct ct_image_list *out)
{
    enum ct_status st;
    char *text = NULL;
    size_t n;

    *out = (struct ct_image_list){ 0 };
    CT_TRY(ct_file_read(path, &text, &n));
    st = list_parse(out, text, path);
    ct_free(text);
    if (st != CT_OK)
        ct_image_list_fini(out);
    return st;
}

void ct_image_list_fini(struct ct_image_list *list)
{
    ct_free(list->line);
    ct_text_fini(&list->names);
    *list = (struct ct_image_list){ 0 };
}

const char *ct_image_list_name(const struct ct_image_list *list, int64_t i)
{
    CT_ASSERT(i >= 0 && i < list->n);
    return list->names.s + list->line[i].name;
}
