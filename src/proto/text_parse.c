/* text_parse.c - prototxt to message, over protobuf-c's descriptors.
 *
 *     message: field*                     field: name [:] value [; ,]
 *     value:   scalar | { message } | < message > | [ value, value ... ]
 *
 * The colon is optional before a message and the list is for repeated fields.
 * As in protobuf's TextFormat an unknown field, and a second value for a
 * field that is not repeated, is an error. */
#include <limits.h>
#include <locale.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "proto/edit.h"
#include "proto/field.h"
#include "proto/nearest.h"
#include "proto/text_lex.h"
#include "proto/text_value.h"

enum { MAX_DEPTH = 100 };

/* One message being read.  The parser has a frame a block, on the stack. */
struct frame {
    const ProtobufCMessageDescriptor *type;
    void *message;
    struct ct_token open; /* the block's field name */
    int depth;
    struct seen {    /* one a field of the type */
        int line;    /* where it first stands, or 0 */
        size_t room; /* capacity of its array */
    } * seen;
};

static enum ct_status parse_block(struct ct_lexer *lex,
                                  const ProtobufCMessageDescriptor *type,
                                  const struct ct_token *open, int depth,
                                  char close, void *out);

static enum ct_status parse_unknown(const struct ct_lexer *lex,
                                    const ProtobufCMessageDescriptor *type,
                                    const struct ct_token *name)
{
    static const char video[] = "video_data_param";
    struct ct_nearest near    = ct_nearest(name->s, name->n_bytes);

    /* SSD's: better a reason than the name of another field. */
    if (name->n_bytes == strlen(video) &&
        memcmp(name->s, video, name->n_bytes) == 0)
        return ct_lex_fail(lex, name, "videos and cameras are not read here "
                           "(VideoData); store the frames as images and name "
                           "them to an ImageData layer, or feed an Input "
                           "layer from a program");
    for (unsigned i = 0; i < type->n_fields; i++)
        ct_nearest_try(&near, type->fields[i].name,
                       (size_t)ct_field_name_bytes(&type->fields[i]));
    if (near.best)
        return ct_lex_fail(lex, name,
                           "%s has no field \"%.*s\", did you mean \"%.*s\"?",
                           type->name, ct_token_bytes(name), name->s,
                           (int)near.best_bytes, near.best);
    return ct_lex_fail(lex, name, "%s has no field \"%.*s\"", type->name,
                       ct_token_bytes(name), name->s);
}

/* { ... } or < ... > into the message pointer at `out`; stays on the closing
 * bracket. */
static enum ct_status parse_braces(struct ct_lexer *lex,
                                   const struct frame *frame,
                                   const ProtobufCFieldDescriptor *f,
                                   const struct ct_token *name, void *out)
{
    char close = ct_lex_is(lex, '<') ? '>' : '}';

    if (!ct_lex_is(lex, '{') && !ct_lex_is(lex, '<'))
        return ct_lex_fail(lex, &lex->token,
                           "field \"%.*s\" is a message: expected \"{\", got "
                           "%.*s",
                           ct_field_name_bytes(f), f->name,
                           ct_token_bytes(&lex->token),
                           ct_token_text(&lex->token));
    CT_TRY(ct_lex_next(lex));
    return parse_block(lex, f->descriptor, name, frame->depth + 1, close, out);
}

/* One value, put into the message at once so that it has an owner. */
static enum ct_status parse_value(struct ct_lexer *lex,
                                  const struct frame *frame,
                                  const ProtobufCFieldDescriptor *f,
                                  const struct ct_token *name)
{
    struct seen *seen = &frame->seen[f - frame->type->fields];
    char *at          = ct_field_at(frame->message, f);
    size_t *n         = NULL;

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        n = ct_field_count(frame->message, f);
        CT_TRY(ct_edit_reserve(at, &seen->room, *n + 1, ct_field_bytes(f)));
        memcpy(&at, at, sizeof(at));
        at += *n * ct_field_bytes(f);
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        CT_TRY(parse_braces(lex, frame, f, name, at));
    else
        CT_TRY(ct_value_parse(lex, f, at));
    if (n)
        ++*n;
    else
        ct_field_set(frame->message, f);
    /* Only once the message has its owner: the next token may be malformed. */
    return f->type == PROTOBUF_C_TYPE_MESSAGE ? ct_lex_next(lex) : CT_OK;
}

/* [ value, value ... ] */
static enum ct_status parse_list(struct ct_lexer *lex,
                                 const struct frame *frame,
                                 const ProtobufCFieldDescriptor *f,
                                 const struct ct_token *name)
{
    struct ct_token open = lex->token;

    CT_TRY(ct_lex_next(lex));
    if (ct_lex_is(lex, ']'))
        return ct_lex_next(lex);
    for (;;) {
        CT_TRY(parse_value(lex, frame, f, name));
        if (ct_lex_is(lex, ']'))
            return ct_lex_next(lex);
        if (!ct_lex_is(lex, ','))
            return ct_lex_fail(lex, &lex->token,
                               "expected \",\" or \"]\" in the list that "
                               "opens at line %d, got %.*s",
                               open.line, ct_token_bytes(&lex->token),
                               ct_token_text(&lex->token));
        CT_TRY(ct_lex_next(lex));
    }
}

/* The colon and whether the field may stand here at all. */
static enum ct_status parse_colon(struct ct_lexer *lex,
                                  const struct frame *frame,
                                  const ProtobufCFieldDescriptor *f,
                                  const struct ct_token *name)
{
    struct seen *seen = &frame->seen[f - frame->type->fields];

    if (seen->line && f->label != PROTOBUF_C_LABEL_REPEATED)
        return ct_lex_fail(lex, name,
                           "field \"%.*s\" is not repeated and stands on "
                           "line %d already",
                           ct_field_name_bytes(f), f->name, seen->line);
    seen->line = name->line;
    if (ct_lex_is(lex, ':'))
        return ct_lex_next(lex);
    if (f->type != PROTOBUF_C_TYPE_MESSAGE)
        return ct_lex_fail(
            lex, &lex->token, "expected \":\" after \"%.*s\", got %.*s",
            ct_token_bytes(name), name->s, ct_token_bytes(&lex->token),
            ct_token_text(&lex->token));
    return CT_OK;
}

static enum ct_status parse_field(struct ct_lexer *lex,
                                  const struct frame *frame)
{
    struct ct_token name = lex->token;
    const ProtobufCFieldDescriptor *f;

    if (name.kind != CT_TOKEN_WORD)
        return ct_lex_fail(lex, &name, "expected a field of %s, got %.*s",
                           frame->type->name, ct_token_bytes(&name),
                           ct_token_text(&name));
    f = ct_field_find(frame->type, name.s, name.n_bytes);
    if (!f)
        return parse_unknown(lex, frame->type, &name);
    CT_TRY(ct_lex_next(lex));
    CT_TRY(parse_colon(lex, frame, f, &name));
    if (ct_lex_is(lex, '[') && f->label == PROTOBUF_C_LABEL_REPEATED)
        CT_TRY(parse_list(lex, frame, f, &name));
    else
        CT_TRY(parse_value(lex, frame, f, &name));
    if (ct_lex_is(lex, ';') || ct_lex_is(lex, ','))
        CT_TRY(ct_lex_next(lex));
    return CT_OK;
}

static enum ct_status parse_required(const struct ct_lexer *lex,
                                     const struct frame *frame)
{
    struct ct_text missing = { 0 };
    enum ct_status st      = CT_OK;

    for (unsigned i = 0; i < frame->type->n_fields; i++)
        if (frame->type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED &&
            !frame->seen[i].line)
            ct_text_addf(&missing, "%s\"%.*s\"", missing.s ? ", " : "",
                         ct_field_name_bytes(&frame->type->fields[i]),
                         frame->type->fields[i].name);
    if (missing.failed)
        st = CT_ENOMEM;
    else if (missing.s)
        st = ct_lex_fail(lex, &frame->open, "%s needs the field %s",
                         frame->type->name, missing.s);
    ct_text_fini(&missing);
    return st;
}

/* Fields up to `close`, where the lexer stays; '\0' is the end of the text. */
static enum ct_status parse_fields(struct ct_lexer *lex,
                                   const struct frame *frame, char close)
{
    const struct ct_token *t = &lex->token;

    while (t->kind != CT_TOKEN_END && !(close && ct_lex_is(lex, close))) {
        if (ct_lex_is(lex, '}') || ct_lex_is(lex, '>')) {
            if (!close)
                return ct_lex_fail(lex, t, "\"%c\" closes nothing", *t->s);
            return ct_lex_fail(lex, t,
                               "expected \"%c\", got \"%c\": \"%.*s\" opens "
                               "at %d:%d",
                               close, *t->s, ct_token_bytes(&frame->open),
                               frame->open.s, frame->open.line,
                               frame->open.column);
        }
        CT_TRY(parse_field(lex, frame));
    }
    if (close && t->kind == CT_TOKEN_END)
        return ct_lex_fail(lex, t, "\"%c\" is missing: \"%.*s\" opens at %d:%d",
                           close, ct_token_bytes(&frame->open), frame->open.s,
                           frame->open.line, frame->open.column);
    return parse_required(lex, frame);
}

static enum ct_status parse_block(struct ct_lexer *lex,
                                  const ProtobufCMessageDescriptor *type,
                                  const struct ct_token *open, int depth,
                                  char close, void *out)
{
    struct frame frame = { .type = type, .open = *open, .depth = depth };
    enum ct_status st;

    if (depth > MAX_DEPTH)
        return ct_lex_fail(lex, open, "more than %d blocks inside each other",
                           MAX_DEPTH);
    CT_TRY(ct_edit_create(type, &frame.message));
    CT_TRY_GOTO(
        ct_alloc(type->n_fields, sizeof(*frame.seen), "prototxt", &frame.seen),
        st, out);
    CT_TRY_GOTO(parse_fields(lex, &frame, close), st, out);
    memcpy(out, &frame.message, sizeof(frame.message));
    frame.message = NULL;
out:
    ct_free(frame.seen);
    ct_message_free(frame.message);
    return st;
}

enum ct_status ct_text_parse(const ProtobufCMessageDescriptor *type,
                             const char *text, size_t n_bytes,
                             const char *source, void *out)
{
    struct ct_lexer lex;
    struct ct_token whole = { .s = "", .line = 1, .column = 1 };
    locale_t c_locale, before;
    enum ct_status st;

    if (n_bytes > INT_MAX)
        return ct_fail(CT_ENOTSUP, "%s: %zu bytes of text, the limit is %d",
                       source, n_bytes, INT_MAX);
    /* The decimal point is a point, whatever the program's language. */
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return ct_fail(CT_ENOMEM, "%s: no memory for the C locale", source);
    before = uselocale(c_locale);
    st     = ct_lex_start(&lex, text, n_bytes, source);
    if (st == CT_OK)
        st = parse_block(&lex, type, &whole, 1, '\0', out);
    uselocale(before);
    freelocale(c_locale);
    return st;
}

enum ct_status ct_text_read(const ProtobufCMessageDescriptor *type,
                            const char *path, void *out)
{
    char *text     = NULL;
    size_t n_bytes = 0;
    enum ct_status st;

    CT_TRY(ct_file_read(path, &text, &n_bytes));
    st = ct_text_parse(type, text, n_bytes, path, out);
    ct_free(text);
    return st;
}
