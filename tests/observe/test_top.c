/* test_top.c - a run folder, written by hand, as a table of ranks. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "observe/top.h"
#include "testing/test.h"

static struct ct_text text;

static void drop(void *arg)
{
    ct_text_fini(arg);
}

static void put(const char *name, const char *what)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    ASSERT_OK(ct_file_write(path, what, strlen(what)));
}

static const char run[] =
    "{\"format\":1,\"status\":\"running\",\"started\":1000,\"written\":1000,"
    "\"max_iter\":500,\"ranks\":[{\"rank\":0,\"host\":\"n1\"},"
    "{\"rank\":1,\"host\":\"n1\"},{\"rank\":2,\"host\":\"n2\"}]}";
static const char series[] =
    "{\"kind\":\"iteration\",\"iter\":1,\"time\":1001,\"smoothed\":9}\n"
    "{\"kind\":\"iteration\",\"iter\":42,\"time\":1100,\"smoothed\":0.25,"
    "\"rate\":0.01,\"samples_per_second\":12345,\"seconds_left\":3725}\n"
    "{\"kind\":\"test\",\"iter\":42,\"time\":1101}\n"
    "{\"kind\":\"iteration\",\"iter\":99"; /* unfinished */
static const char ranks[] =
    "{\"time\":1100,\"iter\":[42,41,40],\"iterations_per_second\":[2,2,2.5],"
    "\"phase\":[\"forward\",\"backward\",\"exchange\"],\"layer\":[\"conv1\","
    "\"ip1\",\"\"],\"wait\":[0.5,0.01,0.25],\"waiting\":[0,0,12],"
    "\"waiting_for\":[-1,-1,1],\"sent_per_second\":[1500000,0,0],"
    "\"memory\":[0,0,0],\"gone\":[0,1,0]}\n";

static int times_written = 1100; /* seconds since 1970 */

static void wrote_at(const char *name, int when)
{
    const struct timespec times[2] = { { when, 0 }, { when, 0 } };
    char path[600];

    snprintf(path, sizeof(path), "%s/%s", test_folder(), name);
    ASSERT_INT(0, utimensat(AT_FDCWD, path, times, 0));
}

static const char *top(int most, double now, bool *running)
{
    ct_text_fini(&text);
    test_defer(drop, &text);
    put("run.json", run);
    put("series.jsonl", series);
    put("ranks_now.json", ranks);
    put("times.json", "{}");
    wrote_at("run.json", 1000);
    wrote_at("times.json", times_written);
    ASSERT_OK(ct_top(test_folder(), most, now, &text, running));
    return text.s;
}

TEST(top, ranks_are_rows)
{
    bool running;
    const char *said = top(10, 1101, &running);

    ASSERT(running);
    ASSERT_HAS("running, 3 rank(s), since 0:01:41", said);
    ASSERT_HAS("iteration 42 of 500  loss 0.25  rate 0.01  12k samples/s  "
               "1:02:05 left", said);
    ASSERT_HAS("     0  n1                       42    2.0   50%    1.5M",
               said);
    ASSERT_HAS("forward conv1\n", said);
    ASSERT_HAS("GONE\n", said);
    ASSERT_HAS("exchange, waits 12 s for rank 1\n", said);
}

TEST(top, small_numbers_have_no_unit)
{
    bool running;

    ASSERT_HAS(" 0       0   GONE", top(10, 1101, &running));
}

TEST(top, of_many_those_that_wait_least_stand_first)
{
    bool running;
    const char *said = top(2, 1101, &running);

    ASSERT(strstr(said, "     1  n1") && strstr(said, "     2  n2"));
    ASSERT(strstr(said, "     1  n1") < strstr(said, "     2  n2"));
    ASSERT(!strstr(said, "     0  n1"));
    ASSERT_HAS("and 1 more", said);
}

/* As for the live page: how old the lines on ranks are tells nothing. */
TEST(top, a_run_lives_while_it_writes_where_its_time_goes)
{
    bool running;

    times_written = 99990;
    ASSERT_HAS(": running, 3 rank(s)", top(10, 100000, &running));
    ASSERT(running);
    ASSERT_HAS(": killed, 3 rank(s)", top(10, 100021, &running));
    ASSERT(!running);
    times_written = 1100;
}

TEST(top, a_run_that_no_longer_writes_was_killed)
{
    bool running;

    ASSERT_HAS(": killed, 3 rank(s)", top(10, 1200, &running));
    ASSERT(!running);
}

TEST(top, a_folder_that_is_no_run_is_refused)
{
    bool running;

    text = (struct ct_text){ 0 };
    ASSERT(ct_top(test_folder(), 1, 0, &text, &running) != CT_OK);
    ASSERT_HAS("run.json", ct_last_error());
}
