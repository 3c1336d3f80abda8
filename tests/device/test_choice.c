/* test_choice.c - choices are remembered, and kept in the cache folder. */
#include "device/choice.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "testing/test.h"

static const char *cache;

static void forget(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_CACHE");
    unsetenv("XDG_CACHE_HOME");
}

static struct ct_choices *open_in(const char *folder)
{
    struct ct_choices *c = NULL;

    cache = folder;
    test_defer(forget, NULL);
    ASSERT(setenv("XDG_CACHE_HOME", folder, 1) == 0);
    ASSERT_OK(ct_choices_open("things", &c));
    return c;
}

static char *path(void)
{
    static char text[512];

    snprintf(text, sizeof(text), "%s/cortado/things", cache);
    return text;
}

static void expect_file(const char *want)
{
    char *text = NULL;
    size_t n   = 0;

    ASSERT_OK(ct_file_read(path(), &text, &n));
    ASSERT_STR(want, text);
    ct_free(text);
}

TEST(choice, what_is_kept_is_found_in_this_run_and_the_next)
{
    struct ct_choices *c = open_in(test_folder());

    ASSERT(ct_choices_find(c, "a b") == NULL);
    ct_choices_keep(c, "a b", "one 1");
    ct_choices_keep(c, "a", "two");
    ct_choices_keep(c, "a b", "three");
    ASSERT_STR("three", ct_choices_find(c, "a b"));
    ct_choices_close(c);
    expect_file("a = two\na b = three\n");
    c = open_in(cache);
    ASSERT_STR("three", ct_choices_find(c, "a b"));
    ASSERT_STR("two", ct_choices_find(c, "a"));
    ASSERT(ct_choices_find(c, "b") == NULL);
    ct_choices_close(c);
}

TEST(choice, strange_lines_and_those_of_others_stay)
{
    struct ct_choices *c = open_in(test_folder()), *other;

    ct_choices_keep(c, "a", "1");
    ASSERT_OK(ct_file_write(path(), "not a choice\n = \na = 1", 22));
    other = open_in(cache);
    ASSERT_STR("1", ct_choices_find(other, "a"));
    ct_choices_keep(other, "b", "2");
    ct_choices_keep(c, "a", "3");
    expect_file("not a choice\n = \nb = 2\na = 3\n");
    ct_choices_close(other);
    ct_choices_close(c);
}

TEST(choice, who_measures_second_finds_what_the_first_kept)
{
    struct ct_choices *first = open_in(test_folder()), *second;

    second = open_in(cache);
    ct_choices_alone(first);
    ct_choices_keep(first, "a", "1");
    ct_choices_go_on(first);
    ASSERT(ct_choices_find(second, "a") == NULL);
    ct_choices_alone(second);
    ASSERT_STR("1", ct_choices_find(second, "a"));
    ct_choices_alone(second); /* once is enough */
    ct_choices_close(second);
    ct_choices_alone(first); /* nobody holds it */
    ct_choices_close(first);
}

/* Keeps `n` choices in a process of its own. */
static pid_t keep_apart(struct ct_choices *c, char name, int n)
{
    const pid_t child = fork();
    char key[16];

    for (int i = 0; child == 0 && i < n; i++) {
        snprintf(key, sizeof(key), "%c%d", name, i);
        if (!ct_choices_keep(c, key, "1"))
            _exit(1);
    }
    if (child == 0)
        _exit(0);
    return child;
}

TEST(choice, processes_that_keep_at_once_lose_nothing)
{
    enum { WRITERS = 4, EACH = 25 };
    struct ct_choices *c = open_in(test_folder());
    pid_t child[WRITERS];
    char key[16];
    int status;

    for (int w = 0; w < WRITERS; w++)
        child[w] = keep_apart(c, (char)('a' + w), EACH);
    for (int w = 0; w < WRITERS; w++)
        ASSERT(waitpid(child[w], &status, 0) == child[w] && status == 0);
    ct_choices_close(c);
    c = open_in(cache);
    for (int i = 0; i < WRITERS * EACH; i++) {
        snprintf(key, sizeof(key), "%c%d", 'a' + i % WRITERS, i / WRITERS);
        if (!ct_choices_find(c, key))
            FAIL("choice %s is lost", key);
    }
    ct_choices_close(c);
}

TEST(choice, no_cache_and_no_folder_are_no_failure)
{
    struct ct_choices *c;

    ASSERT(setenv("CORTADO_CACHE", "none", 1) == 0);
    c = open_in(test_folder());
    ct_choices_keep(c, "a", "1");
    ASSERT_STR("1", ct_choices_find(c, "a"));
    ASSERT(!ct_file_exists(path()));
    ct_choices_close(c);
    ASSERT(unsetenv("CORTADO_CACHE") == 0);
    c = open_in("/dev/null/nowhere");
    ct_choices_keep(c, "a", "2");
    ASSERT_STR("2", ct_choices_find(c, "a"));
    ct_choices_close(c);
}
