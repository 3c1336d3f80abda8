/* http.h - a small web server for the live page.
 *
 * One thread, one poll, a fixed number of connections.  Slow and silent
 * clients lose theirs; who comes when all are taken is turned away.  Nothing
 * here can hold up training: it shares no lock with it. */
#ifndef CT_OBSERVE_HTTP_H
#define CT_OBSERVE_HTTP_H

#include "base/text.h"
#include "observe/http_request.h"

struct ct_http;

struct ct_http_answer {
    int            status; /* 200 unless changed */
    const char    *type;   /* of the content; a literal */
    struct ct_text body;
    long           next;   /* sent as X-Next; -1: not sent */
};

/* Fills the answer; on the server's thread. */
typedef void (*ct_http_fn)(const struct ct_http_request *r,
                           struct ct_http_answer *out, void *arg);

struct ct_http_options {
    const char *address; /* "8080", "HOST:PORT", "[::1]:0"; loopback without a
                            host; port 0: any that is free */
    ct_http_fn  answer;
    void       *arg;
};

/* Listens, and starts the thread. */
CT_MUST_CHECK enum ct_status ct_http_create(const struct ct_http_options *o,
                                            struct ct_http **out);
void ct_http_destroy(struct ct_http *h); /* takes NULL */

int ct_http_port(const struct ct_http *h);
/* "127.0.0.1:8080", as a browser takes it. */
const char *ct_http_where(const struct ct_http *h);
bool ct_http_is_loopback(const struct ct_http *h);
/* Seconds since the latest request, of any thread; a large number before the
 * first. */
double ct_http_idle(const struct ct_http *h);

#endif
