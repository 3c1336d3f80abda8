/* conv_tune.c - implementations of a convolution, timed on its shape.
 *
 * The first in their order that takes the description runs against those that
 * come behind it: turn by turn, each all its passes on zeros.  The sum of the
 * shortest times counts, and to win over the first takes a lead that noise
 * seldom gives, twice: bits are not to change for nothing.  In bfloat16, where
 * arrays are of one kind, one of the others may have some passes alone: a
 * choice is "amx", or "amx onednn:fw" where oneDNN runs forward and makes the
 * gradient of weights.  The reference does not take part, nor in a lane what
 * would wake the threads of its library.
 *
 * Choices are kept in the file `conv-cpu` of the cache folder (choice.h) under
 * the CPU, its threads, oneDNN's version and the description.  Whether there
 * is measuring at all is said in tuning.h. */
#include "device/cpu/conv_tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif
#ifdef CT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "device/choice.h"
#include "device/cpu/amx.h"
#include "device/layout.h"
#include "device/tuning.h"

enum { TURNS = 10, LEAST_TURNS = 2, MOST_RACERS = 8 };
static const double LONG = 0.02; /* seconds of one racer; no more turns then */
static const double FAR_BEHIND = 1.3; /* times the first's, in every pass */

/* How much of the first's time may be used to win over it.  Several threads
 * are timed on the wall, which others disturb. */
static double lead(void)
{
    return ct_device_cpu_threads() == 1 ? 0.97 : 0.9;
}

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

/* A version that knows more implementations measures again. */
static void key_of(const struct ct_conv *c,
                   const struct ct_conv_impl *const *impls, struct ct_text *t)
{
    const struct ct_conv_desc *d = &c->desc;
    /* What was measured without AMX's tiles says nothing about them. */
    const char *type = !ct_conv_is_short(d) ? ""
                       : ct_amx_runs()      ? " bf16 amx"
                                            : " bf16";
    char name[64], version[32] = "none";
    int n = 0;

    while (impls[n])
        n++;

    processor(name);
#ifdef CT_HAVE_ONEDNN
    snprintf(version, sizeof(version), "%d.%d.%d", dnnl_version()->major,
             dnnl_version()->minor, dnnl_version()->patch);
#endif
    ct_text_addf(t, "%s, %d threads, oneDNN %s, %d ways: %" PRId64 " x %" PRId64
                 " to %" PRId64 " in %" PRId64 " groups, layouts %d %d%s, ends "
                 "%d%d%d%d%d%d,", name, ct_device_cpu_threads(), version,
                 n, d->batch, d->in_channels, d->out_channels, d->group,
                 (int)d->src_layout, (int)d->dst_layout,
                 type, d->has_bias, d->sum, d->relu, d->packed,
                 d->forward_only, c->work->lane);
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
    float *x, *y, *w, *dw, *b;
};

static void arrays_fini(struct arrays *a)
{
    ct_free(a->x);
    ct_free(a->y);
    ct_free(a->w);
    ct_free(a->dw);
    ct_free(a->b);
}

/* Zeros that are written: memory which nobody has touched is one page.  In all
 * threads, as it may take longer than what is measured. */
static enum ct_status array_init(const struct ct_conv *c, int64_t n,
                                 enum ct_dtype type, float **out)
{
    const int64_t floats = type == CT_BF16 ? (n + 1) / 2 : n;

    CT_TRY(ct_alloc((size_t)floats, sizeof(**out), "tuning", out));
    return ct_fill(c->dev, floats, 0, *out);
}

static enum ct_status arrays_init(const struct ct_conv *c, struct arrays *a)
{
    const struct ct_conv_desc *d = &c->desc;
    const int64_t in  = ct_layout_block(d->src_layout, d->in_channels) *
                        ct_layout_blocks(d->src_layout, d->in_channels);
    const int64_t out = ct_layout_block(d->dst_layout, d->out_channels) *
                        ct_layout_blocks(d->dst_layout, d->out_channels);
    const int64_t n   = d->out_channels * c->in_group * c->taps;

    CT_TRY(array_init(c, d->batch * in * c->in_spatial, d->src_type, &a->x));
    CT_TRY(array_init(c, d->batch * out * c->out_spatial, d->dst_type, &a->y));
    CT_TRY(array_init(c, n, CT_F32, &a->w));
    CT_TRY(array_init(c, n, CT_F32, &a->dw));
    return array_init(c, d->out_channels, CT_F32, &a->b);
}

/* Up to four channels are those of images, whose gradient nobody wants. */
static bool has_pass(const struct ct_conv_desc *d, int pass)
{
    const bool forward_only = d->forward_only || d->packed;

    return pass == 0 || (!forward_only && (pass == 2 || d->in_channels > 4));
}

/* As many as take the time of one in float32: AMX makes eight in it. */
static double all_macs(const struct ct_conv_desc *d)
{
    const double share = ct_conv_is_short(d) && ct_amx_runs() ? 0.125 : 1;

    return share * (1 + has_pass(d, 1) + has_pass(d, 2)) * ct_conv_macs(d);
}

static enum ct_status pass_run(struct ct_conv *c, int pass, struct arrays *a)
{
    float *b = c->desc.has_bias ? a->b : NULL;

    if (pass == 0)
        return ct_conv_forward(c, a->x, a->w, b, a->y);
    if (pass == 1)
        return ct_conv_backward_data(c, a->w, a->y, a->x);
    return ct_conv_backward_weights(c, a->x, a->y, a->dw, b);
}

/* One that takes part, with the shortest time of each pass. */
struct racer {
    struct ct_conv *c;
    struct ct_conv  own; /* what c points to, but for the first's */
    double          best[3], spent;
    bool            out; /* it failed */
};

static double time_of(const struct racer *r)
{
    return r->best[0] + r->best[1] + r->best[2];
}

static void turn(struct racer *r, struct arrays *a)
{
    for (int p = 0; p < 3 && !r->out; p++) {
        const double start = now();
        double took;

        if (!has_pass(&r->c->desc, p))
            continue;
        r->out = pass_run(r->c, p, a) != CT_OK;
        took   = now() - start;
        r->spent += took;
        if (r->best[p] <= 0 || took < r->best[p])
            r->best[p] = took;
    }
}

/* Whether a racer is behind the first by so much, in every pass, that no turn
 * will change it. */
static bool hopeless(const struct racer *first, const struct racer *r)
{
    bool behind = true;

    for (int p = 0; p < CT_CONV_PASSES; p++)
        behind &= !has_pass(&r->c->desc, p) ||
                  r->best[p] > FAR_BEHIND * first->best[p];
    return r->out || behind;
}

/* Side by side, so that what else the machine does disturbs all of them.  What
 * time there is goes to those that may win: who is far behind stops, and the
 * first does when it is alone. */
static void turns(struct racer *r, int n, struct arrays *a)
{
    for (int i = 0; i < n; i++)
        r[i].spent = r[i].best[0] = r[i].best[1] = r[i].best[2] = 0;
    for (int t = 0; t < TURNS; t++) {
        bool in[MOST_RACERS] = { false };

        for (int i = 1; i < n; i++) {
            in[i] = t < LEAST_TURNS ||
                    (r[i].spent < LONG && !hopeless(&r[0], &r[i]));
            in[0] |= in[i];
        }
        for (int i = 0; i < n; i++)
            if (in[i])
                turn(&r[i], a);
    }
}

static bool racer_init(struct racer *r, const struct ct_conv *like,
                       const struct ct_conv_impl *impl)
{
    if (!ct_conv_may(like, impl))
        return false;
    *r          = (struct racer){ .own = *like };
    r->c        = &r->own;
    r->c->impl  = impl;
    r->c->state = NULL;
    r->c->plain = NULL;
    r->c->other = NULL;
    r->c->own   = (struct ct_workspace){ .lane = like->work->lane };
    r->c->work  = &r->c->own;
    if (impl->create(r->c) == CT_OK)
        return true;
    impl->destroy(r->c);
    ct_workspace_fini(&r->c->own);
    return false;
}

static void racer_fini(struct racer *r)
{
    r->c->impl->destroy(r->c);
    ct_workspace_fini(&r->c->own);
    ct_free(r->c->plain);
}

/* Weights as the passes will find them. */
static void prepare(struct racer *r, bool rests, const struct arrays *a)
{
    bool kept;

    r->c->copies = false;
    if (r->c->desc.packed)
        r->out = ct_conv_pack(r->c, a->w, &kept) != CT_OK;
    else
        r->c->tiles = rests && ct_conv_takes_tiles(r->c);
}

/* A product would use threads that other lanes are on. */
static bool may_race(const struct ct_conv *c, const struct ct_conv_impl *impl)
{
    return !c->work->lane ||
           (impl != &ct_conv_gemm && impl != &ct_conv_float32);
}

static int gather(struct ct_conv *c, const struct ct_conv_impl *const *impls,
                  struct racer *r)
{
    int i = 0, n = 1;

    r[0] = (struct racer){ .c = c };
    while (impls[i] && impls[i] != c->impl)
        i++;
    if (!impls[i])
        return n;
    for (i++; impls[i] && impls[i + 1] && n < MOST_RACERS; i++)
        n += may_race(c, impls[i]) && racer_init(&r[n], c, impls[i]);
    return n;
}

/* Which passes r[1] has a lead in, over r[0], and how much they save. */
static double lead_in(const struct racer *r, const struct racer *other,
                      bool pass[CT_CONV_PASSES])
{
    double saved = 0;

    for (int p = 0; p < CT_CONV_PASSES; p++) {
        pass[p] = !other->out && other->best[p] < lead() * r->best[p];
        saved += pass[p] ? r->best[p] - other->best[p] : 0;
    }
    return saved;
}

/* All passes by one or the other. */
static double lead_of_all(const struct racer *r, const struct racer *other,
                          bool pass[CT_CONV_PASSES])
{
    const bool faster = !other->out && time_of(other) < lead() * time_of(r);

    for (int p = 0; p < CT_CONV_PASSES; p++)
        pass[p] = faster;
    return faster ? time_of(r) - time_of(other) : 0;
}

static void say_times(const struct racer *r, int n, char why[128])
{
    snprintf(why, 128, "measured: ");
    for (int i = 0; i < n; i++) {
        const size_t at = strlen(why);

        if (!r[i].out)
            snprintf(why + at, 128 - at, "%s%s %.3f ms", i ? ", " : "",
                     r[i].c->impl->name, 1e3 * time_of(&r[i]));
    }
}

/* Where weights lie in tiles, one that knows none would work on copies. */
static bool may_share(const struct racer *r, const struct racer *other)
{
    return ct_conv_is_short(&r->c->desc) && !r->c->desc.packed &&
           (other->c->tiles || !r->c->tiles);
}

/* The one that saves most, if it does so twice. */
static struct ct_conv_choice judge(struct racer *r, int n, struct arrays *a,
                                   char why[128])
{
    struct ct_conv_choice c = { .impl = r[0].c->impl };
    int best                = 0;
    double most             = 0;
    bool all                = true;

    turns(r, n, a);
    say_times(r, n, why);
    for (int i = 1; i < n; i++) {
        const double saved = may_share(&r[0], &r[i])
                                 ? lead_in(&r[0], &r[i], c.others)
                                 : lead_of_all(&r[0], &r[i], c.others);

        best = saved > most ? i : best;
        most = saved > most ? saved : most;
    }
    if (best > 0) {
        struct racer pair[2] = { r[0], r[best] };

        turns(pair, 2, a);
        most = may_share(&pair[0], &pair[1])
                   ? lead_in(&pair[0], &pair[1], c.others)
                   : lead_of_all(&pair[0], &pair[1], c.others);
    }
    if (most <= 0)
        return c;
    for (int p = 0; p < CT_CONV_PASSES; p++)
        all &= c.others[p] || !has_pass(&r[0].c->desc, p);
    if (all)
        return (struct ct_conv_choice){ .impl = r[best].c->impl };
    c.other = r[best].c->impl;
    return c;
}

static struct ct_conv_choice race(struct ct_conv *c,
                                  const struct ct_conv_impl *const *impls,
                                  char why[128])
{
    struct ct_conv_choice best = { 0 };
    struct racer r[MOST_RACERS];
    struct arrays a = { 0 };
    const bool tiles = c->tiles, copies = c->copies;
    const int n      = gather(c, impls, r);

    if (n > 1 && arrays_init(c, &a) == CT_OK) {
        for (int i = 0; i < n; i++)
            prepare(&r[i], c->work->tuning->packs, &a);
        if (!r[0].out)
            best = judge(r, n, &a, why);
        c->tiles  = tiles;
        c->copies = copies;
    }
    for (int i = 1; i < n; i++)
        racer_fini(&r[i]);
    arrays_fini(&a);
    return best;
}

static const char letters[] = "fdw"; /* forward, data, weights */

static void choice_text(const struct ct_conv_choice *c, struct ct_text *t)
{
    ct_text_addf(t, "%s", c->impl->name);
    if (!c->other)
        return;
    ct_text_addf(t, " %s:", c->other->name);
    for (int p = 0; p < CT_CONV_PASSES; p++)
        if (c->others[p])
            ct_text_addf(t, "%c", letters[p]);
}

static const struct ct_conv_impl *named(
    const struct ct_conv *c, const struct ct_conv_impl *const *impls,
    const char *name, size_t length)
{
    for (int i = 0; impls[i]; i++)
        if (strlen(impls[i]->name) == length &&
            strncmp(impls[i]->name, name, length) == 0)
            return may_race(c, impls[i]) ? impls[i] : NULL;
    return NULL;
}

/* False: it is no choice, or none for c. */
static bool read_choice(const struct ct_conv *c,
                        const struct ct_conv_impl *const *impls,
                        const char *text, struct ct_conv_choice *out)
{
    const size_t first = strcspn(text, " ");
    const char *other  = text + first + 1, *passes;

    *out = (struct ct_conv_choice){ .impl = named(c, impls, text, first) };
    if (!out->impl || !text[first])
        return out->impl;
    passes = other + strcspn(other, ":");
    if (!*passes || !ct_conv_is_short(&c->desc))
        return false;
    out->other = named(c, impls, other, (size_t)(passes - other));
    for (int p = 0; p < CT_CONV_PASSES; p++)
        out->others[p] = strchr(passes, letters[p]);
    return out->other;
}

/* Whether choices play a part in what runs c. */
static bool open_to(const struct ct_conv *c)
{
    return c->work->tuning && c->work->tuning->choices && !c->desc.untuned &&
           c->desc.batch > 0;
}

bool ct_conv_known(struct ct_conv *c, const struct ct_conv_impl *const *impls,
                   struct ct_conv_choice *out)
{
    struct ct_text key = { 0 };
    const char *text   = NULL;

    snprintf(c->why, sizeof(c->why), "first that takes it");
    if (!open_to(c))
        return false;
    key_of(c, impls, &key);
    if (!key.failed)
        text = ct_choices_find(c->work->tuning->choices, key.s);
    ct_text_fini(&key);
    if (!text || !read_choice(c, impls, text, out))
        return false;
    snprintf(c->why, sizeof(c->why), "measured before");
    return true;
}

bool ct_conv_measure(struct ct_conv *c,
                     const struct ct_conv_impl *const *impls, char why[128])
{
    struct ct_tuning *t        = c->work->tuning;
    struct ct_conv_choice best = { 0 };
    struct ct_text key = { 0 }, text = { 0 };
    const double began = ct_now();

    if (!open_to(c) || !ct_tuning_may(t, all_macs(&c->desc)))
        return false;
    key_of(c, impls, &key);
    if (!key.failed && !ct_choices_find(t->choices, key.s)) {
        if (t->left > 0 || t->all)
            best = race(c, impls, why);
        else
            ct_tuning_settle(t, key.s, c->impl->name);
    }
    if (best.impl)
        choice_text(&best, &text);
    if (best.impl && !text.failed)
        ct_tuning_keep(t, key.s, text.s, ct_now() - began);
    ct_text_fini(&text);
    ct_text_fini(&key);
    return best.impl != NULL;
}
