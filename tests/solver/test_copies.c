/* test_copies.c - updates that lead into another copy of all arrays do what
 * updates in place do, bit for bit. */
#include <string.h>

#include "base/rng.h"
#include "core/buffer.h"
#include "net/arena.h"
#include "solver/solver_inner.h"
#include "solver_test.h"

/* w is frozen, v is not. */
#define TWO_WEIGHTS                                                          \
    "net_param { layer { name: 'd' type: 'DummyData' top: 'x' top: 't' "     \
    "  dummy_data_param { shape { dim: 1 dim: 51 } "                         \
    "  shape { dim: 1 dim: 71 } } }"                                         \
    "layer { name: 'w' type: 'InnerProduct' bottom: 'x' top: 'y' "           \
    "  param { lr_mult: 0 } inner_product_param { num_output: 61 "           \
    "  bias_term: false } }"                                                 \
    "layer { name: 'v' type: 'InnerProduct' bottom: 'y' top: 'z' "           \
    "  inner_product_param { num_output: 71 } }"                             \
    "layer { name: 'l' type: 'EuclideanLoss' bottom: 'z' bottom: 't' "       \
    "  top: 'loss' } } base_lr: 0.1 weight_decay: 0.01 lr_policy: 'fixed' "  \
    "snapshot_after_train: false "

enum { MOST = 1 << 14, ARRAYS = 3 };

struct arrays {
    float x[ARRAYS][MOST];
};

static struct arrays before, in_place, copy;
static float gradient[MOST];

/* Histories are positive: some rules take their roots. */
static void fill(size_t n)
{
    ASSERT(n <= MOST);
    for (size_t i = 0; i < n; i++) {
        const struct ct_philox r = ct_philox(7, 0, i);

        gradient[i] = (float)r.v[0] / (float)(1u << 31) - 1;
        for (int a = 0; a < ARRAYS; a++)
            before.x[a][i] = (float)r.v[1 + a] / (float)(1u << 31) - (a == 0);
    }
}

/* Updates floats [first, first + n) in place and into `copy`, which has
 * something else before, and compares: the range, and that nothing else was
 * touched. */
static void agree(const struct ct_solver *s, size_t first, size_t n)
{
    const size_t all                = ct_net_arena_count(s->net);
    const struct solver_update with = solver_update_at(s, 0.1f);
    float *const history[]          = { in_place.x[1], in_place.x[2] };
    struct ct_update_range r        = { .first = first, .n = n, .share = 1,
                                        .scale = 0.5f, .sum = gradient };
    struct solver_copies c;

    memcpy(&in_place, &before, sizeof(before));
    memset(&copy, 0x5a, sizeof(copy));
    for (int i = 0; i < ARRAYS; i++) {
        c.from[i] = before.x[i];
        c.to[i]   = copy.x[i];
    }
    solver_apply_to(s, &with, &c, &r);
    r.value = in_place.x[0] + first;
    solver_apply(s, &with, history, &r);
    for (int i = 0; i <= s->rule->n_history; i++) {
        const float *got = copy.x[i], *want = in_place.x[i];

        ASSERT(memcmp(got + first, want + first, n * sizeof(*got)) == 0);
        for (size_t k = 0; k < all; k++)
            if (k < first || k >= first + n)
                ASSERT(memcmp(&got[k], "ZZZZ", 4) == 0);
    }
}

static const char *const rules[] = {
    "type: 'SGD' momentum: 0.5", "type: 'Nesterov' momentum: 0.5",
    "type: 'AdaGrad'", "type: 'RMSProp' rms_decay: 0.75",
    "type: 'AdaDelta' momentum: 0.75 delta: 1e-3", "type: 'Adam' momentum: 0.5",
    "type: 'AdamW' momentum: 0.5" };

TEST(copies, another_copy_gets_the_bits_of_an_update_in_place)
{
    char text[2048];

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct ct_net_param *v;
        const struct ct_solver *s;

        snprintf(text, sizeof(text), TWO_WEIGHTS "%s", rules[i]);
        s = solver_of(text);
        v = ct_net_param(s->net, 1);
        fill(ct_net_arena_count(s->net));
        agree(s, 0, ct_net_arena_count(s->net));
        agree(s, v->offset, (size_t)v->blob->count);
        agree(s, v->offset + 5, 3000);
        agree(s, v->offset + 7, 3);
        agree(s, ct_net_param(s->net, 0)->offset + 1, 2000);
    }
}
