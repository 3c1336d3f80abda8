/* test_chain.c - images a few at a time give what whole batches give.
 *
 * Every net is built twice, with CORTADO_IMPL=chain:none and with groups of a
 * forced size, on 1 to 3 threads, and runs on the same numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "net/training.h"
#include "net_test.h"

#define INPUT                                                                \
    "layer { name: 'in' type: 'Input' top: 'x' top: 'label' "                \
    "  input_param { shape { dim: 7 dim: 3 dim: 12 dim: 10 } "               \
    "                shape { dim: 7 } } }"
#define CONV(name, bottom, out, kernel, pad)                                 \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' "     \
    "  top: '" name "' convolution_param { num_output: " #out " "            \
    "  kernel_size: " #kernel " pad: " #pad " "                              \
    "  weight_filler { type: 'xavier' } "                                    \
    "  bias_filler { type: 'uniform' min: -1 } } }"
#define ONE(name, type, bottom, top, more)                                   \
    "layer { name: '" name "' type: '" type "' bottom: '" bottom "' "        \
    "  top: '" top "' " more " }"
#define TAIL                                                                 \
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'end' top: 'fc' "       \
    "  inner_product_param { num_output: 3 "                                 \
    "  weight_filler { type: 'xavier' } } }"                                 \
    "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'fc' "                \
    "  bottom: 'label' top: 'l' }"

/* A ReLU that is absorbed and one that is not, both kinds of pooling and of
 * LRN, a layer that keeps its bottom. */
static const char *const straight =
    INPUT CONV("c1", "x", 32, 5, 2)
    ONE("p1", "Pooling", "c1", "p1",
        "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
    ONE("r1", "ReLU", "p1", "p1", "relu_param { negative_slope: 0.1 }")
    ONE("n1", "LRN", "p1", "n1", "lrn_param { local_size: 3 alpha: 0.5 "
        "norm_region: WITHIN_CHANNEL }")
    CONV("c2", "n1", 32, 3, 1) ONE("r2", "ReLU", "c2", "c2", "")
    ONE("n2", "LRN", "c2", "n2", "lrn_param { local_size: 5 alpha: 0.5 }")
    ONE("s2", "ELU", "n2", "n2", "elu_param { alpha: 0.5 }")
    ONE("end", "Pooling", "n2", "end",
        "pooling_param { pool: AVE kernel_size: 2 stride: 2 }")
    TAIL;

/* A Split whose branches meet in a sum, and one whose branches meet in a
 * Concat; a maximum, which remembers who won. */
static const char *const branches =
    INPUT CONV("c1", "x", 16, 3, 1) ONE("r1", "ReLU", "c1", "c1", "")
    CONV("a", "c1", 16, 3, 1) CONV("b", "c1", 16, 1, 0)
    "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }"
    ONE("r2", "ReLU", "sum", "sum", "")
    CONV("d", "sum", 16, 1, 0) CONV("e", "sum", 32, 3, 1)
    "layer { name: 'join' type: 'Concat' bottom: 'd' bottom: 'e' top: 'join' }"
    CONV("f", "join", 16, 1, 0) CONV("g", "join", 16, 1, 0)
    "layer { name: 'max' type: 'Eltwise' bottom: 'f' bottom: 'g' top: 'max' "
    "  eltwise_param { operation: MAX } }"
    ONE("end", "TanH", "max", "end", "") TAIL;

static void one_thread(void *unused)
{
    (void)unused;
    unsetenv("CORTADO_IMPL");
    ct_device_cpu_set_threads(1);
}

/* A net with groups of `size` images on so many threads. */
static struct ct_net *in_groups(const char *text, const char *size,
                                int threads, struct ct_net_options o)
{
    char forced[32];
    struct ct_net *net;

    snprintf(forced, sizeof(forced), "chain:%s", size);
    test_defer(one_thread, NULL);
    ct_device_cpu_set_threads(threads);
    setenv("CORTADO_IMPL", forced, 1);
    net = net_with(text, CAFFE__PHASE__TRAIN, o);
    unsetenv("CORTADO_IMPL");
    return net;
}

static struct ct_net *whole(const char *text, struct ct_net_options o)
{
    return in_groups(text, "none", 1, o);
}

static const struct ct_net_options plain_options;

static double forward(struct ct_net *net, uint64_t turn)
{
    double loss;

    net_draw(net, turn, 3);
    ASSERT_OK(ct_net_forward(net, &loss));
    return loss;
}

static double pass(struct ct_net *net, uint64_t turn)
{
    double loss = forward(net, turn);

    ASSERT_OK(ct_net_begin_diffs(net));
    ASSERT_OK(ct_net_backward(net));
    return loss;
}

static void same_values(const char *what, int64_t n, const float *want,
                        const float *got)
{
    ASSERT(net_near(what, n, want, got, 5e-6) > 1e-4);
}

static void same_gradients(struct ct_net *want, struct ct_net *got)
{
    for (int i = 0; i < ct_net_n_params(want); i++)
        same_values(ct_net_layer(want, ct_net_param(want, i)->layer)->name,
                    ct_net_param(want, i)->blob->count,
                    ct_diff(ct_net_param(want, i)->blob),
                    ct_diff(ct_net_param(got, i)->blob));
}

/* Forward: the loss, and what the chain gives to the layers behind it. */
static void same_forward(struct ct_net *want, struct ct_net *got,
                         uint64_t turn)
{
    ASSERT_FLOAT(forward(want, turn), forward(got, turn), 2e-6);
    same_values("end", net_blob_named(want, "end")->count,
                ct_data(net_blob_named(want, "end")),
                ct_data(net_blob_named(got, "end")));
}

static void same_steps(struct ct_net *want, struct ct_net *got)
{
    for (uint64_t turn = 0; turn < 2; turn++) {
        same_forward(want, got, turn);
        pass(want, turn);
        pass(got, turn);
        same_gradients(want, got);
    }
}

static void every_cut(const char *text, const char *chain)
{
    static const char *const sizes[] = { "1", "2", "3", "7" };
    struct ct_net *want              = whole(text, plain_options);

    ASSERT_HAS("chains:\nnone", net_plan(want));
    for (int threads = 1; threads <= 3; threads++)
        for (int i = 0; i < 3 + (threads > 1); i++) {
            struct ct_net *got = in_groups(text, sizes[i], threads,
                                           plain_options);

            ASSERT_HAS(chain, net_plan(got));
            same_steps(want, got);
        }
}

TEST(chain, groups_on_lanes_give_what_the_batch_gives)
{
    every_cut(straight, "chains:\nc1 .. end: 7 images");
}

TEST(chain, branches_are_parts_of_a_chain)
{
    every_cut(branches, "chains:\nc1 .. end: 7 images");
}

/* Neighbours, one of which sees fewer images in every pass. */
TEST(chain, layers_behind_a_filter_are_in_none)
{
    static const char *const filtered =
        INPUT CONV("c0", "x", 32, 5, 2) CONV("c1", "c0", 32, 3, 1)
        "layer { name: 'f' type: 'Filter' bottom: 'c1' bottom: 'label' "
        "  top: 'f' }"
        CONV("end", "c1", 32, 3, 1) CONV("few", "f", 32, 3, 1)
        "layer { name: 'sum' type: 'Reduction' bottom: 'few' top: 'sum' "
        "  loss_weight: 0.01 }" TAIL;
    struct ct_net *got = in_groups(filtered, "2", 2, plain_options);

    ASSERT_HAS("7 images in 4 groups", net_plan(got));
    same_steps(whole(filtered, plain_options), got);
}

TEST(chain, what_only_a_chain_reads_has_no_memory_of_the_batch)
{
    struct ct_net *net = in_groups(straight, "2", 2, plain_options);

    ASSERT(!ct_diff(net_blob_named(net, "p1")));
    ASSERT(!ct_data(net_blob_named(net, "c1"))); /* pooling needs it no more */
    ASSERT(ct_data(net_blob_named(net, "n1")));  /* c2's gradient needs it */
    ASSERT(ct_diff(net_blob_named(net, "end")));
}

TEST(chain, gradients_of_several_passes_add_up)
{
    struct ct_net *want = whole(straight, plain_options);
    struct ct_net *got  = in_groups(straight, "2", 2, plain_options);
    struct ct_net *nets[] = { want, got };

    for (int i = 0; i < 2; i++) {
        pass(nets[i], 0);
        forward(nets[i], 1);
        ASSERT_OK(ct_net_backward(nets[i]));
    }
    same_gradients(want, got);
}

static const char *const frozen =
    INPUT "layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' "
    "  param { lr_mult: 0 } param { lr_mult: 0 } "
    "  convolution_param { num_output: 16 kernel_size: 3 "
    "  weight_filler { type: 'xavier' } } }"
    "layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' "
    "  param { lr_mult: 0 } param { lr_mult: 1 } "
    "  convolution_param { num_output: 16 kernel_size: 3 "
    "  weight_filler { type: 'xavier' } } }"
    ONE("end", "Sigmoid", "c2", "end", "") TAIL;

TEST(chain, parameters_that_stand_have_zero_gradients)
{
    struct ct_net *want = whole(frozen, plain_options);
    struct ct_net *got  = in_groups(frozen, "2", 2, plain_options);
    int c1 = ct_net_find_layer(got, "c1"), c2 = ct_net_find_layer(got, "c2");
    const struct ct_layer *l = ct_net_layer(got, c2);

    for (uint64_t turn = 0; turn < 2; turn++)
        ASSERT_FLOAT(pass(want, turn), pass(got, turn), 2e-6);
    same_values("bias", l->blob[1]->count,
                ct_diff(ct_net_layer(want, c2)->blob[1]), ct_diff(l->blob[1]));
    for (int64_t i = 0; i < l->blob[0]->count; i++)
        ASSERT_FLOAT(0, ct_diff(l->blob[0])[i], 0);
    for (int64_t i = 0; i < ct_net_layer(got, c1)->blob[0]->count; i++)
        ASSERT_FLOAT(0, ct_diff(ct_net_layer(got, c1)->blob[0])[i], 0);
}

static void set_batch(struct ct_net *net, int64_t n, bool at_once)
{
    ASSERT_OK(ct_reshape(net_blob_named(net, "x"), CT_SHAPE(n, 3, 12, 10)));
    ASSERT_OK(ct_reshape(net_blob_named(net, "label"), CT_SHAPE(n)));
    if (at_once)
        ASSERT_OK(ct_net_reshape(net));
}

TEST(chain, other_batches_are_cut_anew)
{
    struct ct_net *want = whole(branches, plain_options);
    struct ct_net *got  = in_groups(branches, "2", 2, plain_options);

    for (int at_once = 0; at_once < 2; at_once++) {
        static const int64_t batches[] = { 3, 1, 11, 7 };

        for (int i = 0; i < 4; i++) {
            set_batch(want, batches[i], at_once);
            setenv("CORTADO_IMPL", "chain:2", 1);
            set_batch(got, batches[i], at_once);
            unsetenv("CORTADO_IMPL");
            same_steps(want, got);
        }
    }
}

/* Large batches: threads take lanes as they come, more of them than there are
 * threads, and of five threads on few cores each time other ones. */
TEST(chain, threads_take_lanes_that_get_smaller)
{
    struct ct_net *want = whole(branches, plain_options);
    struct ct_net *got;

    set_batch(want, 61, true);
    for (int threads = 2; threads <= 5; threads++) {
        char cut[64];

        got = in_groups(branches, "3", threads, plain_options);
        setenv("CORTADO_IMPL", "chain:3", 1);
        set_batch(got, 61, true);
        unsetenv("CORTADO_IMPL");
        snprintf(cut, sizeof(cut), " lanes, for %d threads", threads);
        ASSERT_HAS(cut, net_plan(got));
        same_steps(want, got);
    }
}

TEST(chain, who_takes_a_lane_does_not_show)
{
    struct ct_net *net = in_groups(branches, "2", 5, plain_options);
    size_t n           = ct_net_arena_count(net);
    float *first;

    setenv("CORTADO_IMPL", "chain:2", 1);
    set_batch(net, 80, true);
    unsetenv("CORTADO_IMPL");
    ASSERT_HAS("80 images in 45 groups on 25 lanes", net_plan(net));
    pass(net, 0);
    ASSERT_OK(ct_alloc(n, sizeof(*first), "gradients", &first));
    memcpy(first, ct_net_arena_diff(net), n * sizeof(*first));
    for (int turn = 0; turn < 20; turn++) {
        pass(net, 0);
        ASSERT_INT(0, memcmp(first, ct_net_arena_diff(net),
                             n * sizeof(*first)));
    }
    ct_free(first);
}

TEST(chain, a_step_allocates_nothing_after_the_first)
{
    struct ct_net *net = in_groups(branches, "2", 3, plain_options);
    uint64_t n_calls;

    pass(net, 0);
    n_calls = ct_mem_stats().n_calls;
    pass(net, 1);
    ASSERT_INT(n_calls, ct_mem_stats().n_calls);
}

/* Gradients of every layer when it is reported done, against those at the
 * end. */
struct done {
    float *kept;
    int    n;
};

static enum ct_status keep(struct ct_net *net, int layer, void *arg)
{
    struct done *d = arg;

    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        if (p->layer != layer)
            continue;
        memcpy(d->kept + p->offset, ct_diff(p->blob),
               (size_t)p->blob->count * sizeof(float));
        d->n++;
    }
    return CT_OK;
}

TEST(chain, gradients_are_complete_when_a_layer_is_done)
{
    struct ct_net *net = in_groups(straight, "2", 3, plain_options);
    struct done d = { ct_calloc(ct_net_arena_count(net), sizeof(float),
                                "kept"), 0 };

    test_defer(net_plan_free, d.kept);
    ct_net_set_layer_done(net, keep, &d);
    pass(net, 0);
    ASSERT_INT(ct_net_n_params(net), d.n);
    for (int i = 0; i < ct_net_n_params(net); i++) {
        const struct ct_net_param *p = ct_net_param(net, i);

        for (int64_t k = 0; k < p->blob->count; k++)
            ASSERT_FLOAT(ct_diff(p->blob)[k], d.kept[p->offset + (size_t)k],
                         0);
    }
}

static const char *const folded =
    INPUT CONV("c1", "x", 32, 3, 1)
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'c1' top: 'c1' "
    "  batch_norm_param { use_global_stats: true } }"
    "layer { name: 'sc' type: 'Scale' bottom: 'c1' top: 'c1' "
    "  scale_param { filler { type: 'uniform' min: -1 } } }"
    ONE("r1", "ReLU", "c1", "c1", "") CONV("c2", "c1", 16, 1, 0)
    ONE("end", "Pooling", "c2", "end",
        "pooling_param { kernel_size: 3 stride: 2 }") TAIL;

TEST(chain, a_net_for_scoring_runs_in_groups)
{
    const struct ct_net_options o = { .forward_only = true,
                                      .fixed_params = true };
    struct ct_net *want = whole(folded, o);
    struct ct_net *got  = in_groups(folded, "2", 2, o);

    for (int i = 0; i < 2; i++) {
        struct ct_net *net = i ? got : want;

        ct_data(net_layer_named(net, "bn")->blob[2])[0] = 1;
    }
    ASSERT_HAS("chains:\nc1 .. end: 7 images in 4 groups", net_plan(got));
    for (uint64_t turn = 0; turn < 2; turn++)
        same_forward(want, got, turn);
}

TEST(chain, who_looks_at_every_layer_sees_whole_batches)
{
    struct ct_net *want = whole(straight, plain_options);
    struct ct_net *got  = in_groups(straight, "2", 2, plain_options);
    const struct ct_net_options keeps = { .keep_blobs = true };
    const struct ct_net_training shares = { .share = 1 };
    const struct ct_net_options deals = { .training = &shares };

    ct_log_set_level(CT_LOG_NONE);
    ct_net_set_debug_info(got, true);
    same_steps(want, got);
    ct_net_set_debug_info(got, false);
    ASSERT_HAS("chains:\nnone", net_plan(got));
    ASSERT_HAS("chains:\nnone", net_plan(in_groups(straight, "2", 2, keeps)));
    ASSERT_HAS("chains:\nnone", net_plan(in_groups(straight, "2", 2, deals)));
}

static enum ct_status look(struct ct_net *net, int layer, void *arg)
{
    const struct ct_blob *top = ct_net_io(net, layer).top[0];

    if (layer == ct_net_find_layer(net, "p1"))
        *(double *)arg = (double)ct_data(top)[0];
    return CT_OK;
}

TEST(chain, hooks_and_parts_of_passes_see_layers_one_by_one)
{
    struct ct_net *want = whole(straight, plain_options);
    struct ct_net *got  = in_groups(straight, "2", 2, plain_options);
    struct ct_net *part = in_groups(straight, "2", 2, plain_options);
    double a = 0, b = 0;
    const int n = ct_net_n_layers(part);

    ct_net_set_hooks(want, &(struct ct_net_hooks){ .after_forward = look,
                                                   .arg = &a });
    ct_net_set_hooks(got, &(struct ct_net_hooks){ .after_forward = look,
                                                  .arg = &b });
    same_steps(want, got);
    ASSERT(a != 0);
    ASSERT_FLOAT(a, b, 1e-6);
    ASSERT_HAS("chains:\nnone", net_plan(got));
    ct_net_set_hooks(got, &(struct ct_net_hooks){ 0 });
    setenv("CORTADO_IMPL", "chain:2", 1);
    same_steps(want, got);
    unsetenv("CORTADO_IMPL");
    ASSERT_HAS("chains:\nc1 .. end", net_plan(got));
    forward(want, 3);
    net_draw(part, 3, 3);
    for (int i = 0; i < n; i++)
        ASSERT_OK(ct_net_forward_range(part, i, i + 1, &b));
    ASSERT_HAS("chains:\nnone", net_plan(part));
    same_values("end", net_blob_named(want, "end")->count,
                ct_data(net_blob_named(want, "end")),
                ct_data(net_blob_named(part, "end")));
}

TEST(chain, nan_is_found_inside)
{
    struct ct_net *net = in_groups(straight, "2", 2, plain_options);
    int c2             = ct_net_find_layer(net, "c2"), layer;

    pass(net, 0);
    ASSERT_OK(ct_net_find_nan(net, &layer));
    ASSERT_INT(-1, layer);
    ct_data(ct_net_layer(net, c2)->blob[1])[0] = NAN;
    ASSERT_OK(ct_net_find_nan(net, &layer));
    ASSERT_INT(c2, layer);
}

/* 64 images through a convolution and a pooling layer. */
static const char *plan_at(const char *image, const char *out, int threads)
{
    char text[2048];
    struct ct_net *net;

    snprintf(text, sizeof(text),
             "layer { name: 'in' type: 'Input' top: 'x' "
             "  input_param { shape { dim: 64 dim: 3 %s } } }"
             "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' "
             "  convolution_param { num_output: %s kernel_size: 5 } }"
             "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' "
             "  pooling_param { kernel_size: 3 stride: 2 } }", image, out);
    test_defer(one_thread, NULL);
    ct_device_cpu_set_threads(threads);
    net = net_with(text, CAFFE__PHASE__TRAIN, plain_options);
    return net_plan(net);
}

TEST(chain, only_batches_of_images_that_caches_hold_are_cut)
{
    ASSERT_HAS("c .. p: 64 images",
               plan_at("dim: 64 dim: 64", "8", 2));
    ASSERT_HAS("chains:\nnone", plan_at("dim: 64 dim: 64", "8", 16));
    ASSERT_HAS("chains:\nnone", plan_at("dim: 8 dim: 8", "8", 2));
    ASSERT_HAS("chains:\nnone", plan_at("dim: 128 dim: 128", "8", 2));
}
