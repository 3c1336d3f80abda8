/* operations.c - the cases of each operation: those of well-known nets. */
#include <stdio.h>

#include "base/mem.h"
#include "device/cpu/batch_norm_impl.h"
#include "device/cpu/lrn_impl.h"
#include "device/cpu/pool_impl.h"
#include "device/cpu/softmax_impl.h"
#include "device/ip_impl.h"
#include "impls.h"

#ifdef CT_HAVE_ONEDNN
#define ONEDNN(impl) &(impl).head,
#else
#define ONEDNN(impl)
#endif

static const char *const ways[] = { "forward", "backward", "weights" };

struct pool_run {
    struct ct_pool p;
    float         *x, *y, *dx;
    int32_t       *at;
};

static enum ct_status pool_forward(void *arg)
{
    struct pool_run *r = arg;

    return r->p.average ? ct_pool_average(&r->p, r->x, r->y)
                        : ct_pool_max(&r->p, r->x, r->y, r->at);
}

static enum ct_status pool_backward(void *arg)
{
    struct pool_run *r = arg;

    return r->p.average
               ? ct_pool_average_backward(&r->p, r->y, r->dx)
               : ct_pool_max_backward(&r->p, r->y, r->at, r->dx);
}

static void pool_case(struct ct_pool p)
{
    static const struct ct_impl *const impls[] = {
        &ct_pool_blocked.head, &ct_pool_rows.head, ONEDNN(ct_pool_onednn) NULL
    };
    struct pool_run r = { .p = p };
    char what[100];

    ct_pool_shape(&r.p, false);
    r.x  = values(elements(p.n, p.c, p.h * p.w, p.layout));
    r.dx = values(elements(p.n, p.c, p.h * p.w, p.layout));
    r.y  = values(elements(p.n, p.c, r.p.out_h * r.p.out_w, p.layout));
    r.at = (int32_t *)(void *)values(
        elements(p.n, p.c, r.p.out_h * r.p.out_w, p.layout));
    must(ct_pool_choose(&r.p));
    for (int w = 0; w < CT_PASSES; w++) {
        snprintf(what, sizeof(what), "pool %s %dx%dx%dx%d k%d s%d p%d %s %s",
                 p.average ? "ave" : "max", (int)p.n, (int)p.c, (int)p.h,
                 (int)p.w, (int)p.kernel_h, (int)p.stride_h, (int)p.pad_h,
                 layout_name(p.layout), ways[w]);
        must(pool_forward(&r));
        compare(what, &r.p, (enum ct_pass)w, &r.p.pass[w], impls,
                w ? pool_backward : pool_forward, &r);
    }
    ct_pool_fini(&r.p);
    ct_free(r.x);
    ct_free(r.y);
    ct_free(r.dx);
    ct_free(r.at);
}

void bench_pool(void)
{
    static const struct ct_pool cases[] = {
        { 16, 20, 24, 24, 2, 2, 2, 2, 0, 0, .layout = CT_PLAIN },
        { 16, 32, 32, 32, 3, 3, 2, 2, 0, 0, .layout = CT_PLAIN },
        { 4, 96, 55, 55, 3, 3, 2, 2, 0, 0, .layout = CT_PLAIN },
        { 4, 64, 80, 80, 3, 3, 2, 2, 0, 0, .layout = CT_PLAIN },
        { 4, 64, 112, 112, 3, 3, 2, 2, 1, 1, .layout = CT_PLAIN },
        { 4, 256, 28, 28, 3, 3, 1, 1, 1, 1, .layout = CT_PLAIN },
        { 4, 64, 112, 112, 2, 2, 2, 2, 0, 0, .layout = CT_PLAIN },
        { 8, 1024, 7, 7, 7, 7, 1, 1, 0, 0, .layout = CT_PLAIN },
    };
    static const enum ct_layout layouts[] = { CT_PLAIN, CT_BLOCKED16, CT_NHWC };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int average = 0; average < 2; average++)
            for (int k = 0; k < 3; k++) {
                struct ct_pool p = cases[i];

                p.layout  = layouts[k];
                p.average = average;
                pool_case(p);
            }
}

struct lrn_run {
    struct ct_lrn p;
    float        *x, *y, *dy, *dx, *scratch;
};

static enum ct_status lrn_forward(void *arg)
{
    struct lrn_run *r = arg;

    return ct_lrn_forward(&r->p, r->x, r->y);
}

static enum ct_status lrn_backward(void *arg)
{
    struct lrn_run *r = arg;

    return ct_lrn_backward(&r->p, r->x, r->dy, r->scratch, r->dx);
}

static void lrn_case(struct ct_lrn p)
{
    static const struct ct_impl *const impls[] = {
        &ct_lrn_blocked.head, &ct_lrn_plain.head, ONEDNN(ct_lrn_onednn) NULL
    };
    const int64_t n = elements(p.n, p.c, p.h * p.w, p.layout);
    struct lrn_run r = { p, values(n), values(n), values(n), values(n),
                         values(n) };
    char what[100];

    must(ct_lrn_choose(&r.p));
    for (int w = 0; w < CT_PASSES; w++) {
        snprintf(what, sizeof(what), "lrn %s %dx%dx%dx%d size %d %s %s",
                 p.within ? "within" : "across", (int)p.n, (int)p.c, (int)p.h,
                 (int)p.w, (int)p.size, layout_name(p.layout), ways[w]);
        compare(what, &r.p, (enum ct_pass)w, &r.p.pass[w], impls,
                w ? lrn_backward : lrn_forward, &r);
    }
    ct_lrn_fini(&r.p);
    ct_free(r.x);
    ct_free(r.y);
    ct_free(r.dy);
    ct_free(r.dx);
    ct_free(r.scratch);
}

void bench_lrn(void)
{
    static const struct ct_lrn cases[] = {
        { 4, 96, 55, 55, 5, 1e-4f, 0.75f, 1, .layout = CT_PLAIN },
        { 4, 256, 27, 27, 5, 1e-4f, 0.75f, 1, .layout = CT_PLAIN },
        { 4, 192, 56, 56, 5, 1e-4f, 0.75f, 1, .layout = CT_PLAIN },
        { 8, 32, 16, 16, 3, 5e-5f, 0.75f, 1, true, .layout = CT_PLAIN },
    };
    static const enum ct_layout layouts[] = { CT_PLAIN, CT_BLOCKED16, CT_NHWC };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 3; k++) {
            struct ct_lrn p = cases[i];

            p.layout = layouts[k];
            lrn_case(p);
        }
}

struct norm_run {
    struct ct_batch_norm p;
    float *x, *y, *dy, *dx, *kept, *scratch, *mean, *var;
};

static enum ct_status norm_forward(void *arg)
{
    struct norm_run *r = arg;

    return ct_batch_norm_forward(&r->p, r->x, r->scratch, r->mean, r->var,
                                 r->y, r->kept);
}

static enum ct_status norm_backward(void *arg)
{
    struct norm_run *r = arg;

    return ct_batch_norm_backward(&r->p, r->x, r->dy, r->mean, r->var,
                                  r->scratch, r->dx);
}

/* `in_place`, as most nets have it: x is kept. */
static void norm_case(struct ct_channels v, bool in_place)
{
    static const struct ct_impl *const impls[] = {
        &ct_batch_norm_ref.head, ONEDNN(ct_batch_norm_onednn) NULL
    };
    const int64_t n = elements(v.n, v.c, v.inner, v.layout);
    struct norm_run r = { .p = { .view = v, .eps = 1e-5f,
                                .in_place = in_place } };
    char what[100];

    r.x       = values(n);
    r.y       = in_place ? r.x : values(n);
    r.dy      = values(n);
    r.dx      = in_place ? r.dy : values(n);
    r.kept    = in_place ? values(n) : NULL;
    r.scratch = values(ct_batch_norm_scratch(&r.p));
    r.mean    = values(v.c);
    r.var     = values(v.c);
    must(ct_batch_norm_choose(&r.p));
    for (int w = 0; w < CT_PASSES; w++) {
        snprintf(what, sizeof(what), "norm %dx%dx%d %s%s %s", (int)v.n,
                 (int)v.c, (int)v.inner, layout_name(v.layout),
                 in_place ? " in place" : "", ways[w]);
        must(norm_forward(&r));
        compare(what, &r.p, (enum ct_pass)w, &r.p.pass[w], impls,
                w ? norm_backward : norm_forward, &r);
    }
    ct_batch_norm_fini(&r.p);
    if (!in_place) {
        ct_free(r.y);
        ct_free(r.dx);
    }
    ct_free(r.x);
    ct_free(r.dy);
    ct_free(r.kept);
    ct_free(r.scratch);
    ct_free(r.mean);
    ct_free(r.var);
}

void bench_norm(void)
{
    static const struct ct_channels cases[] = {
        { .n = 8, .c = 64, .inner = 112 * 112 },
        { .n = 8, .c = 256, .inner = 56 * 56 },
        { .n = 8, .c = 128, .inner = 28 * 28 },
        { .n = 8, .c = 512, .inner = 28 * 28 },
        { .n = 8, .c = 1024, .inner = 14 * 14 },
        { .n = 8, .c = 512, .inner = 7 * 7 },
        { .n = 64, .c = 32, .inner = 32 * 32 },
        { .n = 128, .c = 512, .inner = 1 },
    };
    static const enum ct_layout layouts[] = { CT_PLAIN, CT_BLOCKED16, CT_NHWC };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 3; k++)
            for (int in_place = 0; in_place < 2; in_place++) {
                struct ct_channels v = cases[i];

                v.layout = layouts[k];
                norm_case(v, in_place);
            }
}

struct softmax_run {
    struct ct_softmax p;
    float            *x, *y, *dx;
};

static enum ct_status softmax_forward(void *arg)
{
    struct softmax_run *r = arg;

    return ct_softmax_forward(&r->p, r->x, r->y);
}

static enum ct_status softmax_backward(void *arg)
{
    struct softmax_run *r = arg;

    return ct_softmax_backward(&r->p, r->y, r->x, r->dx);
}

void bench_softmax(void)
{
    static const struct ct_impl *const impls[] = {
        &ct_softmax_ref.head, ONEDNN(ct_softmax_onednn) NULL
    };
    static const int64_t cases[][3] = { { 64, 10, 1 },    { 32, 1000, 1 },
                                        { 256, 1000, 1 }, { 640, 5000, 1 },
                                        { 2, 21, 40000 }, { 8, 21, 500 } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t n = cases[i][0] * cases[i][1] * cases[i][2];
        struct softmax_run r = { { 0 }, values(n), values(n), values(n) };
        char what[100];

        must(ct_softmax_choose(&r.p, cases[i][0], cases[i][1], cases[i][2]));
        for (int w = 0; w < CT_PASSES; w++) {
            snprintf(what, sizeof(what), "softmax %dx%dx%d %s",
                     (int)cases[i][0], (int)cases[i][1], (int)cases[i][2],
                     ways[w]);
            compare(what, &r.p, (enum ct_pass)w, &r.p.pass[w], impls,
                    w ? softmax_backward : softmax_forward, &r);
        }
        ct_softmax_fini(&r.p);
        ct_free(r.x);
        ct_free(r.y);
        ct_free(r.dx);
    }
}

struct ip_run {
    struct ct_ip p;
    float       *x, *w, *b, *y, *dx, *dw;
};

static enum ct_status ip_forward(void *arg)
{
    struct ip_run *r = arg;

    return ct_ip_forward(&r->p, r->x, r->w, r->b, r->y);
}

static enum ct_status ip_backward(void *arg)
{
    struct ip_run *r = arg;

    return ct_ip_backward_data(&r->p, r->w, r->y, r->dx);
}

static enum ct_status ip_weights(void *arg)
{
    struct ip_run *r = arg;

    return ct_ip_backward_weights(&r->p, r->x, r->y, r->dw, NULL);
}

void bench_ip(void)
{
    static const struct ct_impl *const impls[] = {
        &ct_ip_gemm.head, ONEDNN(ct_ip_onednn) NULL
    };
    /* m n k; the last ones are steps of an LSTM, whose weights are packed. */
    static const int64_t cases[][4] = {
        { 64, 500, 800 },     { 64, 10, 500 },      { 100, 64, 1024 },
        { 100, 10, 1024 },    { 8, 1000, 2048 },    { 16, 1000, 1024 },
        { 32, 1000, 4096 },   { 32, 4096, 4096 },   { 32, 4096, 9216 },
        { 256, 4096, 4096 },  { 640, 1024, 256 },   { 1, 1000, 2048 },
        { 1024, 512, 512 },   { 512, 2048, 512 },   { 640, 10, 256 },
        { 1, 1024, 256, 1 },  { 4, 1024, 256, 1 },  { 8, 1024, 256, 1 },
        { 16, 1024, 256, 1 }, { 32, 1024, 256, 1 }, { 64, 2048, 512, 1 },
    };
    static const run_fn runs[] = { ip_forward, ip_backward, ip_weights };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t m = cases[i][0], n = cases[i][1], k = cases[i][2];
        const bool step = cases[i][3];
        struct ip_run r = { { .dev = ct_device_cpu(), .m = m, .n = n,
                              .k = k, .has_bias = !step, .add = step,
                              .packed = step },
                            values(m * k), values(n * k),
                            step ? NULL : values(n),
                            values(m * n), values(m * k), values(n * k) };
        char what[100];

        must(ct_ip_choose(&r.p));
        for (int w = 0; w < (step ? 1 : CT_WEIGHTED_PASSES); w++) {
            snprintf(what, sizeof(what), "ip m %d n %d k %d%s %s", (int)m,
                     (int)n, (int)k, step ? " packed" : "", ways[w]);
            compare(what, &r.p, (enum ct_pass)w, &r.p.pass[w], impls, runs[w],
                    &r);
        }
        ct_ip_fini(&r.p);
        ct_free(r.x);
        ct_free(r.w);
        ct_free(r.b);
        ct_free(r.y);
        ct_free(r.dx);
        ct_free(r.dw);
    }
}
