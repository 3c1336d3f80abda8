/* main.c - runs the registered tests of one binary through cmocka. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "testing/test.h"

static struct test_entry *first, **end = &first;
static char folder[256];
static char recorded[4096];
static size_t n_skipped;
static uint64_t n_live_before;

static struct deferred {
    void (*fn)(void *);
    void *arg;
} deferred[1024];
static int n_deferred;

void test_register(struct test_entry *e)
{
    *end = e;
    end  = &e->next;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    print_error("%s\n", text);
    _fail(file, line);
    abort(); /* _fail does not come back */
}

void test_skip(const char *fmt, ...)
{
    va_list ap;

    fputs("skipped: ", stdout);
    va_start(ap, fmt);
    vfprintf(stdout, fmt, ap);
    va_end(ap);
    fputc('\n', stdout);
    n_live_before = UINT64_MAX; /* a test left half-way frees nothing */
    n_skipped++;
    skip();
    abort();
}

const char *test_recorded(const char *below)
{
    const char *root = getenv("CORTADO_RECORDED");

    snprintf(recorded, sizeof(recorded), "%s/%s",
             root ? root : CT_TEST_BUILD "/tests/recorded", below);
    if (access(recorded, R_OK) != 0)
        FAIL("%s is not there", recorded);
    return recorded;
}

const char *test_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    if (!folder[0]) {
        snprintf(folder, sizeof(folder), "%s/cortado-test-XXXXXX",
                 tmp ? tmp : "/tmp");
        if (!mkdtemp(folder))
            FAIL("cannot make a folder: %s", strerror(errno));
    }
    return folder;
}

void test_defer(void (*fn)(void *), void *arg)
{
    if (n_deferred == sizeof(deferred) / sizeof(deferred[0]))
        FAIL("too many things to clean up after one test");
    deferred[n_deferred++] = (struct deferred){ fn, arg };
}

static void run_deferred(void)
{
    while (n_deferred > 0) {
        struct deferred d = deferred[--n_deferred];

        d.fn(d.arg);
    }
}

static int remove_entry(const char *path, const struct stat *st, int flag,
                        struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static bool wanted(const struct test_entry *e, const char *full, int argc,
                   char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], e->suite) == 0 || strcmp(argv[i], full) == 0)
            return true;
    return argc == 1;
}

/* A thread that nobody waits for may be about to free what it has, such as one
 * that lists links (elastic/links.h); a leak stays for half a minute, too. */
static void await_frees(void)
{
    const struct timespec nap = { 0, 10000000 };

    for (int i = 0; i < 3000 && ct_mem_stats().n_live > n_live_before; i++)
        nanosleep(&nap, NULL);
}

static void run_one(void **state)
{
    const struct test_entry *e = *state;

    n_live_before = ct_mem_stats().n_live;
    e->run();
    run_deferred();
    await_frees();
    /* A GPU keeps the plans of its products for the tests that follow. */
    if (ct_mem_stats().n_live > n_live_before &&
        test_device()->kind == CT_CPU) {
        ct_log_set_level(CT_LOG_WARNING);
        ct_mem_report_leaks();
        test_fail(e->file, 0, "memory left behind");
    }
}

static int tidy(void **state)
{
    (void)state;
    run_deferred();
    if (folder[0])
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
    return 0;
}

#ifdef __SANITIZE_THREAD__
/* oneDNN hands primitives from one thread to another through a cache whose
 * locks the sanitizer does not see: the library is not built with it. */
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "race:libdnnl\nrace:ct_md_query\n";
}
#endif

#ifdef __SANITIZE_ADDRESS__
/* HDF5 leaks when it opens a damaged file; ours is counted in base/mem. */
__attribute__((visibility("default"))) const char *
__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libhdf5\n";
}
#endif

int main(int argc, char **argv)
{
    struct CMUnitTest *tests;
    size_t n_all = 0, n = 0;
    int failed;

    ct_log_set_level(getenv("CORTADO_TEST_LOG") ? CT_LOG_INFO : CT_LOG_NONE);
    (void)setenv("CORTADO_TUNE", "off", 0); /* the same bits on any day */
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const struct test_entry *e = first; e; e = e->next)
        n_all++;
    tests = calloc(n_all, sizeof(*tests));
    for (struct test_entry *e = first; e; e = e->next) {
        size_t bytes = strlen(e->suite) + strlen(e->name) + 2;
        char *full   = malloc(bytes);

        snprintf(full, bytes, "%s.%s", e->suite, e->name);
        if (!wanted(e, full, argc, argv)) {
            free(full);
            continue;
        }
        tests[n++] = (struct CMUnitTest){ full, run_one, NULL, tidy, e };
    }
    failed = n ? _cmocka_run_group_tests(argc > 1 ? argv[1] : "all", tests, n,
                                         NULL, NULL)
               : 1;
    if (!n)
        fprintf(stderr, "no test has that name\n");
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tests[i].name);
    free(tests);
    /* ctest shows a suite of which nothing ran as skipped. */
    return failed ? 1 : n_skipped == n ? TEST_SKIPPED : 0;
}
