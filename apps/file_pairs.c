/* file_pairs.c - lists of files that belong together. */
#include "file_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

static enum ct_status pairs_add(struct pairs *p, int64_t *room, char *line,
                                bool labels)
{
    char *rest, *first = strtok_r(line, " \t\r", &rest);
    char *second = strtok_r(NULL, " \t\r", &rest), *end = NULL;
    struct ct_image_list *list = &p->list;
    long label = 0;

    if (!second || strtok_r(NULL, " \t\r", &rest))
        return CT_EPARSE;
    if (labels) {
        label = strtol(second, &end, 10);
        if (*end || label < INT32_MIN || label > INT32_MAX)
            return CT_EPARSE;
    }
    if (list->n == *room) {
        void *lines, *at;

        *room = 2 * *room + 1024;
        lines = ct_realloc(list->line, (size_t)*room * sizeof(*list->line),
                           "image list");
        if (lines)
            list->line = lines;
        at = ct_realloc(p->at, (size_t)*room * sizeof(*p->at), "image list");
        if (at)
            p->at = at;
        if (!lines || !at)
            return CT_ENOMEM;
    }
    p->at[list->n]           = p->second.n_bytes;
    list->line[list->n].name = list->names.n_bytes;
    list->line[list->n++].label = (int)label;
    ct_text_add_bytes(&list->names, first, strlen(first) + 1);
    ct_text_add_bytes(&p->second, second, strlen(second) + 1);
    return list->names.failed || p->second.failed ? CT_ENOMEM : CT_OK;
}

enum ct_status pairs_read(const char *path, bool labels, struct pairs *out)
{
    int64_t room = 0, number = 0;
    char *text = NULL, *rest;
    enum ct_status st;
    size_t n;

    *out = (struct pairs){ 0 };
    CT_TRY(ct_file_read(path, &text, &n));
    rest = text;
    st   = CT_OK;
    while (rest && st == CT_OK) {
        char *line = strsep(&rest, "\n");

        number++;
        if (strspn(line, " \t\r") < strlen(line))
            st = pairs_add(out, &room, line, labels);
    }
    if (st == CT_EPARSE)
        st = ct_fail(CT_EPARSE, "%s:%lld: a line is \"image %s\"", path,
                     (long long)number, labels ? "label" : "annotation");
    else if (st == CT_OK && out->list.n == 0)
        st = ct_fail(CT_EPARSE, "%s lists nothing", path);
    ct_free(text);
    if (st != CT_OK)
        pairs_fini(out);
    return st;
}

void pairs_fini(struct pairs *p)
{
    ct_image_list_fini(&p->list);
    ct_text_fini(&p->second);
    ct_free(p->at);
    *p = (struct pairs){ 0 };
}

const char *pairs_second(const struct pairs *p, int64_t line)
{
    return p->second.s + p->at[line];
}
