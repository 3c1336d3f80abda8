/* test_board.c - what can be had of run folders, by whom, and what cannot. */
#include "observe/board.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/json.h"
#include "testing/files.h"
#include "testing/test.h"

static char asked[16];

static bool act(const char *action, void *arg)
{
    (void)arg;
    snprintf(asked, sizeof(asked), "%s", action);
    return true;
}

static struct ct_board *board(bool (*action)(const char *, void *))
{
    static const char series[] =
        "{\"kind\":\"start\",\"iter\":0,\"time\":1}\n"
        "{\"kind\":\"iteration\",\"iter\":1,\"time\":2,\"loss\":0.5,"
        "\"rate\":0.1,\"seconds\":0.25,\"samples_per_second\":8,"
        "\"seconds_left\":3}\n"
        "{\"kind\":\"iteration\",\"iter\":2,\"time\":3,\"loss\":0.25}\n"
        "{\"kind\":\"test\",\"iter\":2,\"time\":3,\"net\":0,"
        "\"outputs\":{\"acc\\\"y\":0.75}}\n"
        "{\"kind\":\"iteration\",\"iter\":3,\"ti";
    static const char ranks[] =
        "{\"time\":1,\"iter\":[5,6],\"wait\":[0.5,0],\"sent\":[100,200],"
        "\"gone\":[0,1],\"temperature\":[0,61]}\n";
    static const char run[] = "{\"status\":\"running\",\"max_iter\":9}";
    const char *folder[1];
    struct ct_board_options o = { .folder = folder, .n_folders = 1,
                                  .act = action };
    struct ct_board *b = NULL;

    mkdir(test_path("runs"), 0777);
    mkdir(test_path("runs/one"), 0777);
    test_write(test_path("runs/one/run.json"), run, sizeof(run) - 1);
    test_write(test_path("runs/one/series.jsonl"), series,
               sizeof(series) - 1);
    test_write(test_path("runs/one/ranks_now.json"), ranks, sizeof(ranks) - 1);
    test_write(test_path("secret.txt"), "secret", 6);
    test_write(test_path("runs/one/secret.txt"), "secret", 6);
    folder[0] = action ? test_path("runs/one") : test_path("runs");
    ASSERT_OK(ct_board_create(&o, &b));
    return b;
}

static struct ct_http_answer get(struct ct_board *b, const char *line,
                                 const char *token)
{
    struct ct_http_answer a = { 200, "", { 0 }, -1 };
    struct ct_http_request r;
    const char *text = test_format("%s HTTP/1.1\r\nHost: localhost\r\n"
                                   "Authorization: Bearer %s\r\n\r\n", line,
                                   token);
    const int n = ct_http_parse(text, strlen(text), &r);

    if (n < 0)
        a.status = -n;
    else
        ct_board_answer(&r, &a, b);
    return a;
}

static int status(struct ct_board *b, const char *line, const char *token)
{
    struct ct_http_answer a = get(b, line, token);

    ct_text_fini(&a.body);
    return a.status;
}

static const char *token_of(const struct ct_board *b)
{
    return strstr(ct_board_url(b), "token=") + 6;
}

TEST(board, runs_are_found_below_a_folder)
{
    struct ct_board *b      = board(NULL);
    struct ct_http_answer a = get(b, "GET /api/runs", "x");
    struct ct_json *j       = NULL;

    ASSERT_OK(ct_json_parse(a.body.s, a.body.n_bytes, "runs", &j));
    ASSERT_INT(1, j->n);
    ASSERT_HAS("one", ct_json_text(ct_json_get(j->child, "name"), ""));
    ASSERT_FLOAT(9, ct_json_number(ct_json_get(ct_json_get(j->child, "run"),
                                               "max_iter"), 0), 0);
    ct_json_free(j);
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}

TEST(board, files_that_grow_come_in_whole_lines)
{
    struct ct_board *b      = board(NULL);
    struct ct_http_answer a = get(b, "GET /api/runs/0/series.jsonl", "x");
    const long next         = a.next;

    ASSERT_INT('\n', a.body.s[a.body.n_bytes - 1]);
    ASSERT_INT((int)a.body.n_bytes, (int)next);
    ASSERT_HAS("0.75", a.body.s);
    ct_text_fini(&a.body);
    a = get(b, test_format("GET /api/runs/0/series.jsonl?from=%ld", next),
            "x");
    ASSERT_INT(0, (int)a.body.n_bytes);
    ASSERT_INT((int)next, (int)a.next);
    ct_text_fini(&a.body);
    a = get(b, "GET /api/runs/0/series.jsonl?thin=2", "x");
    ASSERT(!strstr(a.body.s, "\"iter\":1,"));
    ASSERT_HAS("\"kind\":\"start\"", a.body.s);
    ASSERT_HAS("\"kind\":\"test\"", a.body.s);
    ASSERT_INT((int)next, (int)a.next);
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}

/* A file of `n` lines of 1 kB, and then an unfinished one. */
static void write_large(const char *path, int n)
{
    FILE *f = fopen(path, "w");

    ASSERT(f);
    for (int i = 0; i < n; i++)
        fprintf(f, "{\"line\":%07d%1000s}\n", i, "");
    fputs("{\"line\":", f);
    ASSERT_INT(0, fclose(f));
}

static size_t most_memory(void)
{
    struct rusage u;

    ASSERT_INT(0, getrusage(RUSAGE_SELF, &u));
    return (size_t)u.ru_maxrss << 10;
}

/* Whoever serves may be rank 0 of a job, with no memory to spare. */
TEST(board, a_large_file_is_thinned_in_little_memory)
{
    enum { LINES = 40000 };
    struct ct_board *b  = board(NULL);
    const char *path    = test_path("runs/one/layers.jsonl");
    const size_t before = most_memory();
    struct ct_http_answer a;

    write_large(path, LINES);
    a = get(b, "GET /api/runs/0/layers.jsonl?thin=100", "x");
    ASSERT(most_memory() - before < 20 << 20);
    ASSERT_INT(LINES * 1017, (int)a.next);
    ASSERT_INT(101 * 1017, (int)a.body.n_bytes);
    ASSERT_INT(0, strncmp(a.body.s + 1017, "{\"line\":0000400 ", 16));
    ASSERT_INT(0, strncmp(a.body.s + 100 * 1017, "{\"line\":0039999 ", 16));
    ct_text_fini(&a.body);
    a = get(b, "GET /api/runs/0/layers.jsonl?thin=1", "x");
    ASSERT_INT(LINES * 1017, (int)a.next);
    ASSERT_INT(1017, (int)a.body.n_bytes);
    ASSERT_INT(0, strncmp(a.body.s, "{\"line\":0039999 ", 16));
    ct_text_fini(&a.body);
    unlink(path);
    ct_board_destroy(b);
}

/* One line is larger than what is read at a time. */
TEST(board, long_lines_come_whole)
{
    struct ct_board *b = board(NULL);
    const char *path   = test_path("runs/one/layers.jsonl");
    FILE *f            = fopen(path, "w");
    struct ct_http_answer a;

    ASSERT(f);
    fprintf(f, "1%3000000s\n2%5000000s\n3\n", "", "");
    ASSERT_INT(0, fclose(f));
    a = get(b, "GET /api/runs/0/layers.jsonl?thin=9", "x");
    ASSERT_INT(8000006, (int)a.body.n_bytes);
    ASSERT_INT('2', a.body.s[3000002]);
    ct_text_fini(&a.body);
    unlink(path);
    ct_board_destroy(b);
}

TEST(board, nothing_else_can_be_had)
{
    static const char *const lines[] = {
        "GET /api/runs/0/secret.txt", "GET /api/runs/0/../../secret.txt",
        "GET /api/runs/0/%2e%2e/secret.txt", "GET /api/runs/1/run.json",
        "GET /api/runs/-1/run.json", "GET /api/runs/0/", "GET /api/runs/0",
        "GET /runs/one/run.json", "GET /etc/passwd", "GET /api",
        "GET /api/runs/0//run.json", "GET /api/runs/99999999999999/run.json",
        "GET /index.html/", "GET /api/runs/0/run.json/x",
    };
    struct ct_board *b = board(NULL);

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (status(b, lines[i], "x") / 100 != 4)
            FAIL("%s gives %d", lines[i], status(b, lines[i], "x"));
    /* A name that is served, pointing elsewhere. */
    unlink(test_path("runs/one/log.txt"));
    ASSERT_INT(0, symlink(test_path("secret.txt"),
                          test_path("runs/one/log.txt")));
    {
        struct ct_http_answer a = get(b, "GET /api/runs/0/log.txt", "x");

        ASSERT_INT(0, (int)a.body.n_bytes);
        ct_text_fini(&a.body);
    }
    unlink(test_path("runs/one/log.txt"));
    ct_board_destroy(b);
}

TEST(board, only_the_token_stops_a_run)
{
    struct ct_board *b = board(act);
    char wrong[33];

    snprintf(wrong, sizeof(wrong), "%s", token_of(b));
    wrong[31] = wrong[31] == '0' ? '1' : '0';
    asked[0]  = '\0';
    ASSERT_INT(401, status(b, "POST /api/runs/0/stop", "x"));
    ASSERT_INT(401, status(b, "POST /api/runs/0/stop", wrong));
    ASSERT_INT(404, status(b, "GET /api/runs/0/stop", token_of(b)));
    ASSERT_INT(404, status(b, "POST /api/runs/0/explode", token_of(b)));
    ASSERT_INT(404, status(b, "POST /api/runs/1/stop", token_of(b)));
    ASSERT_INT(0, asked[0]);
    ASSERT_INT(202, status(b, "POST /api/runs/0/snapshot", token_of(b)));
    ASSERT_HAS("snapshot", asked);
    ASSERT_INT(202, status(b, "POST /api/runs/0/trace", token_of(b)));
    ASSERT_HAS("trace", asked);
    ASSERT_INT(202, status(b, "POST /api/runs/0/stop", token_of(b)));
    ASSERT_HAS("stop", asked);
    ct_board_destroy(b);
    b = board(NULL); /* finished runs have nobody to stop them */
    ASSERT_INT(404, status(b, "POST /api/runs/0/stop", token_of(b)));
    ct_board_destroy(b);
}

TEST(board, beyond_loopback_runs_take_the_token)
{
    const char *folder[]      = { test_path("runs") };
    struct ct_board_options o = { .address = "0.0.0.0:0", .folder = folder,
                                  .n_folders = 1 };
    struct ct_board *b        = NULL;

    ct_board_destroy(board(NULL));
    ASSERT_OK(ct_board_create(&o, &b));
    ASSERT(!ct_board_is_loopback(b));
    ASSERT_INT(200, status(b, "GET /", "x")); /* it tells nothing */
    ASSERT_INT(401, status(b, "GET /api/runs", "x"));
    ASSERT_INT(401, status(b, "GET /metrics", ""));
    ASSERT_INT(401, status(b, "GET /api/runs/0/run.json", "x"));
    ASSERT_INT(200, status(b, "GET /api/runs", token_of(b)));
    ASSERT_INT(200, status(b, "GET /metrics", token_of(b)));
    ct_board_destroy(b);
}

TEST(board, another_name_that_points_here_is_refused)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    struct ct_board *b       = board(NULL);
    struct ct_http_answer a  = { 200, "", { 0 }, -1 };
    struct ct_http_request r;

    ASSERT(ct_http_parse(text, sizeof(text) - 1, &r) > 0);
    ct_board_answer(&r, &a, b);
    ASSERT_INT(403, a.status);
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}

TEST(board, the_page_and_its_script_stay_small)
{
    static const char *const files[] = {
        "/", "/style.css", "/app.js", "/charts.js", "/data.js", "/layers.js",
        "/log.js", "/net.js", "/ranks.js", "/roads.js", "/icon.svg",
        "/uplot.iife.min.js", "/uplot.min.css",
    };
    struct ct_board *b = board(NULL);
    size_t all         = 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct ct_http_answer a = get(b, test_format("GET %s", files[i]),
                                      "x");

        ASSERT_INT(200, a.status);
        all += a.body.n_bytes;
        ct_text_fini(&a.body);
    }
    ASSERT(all < 150000 && all > 60000);
    ct_board_destroy(b);
}

TEST(board, metrics_have_help_type_and_every_rank)
{
    struct ct_board *b      = board(NULL);
    struct ct_http_answer a = get(b, "GET /metrics", "x");

    ASSERT_HAS("version=0.0.4", a.type);
    ASSERT_HAS("# TYPE cortado_rank_sent_bytes_total counter\n", a.body.s);
    ASSERT_HAS("cortado_loss{run=\"one\"} 0.25\n", a.body.s);
    ASSERT_HAS("cortado_test_output{run=\"one\",net=\"0\","
               "output=\"acc\\\"y\"} 0.75\n", a.body.s);
    ASSERT_HAS("cortado_rank_sent_bytes_total{run=\"one\",rank=\"1\"} 200\n",
               a.body.s);
    ASSERT_HAS("cortado_rank_lost{run=\"one\",rank=\"1\"} 1\n", a.body.s);
    ASSERT_INT('\n', a.body.s[a.body.n_bytes - 1]);
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}

/* Appends `n` times. */
static void append(const char *path, const char *text, int n)
{
    FILE *f = fopen(path, "a");

    ASSERT(f);
    for (int i = 0; i < n; i++)
        fputs(text, f);
    ASSERT_INT(0, fclose(f));
}

static void assert_metrics(struct ct_board *b, bool there, const char *text)
{
    struct ct_http_answer a = get(b, "GET /metrics", "x");

    if (!strstr(a.body.s, text) == there)
        FAIL("%s is %s", text, there ? "missing" : "there");
    ct_text_fini(&a.body);
}

TEST(board, metrics_have_the_latest_test_however_old_it_is)
{
    static const char norms[] = "{\"kind\":\"norms\",\"iter\":2,\"time\":4,"
                                "\"weights\":1.5,\"gradients\":2.5}\n";
    static const char iteration[] = "{\"kind\":\"iteration\",\"iter\":9,"
                                    "\"time\":5,\"loss\":0.125}\n";
    struct ct_board *b = board(NULL);
    const char *path   = test_path("runs/one/series.jsonl");

    append(path, "\n", 1); /* ends the unfinished line */
    append(path, norms, 1);
    append(path, iteration, 100000); /* several answers of the board */
    assert_metrics(b, true, "cortado_loss{run=\"one\"} 0.125\n");
    assert_metrics(b, true, "output=\"acc\\\"y\"} 0.75\n");
    assert_metrics(b, true, "cortado_weight_norm{run=\"one\"} 1.5\n");
    append(path, "{\"kind\":\"test\",\"iter\":10,\"time\":6,\"net\":0,"
                 "\"outputs\":{\"acc\\\"y\":0.8}}\n", 1);
    append(path, "{\"kind\":\"iteration\",\"iter\":11,\"time\":7,"
                 "\"loss\":0.0625}\n", 1);
    assert_metrics(b, true, "cortado_loss{run=\"one\"} 0.0625\n");
    assert_metrics(b, true, "output=\"acc\\\"y\"} 0.8\n");
    /* From iteration 5 on all is void. */
    append(path, "{\"kind\":\"start\",\"iter\":5,\"time\":8}\n", 1);
    assert_metrics(b, false, "cortado_test_output{");
    assert_metrics(b, false, "cortado_loss{");
    assert_metrics(b, true, "cortado_weight_norm{run=\"one\"} 1.5\n");
    /* Another file in its place. */
    test_write(path, iteration, sizeof(iteration) - 1);
    assert_metrics(b, true, "cortado_loss{run=\"one\"} 0.125\n");
    assert_metrics(b, false, "cortado_weight_norm{");
    ct_board_destroy(b);
}

TEST(board, metrics_have_every_test_net)
{
    struct ct_board *b = board(NULL);
    const char *path   = test_path("runs/one/series.jsonl");

    append(path, "\n{\"kind\":\"test\",\"iter\":3,\"time\":4,\"net\":2,"
                 "\"outputs\":{\"acc\":0.5}}\n", 1);
    assert_metrics(b, true, "net=\"0\",output=\"acc\\\"y\"} 0.75\n");
    assert_metrics(b, true, "net=\"2\",output=\"acc\"} 0.5\n");
    assert_metrics(b, false, "net=\"1\"");
    ct_board_destroy(b);
}

TEST(board, runs_of_one_name_are_told_apart)
{
    const char *folder[]      = { test_path("runs"), test_path("more/one/"),
                                  test_path("more/one") };
    struct ct_board_options o = { .folder = folder, .n_folders = 3 };
    struct ct_board *b        = NULL;
    struct ct_http_answer a;

    ct_board_destroy(board(NULL));
    mkdir(test_path("more"), 0777);
    mkdir(test_path("more/one"), 0777);
    test_write(test_path("more/one/run.json"), "{}", 2);
    append(test_path("more/one/series.jsonl"),
           "{\"kind\":\"iteration\",\"iter\":1,\"time\":2,\"loss\":7}\n", 1);
    ASSERT_OK(ct_board_create(&o, &b));
    assert_metrics(b, true, test_format("cortado_loss{run=\"%s\"} 0.25\n",
                                        test_path("runs/one")));
    assert_metrics(b, true, test_format("cortado_loss{run=\"%s\"} 7\n",
                                        test_path("more/one")));
    a = get(b, "GET /api/runs", "x");
    ASSERT_HAS(test_format("\"name\":\"%s\"", test_path("more/one")), a.body.s);
    ASSERT(!strstr(a.body.s, "\"id\":2")); /* with a slash it is the same */
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}

TEST(board, metrics_escape_what_their_format_escapes)
{
    struct ct_board *b = board(NULL);

    append(test_path("runs/one/series.jsonl"),
           "\n{\"kind\":\"test\",\"iter\":3,\"time\":4,\"net\":0,"
           "\"outputs\":{\"a\\u0001\\tb\\nc\\\\d\\\"e\":0.5}}\n", 1);
    assert_metrics(b, true, "output=\"a\001\tb\\nc\\\\d\\\"e\"} 0.5\n");
    ct_board_destroy(b);
}

TEST(board, metrics_have_no_temperature_that_nobody_knows)
{
    struct ct_board *b = board(NULL);

    assert_metrics(b, true, "temperature_celsius{run=\"one\",rank=\"1\"} 61\n");
    assert_metrics(b, false, "temperature_celsius{run=\"one\",rank=\"0\"}");
    ct_board_destroy(b);
}

/* What examples/grafana asks Prometheus for is there. */
TEST(board, the_dashboard_asks_for_metrics_that_there_are)
{
    const struct ct_bytes file =
        test_read(CT_TEST_SOURCE "/examples/grafana/cortado.json");
    struct ct_board *b      = board(NULL);
    struct ct_http_answer a = get(b, "GET /metrics", "x");
    struct ct_json *j       = NULL;
    const char *at          = (const char *)file.ptr;
    int n                   = 0;

    ASSERT_OK(ct_json_parse(at, file.n, "cortado.json", &j));
    ct_json_free(j);
    for (; (at = memmem(at, (size_t)((const char *)file.ptr + file.n - at),
                        "cortado_", 8)); n++) {
        const int bytes = (int)strspn(at, "abcdefghijklmnopqrstuvwxyz_");

        ASSERT_HAS(test_format("# TYPE %.*s ", bytes, at), a.body.s);
        at += bytes;
    }
    ASSERT(n > 10);
    ct_text_fini(&a.body);
    ct_board_destroy(b);
}
