/* test_product_cut.c - how a small matrix product on a GPU is cut
 * (product_cut.h): nothing is left out, and nothing is done twice. */
#include <stdint.h>
#include <string.h>

#include "device/cuda/product_cut.h"
#include "testing/test.h"

static const int shares[] = { 1, 2, 4, 8 };
enum { N_SHARES = sizeof(shares) / sizeof(shares[0]) };

/* Of lines that are rows, or steps of k. */
static void brings(int tile, bool by_rows)
{
    const int wide  = by_rows ? tile : CT_PRODUCT_DEEP;
    const int lines = by_rows ? CT_PRODUCT_DEEP : tile;
    const int each  = tile * CT_PRODUCT_DEEP / 32;
    unsigned char seen[CT_PRODUCT_N][CT_PRODUCT_N];

    memset(seen, 0, sizeof(seen));
    for (int lane = 0; lane < 32; lane++) {
        const struct ct_product_place p =
            ct_product_place_of(tile, by_rows, lane);

        for (int r = 0; r < each; r++) {
            const int line = p.line + r * p.step;

            ASSERT(line >= 0 && line < lines && p.at >= 0 && p.at < wide);
            seen[line][p.at]++;
        }
    }
    for (int line = 0; line < lines; line++)
        for (int at = 0; at < wide; at++)
            ASSERT_INT(1, seen[line][at]);
}

TEST(product_cut, lanes_bring_every_value_of_a_tile_once)
{
    for (int rows = 0; rows < 2; rows++) {
        brings(CT_PRODUCT_M, rows);
        brings(CT_PRODUCT_N, rows);
    }
}

TEST(product_cut, warps_share_out_all_of_k)
{
    for (int s = 0; s < N_SHARES; s++)
        for (int k = 1; k < 700; k++) {
            int next = 0;

            for (int w = 0; w < CT_PRODUCT_WARPS * shares[s]; w++) {
                const struct ct_product_run r =
                    ct_product_steps(k, shares[s], w);

                if (r.from >= r.to)
                    continue;
                ASSERT_INT(next, r.from);
                next = r.to;
            }
            ASSERT_INT(k, next);
        }
}

/* The largest k that product.cu takes. */
TEST(product_cut, sums_of_2_to_the_30_products_have_no_run_that_overflows)
{
    enum { MOST = INT32_MAX / 2 };

    for (int s = 0; s < N_SHARES; s++)
        for (int w = 0; w < CT_PRODUCT_WARPS * shares[s]; w++) {
            const struct ct_product_run r =
                ct_product_steps(MOST, shares[s], w);

            ASSERT(r.from >= 0 && r.to <= MOST && r.to >= r.from);
            ASSERT(w > 0 || r.from == 0);
        }
}

TEST(product_cut, blocks_that_share_a_tile_store_every_value_once)
{
    for (int s = 0; s < N_SHARES; s++) {
        int next = 0;

        for (int rank = 0; rank < shares[s]; rank++) {
            const struct ct_product_run r = ct_product_part(shares[s], rank);

            ASSERT_INT(next, r.from);
            ASSERT(r.to > r.from);
            next = r.to;
        }
        ASSERT_INT(CT_PRODUCT_TILE, next);
    }
}
