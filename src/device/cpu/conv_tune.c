/* conv_tune.c - implementations of a convolution, timed on its shape.
 *
 * All three passes of each candidate run on zeros a few times; the sum of the
 * shortest times counts.  The reference is no candidate, and where only one
 * other takes the description there is nothing to measure.  Choices are kept
 * in the file `conv-cpu` of the cache folder (device/choice.h) under the CPU,
 * its threads, oneDNN's version and the description.
 *
 * Implementations differ in their last bits, so nothing is measured unless
 * someone asks, and training that must give the same bits anywhere
 * (desc.untuned) knows of no choices. */
#include "device/cpu/conv_tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef CT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include "base/mem.h"
#include "base/text.h"
#include "device/choice.h"
#include "device/impl.h"
#include "device/layout.h"

enum { TURNS = 4 };
static const double LONG = 0.02; /* seconds; no more turns after that */

/* The processor's name, or nothing where it does not say. */
static void processor(char out[64])
{
    memset(out, 0, 64);
#ifdef __x86_64__
    for (unsigned i = 0; i < 3; i++) {
        unsigned r[4];

        if (__get_cpuid(0x80000002u + i, &r[0], &r[1], &r[2], &r[3]))
            memcpy(out + i * sizeof(r), r, sizeof(r));
    }
#endif
}

static void key_of(const struct ct_conv *c, struct ct_text *t)
{
    const struct ct_conv_desc *d = &c->desc;
    char name[64], version[32] = "none";

    processor(name);
#ifdef CT_HAVE_ONEDNN
    snprintf(version, sizeof(version), "%d.%d.%d", dnnl_version()->major,
             dnnl_version()->minor, dnnl_version()->patch);
#endif
    ct_text_addf(t, "%s, %d threads, oneDNN %s: %" PRId64 " x %" PRId64
                 " to %" PRId64 " in %" PRId64 " groups, layouts %d %d, ends "
                 "%d%d%d%d,", name, ct_device_cpu_threads(), version, d->batch,
                 d->in_channels, d->out_channels, d->group,
                 (int)d->src_layout, (int)d->dst_layout, d->has_bias, d->sum,
                 d->relu, d->packed);
    for (int i = 0; i < d->n_spatial; i++)
        ct_text_addf(t, " %" PRId64 " by %" PRId64 " s%" PRId64 " p%" PRId64
                     " d%" PRId64, d->in[i], d->kernel[i], d->stride[i],
                     d->pad[i], d->dilation[i]);
}

/* One thread is timed on its core, whatever else the machine does. */
static double now(void)
{
    struct timespec t;

    clock_gettime(ct_device_cpu_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID
                                               : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the passes read and write; gradients of x and y lie with them. */
struct arrays {
    float *x, *y, *w, *b;
};

static void arrays_fini(struct arrays *a)
{
    ct_free(a->x);
    ct_free(a->y);
    ct_free(a->w);
    ct_free(a->b);
}

static enum ct_status arrays_init(const struct ct_conv *c, struct arrays *a)
{
    const struct ct_conv_desc *d = &c->desc;
    const size_t size            = sizeof(float);
    const int64_t in  = ct_layout_block(d->src_layout, d->in_channels) *
                        ct_layout_blocks(d->src_layout, d->in_channels);
    const int64_t out = ct_layout_block(d->dst_layout, d->out_channels) *
                        ct_layout_blocks(d->dst_layout, d->out_channels);

    CT_TRY(ct_alloc((size_t)(d->batch * in * c->in_spatial), size, "tuning",
                    &a->x));
    CT_TRY(ct_alloc((size_t)(d->batch * out * c->out_spatial), size, "tuning",
                    &a->y));
    CT_TRY(ct_alloc((size_t)(d->out_channels * c->in_group * c->taps), size,
                    "tuning", &a->w));
    return ct_alloc((size_t)d->out_channels, size, "tuning", &a->b);
}

static enum ct_status pass_run(struct ct_conv *c, int pass, struct arrays *a)
{
    float *b = c->desc.has_bias ? a->b : NULL;

    if (pass == 0)
        return ct_conv_forward(c, a->x, a->w, b, a->y);
    if (pass == 1)
        return ct_conv_backward_data(c, a->w, a->y, a->x);
    return ct_conv_backward_weights(c, a->x, a->y, a->w, b);
}

/* Seconds of all passes; below zero where the candidate does not do it. */
static double measure(const struct ct_conv *like,
                      const struct ct_conv_impl *impl, struct arrays *a)
{
    struct ct_conv c = *like;
    double sum       = 0;
    bool kept;
    enum ct_status st;

    c.impl = impl;
    c.own  = (struct ct_workspace){ 0 };
    c.work = &c.own;
    st     = impl->create(&c);
    if (st == CT_OK && c.desc.packed)
        st = ct_conv_pack(&c, a->w, &kept);
    for (int p = 0; p < (c.desc.packed ? 1 : 3) && st == CT_OK; p++) {
        double best = 1e9, began = now();

        for (int i = 0; i < TURNS && st == CT_OK &&
                        (i < 2 || now() - began < LONG); i++) {
            double start = now(), took;

            st   = pass_run(&c, p, a);
            took = now() - start;
            best = took < best ? took : best;
        }
        sum += best;
    }
    impl->destroy(&c);
    ct_workspace_fini(&c.own);
    return st == CT_OK ? sum : -1;
}

/* The fastest of those that take it; NULL where there is no choice. */
static const struct ct_conv_impl *race(
    struct ct_conv *c, const struct ct_conv_impl *const *impls)
{
    const struct ct_conv_impl *best = NULL;
    struct arrays a                 = { 0 };
    double least                    = 0;
    int n                           = 0;

    if (arrays_init(c, &a) != CT_OK) {
        arrays_fini(&a);
        return NULL;
    }
    c->why[0] = '\0';
    for (int i = 0; impls[i] && impls[i + 1]; i++) {
        const size_t at = strlen(c->why);
        double took     = measure(c, impls[i], &a);

        if (took < 0)
            continue;
        snprintf(c->why + at, sizeof(c->why) - at, "%s%s %.3f ms",
                 n ? ", " : "measured: ", impls[i]->name, 1e3 * took);
        if (n++ == 0 || took < least) {
            best  = impls[i];
            least = took;
        }
    }
    arrays_fini(&a);
    return n > 1 ? best : NULL;
}

static const struct ct_conv_impl *named(
    const char *name, const struct ct_conv_impl *const *impls)
{
    for (int i = 0; name && impls[i]; i++)
        if (strcmp(impls[i]->name, name) == 0)
            return impls[i];
    return NULL;
}

const struct ct_conv_impl *ct_conv_tuned(
    struct ct_conv *c, const struct ct_conv_impl *const *impls)
{
    const char *mode = getenv("CORTADO_TUNE");
    const struct ct_conv_impl *found;
    struct ct_text key = { 0 };

    snprintf(c->why, sizeof(c->why), "first that takes it");
    if (c->desc.untuned || c->desc.batch == 0 || ct_impl_forced("conv") ||
        (mode && strcmp(mode, "off") == 0))
        return NULL;
    if (!c->work->choices &&
        ct_choices_open("conv-cpu", &c->work->choices) != CT_OK)
        return NULL;
    key_of(c, &key);
    if (key.failed)
        return NULL;
    found = named(ct_choices_find(c->work->choices, key.s), impls);
    if (found) {
        snprintf(c->why, sizeof(c->why), "measured before");
    } else if (mode && strcmp(mode, "measure") == 0) {
        found = race(c, impls);
        if (found)
            ct_choices_keep(c->work->choices, key.s, found->name);
        else
            snprintf(c->why, sizeof(c->why), "the only one that takes it");
    }
    ct_text_fini(&key);
    return found;
}
