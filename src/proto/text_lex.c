/* text_lex.c - prototxt as tokens. */
#include "proto/text_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 60 };

/* Not <ctype.h>: a prototxt means the same under every locale. */
static bool lex_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool lex_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool lex_hex(char c)
{
    return lex_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* The character `ahead` bytes on; zero at the end, which no token holds. */
static char lex_peek(const struct ct_lexer *lex, size_t ahead)
{
    return (size_t)(lex->end - lex->at) > ahead ? lex->at[ahead] : '\0';
}

enum ct_status ct_lex_fail(const struct ct_lexer *lex,
                           const struct ct_token *at, const char *fmt, ...)
{
    char text[1536];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return ct_fail(CT_EPARSE, "%s:%d:%d: %s", lex->source, at->line, at->column,
                   text);
}

int ct_token_bytes(const struct ct_token *t)
{
    if (t->kind == CT_TOKEN_END)
        return (int)strlen(ct_token_text(t));
    return (int)(t->n_bytes < SHOWN_BYTES ? t->n_bytes : SHOWN_BYTES);
}

const char *ct_token_text(const struct ct_token *t)
{
    return t->kind == CT_TOKEN_END ? "the end of the text" : t->s;
}

bool ct_lex_is(const struct ct_lexer *lex, char symbol)
{
    return lex->token.kind == CT_TOKEN_SYMBOL && *lex->token.s == symbol;
}

static void lex_skip_blank(struct ct_lexer *lex)
{
    while (lex->at < lex->end) {
        char c = *lex->at;

        if (c == '#') {
            while (lex->at < lex->end && *lex->at != '\n')
                lex->at++;
        } else if (c == '\n') {
            lex->line_start = ++lex->at;
            lex->line++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' ||
                   c == '\f') {
            lex->at++;
        } else {
            break;
        }
    }
}

/* The token from its start to where the lexer is. */
static void lex_token(struct ct_lexer *lex, enum ct_token_kind kind)
{
    lex->token.kind    = kind;
    lex->token.n_bytes = (size_t)(lex->at - lex->token.s);
}

static void lex_digits(struct ct_lexer *lex)
{
    while (lex_digit(lex_peek(lex, 0)))
        lex->at++;
}

static enum ct_status lex_decimal(struct ct_lexer *lex,
                                  enum ct_token_kind *kind)
{
    char c;

    lex_digits(lex);
    if (lex_peek(lex, 0) == '.') {
        *kind = CT_TOKEN_FLOAT;
        lex->at++;
        lex_digits(lex);
    }
    c = lex_peek(lex, 0);
    if (c == 'e' || c == 'E') {
        *kind = CT_TOKEN_FLOAT;
        lex->at++;
        c = lex_peek(lex, 0);
        lex->at += c == '-' || c == '+';
        if (!lex_digit(lex_peek(lex, 0))) {
            lex_token(lex, *kind);
            return ct_lex_fail(lex, &lex->token,
                               "digits must follow the exponent in \"%.*s\"",
                               ct_token_bytes(&lex->token), lex->token.s);
        }
        lex_digits(lex);
    }
    c = lex_peek(lex, 0);
    if (c == 'f' || c == 'F') {
        *kind = CT_TOKEN_FLOAT;
        lex->at++;
    }
    return CT_OK;
}

static enum ct_status lex_number(struct ct_lexer *lex)
{
    enum ct_token_kind kind = CT_TOKEN_INTEGER;
    char next               = lex_peek(lex, 1);

    if (*lex->at == '0' && (next == 'x' || next == 'X')) {
        lex->at += 2;
        if (!lex_hex(lex_peek(lex, 0)))
            return ct_lex_fail(lex, &lex->token,
                               "hexadecimal digits must follow \"0x\"");
        while (lex_hex(lex_peek(lex, 0)))
            lex->at++;
    } else if (*lex->at == '0' && lex_digit(next)) {
        while (lex_peek(lex, 0) >= '0' && lex_peek(lex, 0) <= '7')
            lex->at++;
        if (lex_digit(lex_peek(lex, 0)))
            return ct_lex_fail(lex, &lex->token,
                               "a number that starts with 0 is octal and has "
                               "no digit %c",
                               lex_peek(lex, 0));
    } else {
        CT_TRY(lex_decimal(lex, &kind));
    }
    lex_token(lex, kind);
    if (lex_letter(lex_peek(lex, 0)) || lex_peek(lex, 0) == '.')
        return ct_lex_fail(
            lex, &lex->token, "\"%c\" cannot follow the number \"%.*s\"",
            lex_peek(lex, 0), ct_token_bytes(&lex->token), lex->token.s);
    return CT_OK;
}

static enum ct_status lex_string(struct ct_lexer *lex)
{
    char quote = *lex->at++;

    for (;; lex->at++) {
        if (lex->at == lex->end || *lex->at == '\n')
            return ct_lex_fail(lex, &lex->token,
                               "the string has no closing %c on its line",
                               quote);
        if (*lex->at == quote)
            break;
        /* What follows a backslash is no closing quote. */
        if (*lex->at == '\\' && lex_peek(lex, 1) != '\n' &&
            lex->at + 1 < lex->end)
            lex->at++;
    }
    lex->at++;
    lex_token(lex, CT_TOKEN_STRING);
    return CT_OK;
}

enum ct_status ct_lex_next(struct ct_lexer *lex)
{
    char c;

    lex_skip_blank(lex);
    lex->token =
        (struct ct_token){ .s      = lex->at,
                           .line   = lex->line,
                           .column = (int)(lex->at - lex->line_start) + 1 };
    if (lex->at == lex->end) {
        lex_token(lex, CT_TOKEN_END);
        return CT_OK;
    }
    c = *lex->at;
    if (lex_letter(c)) {
        while (lex_letter(lex_peek(lex, 0)) || lex_digit(lex_peek(lex, 0)))
            lex->at++;
        lex_token(lex, CT_TOKEN_WORD);
        return CT_OK;
    }
    if (lex_digit(c) || (c == '.' && lex_digit(lex_peek(lex, 1))))
        return lex_number(lex);
    if (c == '"' || c == '\'')
        return lex_string(lex);
    if ((unsigned char)c < ' ' || (unsigned char)c > '~')
        return ct_lex_fail(lex, &lex->token,
                           "byte 0x%02x stands outside a string: is this a "
                           "binary file?",
                           (unsigned char)c);
    lex->at++;
    lex_token(lex, CT_TOKEN_SYMBOL);
    return CT_OK;
}

enum ct_status ct_lex_start(struct ct_lexer *lex, const char *text,
                            size_t n_bytes, const char *source)
{
    /* Some editors mark UTF-8 text so. */
    if (n_bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        n_bytes -= 3;
    }
    *lex = (struct ct_lexer){ .source     = source,
                              .at         = text,
                              .end        = text + n_bytes,
                              .line_start = text,
                              .line       = 1 };
    return ct_lex_next(lex);
}
