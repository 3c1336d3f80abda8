/* board.c - who may see what, and where it is. */
#include "observe/board.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "observe/board_inner.h"

/* As long for one wrong character as for another. */
static bool same_token(const char *a, const char *b)
{
    unsigned char differ = 0;

    if (strlen(a) != BOARD_TOKEN)
        return false;
    for (int i = 0; i < BOARD_TOKEN; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

static bool has_token(const struct ct_board *b,
                      const struct ct_http_request *r)
{
    return same_token(r->token, b->token);
}

/* A page of another site that has its name point here is not served. */
static bool is_our_host(const struct ct_board *b, const char *host)
{
    return !b->open || !host[0] || strcmp(host, "localhost") == 0 ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

/* "/api/runs/3/name": 3, and the name; -1: it is something else. */
static int run_of(const struct ct_board *b, const char *path,
                  const char **name)
{
    static const char prefix[] = "/api/runs/";
    const size_t n             = sizeof(prefix) - 1;
    char *end;
    long run;

    if (strncmp(path, prefix, n) != 0 || path[n] < '0' || path[n] > '9')
        return -1;
    run = strtol(path + n, &end, 10);
    if (*end != '/' || run >= b->n_runs)
        return -1;
    *name = end + 1;
    return (int)run;
}

static void act(const struct ct_board *b, int run, const char *action,
                struct ct_http_answer *out)
{
    out->status = 404;
    if (run != 0 || !b->options.act)
        return;
    if (strcmp(action, "snapshot") != 0 && strcmp(action, "stop") != 0 &&
        strcmp(action, "trace") != 0)
        return;
    out->status = b->options.act(action, b->options.arg) ? 202 : 503;
}

static void answer_api(struct ct_board *b, const struct ct_http_request *r,
                       struct ct_http_answer *out)
{
    const char *name = NULL;
    int run;

    if (strcmp(r->path, "/api/runs") == 0) {
        board_find_runs(b);
        out->type = "application/json";
        board_list(b, &out->body);
        return;
    }
    if (strcmp(r->path, "/metrics") == 0) {
        board_find_runs(b);
        out->type = "text/plain; version=0.0.4; charset=utf-8";
        board_metrics(b, &out->body);
        return;
    }
    run = run_of(b, r->path, &name);
    if (run < 0 || !board_file(b, run, name, r, out))
        out->status = 404;
}

void ct_board_answer(const struct ct_http_request *r,
                     struct ct_http_answer *out, void *board)
{
    struct ct_board *b             = board;
    const struct board_asset *file = board_asset_find(r->path);
    const char *name               = NULL;
    int run;

    if (!is_our_host(b, r->host)) {
        out->status = 403;
    } else if (r->method == CT_HTTP_POST) {
        run = run_of(b, r->path, &name);
        if (!has_token(b, r))
            out->status = 401;
        else
            act(b, run, name ? name : "", out);
    } else if (file) {
        out->type = file->type;
        ct_text_add_bytes(&out->body, file->data, file->n_bytes);
    } else if (!b->open && !has_token(b, r)) {
        out->status = 401;
    } else if (strcmp(r->path, "/api/me") == 0) {
        out->type = "application/json";
        ct_text_addf(&out->body, "{\"token\":%s,\"control\":%s}\n",
                     has_token(b, r) ? "true" : "false",
                     b->options.act ? "true" : "false");
    } else {
        answer_api(b, r, out);
    }
}

static enum ct_status make_token(struct ct_board *b)
{
    unsigned char bytes[BOARD_TOKEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return ct_fail(CT_EIO, "the system gives no random numbers");
    for (int i = 0; i < BOARD_TOKEN / 2; i++)
        snprintf(b->token + 2 * i, 3, "%02x", bytes[i]);
    return CT_OK;
}

static enum ct_status copy_folders(struct ct_board *b)
{
    const int n = b->options.n_folders;

    CT_TRY(ct_alloc((size_t)n + 1, sizeof(*b->folder), "board", &b->folder));
    for (int i = 0; i < n; i++) {
        b->folder[i] = ct_strdup(b->options.folder[i], "run folder");
        if (!b->folder[i])
            return CT_ENOMEM;
    }
    b->options.folder = NULL;
    return CT_OK;
}

enum ct_status ct_board_create(const struct ct_board_options *o,
                               struct ct_board **out)
{
    struct ct_http_options http = { o->address, ct_board_answer, NULL };
    struct ct_board *b;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*b), "board", &b));
    http.arg   = b;
    b->options = *o;
    st         = make_token(b);
    if (st == CT_OK)
        st = copy_folders(b);
    if (st == CT_OK)
        board_find_runs(b);
    if (st == CT_OK && o->address) /* tests ask without a server */
        st = ct_http_create(&http, &b->http);
    if (st != CT_OK) {
        ct_board_destroy(b);
        return st;
    }
    /* The server may be asked already, and asks for the token until here. */
    atomic_store(&b->open, !b->http || ct_http_is_loopback(b->http));
    snprintf(b->url, sizeof(b->url), "http://%s/#token=%s",
             b->http ? ct_http_where(b->http) : "127.0.0.1", b->token);
    *out = b;
    return CT_OK;
}

void ct_board_destroy(struct ct_board *b)
{
    if (!b)
        return;
    ct_http_destroy(b->http);
    for (int i = 0; i < b->n_runs; i++) {
        board_latest_fini(&b->latest[i]);
        ct_free(b->run[i]);
    }
    for (int i = 0; b->folder && i < b->options.n_folders; i++)
        ct_free(b->folder[i]);
    ct_free(b->folder);
    ct_free(b);
}

void ct_board_linger(const struct ct_board *b)
{
    enum { LINGER_US = 2500000 };

    if (b && b->http && ct_http_idle(b->http) < 3)
        usleep(LINGER_US);
}

const char *ct_board_url(const struct ct_board *b)
{
    return b->url;
}

bool ct_board_is_loopback(const struct ct_board *b)
{
    return b->open;
}
