/* dist_flags.c - how ranks train together, from the command line. */
#include "dist_flags.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/dist.h"
#include "proto/edit.h"

/* `name: value` as text, quoted where the field is a string. */
static enum ct_status parse_one(const struct flag *flag, const char *value,
                                Caffe__DistributedParameter **out)
{
    const ProtobufCMessageDescriptor *type =
        &caffe__distributed_parameter__descriptor;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, flag->name);
    const char *quote = field->type == PROTOBUF_C_TYPE_STRING ? "\"" : "";
    char text[512];
    int n = snprintf(text, sizeof(text), "%s: %s%s%s", flag->name, quote,
                     value, quote);

    if (n >= (int)sizeof(text) || strpbrk(value, "\"\\\n") ||
        ct_text_parse(type, text, (size_t)n, "flags", out) != CT_OK)
        return ct_fail(CT_EINVAL, "--%s cannot be '%s'", flag->name, value);
    return CT_OK;
}

/* *into = *into with `flag` in place of what it says. */
static enum ct_status override(Caffe__DistributedParameter **into,
                               const struct flag *flag, const char *value)
{
    Caffe__DistributedParameter *one = NULL, *both = NULL;
    enum ct_status st;

    CT_TRY(parse_one(flag, value, &one));
    st = ct_message_merge(*into, one, &both);
    ct_message_free(one);
    CT_TRY(st);
    ct_message_free(*into);
    *into = both;
    return CT_OK;
}

enum ct_status dist_flags_merge(const struct dist_flags *f,
                                const Caffe__DistributedParameter *solver,
                                Caffe__DistributedParameter **out)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;
    struct dist_flags copy    = *f;
    const struct flag flags[] = { DIST_FLAGS(copy) };

    CT_TRY(ct_message_merge(&none, solver, out));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const char *value = *(const char **)flags[i].value;

        if (value)
            CT_TRY(override(out, &flags[i], value));
    }
    return CT_OK;
}

enum ct_status dist_flags_global_batch(Caffe__DistributedParameter **d)
{
    const Caffe__DistributedParameter none =
        CAFFE__DISTRIBUTED_PARAMETER__INIT;

    if (!*d)
        CT_TRY(ct_message_merge(&none, NULL, d));
    if ((*d)->batch != caffe__distributed_parameter__batch__default_value)
        return CT_OK;
    (*d)->batch = NULL; /* the schema's own text */
    return ct_edit_string(&(*d)->batch, "global");
}
