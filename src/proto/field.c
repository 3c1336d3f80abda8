/* field.c - reading and moving fields by descriptor. */
#include "proto/field.h"

#include <string.h>

#include "proto/edit.h"

const ProtobufCFieldDescriptor *
ct_field_find(const ProtobufCMessageDescriptor *type, const char *name,
              size_t n_bytes)
{
    const ProtobufCFieldDescriptor *f;
    char c_name[128];

    if (n_bytes + 2 > sizeof(c_name) || n_bytes == 0)
        return NULL;
    memcpy(c_name, name, n_bytes);
    c_name[n_bytes] = '\0';
    f = protobuf_c_message_descriptor_get_field_by_name(type, c_name);
    if (f)
        return (size_t)ct_field_name_bytes(f) == n_bytes ? f : NULL;
    c_name[n_bytes]     = '_';
    c_name[n_bytes + 1] = '\0';
    return protobuf_c_message_descriptor_get_field_by_name(type, c_name);
}

int ct_field_name_bytes(const ProtobufCFieldDescriptor *f)
{
    size_t n = strlen(f->name);

    return (int)(n > 1 && f->name[n - 1] == '_' ? n - 1 : n);
}

size_t ct_field_bytes(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return 4;
    }
}

void *ct_field_at(const void *message, const ProtobufCFieldDescriptor *f)
{
    return (char *)(uintptr_t)message + f->offset;
}

size_t *ct_field_count(const void *message, const ProtobufCFieldDescriptor *f)
{
    return (size_t *)((char *)(uintptr_t)message + f->quantifier_offset);
}

/* Strings and messages are present when their pointer is; the others have a
 * flag of their own. */
static protobuf_c_boolean *field_flag(const void *message,
                                      const ProtobufCFieldDescriptor *f)
{
    if (f->label != PROTOBUF_C_LABEL_OPTIONAL ||
        f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
        return NULL;
    return (protobuf_c_boolean *)((char *)(uintptr_t)message +
                                  f->quantifier_offset);
}

bool ct_field_is_set(const void *message, const ProtobufCFieldDescriptor *f)
{
    const protobuf_c_boolean *flag = field_flag(message, f);
    const void *p;

    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *ct_field_count(message, f) > 0;
    if (flag)
        return *flag;
    if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
        return true; /* required */
    memcpy(&p, ct_field_at(message, f), sizeof(p));
    return p && p != f->default_value;
}

void ct_field_set(void *message, const ProtobufCFieldDescriptor *f)
{
    protobuf_c_boolean *flag = field_flag(message, f);

    if (flag)
        *flag = 1;
}

/* Back to the default without freeing: the value has another owner. */
static void field_forget(void *message, const ProtobufCFieldDescriptor *f)
{
    protobuf_c_boolean *flag = field_flag(message, f);
    void *at                 = ct_field_at(message, f);

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        *ct_field_count(message, f) = 0;
        memset(at, 0, sizeof(void *));
        return;
    }
    if (flag)
        *flag = 0;
    if (f->type == PROTOBUF_C_TYPE_STRING)
        memcpy(at, &f->default_value, sizeof(void *));
    else if (f->default_value)
        memcpy(at, f->default_value, ct_field_bytes(f));
    else
        memset(at, 0, ct_field_bytes(f));
}

static void field_free_value(const ProtobufCFieldDescriptor *f,
                             const void *value)
{
    const ProtobufCBinaryData *fallback = f->default_value;
    ProtobufCBinaryData bytes;
    void *p;

    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        memcpy(&bytes, value, sizeof(bytes));
        if (!fallback || bytes.data != fallback->data)
            ct_edit_free(bytes.data);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        memcpy(&p, value, sizeof(p));
        ct_message_free(p);
    } else if (f->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(&p, value, sizeof(p));
        if (p != f->default_value)
            ct_edit_free(p);
    }
}

void ct_field_clear(void *message, const ProtobufCFieldDescriptor *f)
{
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        char *array;

        memcpy(&array, ct_field_at(message, f), sizeof(array));
        for (size_t i = 0; i < *ct_field_count(message, f); i++)
            field_free_value(f, array + i * ct_field_bytes(f));
        ct_edit_free(array);
    } else {
        field_free_value(f, ct_field_at(message, f));
    }
    field_forget(message, f);
}

static enum ct_status field_append(void *message,
                                   const ProtobufCFieldDescriptor *f,
                                   const void *value)
{
    size_t *n = ct_field_count(message, f), size = ct_field_bytes(f);
    char *array;

    CT_TRY(ct_edit_resize(ct_field_at(message, f), *n + 1, size));
    memcpy(&array, ct_field_at(message, f), sizeof(array));
    memcpy(array + *n * size, value, size);
    ++*n;
    return CT_OK;
}

enum ct_status ct_field_move(void *from, const ProtobufCFieldDescriptor *f,
                             void *to, const ProtobufCFieldDescriptor *g)
{
    CT_ASSERT(ct_field_bytes(f) == ct_field_bytes(g));
    if (g->label == PROTOBUF_C_LABEL_REPEATED &&
        f->label != PROTOBUF_C_LABEL_REPEATED) {
        CT_TRY(field_append(to, g, ct_field_at(from, f)));
        field_forget(from, f);
        return CT_OK;
    }
    CT_ASSERT((f->label == PROTOBUF_C_LABEL_REPEATED) ==
              (g->label == PROTOBUF_C_LABEL_REPEATED));
    ct_field_clear(to, g);
    if (g->label == PROTOBUF_C_LABEL_REPEATED) {
        *ct_field_count(to, g) = *ct_field_count(from, f);
        memcpy(ct_field_at(to, g), ct_field_at(from, f), sizeof(void *));
    } else {
        memcpy(ct_field_at(to, g), ct_field_at(from, f), ct_field_bytes(g));
        ct_field_set(to, g);
    }
    field_forget(from, f);
    return CT_OK;
}

enum ct_status ct_field_move_common(void *from, void *to)
{
    const ProtobufCMessageDescriptor *old =
        ((ProtobufCMessage *)from)->descriptor;
    const ProtobufCMessageDescriptor *type =
        ((ProtobufCMessage *)to)->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *g = &type->fields[i];
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(old, g->name);

        if (f && f->type == g->type && f->label == g->label &&
            f->descriptor == g->descriptor && ct_field_is_set(from, f))
            CT_TRY(ct_field_move(from, f, to, g));
    }
    return CT_OK;
}

enum ct_status ct_field_submessage(void *message,
                                   const ProtobufCFieldDescriptor *f, void *out)
{
    CT_ASSERT(f->type == PROTOBUF_C_TYPE_MESSAGE &&
              f->label != PROTOBUF_C_LABEL_REPEATED);
    if (!ct_field_is_set(message, f))
        CT_TRY(ct_edit_create(f->descriptor, ct_field_at(message, f)));
    memcpy(out, ct_field_at(message, f), sizeof(void *));
    return CT_OK;
}
