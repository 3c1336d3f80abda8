/* test_rest.c - parameters that rest in tiles while a solver trains become
 * what they become in Caffe's order, and that is what everybody sees. */
#include <stdlib.h>

#include "device/layout.h"
#include "solver_test.h"

#define CONV(name, bottom, words)                                            \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { " words " "                       \
    "  weight_filler { type: 'xavier' } bias_filler { value: 0.1 } } }"
#define NET                                                                  \
    "net_param { layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' "     \
    "  include { phase: TRAIN } "                                            \
    "  dummy_data_param { shape { dim: 3 dim: 16 dim: 7 dim: 7 } "           \
    "  shape { dim: 3 } data_filler { type: 'gaussian' } "                   \
    "  data_filler { value: 1 } } }"                                         \
    "layer { name: 'x' type: 'DummyData' top: 'x' top: 'y' "                 \
    "  include { phase: TEST } "                                             \
    "  dummy_data_param { shape { dim: 2 dim: 16 dim: 7 dim: 7 } "           \
    "  shape { dim: 2 } data_filler { value: 0.3 } "                         \
    "  data_filler { value: 2 } } }"                                         \
    CONV("a", "x", "num_output: 32 kernel_size: 3 pad: 1")                   \
    "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }"                  \
    CONV("b", "a", "num_output: 48 kernel_size: 1 stride: 2")                \
    CONV("c", "b", "num_output: 16 kernel_size: 2")                          \
    CONV("d", "c", "num_output: 5 kernel_size: 1")                           \
    "layer { name: 'f' type: 'InnerProduct' bottom: 'd' top: 'f' "           \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'f' bottom: 'y' "     \
    "  top: 'l' } } max_iter: 99 random_seed: 3 snapshot_after_train: false "

static bool rests(void)
{
#ifdef CT_HAVE_ONEDNN
    return ct_layout_blocked() == CT_BLOCKED16 &&
           test_device()->kind == CT_CPU;
#else
    return false;
#endif
}

/* What a caller sees in the middle of a run. */
struct middle {
    struct ct_solver *solver;
    int               iter;
    bool              tiles;
    float             w[48 * 32], dw[48 * 32];
};

static const struct ct_blob *weights(const struct ct_solver *s,
                                     const char *layer)
{
    struct ct_net *net = ct_solver_net(s);

    return ct_net_layer(net, ct_net_find_layer(net, layer))->blob[0];
}

static void look(const struct ct_iteration *e, void *arg)
{
    struct middle *m = arg;
    const struct ct_blob *b;

    if (e->iter + 1 != m->iter)
        return;
    b        = weights(m->solver, "b");
    m->tiles = b->data.layout == CT_TILES16;
    ASSERT_OK(ct_blob_get(b, false, m->w));
    ASSERT_OK(ct_blob_get(b, true, m->dw));
}

static const struct ct_solver_events events = { .iteration = look };

static struct ct_solver *solver(const char *words, const char *impl,
                                struct middle *m)
{
    struct ct_solver_options o = { .device = test_device() };
    Caffe__SolverParameter *p  = NULL;
    struct ct_solver *s;
    char text[8192];

    snprintf(text, sizeof(text), NET "%s", words);
    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_upgrade_solver(p, "test.prototxt"));
    setenv("CORTADO_IMPL", impl, 1);
    ASSERT_OK(ct_solver_create(p, &o, &s));
    unsetenv("CORTADO_IMPL");
    ct_message_free(p);
    test_defer(solver_test_free, s);
    if (m) {
        m->solver = s;
        ASSERT_OK(ct_solver_listen(s, &events, m));
    }
    return s;
}

static void same(const char *what, const float *want, const float *got,
                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(want[i] - got[i]) <= 2e-5f))
            FAIL("%s: value %zu is %.9g, wanted %.9g", what, i,
                 (double)got[i], (double)want[i]);
}

static void same_nets(struct ct_solver *want, struct ct_solver *got)
{
    struct ct_net *a = ct_solver_net(want), *b = ct_solver_net(got);

    ASSERT_INT(CT_PLAIN, weights(got, "a")->data.layout);
    ASSERT_INT(CT_PLAIN, weights(got, "a")->diff.layout);
    same("parameters", ct_net_arena_data(a), ct_net_arena_data(b),
         ct_net_arena_count(a));
    same("gradients", ct_net_arena_diff(a), ct_net_arena_diff(b),
         ct_net_arena_count(a));
}

static const char *const sgd =
    "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01 ";

static void check(const char *words)
{
    struct ct_solver *plain = solver(words, "params:plain", NULL);
    struct ct_solver *tiles = solver(words, "params:tiles", NULL);

    ASSERT_OK(ct_solver_step(plain, 5));
    ASSERT_OK(ct_solver_step(tiles, 5));
    same_nets(plain, tiles);
}

TEST(rest, every_rule_gives_the_same_parameters)
{
    check(sgd);
    check("base_lr: 0.01 lr_policy: 'fixed' type: 'Adam' momentum: 0.9");
    check("base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 iter_size: 2 "
          "clip_gradients: 0.1");
    check("base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 larc: true");
}

TEST(rest, who_asks_in_the_middle_gets_caffes_order)
{
    struct middle a = { .iter = 3 }, b = { .iter = 3 };
    struct ct_solver *plain = solver(sgd, "params:plain", &a);
    struct ct_solver *tiles = solver(sgd, "params:tiles", &b);

    ASSERT_OK(ct_solver_step(plain, 5));
    ASSERT_OK(ct_solver_step(tiles, 5));
    ASSERT(!a.tiles);
    ASSERT_INT(rests(), b.tiles);
    same("values", a.w, b.w, 48 * 32);
    same("gradients", a.dw, b.dw, 48 * 32);
}

/* A long run rests by itself, a short one does not. */
TEST(rest, it_is_done_where_it_pays)
{
    struct middle m = { .iter = 3 };
    struct ct_solver *s = solver(sgd, "", &m);

    ASSERT_OK(ct_solver_step(s, 5));
    ASSERT(!m.tiles);
    m.iter = 8;
    ASSERT_OK(ct_solver_step(s, 20));
    ASSERT_INT(rests(), m.tiles);
    ASSERT_INT(CT_PLAIN, weights(s, "b")->data.layout);
}

/* Test nets share the parameters. */
TEST(rest, tests_in_between_see_caffes_order)
{
    char words[256];
    struct ct_solver *plain, *tiles;

    snprintf(words, sizeof(words), "%s test_interval: 2 test_iter: 1", sgd);
    plain = solver(words, "params:plain", NULL);
    tiles = solver(words, "params:tiles", NULL);
    ASSERT_OK(ct_solver_step(plain, 5));
    ASSERT_OK(ct_solver_step(tiles, 5));
    ASSERT_FLOAT(
        ct_data(ct_net_blob(ct_solver_test_net(plain, 0),
                            ct_net_find_blob(ct_solver_test_net(plain, 0),
                                             "l")))[0],
        ct_data(ct_net_blob(ct_solver_test_net(tiles, 0),
                            ct_net_find_blob(ct_solver_test_net(tiles, 0),
                                             "l")))[0], 1e-5);
    same_nets(plain, tiles);
}

/* Histories are in Caffe's order in files, too: a solver that never rests goes
 * on from the snapshot of one that did. */
TEST(rest, snapshots_of_the_middle_of_a_run_go_on_anywhere)
{
    struct ct_solver *plain, *tiles, *on;
    char words[512], path[512];

    snprintf(words, sizeof(words), "%s snapshot: 3 snapshot_prefix: '%s/s'",
             sgd, test_folder());
    tiles = solver(words, "params:tiles", NULL);
    ASSERT_OK(ct_solver_step(tiles, 5));
    snprintf(path, sizeof(path), "%s/s_iter_3.solverstate", test_folder());
    on = solver(sgd, "params:plain", NULL);
    ASSERT_OK(ct_solver_restore(on, path));
    ASSERT_OK(ct_solver_step(on, 4));
    plain = solver(sgd, "params:plain", NULL);
    ASSERT_OK(ct_solver_step(plain, 7));
    same_nets(plain, on);
}
