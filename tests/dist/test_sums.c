/* test_sums.c - a loss that is a sum over samples is 1/P of it on P ranks, and
 * the log says so. */
#include "cortado/log.h"
#include "dist/ranks.h"

static char noted[8192];

static void note(enum ct_log_level level, const char *line, void *arg)
{
    const size_t used = strlen(noted);

    (void)arg;
    if (level == CT_LOG_WARNING)
        snprintf(noted + used, sizeof(noted) - used, "%s", line);
}

static void train(int n, const char *layers)
{
    struct rank *r;

    noted[0] = '\0';
    ranks_make_data();
    ranks_insert(layers);
    ct_log_set_sink(note, NULL);
    ct_log_set_level(CT_LOG_WARNING);
    r = ranks_train(n, "base_lr: 0", "", 0);
    ct_log_set_level(CT_LOG_NONE);
    ct_log_set_sink(NULL, NULL);
    if (r->st != CT_OK)
        FAIL("%s", r->why);
}

#define TOTAL "layer { name: 'total' type: 'Reduction' bottom: 'x' " \
              "top: 'total' loss_weight: 0.001 "

TEST(sums, a_sum_is_named_once_with_its_factor)
{
    const char *first;

    train(4, TOTAL "}");
    first = strstr(noted, "The loss of layer total is a sum");
    ASSERT(first);
    ASSERT_HAS("1/4 of what one", noted);
    ASSERT(!strstr(first + 1, "The loss of layer total"));
}

TEST(sums, a_mean_and_one_rank_are_no_matter)
{
    train(4, TOTAL "reduction_param { operation: MEAN } }");
    ASSERT(!strstr(noted, "is a sum"));
    train(1, TOTAL "}");
    ASSERT(!strstr(noted, "is a sum"));
    train(4, "layer { name: 'total' type: 'Reduction' bottom: 'x' "
             "top: 'total' } layer { name: 's' type: 'Silence' "
             "bottom: 'total' }");
    ASSERT(!strstr(noted, "is a sum"));
}
