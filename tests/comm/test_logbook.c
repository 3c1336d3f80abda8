/* test_logbook.c - the ring of a rank's last collectives. */
#include "comm/logbook.h"
#include "testing/test.h"

static struct ct_logbook book; /* too big for a stack */

static struct ct_logbook *fresh(void)
{
    memset(&book, 0, sizeof(book));
    return &book;
}

TEST(logbook, an_entry_is_begun_until_it_ends)
{
    struct ct_logbook *b = fresh();
    struct ct_logbook_entry e;
    uint64_t n = ct_logbook_begin(b, 7, 12, "sum ring", 4096, "conv1");

    ASSERT_INT(1, n);
    ASSERT(ct_logbook_read(b, n, &e));
    ASSERT_INT(7, e.channel);
    ASSERT_INT(12, e.sequence);
    ASSERT_INT(4096, e.bytes);
    ASSERT_STR("sum ring", e.what);
    ASSERT_STR("conv1", e.label);
    ASSERT_INT(CT_LOGBOOK_BEGUN, e.state);
    ASSERT(e.begun > 0 && e.ended == 0);
    ct_logbook_end(b, n, CT_OK);
    ASSERT(ct_logbook_read(b, n, &e));
    ASSERT_INT(CT_LOGBOOK_DONE, e.state);
    ASSERT(e.ended >= e.begun);
    n = ct_logbook_begin(b, 7, 13, "barrier", 0, NULL);
    ct_logbook_end(b, n, CT_ECOMM);
    ASSERT(ct_logbook_read(b, n, &e));
    ASSERT_INT(CT_LOGBOOK_FAILED, e.state);
    ASSERT_STR("", e.label);
}

TEST(logbook, the_ring_keeps_the_latest)
{
    struct ct_logbook *b = fresh();
    struct ct_logbook_entry e;
    const int n = CT_LOGBOOK_ENTRIES + 3;

    for (int i = 1; i <= n; i++)
        ASSERT_INT(i, ct_logbook_begin(b, 1, (uint64_t)i, "sum", 0, NULL));
    for (int i = 1; i <= n; i++)
        ASSERT_INT(i > 3, ct_logbook_read(b, (uint64_t)i, &e));
    ASSERT_INT(n, e.sequence);
    /* The end of one that is gone is not put down to who took its place. */
    ct_logbook_end(b, 1, CT_OK);
    ASSERT(ct_logbook_read(b, CT_LOGBOOK_ENTRIES + 1, &e));
    ASSERT_INT(CT_LOGBOOK_BEGUN, e.state);
    ASSERT(!ct_logbook_read(b, 0, &e));
}

TEST(logbook, long_words_are_cut)
{
    struct ct_logbook *b = fresh();
    struct ct_logbook_entry e;

    ct_logbook_begin(b, 1, 1, "0123456789012345678901234567890", 0,
                     "01234567890123456789012345678901234567890123456789");
    ASSERT(ct_logbook_read(b, 1, &e));
    ASSERT_STR("012345678901234567890123", e.what);
    ASSERT_STR("0123456789012345678901234567890123456789", e.label);
}

TEST(logbook, a_pen_has_one_entry_open)
{
    struct ct_logbook_pen pen = { .book = fresh(), .label = "ip1" };
    struct ct_logbook_entry e;

    ct_logbook_pen_begin(&pen, 1, 1, "sum", 0);
    ct_logbook_pen_begin(&pen, 2, 1, "barrier", 0);
    ASSERT(ct_logbook_read(&book, 1, &e));
    ASSERT_INT(CT_LOGBOOK_DONE, e.state);
    ASSERT_STR("ip1", e.label);
    ASSERT(ct_logbook_read(&book, 2, &e));
    ASSERT_INT(CT_LOGBOOK_BEGUN, e.state);
    ct_logbook_pen_end(&pen, CT_ECOMM);
    ASSERT(ct_logbook_read(&book, 2, &e));
    ASSERT_INT(CT_LOGBOOK_FAILED, e.state);
}

TEST(logbook, without_a_book_nothing_happens)
{
    ASSERT_INT(0, ct_logbook_begin(NULL, 1, 1, "sum", 0, NULL));
    ct_logbook_end(NULL, 1, CT_OK);
}
