/* http_request.c - one HTTP request. */
#include "observe/http_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_HEADERS = 64 };

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Into `out`, which has CT_HTTP_MOST_PATH bytes; false: not a path that
 * anything here has. */
static bool decode(const char *from, size_t n, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)from[i];

        if (c == '%') {
            if (i + 2 >= n || digit(from[i + 1]) < 0 || digit(from[i + 2]) < 0)
                return false;
            c = (unsigned char)(digit(from[i + 1]) * 16 + digit(from[i + 2]));
            i += 2;
        }
        if (c < 0x20 || c == 0x7f || c == '\\' ||
            used == CT_HTTP_MOST_PATH - 1)
            return false;
        out[used++] = (char)c;
    }
    out[used] = '\0';
    return used > 0 && out[0] == '/' && !strstr(out, "/..") &&
           !strstr(out, "//");
}

static bool copy(const char *from, size_t n, char *out, size_t size)
{
    if (n >= size || memchr(from, '\0', n))
        return false;
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static int target(const char *at, size_t n, struct ct_http_request *out)
{
    const char *query = memchr(at, '?', n);
    const size_t path = query ? (size_t)(query - at) : n;

    if (n > 2 * CT_HTTP_MOST_PATH)
        return -414;
    if (!decode(at, path, out->path))
        return -400;
    if (query && !copy(query + 1, n - path - 1, out->query,
                       sizeof(out->query)))
        return -414;
    return 0;
}

/* "GET /path HTTP/1.1", without the line's end. */
static int first_line(const char *at, size_t n, struct ct_http_request *out)
{
    static const struct {
        const char         *word;
        enum ct_http_method method;
    } methods[] = { { "GET ", CT_HTTP_GET }, { "HEAD ", CT_HTTP_HEAD },
                    { "POST ", CT_HTTP_POST } };
    size_t word = 0;
    int st;

    for (int i = 0; i < 3 && !word; i++)
        if (n > strlen(methods[i].word) &&
            memcmp(at, methods[i].word, strlen(methods[i].word)) == 0) {
            word        = strlen(methods[i].word);
            out->method = methods[i].method;
        }
    if (!word) /* a method that is not served, or no method at all */
        return n && is_token_char(at[0]) && memchr(at, ' ', n) ? -405 : -400;
    if (n < word + 10 || (memcmp(at + n - 9, " HTTP/1.1", 9) != 0 &&
                          memcmp(at + n - 9, " HTTP/1.0", 9) != 0))
        return -400;
    out->keep_alive = at[n - 1] == '1';
    st = target(at + word, n - word - 9, out);
    return st;
}

static bool is_name(const char *at, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(at, name, n) == 0;
}

static int host(const char *at, size_t n, struct ct_http_request *out)
{
    const char *end = n && at[0] == '[' ? memchr(at, ']', n)
                                        : memchr(at, ':', n);
    const size_t k  = !end ? n : (size_t)(end - at) + (at[0] == '[');

    return out->host[0] || !copy(at, k, out->host, sizeof(out->host)) ? -400
                                                                      : 0;
}

static int header(const char *at, size_t n, struct ct_http_request *out)
{
    const char *colon = memchr(at, ':', n);
    const size_t name = colon ? (size_t)(colon - at) : 0;
    const char *value, *end = at + n;

    if (name == 0)
        return -400;
    for (size_t i = 0; i < name; i++)
        if (!is_token_char(at[i]))
            return -400;
    value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    n = (size_t)(end - value);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value[i] < 0x20 && value[i] != '\t')
            return -400;
    if (is_name(at, name, "host"))
        return host(value, n, out);
    if (is_name(at, name, "transfer-encoding"))
        return -501;
    if (is_name(at, name, "content-length"))
        return n == 1 && value[0] == '0' ? 0 : -413;
    if (is_name(at, name, "connection") && is_name(value, n, "close"))
        out->keep_alive = false;
    if (is_name(at, name, "authorization") && n > 7 &&
        strncasecmp(value, "bearer ", 7) == 0 &&
        !copy(value + 7, n - 7, out->token, sizeof(out->token)))
        return -400;
    return 0;
}

int ct_http_parse(const char *data, size_t n, struct ct_http_request *out)
{
    size_t at = 0;
    int lines = 0, st = 0;

    memset(out, 0, sizeof(*out));
    if (!memmem(data, n, "\r\n\r\n", 4))
        return n >= CT_HTTP_MOST_HEAD ? -431 : 0;
    while (st == 0) {
        const char *end   = memmem(data + at, n - at, "\r\n", 2);
        const size_t size = (size_t)(end - (data + at));

        if (size == 0)
            return lines == 0 ? -400 : (int)at + 2;
        if (at + size > CT_HTTP_MOST_HEAD || lines > MOST_HEADERS)
            return -431;
        st = lines++ == 0 ? first_line(data + at, size, out)
                          : header(data + at, size, out);
        at += size + 2;
    }
    return st;
}

long ct_http_query(const struct ct_http_request *r, const char *name,
                   long other)
{
    const size_t n = strlen(name);
    const char *at = r->query;

    while (at && *at) {
        if (strncmp(at, name, n) == 0 && at[n] == '=') {
            char *end;
            const long v = strtol(at + n + 1, &end, 10);

            return end > at + n + 1 && (*end == '\0' || *end == '&') ? v
                                                                     : other;
        }
        at = strchr(at, '&');
        at = at ? at + 1 : NULL;
    }
    return other;
}
