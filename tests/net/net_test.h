/* net_test.h - nets from a few lines of prototxt. */
#ifndef CT_TESTS_NET_NET_TEST_H
#define CT_TESTS_NET_NET_TEST_H

#include "base/mem.h"
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
