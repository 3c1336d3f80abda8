/* test_pick.c - which GPU a rank takes, from --gpu and its number on its
 * host. */
#include "device/pick.h"
#include "testing/test.h"

TEST(pick, ranks_take_all_gpus_in_turn)
{
    int id = -1, n = -1;

    for (int local = 0; local < 7; local++) {
        ASSERT_OK(ct_gpu_pick("all", 3, local, &id, &n));
        ASSERT_INT(local % 3, id);
        ASSERT_INT(3, n);
    }
}

TEST(pick, a_list_restricts_them_and_may_repeat_one)
{
    static const int wanted[] = { 2, 0, 2, 0 };
    int id = -1, n = -1;

    for (int local = 0; local < 4; local++) {
        ASSERT_OK(ct_gpu_pick("2,0", 4, local, &id, &n));
        ASSERT_INT(wanted[local], id);
        ASSERT_INT(2, n);
    }
    ASSERT_OK(ct_gpu_pick("1,1", 2, 1, &id, &n));
    ASSERT_INT(1, id);
    ASSERT_INT(2, n);
}

TEST(pick, what_is_no_list_is_refused)
{
    static const char *const wrong[] = { "one", "0;1", "0,-1", "0,,1", "1x" };
    int id, n;

    for (int i = 0; i < 5; i++) {
        ASSERT_STATUS(CT_EINVAL, ct_gpu_pick(wrong[i], 2, 0, &id, &n));
        ASSERT_HAS(wrong[i], ct_last_error());
    }
}

TEST(pick, without_a_gpu_it_says_so)
{
    int id, n;

    ASSERT_STATUS(CT_ENOTFOUND, ct_gpu_pick("all", 0, 0, &id, &n));
    ASSERT_STATUS(CT_ENOTFOUND, ct_gpu_pick("0", 0, 0, &id, &n));
    ASSERT_HAS("leave the flag out", ct_last_error());
}
