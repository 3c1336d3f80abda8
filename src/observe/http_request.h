/* http_request.h - one HTTP request out of bytes that anybody may have sent.
 *
 * Only what the live page needs: GET, HEAD and POST without a body.  Anything
 * else is refused with the status that fits, before it is looked at twice. */
#ifndef CT_OBSERVE_HTTP_REQUEST_H
#define CT_OBSERVE_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CT_HTTP_MOST_HEAD = 8192, /* bytes of a request; it has no body */
    CT_HTTP_MOST_PATH = 512
};

enum ct_http_method { CT_HTTP_GET, CT_HTTP_HEAD, CT_HTTP_POST };

struct ct_http_request {
    enum ct_http_method method;
    char path[CT_HTTP_MOST_PATH];  /* decoded; starts with a slash */
    char query[CT_HTTP_MOST_PATH]; /* as sent, without the question mark */
    char host[256];                /* without the port; "" where not sent */
    char token[128];               /* of "Authorization: Bearer"; or "" */
    bool keep_alive;
};

/* 0: more bytes are needed.  Below 0: refuse with that status, e.g. -400.
 * Above 0: bytes that the request took. */
int ct_http_parse(const char *data, size_t n, struct ct_http_request *out);

/* The number of key `name` in the query; `other` where there is none. */
long ct_http_query(const struct ct_http_request *r, const char *name,
                   long other);

#endif
