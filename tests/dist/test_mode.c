/* test_mode.c - which choices of how to train go together: the table of
 * docs/reference/combinations.md is what the options say. */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "dist/proof/canonical.h"
#include "dist/mode.h"
#include "testing/files.h"
#include "testing/test.h"

#define PAGE CT_TEST_SOURCE "/docs/reference/combinations.md"

/* A row and column each: how the page calls it, and the fields. */
static const struct choice {
    const char *name, *fields;
} choices[] = {
    { "`--road=ps`", "road: 'ps'" },
    { "`--road=sharded`", "road: 'sharded'" },
    { "`--road=factors`", "road: 'factors'" },
    { "`--sync=ssp`", "sync: 'ssp' staleness: 1" },
    { "`--sync=async`", "sync: 'async'" },
    { "`--sync=local`", "sync: 'local'" },
    { "`--groups`", "groups: 2" },
    { "`--deadline`", "deadline: 1" },
    { "`bf16`, `fp16`, `qsgd`", "compress: 'bf16'" },
    { "`onebit`, `topk`", "compress: 'onebit'" },
    { "`powersgd`", "compress: 'powersgd:4'" },
    { "`--bandwidth`", "bandwidth: '1gbit'" },
    { "`--canonical`", "canonical: true parts: 4" },
    { "`--data=root`", "data: 'root'" },
    { "`--shares`", "shares: 'speed'" },
    { "`--sync_bn`", "sync_bn: true" },
};

enum { N = sizeof(choices) / sizeof(*choices), RANKS = 4 };

/* The name of the first field: two choices of one field exclude each other
 * without a word. */
static bool same_field(const struct choice *a, const struct choice *b)
{
    const size_t n = strcspn(a->fields, ":");

    return strncmp(a->fields, b->fields, n + 1) == 0;
}

static enum ct_status both(const struct choice *a, const struct choice *b)
{
    const char *text = test_format("%s %s", a->fields, b->fields);
    struct dist_canonical canonical = { 0 };
    Caffe__DistributedParameter *o = NULL;
    struct dist_mode mode;
    enum ct_status st;

    ASSERT_OK(ct_text_parse(&caffe__distributed_parameter__descriptor, text,
                            strlen(text), text, &o));
    st = dist_mode_choose(o, RANKS, &mode);
    if (st == CT_OK)
        st = dist_canonical_init(&canonical, o, mode.n_workers);
    ct_message_free(o);
    return st;
}

/* The row of choice i, with what it goes with among those before it. */
static void add_row(struct ct_text *t, int i)
{
    ct_text_addf(t, "| %s |", choices[i].name);
    for (int k = 0; k < i; k++)
        ct_text_addf(t, " %s |",
                     same_field(&choices[i], &choices[k])        ? "-"
                     : both(&choices[i], &choices[k]) == CT_OK ? "yes"
                                                                 : "no");
    for (int k = i; k < N; k++)
        ct_text_addf(t, " |");
}

TEST(mode, the_reference_says_what_goes_together)
{
    size_t n_bytes;
    char *page;

    ASSERT_OK(ct_file_read(PAGE, &page, &n_bytes));
    for (int i = 0; i < N; i++) {
        struct ct_text row = { 0 };

        add_row(&row, i);
        ASSERT(!row.failed);
        ASSERT_HAS(row.s, page);
        ct_text_fini(&row);
    }
    ct_free(page);
}
