/* text_lex.h - prototxt as tokens.
 *
 * A lexer stands on one token; ct_lex_next() moves to the following one.
 * Lines and columns count from 1, columns in bytes. */
#ifndef CT_PROTO_TEXT_LEX_H
#define CT_PROTO_TEXT_LEX_H

#include <stdbool.h>
#include <stddef.h>

#include "cortado/status.h"

enum ct_token_kind {
    CT_TOKEN_END,
    CT_TOKEN_WORD,    /* a field name, an enum value, true, inf */
    CT_TOKEN_INTEGER, /* 12  0x1F  017; a sign is a symbol before it */
    CT_TOKEN_FLOAT,   /* 1.5  .5  5.  1e-3  2f */
    CT_TOKEN_STRING,  /* with its quotes, escapes not yet resolved */
    CT_TOKEN_SYMBOL   /* any other single character */
};

struct ct_token {
    enum ct_token_kind kind;
    const char *s; /* borrowed from the text */
    size_t n_bytes;
    int line, column;
};

struct ct_lexer {
    const char *source; /* the file's name, for messages; borrowed */
    const char *at, *end, *line_start;
    int line;
    struct ct_token token; /* the one it stands on */
};

/* Stands on the first token when it succeeds. */
CT_MUST_CHECK enum ct_status ct_lex_start(struct ct_lexer *lex,
                                          const char *text, size_t n_bytes,
                                          const char *source);
CT_MUST_CHECK enum ct_status ct_lex_next(struct ct_lexer *lex);

bool ct_lex_is(const struct ct_lexer *lex, char symbol);

/* "source:line:column: message" at a token. */
CT_PRINTF(3, 4)
enum ct_status ct_lex_fail(const struct ct_lexer *lex,
                           const struct ct_token *at, const char *fmt, ...);

/* "%.*s" arguments for a token in a message: its text, cut when long. */
int ct_token_bytes(const struct ct_token *t);
const char *ct_token_text(const struct ct_token *t);

#endif
