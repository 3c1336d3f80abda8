/* test_base.c - status, memory, random numbers, text, files, queues. */
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/units.h"
#include "cortado/log.h"
#include "testing/test.h"

TEST(base, fail_keeps_the_text_and_context_goes_before_it)
{
    ASSERT_STATUS(CT_EINVAL, ct_fail(CT_EINVAL, "num_output is %d", 0));
    ASSERT_STR("num_output is 0", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, ct_fail_in(CT_EINVAL, "layer %s", "fc6"));
    ASSERT_STR("layer fc6: num_output is 0", ct_last_error());
}

TEST(base, a_line_of_the_log_does_not_steer_the_terminal)
{
    char path[512], *text;
    size_t n;

    snprintf(path, sizeof(path), "%s/log.4", test_folder());
    ASSERT_OK(ct_log_copy_to(path));
    CT_ERROR("layer a\033[31m\x7f\r\tof \xc3\xbc\nand more");
    ASSERT_OK(ct_log_copy_to(NULL));
    ASSERT_OK(ct_file_read(path, &text, &n));
    ASSERT_HAS("] layer a?[31m??\tof \xc3\xbc\nand more\n", text);
    ct_free(text);
}

TEST(base, a_copy_of_the_log_has_every_line_whatever_the_level)
{
    char path[512], *text;
    size_t n;

    snprintf(path, sizeof(path), "%s/log.3", test_folder());
    ASSERT_OK(ct_log_copy_to(path)); /* the tests' level is NONE */
    CT_INFO("Iteration %d", 7);
    CT_ERROR("the end");
    ASSERT_OK(ct_log_copy_to(NULL));
    CT_ERROR("after it");
    ASSERT_OK(ct_file_read(path, &text, &n));
    ASSERT_HAS("] Iteration 7\n", text);
    ASSERT_HAS("] the end\n", text);
    ASSERT(!strstr(text, "after"));
    ct_free(text);
    ASSERT_STATUS(CT_EIO, ct_log_copy_to("/no/such/folder/log"));
}

TEST(base, memory_is_aligned_counted_and_zero_from_calloc)
{
    struct ct_mem_stats before = ct_mem_stats(), after;
    char *p                    = ct_calloc(3, 7, "probe");

    ASSERT(p && (uintptr_t)p % CT_ALIGN == 0);
    for (int i = 0; i < 21; i++)
        ASSERT_INT(0, p[i]);
    after = ct_mem_stats();
    ASSERT_INT(before.n_calls + 1, after.n_calls);
    ASSERT_INT(before.live_bytes + 21, after.live_bytes);
    ct_free(p);
    ASSERT_INT(before.n_live, ct_mem_stats().n_live);
}

TEST(base, large_blocks_are_aligned_counted_and_zero_from_calloc)
{
    const size_t n = 5 << 20;

    for (int round = 0; round < 2; round++) {
        uint64_t live = ct_mem_stats().live_bytes;
        char *p = ct_calloc(n, 1, "large"), sum = 0;

        ASSERT(p != NULL);
        ASSERT_INT(0, (intptr_t)p % CT_ALIGN);
        ASSERT_INT(live + n, ct_mem_stats().live_bytes);
        for (size_t i = 0; i < n; i++)
            sum |= p[i];
        ASSERT_INT(0, sum);
        memset(p, 1, n);
        ct_free(p);
        ASSERT_INT(live, ct_mem_stats().live_bytes);
    }
}

TEST(base, impossible_sizes_are_refused_by_name)
{
    ASSERT(!ct_malloc(SIZE_MAX - 8, "huge"));
    ASSERT_HAS("huge", ct_last_error());
    ASSERT(!ct_calloc(SIZE_MAX / 2, 4, "product"));
    ASSERT_HAS("product", ct_last_error());
}

TEST(base, realloc_keeps_what_was_there)
{
    char *p = ct_malloc(4, "small");

    memcpy(p, "abc", 4);
    p = ct_realloc(p, 1000, "large");
    ASSERT_STR("abc", p);
    ct_free(p);
}

/* The two vectors published with the generator for 10 rounds. */
TEST(base, philox_gives_the_published_words)
{
    struct ct_philox z = ct_philox(0, 0, 0);
    struct ct_philox f = ct_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX);

    ASSERT_INT(0x6627e8d5, z.v[0]);
    ASSERT_INT(0xe169c58d, z.v[1]);
    ASSERT_INT(0xbc57ac4c, z.v[2]);
    ASSERT_INT(0x9b00dbd8, z.v[3]);
    ASSERT_INT(0x408f276d, f.v[0]);
    ASSERT_INT(0x41c83b0e, f.v[1]);
    ASSERT_INT(0xa20bc7c6, f.v[2]);
    ASSERT_INT(0x6d5451fd, f.v[3]);
}

TEST(base, normal_draws_have_mean_zero_and_variance_one)
{
    double sum = 0, squares = 0;
    enum { N = 200000 };

    for (int i = 0; i < N; i++) {
        double x = ct_normal(7, 1, (uint64_t)i);

        sum += x;
        squares += x * x;
    }
    ASSERT_FLOAT(0, sum / N, 0.01);
    ASSERT_FLOAT(1, squares / N, 0.01);
}

TEST(base, keys_differ_by_seed_and_name)
{
    ASSERT(ct_key(1, "drop6") != ct_key(2, "drop6"));
    ASSERT(ct_key(1, "drop6") != ct_key(1, "drop7"));
    ASSERT(ct_key(1, "drop6") == ct_key(1, "drop6"));
}

TEST(base, text_grows)
{
    struct ct_text t = { 0 };

    for (int i = 0; i < 1000; i++)
        ct_text_addf(&t, "%d,", i % 10);
    ASSERT_INT(2000, t.n_bytes);
    ASSERT_HAS("9,0,1,", t.s);
    ct_text_fini(&t);
    for (int n = 1; n <= 3; n++) {
        static const char *const word[] = { "a", "b", "c" };
        static const char *const want[] = { "a", "a or b", "a, b or c" };

        ct_text_add_choices(&t, word, n);
        ASSERT_STR(want[n - 1], t.s);
        ct_text_fini(&t);
    }
}

TEST(base, written_files_are_whole_and_replace_the_old)
{
    char path[512];
    char *data = NULL;
    size_t n   = 0;

    snprintf(path, sizeof(path), "%s/f", test_folder());
    ASSERT_OK(ct_file_write(path, "first", 5));
    ASSERT_OK(ct_file_write(path, "second", 6));
    ASSERT_OK(ct_file_read(path, &data, &n));
    ASSERT_INT(6, n);
    ASSERT_STR("second", data);
    ct_free(data);
}

TEST(base, a_failed_write_leaves_the_old_file)
{
    char path[512], temp[600];
    char *data = NULL;
    size_t n   = 0;

    snprintf(path, sizeof(path), "%s/f", test_folder());
    ASSERT_OK(ct_file_write(path, "old", 3));
    /* A folder stands where the temporary file would go. */
    snprintf(temp, sizeof(temp), "%s.tmp%ld", path, (long)getpid());
    ASSERT_INT(0, mkdir(temp, 0700));
    ASSERT_STATUS(CT_EIO, ct_file_write(path, "new", 3));
    ASSERT_HAS(path, ct_last_error());
    ASSERT_OK(ct_file_read(path, &data, &n));
    ASSERT_STR("old", data);
    ct_free(data);
}

/* Whoever can write to the folder must not lead us to another file. */
TEST(base, a_link_in_the_way_is_not_followed)
{
    char path[512], temp[600], other[512];
    char *data = NULL;
    size_t n   = 0;

    snprintf(path, sizeof(path), "%s/f", test_folder());
    snprintf(other, sizeof(other), "%s/other", test_folder());
    snprintf(temp, sizeof(temp), "%s.tmp%ld", path, (long)getpid());
    ASSERT_OK(ct_file_write(other, "mine", 4));
    ASSERT_INT(0, symlink(other, temp));
    ASSERT_OK(ct_file_write(path, "new", 3));
    ASSERT_OK(ct_file_read(other, &data, &n));
    ASSERT_STR("mine", data);
    ct_free(data);
}

TEST(base, a_disk_that_is_too_small_is_named)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/f", test_folder());
    ASSERT_OK(ct_file_room(path, 1));
    ASSERT_STATUS(CT_EIO, ct_file_room(path, UINT64_MAX));
    ASSERT_HAS(path, ct_last_error());
    ASSERT_HAS("MB left", ct_last_error());
}

TEST(base, the_clock_of_a_folder_is_told_from_ones_own)
{
    const int64_t now = time(NULL);
    int64_t behind    = ct_file_clock_behind(test_folder(), now + 3600);

    ASSERT(behind >= 3590 && behind <= 3600);
    behind = ct_file_clock_behind(test_folder(), now - 3600);
    ASSERT(behind >= -3610 && behind <= -3600);
    ASSERT_INT(0, ct_file_clock_behind("/proc/self", now));
    ASSERT_INT(0, ct_file_sweep(test_folder(), "clock")); /* nothing is left */
}

TEST(base, a_missing_file_is_named)
{
    char *data;
    size_t n;

    ASSERT_STATUS(CT_ENOTFOUND, ct_file_read("no/such/file", &data, &n));
    ASSERT_HAS("no/such/file", ct_last_error());
}

TEST(base, crc32c_of_the_check_string)
{
    ASSERT_INT(0xE3069283u, ct_crc32c(0, "123456789", 9));
    ASSERT_INT(0xE3069283u, ct_crc32c(ct_crc32c(0, "1234", 4), "56789", 5));
}

static void *produce(void *arg)
{
    static int number[1000];

    for (int i = 0; i < 1000; i++) {
        number[i] = i;
        ct_queue_push(arg, &number[i]);
    }
    ct_queue_close(arg);
    return NULL;
}

TEST(base, a_queue_hands_over_in_order_and_ends_when_closed)
{
    struct ct_queue *q = NULL;
    pthread_t thread;
    int *item, n = 0;

    ASSERT_OK(ct_queue_create(3, &q));
    pthread_create(&thread, NULL, produce, q);
    while (ct_queue_pop(q, &item))
        ASSERT_INT(n++, *item);
    ASSERT_INT(1000, n);
    ASSERT(!ct_queue_push(q, &n));
    pthread_join(thread, NULL);
    ct_queue_destroy(q);
}

TEST(base, times_and_speeds_are_read_with_their_units)
{
    double x = 0;

    ASSERT_OK(ct_parse_seconds("30us", &x));
    ASSERT_FLOAT(30e-6, x, 1e-12);
    ASSERT_OK(ct_parse_flops("500gflops", &x));
    ASSERT_FLOAT(5e11, x, 1);
    ASSERT_STATUS(CT_EINVAL, ct_parse_seconds("10 cars", &x));
    ASSERT_HAS("10 cars", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, ct_parse_seconds("-1s", &x));
    ASSERT_STATUS(CT_EINVAL, ct_parse_flops("", &x));
}
