/* test_autopsy.c - records of ranks, written by hand, put into words. */
#include "base/file.h"
#include "base/text.h"
#include "observe/autopsy.h"
#include "testing/test.h"

static void drop(void *arg)
{
    ct_text_fini(arg);
}

static void record(int rank, int ranks, const char *why, const char *entries)
{
    char path[600], text[2000];

    snprintf(path, sizeof(path), "%s/rank-%d.txt", test_folder(), rank);
    snprintf(text, sizeof(text),
             "cortado autopsy\t1\nrank\t%d\nranks\t%d\npid\t%d\nhost\tnode\n"
             "why\t%s\ntime\t1000.5\nwhere\titeration 9, backward of layer "
             "conv1\nmoved_ago\t3.5\nbeat_ago\t0.1\nwaiting\t3.25\n"
             "waiting_for\t1\n%s", rank, ranks, 100 + rank, why, entries);
    ASSERT_OK(ct_file_write(path, text, strlen(text)));
}

/* Without its line breaks. */
static const char *say(void)
{
    static struct ct_text text;

    text = (struct ct_text){ 0 };
    test_defer(drop, &text);
    ASSERT_OK(ct_autopsy(test_folder(), &text));
    for (char *s = text.s; *s; s++)
        *s = *s == '\n' ? ' ' : *s;
    return text.s;
}

#define SUM(number, of, state)                                               \
    "entry\t2\t" #number "\tsum ring\t4096\t" of "\t" state                  \
    "\t3.500000\t0.250000\n"

TEST(autopsy, who_did_not_come_is_named)
{
    const char *said;

    record(0, 3, "stalled", SUM(7, "conv2", "done") SUM(8, "conv1", "begun"));
    record(1, 3, "no sign", SUM(6, "ip1", "done") SUM(7, "conv2", "done"));
    record(2, 3, "stalled", SUM(7, "conv2", "done") SUM(8, "conv1", "begun"));
    said = say();
    ASSERT_HAS("3 rank(s), 3 record(s).", said);
    ASSERT_HAS("The record of ranks 0 and 2 says: stalled.", said);
    ASSERT_HAS("The record of rank 1 says: no sign.", said);
    ASSERT_HAS("The last thing that all of them completed is \"sum ring\" "
               "number 7 for conv2 (4096 bytes)", said);
    ASSERT_HAS("Ranks 0 and 2 began \"sum ring\" number 8 for conv1 (4096 "
               "bytes), which did not end. NOT COME: rank 1.", said);
    ASSERT_HAS("All ranks called the same things", said);
    ASSERT_HAS("Rank 1 (pid 101 on node) was in iteration 9, backward of "
               "layer conv1, for 3.5 s; its last collective was \"sum ring\" "
               "number 7 for conv2 (4096 bytes), done after 0.250 s", said);
    ASSERT_HAS("it had waited 3.2 s for rank 1", said);
}

static void check_newest_view(const char *old_time)
{
    char old[200];
    const char *said;

    snprintf(old, sizeof(old), "view\t6\ntime\t%s\n" SUM(3, "c", "begun"),
             old_time);
    record(0, 2, "stalled", "view\t7\ntime\t1002\n" SUM(8, "a", "begun"));
    record(1, 2, "silent", "view\t7\ntime\t1001\n" SUM(7, "b", "done"));
    record(2, 3, "long ago", old);
    said = say();
    ASSERT_HAS("View 7: 2 rank(s), 2 record(s). 1 record(s) of other views "
               "are left out. ", said);
    ASSERT_HAS("NOT COME: rank 1.", said);
    ASSERT(!strstr(said, "long ago"));
}

TEST(autopsy, of_ranks_that_come_and_go_the_newest_view_counts)
{
    check_newest_view("1000");
}

TEST(autopsy, who_writes_of_an_earlier_view_after_that_does_not_count)
{
    check_newest_view("1009");
}

TEST(autopsy, the_first_that_somebody_missed_counts)
{
    const char *said;

    /* Several are open at once, as in shared memory. */
    record(0, 2, "a", SUM(4, "x", "begun") SUM(5, "y", "begun")
                          SUM(6, "z", "begun"));
    record(1, 2, "a", SUM(4, "x", "begun"));
    said = say();
    ASSERT_HAS("Rank 0 began \"sum ring\" number 5 for y", said);
    ASSERT_HAS("NOT COME: rank 1.", said);
}

TEST(autopsy, who_waits_for_others_is_not_to_blame)
{
    char path[600], text[400];

    record(0, 3, "a", SUM(4, "x", "begun")); /* waits for rank 1 */
    record(2, 3, "a", SUM(4, "x", "begun") SUM(5, "y", "begun"));
    snprintf(path, sizeof(path), "%s/rank-1.txt", test_folder());
    snprintf(text, sizeof(text), "cortado autopsy\t1\nrank\t1\nranks\t3\n"
             "pid\t1\n" SUM(4, "x", "begun"));
    ASSERT_OK(ct_file_write(path, text, strlen(text)));
    ASSERT_HAS("NOT COME: rank 1.", say());
}

TEST(autopsy, different_calls_are_told_apart)
{
    const char *said;

    record(0, 3, "a", SUM(8, "conv1", "begun"));
    record(1, 3, "a", "entry\t2\t8\tbroadcast\t8\t-\tbegun\t1.0\t1.0\n");
    record(2, 3, "a", SUM(8, "conv1", "begun"));
    said = say();
    ASSERT_HAS("RANKS CALLED DIFFERENT THINGS: as collective 8 of one "
               "channel, ranks 0 and 2 called \"sum ring\" number 8 for conv1 "
               "(4096 bytes); rank 1 called \"broadcast\" number 8 (8 bytes).",
               said);
    ASSERT(!strstr(said, "same things"));
    ASSERT(!strstr(said, "did not end")); /* nobody could end that */
}

TEST(autopsy, numbers_of_other_channels_are_not_compared)
{
    const char *said;

    record(0, 2, "a", "entry\t1\t8\tbroadcast\t8\t-\tdone\t9.0\t1.0\n"
                      SUM(8, "conv1", "done"));
    record(1, 2, "a", "entry\t1\t8\tbroadcast\t8\t-\tdone\t9.0\t1.0\n"
                      SUM(8, "conv1", "done"));
    said = say();
    ASSERT_HAS("All ranks called the same things", said);
    ASSERT(!strstr(said, "did not end"));
}

TEST(autopsy, ranks_without_a_record_are_counted)
{
    const char *said;

    record(0, 9, "a", SUM(8, "conv1", "begun"));
    record(3, 9, "a", SUM(8, "conv1", "begun"));
    said = say();
    ASSERT_HAS("9 rank(s), 2 record(s). No record of ranks 1, 2 and 4 to 8",
               said);
    ASSERT_HAS("Everyone with a record came to it.", said);
}

TEST(autopsy, a_folder_without_records_and_a_damaged_one_are_refused)
{
    static struct ct_text text;
    char path[600];

    text = (struct ct_text){ 0 };
    test_defer(drop, &text);
    ASSERT_STATUS(CT_ENOTFOUND, ct_autopsy("/no/such/folder", &text));
    ASSERT_STATUS(CT_ENOTFOUND, ct_autopsy(test_folder(), &text));
    ASSERT_HAS("SIGUSR2", ct_last_error());
    snprintf(path, sizeof(path), "%s/rank-0.txt", test_folder());
    ASSERT_OK(ct_file_write(path, "hello\nyou\nthere\n", 16));
    ASSERT_STATUS(CT_EPARSE, ct_autopsy(test_folder(), &text));
    ASSERT_HAS("rank-0.txt:1", ct_last_error());
    record(0, 2, "a", "entry\t2\t8\n");
    ASSERT_STATUS(CT_EPARSE, ct_autopsy(test_folder(), &text));
    ASSERT_HAS("rank-0.txt:13", ct_last_error());
}
