/* board_latest.c - the latest line of each kind of a run's series.
 *
 * A test may be hours old and megabytes away from the end of the file, so the
 * file is read once and then followed. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observe/board_inner.h"
#include "observe/json.h"

enum { MOST_TESTS = 1000 }; /* nets; more are damage */

static const char iteration[] = "{\"kind\":\"iteration\"",
                  norms[]     = "{\"kind\":\"norms\"",
                  test[]      = "{\"kind\":\"test\"",
                  start[]     = "{\"kind\":\"start\"";

static bool is(const char *line, const char *kind)
{
    return strncmp(line, kind, strlen(kind)) == 0;
}

static double number_in(const char *line, size_t n, const char *key)
{
    struct ct_json *j = NULL;
    double v          = -1;

    if (ct_json_parse(line, n, "a line", &j) == CT_OK)
        v = ct_json_number(ct_json_get(j, key), -1);
    ct_json_free(j);
    return v;
}

/* Without memory there is none. */
static void keep(char **slot, const char *line, size_t n)
{
    ct_free(*slot);
    *slot = ct_malloc(n + 1, "metrics");
    if (*slot) {
        memcpy(*slot, line, n);
        (*slot)[n] = '\0';
    }
}

static void keep_test(struct board_latest *l, const char *line, size_t n)
{
    const double net = number_in(line, n, "net");
    char **more      = NULL;

    if (net < 0 || net >= MOST_TESTS)
        return;
    if (net >= l->n_tests) {
        const int n_tests = (int)net + 1;

        if (ct_alloc((size_t)n_tests, sizeof(*more), "metrics", &more) !=
            CT_OK)
            return;
        if (l->n_tests)
            memcpy(more, l->test, (size_t)l->n_tests * sizeof(*more));
        ct_free(l->test);
        l->test    = more;
        l->n_tests = n_tests;
    }
    keep(&l->test[(int)net], line, n);
}

static void drop_from(char **slot, double iter)
{
    if (*slot && number_in(*slot, strlen(*slot), "iter") >= iter) {
        ct_free(*slot);
        *slot = NULL;
    }
}

/* Training goes on from here: what came later is void. */
static void go_back(struct board_latest *l, double iter)
{
    drop_from(&l->iteration, iter);
    drop_from(&l->norms, iter);
    for (int i = 0; i < l->n_tests; i++)
        drop_from(&l->test[i], iter);
}

/* Iterations are many: the last of those in a row is kept. */
static void take_lines(struct board_latest *l, const struct ct_text *t)
{
    const char *at = t->s, *end = t->s + t->n_bytes, *next, *last = NULL;

    for (; at < end; at = next) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((line_end ? line_end : end) - at);

        next = line_end ? line_end + 1 : end;
        if (is(at, iteration)) {
            last = at;
            continue;
        }
        if (is(at, start) && last) {
            keep(&l->iteration, last, strcspn(last, "\n"));
            last = NULL;
        }
        if (is(at, start))
            go_back(l, number_in(at, n, "iter"));
        else if (is(at, norms))
            keep(&l->norms, at, n);
        else if (is(at, test))
            keep_test(l, at, n);
    }
    if (last)
        keep(&l->iteration, last, strcspn(last, "\n"));
}

void board_latest_fini(struct board_latest *l)
{
    ct_free(l->iteration);
    ct_free(l->norms);
    for (int i = 0; i < l->n_tests; i++)
        ct_free(l->test[i]);
    ct_free(l->test);
    *l = (struct board_latest){ 0 };
}

void board_latest_read(struct ct_board *b, int run)
{
    struct board_latest *l = &b->latest[run];
    size_t got;

    do {
        struct ct_http_request r = { .method = CT_HTTP_GET };
        struct ct_http_answer a  = { .status = 200, .next = -1 };

        snprintf(r.query, sizeof(r.query), "from=%ld", l->next);
        if (!board_file(b, run, "series.jsonl", &r, &a))
            return;
        got = a.body.n_bytes;
        if (a.next < l->next) /* it is another file now, read from its start */
            board_latest_fini(l);
        if (got && !a.body.failed)
            take_lines(l, &a.body);
        l->next = a.next;
        ct_text_fini(&a.body);
    } while (got);
}
