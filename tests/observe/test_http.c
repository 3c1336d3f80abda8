/* test_http.c - requests of all sorts, and a server among rude clients. */
#include "observe/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "testing/test.h"

static int parse(const char *text, struct ct_http_request *r)
{
    return ct_http_parse(text, strlen(text), r);
}

TEST(http, a_request_is_taken_apart)
{
    static const char text[] =
        "GET /api/runs/3/log.txt?from=12&thin=7 HTTP/1.1\r\n"
        "Host: localhost:8080\r\nauthorization: Bearer abc\r\n\r\nGET";
    struct ct_http_request r;

    ASSERT_INT((int)sizeof(text) - 4, parse(text, &r));
    ASSERT_HAS("/api/runs/3/log.txt", r.path);
    ASSERT_HAS("localhost", r.host);
    ASSERT_INT(9, (int)strlen(r.host));
    ASSERT_HAS("abc", r.token);
    ASSERT(r.keep_alive && r.method == CT_HTTP_GET);
    ASSERT_INT(12, (int)ct_http_query(&r, "from", -1));
    ASSERT_INT(7, (int)ct_http_query(&r, "thin", -1));
    ASSERT_INT(-1, (int)ct_http_query(&r, "hin", -1));
    ASSERT(parse("POST /a%20b HTTP/1.0\r\nContent-Length: 0\r\n\r\n", &r) > 0);
    ASSERT_HAS("/a b", r.path);
    ASSERT(!r.keep_alive && r.method == CT_HTTP_POST);
    ASSERT(parse("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", &r) > 0);
    ASSERT(!r.keep_alive);
    ASSERT(parse("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", &r) > 0);
    ASSERT_HAS("[::1]", r.host);
}

TEST(http, what_is_not_whole_waits)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct ct_http_request r;

    for (size_t n = 0; n < sizeof(text) - 1; n++)
        ASSERT_INT(0, ct_http_parse(text, n, &r));
}

TEST(http, what_is_wrong_is_refused)
{
    static const struct {
        const char *text;
        int         status;
    } bad[] = {
        { "\r\n\r\n", -400 },
        { "GET\r\n\r\n", -400 },
        { "GET / HTTP/2.0\r\n\r\n", -400 },
        { "GET x HTTP/1.1\r\n\r\n", -400 },
        { "GET http://a/ HTTP/1.1\r\n\r\n", -400 },
        { "GET /../etc HTTP/1.1\r\n\r\n", -400 },
        { "GET /a/%2e%2e/b HTTP/1.1\r\n\r\n", -400 },
        { "GET /a/..%2fb HTTP/1.1\r\n\r\n", -400 },
        { "GET //a HTTP/1.1\r\n\r\n", -400 },
        { "GET /a\\b HTTP/1.1\r\n\r\n", -400 },
        { "GET /%00 HTTP/1.1\r\n\r\n", -400 },
        { "GET /%4 HTTP/1.1\r\n\r\n", -400 },
        { "GET /a\x01 HTTP/1.1\r\n\r\n", -400 },
        { "PUT / HTTP/1.1\r\n\r\n", -405 },
        { "DELETE / HTTP/1.1\r\n\r\n", -405 },
        { "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", -413 },
        { "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", -413 },
        { "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", -501 },
        { "GET / HTTP/1.1\r\nNo colon\r\n\r\n", -400 },
        { "GET / HTTP/1.1\r\nA b: c\r\n\r\n", -400 },
        { "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", -400 },
        { "GET / HTTP/1.1\r\nX: a\x02\r\n\r\n", -400 },
    };
    struct ct_http_request r;
    char big[CT_HTTP_MOST_HEAD + 100];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (parse(bad[i].text, &r) != bad[i].status)
            FAIL("%s gives %d, not %d", bad[i].text, parse(bad[i].text, &r),
                 bad[i].status);
    memset(big, 'a', sizeof(big));
    ASSERT_INT(-431, ct_http_parse(big, sizeof(big), &r));
    memcpy(big, "GET /", 5);
    memcpy(big + sizeof(big) - 13, " HTTP/1.1\r\n\r\n", 13);
    ASSERT(ct_http_parse(big, sizeof(big), &r) < 0);
}

/* ---- a server */

static void answer(const struct ct_http_request *r,
                   struct ct_http_answer *out, void *arg)
{
    (void)arg;
    ct_text_addf(&out->body, "you asked for %s", r->path);
    if (strcmp(r->path, "/big") == 0)
        for (int i = 0; i < 100000; i++)
            ct_text_add(&out->body, "0123456789012345678901234567890123456789");
}

static struct ct_http *start(void)
{
    struct ct_http_options o = { "0", answer, NULL };
    struct ct_http *h        = NULL;

    ASSERT_OK(ct_http_create(&o, &h));
    ASSERT(ct_http_is_loopback(h) && ct_http_port(h) > 0);
    return h;
}

static int dial(const struct ct_http *h)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port   = htons((uint16_t)ct_http_port(h)),
                             .sin_addr   = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* What comes until the other side closes, or is silent for so long. */
static size_t listen_to(int fd, char *out, size_t most, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    size_t n        = 0;

    while (n < most - 1 && poll(&p, 1, ms) > 0) {
        ssize_t k = read(fd, out + n, most - 1 - n);

        if (k <= 0)
            break;
        n += (size_t)k;
    }
    out[n] = '\0';
    return n;
}

static const char *ask(const struct ct_http *h, const char *text, char *out,
                       size_t most)
{
    int fd = dial(h);

    ASSERT(fd >= 0);
    ASSERT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    listen_to(fd, out, most, 30000);
    close(fd);
    return out;
}

TEST(http, answers_come_with_headers_that_keep_others_out)
{
    struct ct_http *h = start();
    char got[4096];

    ask(h, "GET /x HTTP/1.0\r\n\r\n", got, sizeof(got));
    ASSERT_HAS("HTTP/1.1 200 OK\r\n", got);
    ASSERT_HAS("script-src 'self';", got);
    ASSERT(!strstr(got, "unsafe-inline") && !strstr(got, "Access-Control"));
    ASSERT_HAS("nosniff", got);
    ASSERT_HAS("\r\n\r\nyou asked for /x", got);
    ask(h, "HEAD /x HTTP/1.0\r\n\r\n", got, sizeof(got));
    ASSERT_HAS("Content-Length: 16", got);
    ASSERT(!strstr(got, "you asked"));
    ask(h, "nonsense\r\n\r\n", got, sizeof(got));
    ASSERT_HAS("HTTP/1.1 400", got);
    ct_http_destroy(h);
}

TEST(http, one_connection_serves_several_requests)
{
    struct ct_http *h = start();
    char got[8192];

    ask(h, "GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n"
           "GET /3 HTTP/1.1\r\nConnection: close\r\n\r\n", got, sizeof(got));
    ASSERT_HAS("asked for /1", got);
    ASSERT_HAS("asked for /2", got);
    ASSERT_HAS("asked for /3", got);
    ct_http_destroy(h);
}

/* Is there a place for one more?  Who gets no answer asks again: it may wait
 * behind others who stay. */
static bool gets_in(const struct ct_http *h)
{
    int me         = dial(h);
    char got[4096] = "";

    if (me >= 0 &&
        send(me, "GET /me HTTP/1.0\r\n\r\n", 20, MSG_NOSIGNAL) == 20)
        listen_to(me, got, sizeof(got), 5000);
    if (me >= 0)
        close(me);
    return strstr(got, "asked for /me") != NULL;
}

/* Each sends one more byte of a request now and then, and comes back when it is
 * sent away. */
TEST(http, clients_that_send_byte_by_byte_keep_nobody_out_for_long)
{
    enum { DRIPPING = 64 };
    struct ct_http *h  = start();
    const double begun = ct_now();
    int fd[DRIPPING];
    bool in = false;

    for (int i = 0; i < DRIPPING; i++)
        fd[i] = -1;
    while (!in && ct_now() - begun < 200) {
        for (int i = 0; i < DRIPPING; i++) {
            if (fd[i] < 0)
                fd[i] = dial(h);
            if (fd[i] >= 0 && send(fd[i], "a", 1, MSG_NOSIGNAL) < 0) {
                close(fd[i]);
                fd[i] = -1;
            }
        }
        usleep(200000);
        in = ct_now() - begun > 1 && gets_in(h);
    }
    ASSERT(in);
    for (int i = 0; i < DRIPPING; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    ct_http_destroy(h);
}

/* They open, say half a word or nothing, or do not read, and stay. */
TEST(http, a_thousand_rude_clients_keep_nobody_out_for_long)
{
    enum { RUDE = 1000 };
    static int fd[RUDE];
    struct rlimit most;
    struct ct_http *h = start();
    double begun;
    int n   = RUDE;
    bool in = false;

    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    if (most.rlim_cur < RUDE + 200)
        n = (int)most.rlim_cur / 2;
    for (int i = 0; i < n; i++) {
        static const char *const words[] = { "GET /", "",
                                             "GET /big HTTP/1.1\r\n\r\n" };

        fd[i] = dial(h);
        if (fd[i] >= 0 &&
            send(fd[i], words[i % 3], strlen(words[i % 3]), MSG_NOSIGNAL) < 0)
            continue;
    }
    begun = ct_now();
    while (!in && ct_now() - begun < 200) {
        usleep(100000);
        in = gets_in(h);
    }
    ASSERT(in);
    for (int i = 0; i < n; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    ct_http_destroy(h);
}

TEST(http, addresses_that_are_none_are_refused)
{
    static const char *const bad[] = { "", "x", "80a", "nobody.invalid:1",
                                       "127.0.0.1:", ":", "1:2:3" };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ct_http_options o = { bad[i], answer, NULL };
        struct ct_http *h        = NULL;

        if (ct_http_create(&o, &h) == CT_OK)
            FAIL("'%s' was taken for an address", bad[i]);
    }
}
