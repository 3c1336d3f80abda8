/* test_place.c - hosts, groups and trees, worked out by hand. */
#include "comm/place.h"
#include "testing/test.h"

/* Two hosts of three and two ranks, in no order. */
static const int uneven[] = { 0, 1, 0, 1, 0 };

TEST(place, hosts_are_numbered_by_their_first_ranks)
{
    const int names[] = { 70, -3, 70, 9, -3 }, want[] = { 0, 1, 0, 2, 1 };
    int host[5];

    ct_place_number_hosts(5, names, host);
    for (int r = 0; r < 5; r++)
        ASSERT_INT(want[r], host[r]);
}

TEST(place, a_rank_knows_its_host_and_local_number)
{
    const int even[]  = { 0, 1, 1, 0 };
    struct ct_place p = ct_place(3, 5, uneven);

    ASSERT_INT(2, p.n_hosts);
    ASSERT_INT(1, p.local);
    ASSERT_INT(2, p.n_local);
    ASSERT(!p.even);
    ASSERT_INT(4, ct_place_rank(&p, 0, 2));
    ASSERT_INT(1, ct_place_rank(&p, 1, 0));
    ASSERT(ct_place(1, 4, even).even);
    ASSERT_INT(5, ct_place(2, 5, NULL).n_local);
}

/*  0 - 1, 2 - 3, 4 - 5, 0 - 2, 4 - 6, 0 - 4: seven ranks of one host. */
TEST(place, the_tree_of_one_host_is_binomial)
{
    const int parent[] = { -1, 0, 0, 2, 0, 4, 4 };
    const int n_child[] = { 3, 0, 1, 0, 2, 0, 0 };
    struct ct_tree t;

    for (int r = 0; r < 7; r++) {
        struct ct_place p = ct_place(r, 7, NULL);

        ct_tree_init(&t, &p, 0);
        ASSERT_INT(parent[r], t.parent);
        ASSERT_INT(n_child[r], t.n_child);
    }
}

/* Host 0 has ranks 0 2 4, host 1 ranks 1 3: only 1 - 0 crosses. */
TEST(place, the_tree_meets_on_a_host_first)
{
    const int parent[] = { -1, 0, 0, 1, 0 };
    struct ct_tree t;

    for (int r = 0; r < 5; r++) {
        struct ct_place p = ct_place(r, 5, uneven);

        ct_tree_init(&t, &p, 0);
        ASSERT_INT(parent[r], t.parent);
    }
}

/* Every rank but the root hangs on one that has it as a child, once; all come
 * to the root; and as many links cross hosts as there are other hosts. */
static void check_tree(int size, const int *host, int root)
{
    int parent[32], n_crossing = 0, n_hosts = 1;
    struct ct_tree t;

    for (int r = 0; r < size; r++) {
        struct ct_place p = ct_place(r, size, host);

        n_hosts = p.n_hosts;
        ct_tree_init(&t, &p, root);
        parent[r] = t.parent;
        n_crossing += t.parent >= 0 &&
                      ct_place_host(&p, r) != ct_place_host(&p, t.parent);
    }
    for (int r = 0; r < size; r++) {
        struct ct_place p = ct_place(r, size, host);
        int up = r, hops = 0, n = 0;

        ct_tree_init(&t, &p, root);
        for (int i = 0; i < t.n_child; i++)
            ASSERT_INT(r, parent[t.child[i]]);
        for (int q = 0; q < size; q++)
            n += parent[q] == r;
        ASSERT_INT(n, t.n_child);
        for (; parent[up] >= 0 && hops < size; hops++)
            up = parent[up];
        ASSERT_INT(root, up);
    }
    ASSERT_INT(n_hosts - 1, n_crossing);
}

TEST(place, trees_of_any_root_reach_everybody_with_least_crossings)
{
    int host[32];

    for (int size = 1; size <= 20; size++)
        for (int root = 0; root < size; root++) {
            check_tree(size, NULL, root);
            for (int r = 0; r < size; r++)
                host[r] = r % 3;
            check_tree(size, host, root);
            for (int r = 0; r < size; r++)
                host[r] = r < 5 ? 0 : r < 7 ? 1 : 2;
            check_tree(size, host, root);
        }
}

/* Ranks 0 to 2 have it.  Host 1 has none of them, nor has host 3. */
TEST(place, lines_begin_where_a_rank_has_it_and_go_from_host_to_host)
{
    const int host[]    = { 0, 0, 2, 1, 0, 2, 1, 3 };
    const int parent[]  = { -1, -1, -1, 0, 0, 2, 3, 6 };
    const int n_child[] = { 2, 0, 1, 1, 0, 0, 1, 0 };
    struct ct_tree t;

    for (int r = 0; r < 8; r++) {
        struct ct_place p = ct_place(r, 8, host);

        ct_tree_init_lines(&t, &p, 3);
        ASSERT_INT(parent[r], t.parent);
        ASSERT_INT(n_child[r], t.n_child);
    }
}

/* Who lacks it hangs on one that has it as a child, once, and comes to one that
 * had it; hosts that had none are entered once, the others never. */
static void check_lines(int size, const int *host, int n_have)
{
    int parent[32], entered[32] = { 0 };
    bool has[32] = { false };
    struct ct_tree t;

    for (int r = 0; r < size; r++) {
        struct ct_place p = ct_place(r, size, host);
        const int here    = ct_place_host(&p, r);

        ct_tree_init_lines(&t, &p, n_have);
        parent[r] = t.parent;
        ASSERT_INT(r >= n_have, t.parent >= 0);
        ASSERT(t.n_child <= 2);
        has[here] |= r < n_have;
        entered[here] += t.parent >= 0 && ct_place_host(&p, t.parent) != here;
    }
    for (int r = 0; r < size; r++) {
        struct ct_place p = ct_place(r, size, host);
        int up = r, hops = 0;

        ct_tree_init_lines(&t, &p, n_have);
        for (int i = 0; i < t.n_child; i++)
            ASSERT_INT(r, parent[t.child[i]]);
        for (; parent[up] >= 0 && hops < size; hops++)
            up = parent[up];
        ASSERT(up < n_have);
        ASSERT_INT(!has[ct_place_host(&p, r)], entered[ct_place_host(&p, r)]);
    }
}

TEST(place, lines_reach_everybody_and_enter_each_host_once)
{
    int host[32];

    for (int size = 1; size <= 20; size++)
        for (int n_have = 1; n_have <= size; n_have++) {
            check_lines(size, NULL, n_have);
            for (int r = 0; r < size; r++)
                host[r] = r % 3;
            check_lines(size, host, n_have);
            for (int r = 0; r < size; r++)
                host[r] = r < 5 ? 0 : r < 7 ? 1 : 2;
            check_lines(size, host, n_have);
            for (int r = 0; r < size; r++)
                host[r] = r / 2;
            check_lines(size, host, n_have);
        }
}
