/* net_test.h - nets from a few lines of prototxt, numbers for them, and how
 * near theirs are to those of another net. */
#ifndef CT_TESTS_NET_NET_TEST_H
#define CT_TESTS_NET_NET_TEST_H

#include "base/mem.h"
#include "base/rng.h"
#include "cortado/net.h"
#include "testing/test.h"

static inline void net_test_free(void *net)
{
    ct_net_destroy(net);
}

static inline enum ct_status net_try(const char *text, Caffe__Phase phase,
                                     struct ct_net_options o,
                                     struct ct_net **out)
{
    Caffe__NetParameter *param = NULL;
    enum ct_status st;

    o.phase = phase;
    o.seed  = 11;
    CT_TRY(ct_text_parse(&caffe__net_parameter__descriptor, text, strlen(text),
                         "test", &param));
    st = ct_upgrade_net(param, "test");
    if (st == CT_OK)
        st = ct_net_create(param, &o, out);
    ct_message_free(param);
    return st;
}

/* Freed when the test ends. */
static inline struct ct_net *net_with(const char *text, Caffe__Phase phase,
                                      struct ct_net_options o)
{
    struct ct_net *net = NULL;

    ASSERT_OK(net_try(text, phase, o, &net));
    test_defer(net_test_free, net);
    return net;
}

static inline struct ct_net *net_of(const char *text)
{
    return net_with(text, CAFFE__PHASE__TRAIN, (struct ct_net_options){ 0 });
}

static inline struct ct_blob *net_blob_named(struct ct_net *net,
                                             const char *name)
{
    int id = ct_net_find_blob(net, name);

    if (id < 0)
        FAIL("there is no blob %s", name);
    return ct_net_blob(net, id);
}

static inline struct ct_layer *net_layer_named(const struct ct_net *net,
                                               const char *name)
{
    int i = ct_net_find_layer(net, name);

    if (i < 0)
        FAIL("there is no layer %s", name);
    return ct_net_layer(net, i);
}

/* Until the device under test has done what a pass left it to do. */
static inline void net_settle(void)
{
    if (test_device()->kind != CT_CPU)
        ASSERT_OK(test_device()->ops->sync(test_device()));
}

/* Normal values of a turn for blob x, and classes in turns for blob label. */
static inline void net_draw(struct ct_net *net, uint64_t turn, int n_classes)
{
    struct ct_blob *x = net_blob_named(net, "x");
    struct ct_blob *y = net_blob_named(net, "label");

    for (int64_t i = 0; i < x->count; i++)
        ct_data(x)[i] = ct_normal(5, turn, (uint64_t)i);
    for (int64_t i = 0; i < y->count; i++)
        ct_data(y)[i] = (float)(i % n_classes);
}

/* One pass forward and backward, whose loss it returns. */
static inline double net_pass(struct ct_net *net)
{
    double loss;

    ASSERT_OK(ct_net_clear_diffs(net));
    ASSERT_OK(ct_net_forward(net, &loss));
    ASSERT_OK(ct_net_backward(net));
    net_settle();
    return loss;
}

/* Of n values none is further from what is wanted than `off` of the largest
 * one, which it returns. */
static inline double net_near(const char *what, int64_t n, const float *want,
                              const float *got, double off)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)want[i] - (double)got[i]) <= off * most))
            FAIL("%s: value %lld is %.9g, wanted %.9g", what, (long long)i,
                 (double)got[i], (double)want[i]);
    return most;
}

static inline void net_plan_free(void *text)
{
    ct_free(text);
}

/* What `cortado time --plan` prints; freed when the test ends. */
static inline const char *net_plan(struct ct_net *net)
{
    char *text;

    ASSERT_OK(ct_net_plan_text(net, &text));
    test_defer(net_plan_free, text);
    return text;
}

static inline void net_refused(const char *text, const char *because)
{
    struct ct_net *net = NULL;

    if (net_try(text, CAFFE__PHASE__TRAIN, (struct ct_net_options){ 0 },
                &net) == CT_OK) {
        ct_net_destroy(net);
        FAIL("accepted: %s", text);
    }
    ASSERT_HAS(because, ct_last_error());
}

#endif
