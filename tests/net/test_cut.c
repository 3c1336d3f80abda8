/* test_cut.c - the arena in runs: whatever the policy and the net, runs cover
 * what they are to cover, in order, and keep to the policy. */
#include <stdint.h>
#include <stdio.h>

#include "base/rng.h"
#include "net/arena.h"
#include "net/cut.h"
#include "net_test.h"

enum { ROUNDS = 300, MOST_LAYERS = 8 };

static size_t draw(uint64_t *n)
{
    return ct_philox_word(5, 0, (*n)++);
}

/* Inner products of odd sizes, some without a bias. */
static struct ct_net *some_net(uint64_t *r)
{
    const int n = 1 + (int)(draw(r) % MOST_LAYERS);
    char text[4096];
    int at = snprintf(text, sizeof(text),
                      "layer { name: 'in' type: 'Input' top: 't0' "
                      "input_param { shape { dim: 2 dim: 7 } } }");

    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at,
                       "layer { name: 'l%d' type: 'InnerProduct' bottom: 't%d'"
                       " top: 't%d' inner_product_param { num_output: %d "
                       "bias_term: %s } }", i, i, i + 1,
                       1 + (int)(draw(r) % 40),
                       draw(r) % 3 ? "true" : "false");
    return net_with(text, CAFFE__PHASE__TRAIN, (struct ct_net_options){ 0 });
}

static struct ct_cut_policy some_policy(uint64_t *r, int *apart, int n)
{
    struct ct_cut_policy y = {
        .begin        = draw(r) % 2 ? CT_ARENA_RIDERS : 0,
        .first        = draw(r) % 300,
        .least        = draw(r) % 700,
        .last         = draw(r) % 2 ? draw(r) % 200 : 0,
        .most         = draw(r) % 2 ? 1 + draw(r) % 300 : 0,
        .whole_layers = draw(r) % 2,
        .apart        = draw(r) % 2 ? apart : NULL,
    };

    for (int i = 0; i < n; i++)
        apart[i] = draw(r) % 4 ? -1 : 0;
    if (y.most)
        y.whole_layers = false;
    return y;
}

static bool is_apart(const struct ct_cut_policy *y, int i)
{
    return y->apart && y->apart[i] >= 0;
}

/* Runs ascend; between them lies nothing but what is apart. */
static void check_cover(const struct ct_cut *c, const struct ct_net *net,
                        const struct ct_cut_policy *y)
{
    size_t at = y->begin, gap = 0, left_out = 0;

    for (int i = 0; i < c->n; i++) {
        ASSERT(c->run[i].n > 0 && c->run[i].first >= at);
        ASSERT(!y->most || c->run[i].n <= y->most ||
               c->run[i].end - c->run[i].begin <= 1);
        gap += c->run[i].first - at;
        at = c->run[i].first + c->run[i].n;
    }
    gap += ct_net_arena_count(net) - at;
    for (int k = 0; k < ct_net_n_params(net); k++)
        if (is_apart(y, c->order[k]))
            left_out += ct_cut_end(c, net, k) -
                        ct_net_param(net, c->order[k])->offset;
    ASSERT_INT((long)left_out, (long)gap);
}

static void check_params(const struct ct_cut *c, const struct ct_net *net,
                         const struct ct_cut_policy *y)
{
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);
        const size_t end             = p->offset + (size_t)p->blob->count;
        const int g                  = c->of_param[i];

        if (is_apart(y, i)) {
            ASSERT_INT(-1, g);
            continue;
        }
        ASSERT(g >= 0 && g < c->n && c->run[g].first <= p->offset);
        for (int k = g; k < c->n && c->run[k].first < end; k++)
            ASSERT(c->run[k].layer <= p->layer); /* complete behind it */
        ASSERT(y->most || c->run[g].first + c->run[g].n >= end);
    }
}

TEST(cut, runs_cover_the_arena_and_keep_to_the_policy)
{
    uint64_t r = 0;

    for (int round = 0; round < ROUNDS; round++) {
        struct ct_net *net = some_net(&r);
        int apart[2 * MOST_LAYERS];
        const struct ct_cut_policy y =
            some_policy(&r, apart, ct_net_n_params(net));
        struct ct_cut c;

        ASSERT_OK(ct_cut_init(&c, net, &y));
        check_cover(&c, net, &y);
        check_params(&c, net, &y);
        ct_cut_fini(&c);
    }
}

static struct ct_net *two_layers(void)
{
    return net_with("layer { name: 'in' type: 'Input' top: 'a' "
                    "input_param { shape { dim: 2 dim: 16 } } }"
                    "layer { name: 'p' type: 'InnerProduct' bottom: 'a' "
                    "top: 'b' inner_product_param { num_output: 32 } }"
                    "layer { name: 'q' type: 'InnerProduct' bottom: 'b' "
                    "top: 'c' inner_product_param { num_output: 16 } }",
                    CAFFE__PHASE__TRAIN, (struct ct_net_options){ 0 });
}

TEST(cut, small_neighbours_share_a_run_and_long_ones_are_cut_evenly)
{
    const struct ct_cut_policy y = { .first = SIZE_MAX, .least = SIZE_MAX,
                                     .most = 200 };
    struct ct_net *net = two_layers();
    struct ct_cut c;

    ASSERT_OK(ct_cut_init(&c, net, &y));
    /* Weights of 512 floats are cut in 3; biases are runs beside them. */
    for (int i = 0; i < c.n; i++)
        ASSERT(c.run[i].n <= 200);
    ASSERT_INT(8, c.n);
    ct_cut_fini(&c);
}

TEST(cut, a_layer_stays_whole_and_the_last_run_small)
{
    const struct ct_cut_policy layers = { .whole_layers = true };
    const struct ct_cut_policy tail = { .first = SIZE_MAX, .least = SIZE_MAX,
                                        .last = 600 };
    struct ct_net *net = two_layers();
    struct ct_cut c;

    ASSERT_OK(ct_cut_init(&c, net, &layers));
    ASSERT_INT(2, c.n);
    ASSERT_INT(2, c.run[0].layer);
    ASSERT_INT(1, c.run[1].layer);
    ct_cut_fini(&c);
    ASSERT_OK(ct_cut_init(&c, net, &tail));
    ASSERT_INT(2, c.n);
    ASSERT(c.run[1].n <= 600);
    ct_cut_fini(&c);
}
