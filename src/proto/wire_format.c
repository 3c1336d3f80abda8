/* wire_format.c - looking through the wire format before anything is allocated.
 *
 *     message: (tag value)*      tag: varint, field number << 3 | wire type
 *
 *     wire type  value
 *     0          varint: 7 bits a byte, lowest first, the top bit goes on
 *     1          8 bytes
 *     2          varint length, then so many bytes: a string, a message or
 *                the numbers of a repeated field one after the other (packed)
 *     5          4 bytes
 *
 * Types 3 and 4 are groups, which Caffe's files never had and protobuf-c does
 * not read. */
#include "proto/wire_format.h"

#include <inttypes.h>

#include "proto/field.h"

enum {
    VARINT     = PROTOBUF_C_WIRE_TYPE_VARINT,
    EIGHT      = PROTOBUF_C_WIRE_TYPE_64BIT,
    LENGTH     = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
    FOUR       = PROTOBUF_C_WIRE_TYPE_32BIT,
    MAX_DEPTH  = 100,
    FIELD_COST = 64, /* what unpacking spends on any field, bytes */
    COST_RATIO = 64  /* and may spend on a byte of the file */
};

#define COST_FREE ((uint64_t)64 << 20)

struct wire {
    const char *source;
    const uint8_t *start; /* of the file, for offsets in messages */
    uint64_t cost;        /* bytes of memory that unpacking asks for */
    uint64_t budget;      /* and may ask for */
};

static enum ct_status wire_fail(const struct wire *w, const uint8_t *at,
                                const ProtobufCMessageDescriptor *type,
                                const char *what)
{
    return ct_fail(CT_EPARSE, "%s is not a valid %s: %s at byte %td", w->source,
                   type->name, what, at - w->start);
}

/* Past a varint of at most `max` bytes; NULL when it has no end. */
static const uint8_t *wire_varint(const uint8_t *at, const uint8_t *end,
                                  int max, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < max && at < end; i++, at++) {
        *out |= (uint64_t)(*at & 0x7F) << 7 * i;
        if (!(*at & 0x80))
            return at + 1;
    }
    return NULL;
}

/* The wire type of one value of the field. */
static int wire_type(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return FOUR;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return EIGHT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return LENGTH;
    default:
        return VARINT;
    }
}

/* The numbers of a packed field fill their bytes exactly. */
static bool wire_packed_is_sound(int type, const uint8_t *at,
                                 const uint8_t *end)
{
    uint64_t v;

    if (type != VARINT)
        return (end - at) % (type == FOUR ? 4 : 8) == 0;
    while (at && at < end)
        at = wire_varint(at, end, 10, &v);
    return at != NULL;
}

/* Past the value of wire type `type`, which may be that of no known field;
 * *body is where its bytes start.  NULL when it does not fit. */
static const uint8_t *wire_value(int type, const uint8_t *at,
                                 const uint8_t *end, const uint8_t **body)
{
    uint64_t v, n;

    *body = at;
    switch (type) {
    case VARINT:
        return wire_varint(at, end, 10, &v);
    case EIGHT:
    case FOUR:
        n = type == EIGHT ? 8 : 4;
        break;
    default:
        at = *body = wire_varint(at, end, 10, &n);
        if (!at)
            return NULL;
    }
    return n <= (uint64_t)(end - at) ? at + n : NULL;
}

static enum ct_status wire_message(struct wire *w,
                                   const ProtobufCMessageDescriptor *type,
                                   const uint8_t *at, const uint8_t *end,
                                   int depth);

/* A value whose field is known, from `body` to `end`. */
static enum ct_status wire_field(struct wire *w,
                                 const ProtobufCMessageDescriptor *type,
                                 const ProtobufCFieldDescriptor *f, int got,
                                 const uint8_t *body, const uint8_t *end,
                                 int depth)
{
    int want = wire_type(f);

    if (got == LENGTH && want != LENGTH &&
        f->label == PROTOBUF_C_LABEL_REPEATED) {
        if (!wire_packed_is_sound(want, body, end))
            return wire_fail(w, body, type, "a packed list is truncated");
        /* A byte is a number of up to 8 bytes in memory. */
        w->cost += (uint64_t)(end - body) * (want == VARINT ? 8 : 1);
        return CT_OK;
    }
    if (got != want)
        return ct_fail(CT_EPARSE,
                       "%s is not a valid %s: field \"%.*s\" has wire type "
                       "%d in place of %d at byte %td",
                       w->source, type->name, ct_field_name_bytes(f), f->name,
                       got, want, body - w->start);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return wire_message(w, f->descriptor, body, end, depth + 1);
    return CT_OK;
}

static enum ct_status wire_required(const struct wire *w, const uint8_t *at,
                                    const ProtobufCMessageDescriptor *type,
                                    uint64_t seen)
{
    for (unsigned i = 0; i < type->n_fields && i < 64; i++)
        if (type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED &&
            !(seen >> i & 1))
            return ct_fail(
                CT_EPARSE, "%s: %s at byte %td needs the field \"%.*s\"",
                w->source, type->name, at - w->start,
                ct_field_name_bytes(&type->fields[i]), type->fields[i].name);
    return CT_OK;
}

static enum ct_status wire_message(struct wire *w,
                                   const ProtobufCMessageDescriptor *type,
                                   const uint8_t *at, const uint8_t *end,
                                   int depth)
{
    const uint8_t *start = at;
    uint64_t seen        = 0; /* a bit a field, for the required ones */

    if (depth > MAX_DEPTH)
        return wire_fail(w, at, type, "too many messages inside each other");
    w->cost += type->sizeof_message;
    while (at < end) {
        const uint8_t *tag_at = at, *body = NULL, *next;
        const ProtobufCFieldDescriptor *f;
        uint64_t tag;

        at = wire_varint(at, end, 5, &tag);
        if (!at || tag >> 3 == 0 || tag > UINT32_MAX)
            return wire_fail(w, tag_at, type, "no field number");
        if ((tag & 7) != VARINT && (tag & 7) != EIGHT && (tag & 7) != LENGTH &&
            (tag & 7) != FOUR)
            return wire_fail(w, tag_at, type, "an unknown wire type");
        next = wire_value((int)(tag & 7), at, end, &body);
        if (!next)
            return wire_fail(w, tag_at, type, "a field is truncated");
        w->cost += FIELD_COST + (uint64_t)(next - body);
        f = protobuf_c_message_descriptor_get_field(type, (uint32_t)tag >> 3);
        if (f) {
            if (f - type->fields < 64)
                seen |= (uint64_t)1 << (f - type->fields);
            CT_TRY(wire_field(w, type, f, (int)(tag & 7), body, next, depth));
        }
        if (w->cost > w->budget)
            return ct_fail(CT_ENOMEM,
                           "%s: needs more memory than a file of its size "
                           "may, from byte %td on",
                           w->source, tag_at - w->start);
        at = next;
    }
    return wire_required(w, start, type, seen);
}

enum ct_status ct_wire_check(const ProtobufCMessageDescriptor *type,
                             const uint8_t *data, size_t n_bytes,
                             const char *source)
{
    struct wire w = { .source = source,
                      .start  = data,
                      .budget = COST_FREE + COST_RATIO * (uint64_t)n_bytes };

    return wire_message(&w, type, data, data + n_bytes, 1);
}
