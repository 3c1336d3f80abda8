/* edit.c - changing protobuf-c messages in place. */
#include "proto/edit.h"

#include <stdlib.h>
#include <string.h>

static enum ct_status edit_no_memory(void)
{
    return ct_fail(CT_ENOMEM, "no memory for a message");
}

enum ct_status ct_edit_create(const ProtobufCMessageDescriptor *type,
                              void *out)
{
    ProtobufCMessage *m = malloc(type->sizeof_message);

    if (!m)
        return edit_no_memory();
    protobuf_c_message_init(type, m);
    memcpy(out, &m, sizeof(m));
    return CT_OK;
}

enum ct_status ct_edit_string(char **field, const char *value)
{
    char *copy = strdup(value);

    if (!copy)
        return edit_no_memory();
    free(*field);
    *field = copy;
    return CT_OK;
}

enum ct_status ct_edit_resize(void *list, size_t n, size_t size)
{
    void *old, *more;

    memcpy(&old, list, sizeof(old));
    if (size && n > SIZE_MAX / 2 / size)
        return edit_no_memory();
    more = realloc(old, n > 0 ? n * size : 1);
    if (!more)
        return edit_no_memory();
    memcpy(list, &more, sizeof(more));
    return CT_OK;
}

enum ct_status ct_edit_array(size_t n, size_t size, void *out)
{
    void *p = calloc(n > 0 ? n : 1, size);

    if (!p)
        return edit_no_memory();
    memcpy(out, &p, sizeof(p));
    return CT_OK;
}

enum ct_status ct_edit_reserve(void *list, size_t *room, size_t need,
                               size_t size)
{
    size_t more = *room < 4 ? 4 : *room;

    if (need <= *room)
        return CT_OK;
    more = more > SIZE_MAX / 2 ? need : 2 * more;
    more = more < need ? need : more;
    CT_TRY(ct_edit_resize(list, more, size));
    *room = more;
    return CT_OK;
}

enum ct_status ct_edit_bytes(const void *data, size_t n, void *out)
{
    char *p = NULL;

    CT_TRY(ct_edit_array(n + 1, 1, &p));
    if (n > 0)
        memcpy(p, data, n);
    memcpy(out, &p, sizeof(p));
    return CT_OK;
}

void ct_edit_free(void *p)
{
    free(p);
}

enum ct_status ct_edit_insert(void *list, size_t *n, size_t at, void *item)
{
    void **items;

    CT_TRY(ct_edit_resize(list, *n + 1, sizeof(*items)));
    memcpy(&items, list, sizeof(items));
    memmove(items + at + 1, items + at, (*n - at) * sizeof(*items));
    items[at] = item;
    ++*n;
    return CT_OK;
}

enum ct_status ct_edit_add_string(char ***list, size_t *n, const char *value)
{
    char *copy = strdup(value);

    if (!copy)
        return edit_no_memory();
    if (ct_edit_insert(list, n, *n, copy) != CT_OK) {
        free(copy);
        return CT_ENOMEM;
    }
    return CT_OK;
}

enum ct_status ct_edit_add_float(float **list, size_t *n, float value)
{
    CT_TRY(ct_edit_resize(list, *n + 1, sizeof(**list)));
    (*list)[(*n)++] = value;
    return CT_OK;
}

void ct_edit_remove(void *list, size_t *n, size_t at)
{
    void **items;

    memcpy(&items, list, sizeof(items));
    ct_message_free(items[at]);
    memmove(items + at, items + at + 1, (*n - at - 1) * sizeof(*items));
    --*n;
}
