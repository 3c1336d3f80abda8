/* test_block.c - records that rank 0 sends, and bytes that are none. */
#include "base/mem.h"
#include "data/feed.h"
#include "dist/feed/block.h"
#include "testing/test.h"

enum { HEAD = 24, AT_KEY = 16, AT_VALUE = 20 };

static void two_records(struct dist_block *b)
{
    struct ct_record r = { .place = { 2, 7 }, .key = { "ab", 2 },
                           .value = { "xyz", 3 } };

    ASSERT_OK(dist_block_add(b, &r));
    r.place.index = 8;
    r.value       = (struct ct_bytes){ "w", 1 };
    ASSERT_OK(dist_block_add(b, &r));
}

TEST(block, records_come_out_as_they_went_in)
{
    struct dist_block b = { 0 };
    struct ct_record r  = { 0 };
    size_t at           = 0;

    two_records(&b);
    ASSERT_INT(2 * HEAD + 8, (long)b.bytes);
    ASSERT_OK(dist_block_next(&b, &at, &r));
    ASSERT_INT(2, (long)r.place.epoch);
    ASSERT_INT(7, (long)r.place.index);
    ASSERT_INT(3, (long)r.value.n);
    ASSERT(memcmp(r.key.ptr, "ab", 2) == 0);
    ASSERT(memcmp(r.value.ptr, "xyz", 3) == 0);
    ASSERT_OK(dist_block_next(&b, &at, &r));
    ASSERT_INT(8, (long)r.place.index);
    ASSERT(memcmp(r.value.ptr, "w", 1) == 0);
    ASSERT_STATUS(CT_ECOMM, dist_block_next(&b, &at, &r));
    dist_block_fini(&b);
}

static void refuse(size_t at_length, uint32_t length)
{
    struct dist_block b = { 0 };
    struct ct_record r  = { 0 };
    size_t at           = HEAD + 5;

    two_records(&b);
    memcpy(b.data + at + at_length, &length, sizeof(length));
    ASSERT_STATUS(CT_ECOMM, dist_block_next(&b, &at, &r));
    ASSERT_HAS("at byte 29 of 56", ct_last_error());
    dist_block_fini(&b);
}

TEST(block, lengths_beyond_its_end_are_an_error)
{
    refuse(AT_KEY, 4); /* one more than is left */
    refuse(AT_VALUE, 2);
    refuse(AT_KEY, UINT32_MAX);
    refuse(AT_VALUE, UINT32_MAX);
}

TEST(block, lengths_that_overflow_are_an_error)
{
    struct dist_block b = { 0 };

    ASSERT_STATUS(CT_ECOMM, dist_block_grow(&b, UINT64_MAX));
    dist_block_fini(&b);
}
