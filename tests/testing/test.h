/* test.h - what every test file starts from.
 *
 *     TEST(suite, sentence_that_is_true) { ASSERT_OK(...); }
 *
 * A test binary holds many suites; `build/tests/NAME [suite[.test]]...` runs
 * all or the named ones through cmocka.  Memory that a test leaves behind
 * fails it, by name. */
#ifndef CT_TESTING_TEST_H
#define CT_TESTING_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cortado/device.h"

struct test_entry {
    const char        *suite, *name, *file;
    void             (*run)(void);
    struct test_entry *next;
};

void test_register(struct test_entry *e);

/* What a test program exits with when it could try nothing. */
#define TEST_SKIPPED 77

/* Never returns: ends the running test. */
CT_PRINTF(3, 4) __attribute__((noreturn)) void test_fail(const char *file,
                                                         int line,
                                                         const char *fmt, ...);
CT_PRINTF(1, 2) __attribute__((noreturn)) void test_skip(const char *fmt, ...);

/* A file or folder of tests/recorded, as the build unpacked it, e.g.
 * test_recorded("caffe_files/lmdb_raw"). */
const char *test_recorded(const char *below);

/* Call fn(arg) when the test ends, passed or failed; last one first. */
void test_defer(void (*fn)(void *), void *arg);

/* The device under test: the CPU, or what CORTADO_TEST_DEVICE names: `cuda`,
 * `cuda:PRECISION` or `cpu:bf16`.  Its arrays can be read by the test's own
 * code, after a sync. */
const struct ct_device *test_device(void);

/* A fresh folder, removed with its content after the test. */
const char *test_folder(void);

#define TEST_AS(suite, name, fn)                                             \
    __attribute__((constructor)) static void fn##_register(void)             \
    {                                                                        \
        static struct test_entry e = { #suite, name, __FILE__, fn, NULL };   \
        test_register(&e);                                                   \
    }

#define TEST(suite, name)                                                    \
    static void suite##_##name(void);                                        \
    TEST_AS(suite, #name, suite##_##name)                                    \
    static void suite##_##name(void)

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define ASSERT(cond)                                                         \
    do {                                                                     \
        if (!(cond))                                                         \
            FAIL("not true: %s", #cond);                                     \
    } while (0)

#define ASSERT_OK(call) ASSERT_STATUS(CT_OK, call)

#define ASSERT_STATUS(want, call)                                            \
    do {                                                                     \
        enum ct_status test_st = (call);                                     \
        if (test_st != (want))                                               \
            FAIL("%s gave '%s', wanted '%s'; last error: %s", #call,         \
                 ct_status_name(test_st), ct_status_name(want),              \
                 ct_last_error());                                           \
    } while (0)

#define ASSERT_INT(want, got)                                                \
    do {                                                                     \
        int64_t test_w = (int64_t)(want), test_g = (int64_t)(got);           \
        if (test_w != test_g)                                                \
            FAIL("%s is %lld, wanted %lld", #got, (long long)test_g,         \
                 (long long)test_w);                                         \
    } while (0)

#define ASSERT_STR(want, got)                                                \
    do {                                                                     \
        const char *test_w = (want), *test_g = (got);                        \
        if (!test_g || strcmp(test_w, test_g) != 0)                          \
            FAIL("%s is \"%s\", wanted \"%s\"", #got,                        \
                 test_g ? test_g : "(null)", test_w);                        \
    } while (0)

/* `needle` stands somewhere in `text`. */
#define ASSERT_HAS(needle, text)                                             \
    do {                                                                     \
        const char *test_n = (needle), *test_t = (text);                     \
        if (!test_t || !strstr(test_t, test_n))                              \
            FAIL("\"%s\" is not in \"%s\"", test_n,                          \
                 test_t ? test_t : "(null)");                                \
    } while (0)

/* |want - got| <= tol; NaN never passes. */
#define ASSERT_FLOAT(want, got, tol)                                         \
    do {                                                                     \
        double test_w = (want), test_g = (got);                              \
        if (!(fabs(test_w - test_g) <= (double)(tol)))                       \
            FAIL("%s is %.9g, wanted %.9g", #got, test_g, test_w);           \
    } while (0)

#endif
