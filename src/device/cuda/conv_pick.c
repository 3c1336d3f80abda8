/* conv_pick.c - measures the ways through a pass and keeps the fastest. */
#include "device/cuda/conv_pick.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "device/choice.h"
#include "device/cuda/conv_trial.h"
#include "device/impl.h"

/* Plans that are tried on one way: the library's first guesses, or many. */
enum { TRIES = 10, TRIES_ALL = 48 };

static const size_t quick_work = (size_t)256 << 20; /* without measuring */

static const char *const pass_name[CT_WEIGHTED_PASSES] = {
    [CT_FORWARD]          = "forward",
    [CT_BACKWARD]         = "data",
    [CT_BACKWARD_WEIGHTS] = "weights",
};

static const char *layout_name(enum ct_layout l)
{
    return l == CT_NHWC ? "nhwc" : "plain";
}

static const char *dtype_name(enum ct_dtype t)
{
    return t == CT_BF16 ? "bf16" : t == CT_F16 ? "f16" : "f32";
}

static void add_sizes(struct ct_text *t, const char *what, int n,
                      const int64_t *v)
{
    ct_text_add(t, what);
    for (int i = 0; i < n; i++)
        ct_text_addf(t, "%s%" PRId64, i ? "x" : "", v[i]);
}

/* Whether results have to repeat bit for bit: in canonical training, and with
 * CORTADO_IMPL=engines:repeating. */
static bool must_repeat(const struct ct_conv *c)
{
    return c->desc.untuned || !ct_impl_allowed("engines", "any");
}

/* All that the choice depends on; the first number is that of our lists of
 * engines, by whose places choices are kept. */
static enum ct_status make_key(const struct ct_conv *c, enum ct_pass pass,
                               enum ct_conv_road road, char **out)
{
    const struct ct_conv_desc *d = &c->desc;
    const struct ct_cuda *g      = ct_cuda(c->dev);
    struct ct_text t             = { 0 };

    ct_text_addf(&t, "conv 6 %s cudnn %zu precision %d %s", g->name,
                 g->libs->cudnnGetVersion(), (int)g->precision,
                 pass_name[pass]);
    if (road != CT_CONV_ROADS)
        ct_text_addf(&t, " %s", ct_conv_road_name(road));
    if (must_repeat(c))
        ct_text_add(&t, " repeating");
    if (!ct_impl_allowed("scale", "once"))
        ct_text_add(&t, " scaled twice");
    if (ct_conv_sums_up(c, pass))
        ct_text_add(&t, " sums");
    ct_text_addf(&t, " %" PRId64 "x%" PRId64, d->batch, d->in_channels);
    add_sizes(&t, "x", d->n_spatial, d->in);
    ct_text_addf(&t, " to %" PRId64, d->out_channels);
    add_sizes(&t, " k", d->n_spatial, d->kernel);
    add_sizes(&t, " s", d->n_spatial, d->stride);
    add_sizes(&t, " p", d->n_spatial, d->pad);
    add_sizes(&t, " d", d->n_spatial, d->dilation);
    ct_text_addf(&t, " g%" PRId64 "%s%s %s %s, %s %s", d->group,
                 d->has_bias ? " bias" : "", d->relu ? " relu" : "",
                 layout_name(d->src_layout),
                 dtype_name(d->src_type), layout_name(d->dst_layout),
                 dtype_name(d->dst_type));
    if (t.failed) {
        ct_text_fini(&t);
        return ct_fail(CT_ENOMEM, "no memory for the name of a convolution");
    }
    *out = t.s;
    return CT_OK;
}

struct search {
    const struct ct_conv *c;
    enum ct_pass          pass;
    enum ct_conv_road     road;  /* forced, or CT_CONV_ROADS */
    bool                  quick; /* the first that works */
    bool                  must_repeat; /* its results */
    cudaEvent_t           event[2];
    struct ct_conv_pick  *best;
    bool                  found;
    float                 cost; /* of the best one; see cost_of() */
    float                 ms;
    int                   engine;
};

static bool good(const struct search *s)
{
    return s->found && (s->best->plan.repeats || !s->must_repeat);
}

/* An engine whose results do not repeat has to be worth it; where they must, it
 * is better than none. */
static float cost_of(const struct search *s, const struct ct_conv_plan *plan,
                     float ms)
{
    return plan->repeats ? ms : s->must_repeat ? 1e20f : 1.1f * ms;
}

static void take(struct search *s, const struct ct_conv_way *way,
                 const struct ct_conv_plan *plan, int engine, float ms)
{
    ct_conv_plan_fini(s->c->dev, &s->best->plan);
    s->best->way  = *way;
    s->best->plan = *plan;
    s->found      = true;
    s->engine     = engine;
    s->ms         = ms;
    s->cost       = cost_of(s, plan, ms);
}

static enum ct_status try_engine(struct search *s,
                                 const struct ct_conv_way *way,
                                 struct ct_conv_graph *g, int engine,
                                 const struct ct_trial *t, bool *ran)
{
    struct ct_conv_plan plan;
    enum ct_status st = ct_conv_graph_plan(g, engine, &plan);
    float ms          = 0;

    *ran = false;
    if (st != CT_OK)
        return st == CT_ENOTSUP ? CT_OK : st;
    if (plan.bytes > t->room || (!plan.repeats && s->must_repeat && s->found))
        st = CT_ENOTSUP;
    if (st == CT_OK && !s->quick)
        st = ct_trial_time(s->c, way, &plan, t, s->event, s->cost, &ms);
    *ran = st == CT_OK;
    if (st == CT_OK && (!s->found || cost_of(s, &plan, ms) < s->cost))
        take(s, way, &plan, engine, ms);
    else
        ct_conv_plan_fini(s->c->dev, &plan);
    /* An engine that fails is not taken; a lost device shows in the next. */
    return CT_OK;
}

/* Products in float32 gain by engines of which the library does not think by
 * itself, transforms for one; nor does it of all that take a bias. */
static bool asks_all(const struct ct_conv_way *way)
{
    return way->problem.strict || way->fused;
}

static enum ct_status try_way(struct search *s, const struct ct_conv_way *way)
{
    const struct ct_device *dev = s->c->dev;
    const bool all = asks_all(way) && !s->quick;
    struct ct_trial t = { .room = quick_work };
    struct ct_conv_graph *g = NULL;
    enum ct_status st;

    st = ct_conv_graph_create(dev, &way->problem, all, &g);
    if (st != CT_OK)
        return st == CT_ENOTSUP ? CT_OK : st;
    if (!s->quick)
        CT_TRY_GOTO(ct_trial_make(s->c, way, &t), st, out);
    for (int i = 0, n = 0; i < ct_conv_graph_engines(g) &&
                           n < (all ? TRIES_ALL : TRIES); i++) {
        bool ran;

        CT_TRY_GOTO(try_engine(s, way, g, i, &t, &ran), st, out);
        n += ran;
        if (s->quick && good(s))
            break;
    }
out:
    dev->ops->free(dev, t.block);
    ct_conv_graph_destroy(g);
    return st;
}

/* A way without cuDNN has no engines: its plan is empty. */
static enum ct_status try_ours(struct search *s, const struct ct_conv_way *way)
{
    const struct ct_conv_plan plan = { .pass = s->pass, .repeats = true };
    struct ct_trial t                 = { NULL };
    enum ct_status st              = CT_OK;
    float ms                       = 0;

    /* Without measuring, the library is the safer guess. */
    if (s->quick && s->found)
        return CT_OK;
    if (!s->quick) {
        CT_TRY(ct_trial_make(s->c, way, &t));
        st = ct_trial_time(s->c, way, &plan, &t, s->event, s->cost, &ms);
        s->c->dev->ops->free(s->c->dev, t.block);
    }
    if (st == CT_OK && (!s->found || cost_of(s, &plan, ms) < s->cost))
        take(s, way, &plan, way->form, ms);
    /* As an engine that fails: see try_engine(). */
    return CT_OK;
}

/* Every form of a road of ours. */
static enum ct_status try_road(struct search *s, enum ct_conv_road road,
                               enum ct_layout layout, enum ct_dtype dtype)
{
    struct ct_conv_way way;
    enum ct_status st = ct_conv_way_make(s->c, s->pass, road, false, layout,
                                         dtype, &way);

    if (st == CT_OK && road == CT_CONV_DIRECT)
        return try_ours(s, &way);
    for (int i = 0; st == CT_OK && i < ct_conv_road_forms(road, s->pass);
         i++) {
        st = ct_conv_way_form(s->c, i, &way);
        st = st == CT_OK ? try_ours(s, &way) : st == CT_ENOTSUP ? CT_OK : st;
    }
    return st == CT_ENOTSUP ? CT_OK : st;
}

/* Every road in every form that has a chance.  Tensor cores like NHWC, so a
 * plain form is for images that are plain outside too; products in float32 are
 * slower in NHWC, and plain float32 is what cuDNN has for everything. */
static enum ct_status try_ways(struct search *s, enum ct_conv_road road)
{
    const struct ct_conv_desc *d = &s->c->desc;
    const enum ct_dtype dtype    = ct_device_dtype(s->c->dev);
    const bool plain = d->src_layout == CT_PLAIN || d->dst_layout == CT_PLAIN;
    const struct {
        enum ct_layout layout;
        enum ct_dtype  dtype;
        bool           wanted;
    } form[] = { { CT_NHWC, dtype, ct_device_prefers_nhwc(s->c->dev) },
                 { CT_PLAIN, dtype, plain },
                 { CT_PLAIN, CT_F32, false } };

    for (int i = 0; i < 3 && !ct_conv_road_is_ours(road); i++)
        for (int k = 0; k < 2 * CT_CONV_DIRECT; k++) {
            const int r = k / 2;
            struct ct_conv_way way;
            enum ct_status st;

            if ((road != CT_CONV_ROADS && (int)road != r) ||
                (!form[i].wanted && s->found) || (s->quick && good(s)) ||
                (i == 0 && !form[i].wanted))
                continue;
            st = ct_conv_way_make(s->c, s->pass, (enum ct_conv_road)r, k % 2,
                                  form[i].layout, form[i].dtype, &way);
            if (st == CT_OK)
                st = try_way(s, &way);
            if (st != CT_OK && st != CT_ENOTSUP)
                return st;
        }
    if (road == CT_CONV_DIRECT || road == CT_CONV_ROADS)
        CT_TRY(try_road(s, CT_CONV_DIRECT, CT_PLAIN, CT_F32));
    if (road == CT_CONV_PATCH || road == CT_CONV_ROADS)
        CT_TRY(try_road(s, CT_CONV_PATCH, CT_PLAIN, CT_F32));
    if (road == CT_CONV_SLABS || road == CT_CONV_ROADS)
        CT_TRY(try_road(s, CT_CONV_SLABS, CT_NHWC, CT_F16));
    if (road == CT_CONV_POINTS || road == CT_CONV_ROADS)
        CT_TRY(try_road(s, CT_CONV_POINTS, CT_NHWC, CT_BF16));
    if (road == CT_CONV_ENDS || road == CT_CONV_ROADS)
        CT_TRY(try_road(s, CT_CONV_ENDS, CT_NHWC, CT_BF16));
    return CT_OK;
}

static enum ct_status take_engine(struct search *s,
                                  struct ct_conv_way *way, int engine)
{
    struct ct_conv_graph *g  = NULL;
    struct ct_conv_plan plan = { .pass = s->pass, .repeats = true };
    enum ct_status st        = CT_OK;

    if (way->road == CT_CONV_SLABS || way->road == CT_CONV_PATCH ||
        way->road == CT_CONV_POINTS || way->road == CT_CONV_ENDS) {
        st = ct_conv_way_form(s->c, engine, way);
    } else if (way->road != CT_CONV_DIRECT) {
        st = ct_conv_graph_create(s->c->dev, &way->problem, asks_all(way), &g);
        if (st == CT_OK)
            st = ct_conv_graph_plan(g, engine, &plan);
        ct_conv_graph_destroy(g);
    }
    if (st == CT_OK)
        take(s, way, &plan, engine, 0);
    return st;
}

/* A kept choice: "fold nhwc bf16 3 0.171", the last one for people; a fused
 * way is "fold+". */
static enum ct_status take_kept(struct search *s, const char *text)
{
    char road[16], layout[8], dtype[8], *plus;
    struct ct_conv_way way;
    enum ct_status st;
    int engine;

    if (!text || sscanf(text, "%15s %7s %7s %d", road, layout, dtype,
                        &engine) != 4)
        return CT_OK;
    plus = strchr(road, '+');
    if (plus)
        *plus = '\0';
    for (int r = 0; r < CT_CONV_ROADS; r++)
        if (strcmp(road, ct_conv_road_name((enum ct_conv_road)r)) == 0) {
            st = ct_conv_way_make(
                s->c, s->pass, (enum ct_conv_road)r, plus != NULL,
                strcmp(layout, "nhwc") == 0 ? CT_NHWC : CT_PLAIN,
                strcmp(dtype, "bf16") == 0  ? CT_BF16
                : strcmp(dtype, "f16") == 0 ? CT_F16
                                            : CT_F32, &way);
            if (st == CT_OK)
                st = take_engine(s, &way, engine);
            return st == CT_ENOTSUP ? CT_OK : st;
        }
    return CT_OK;
}

static void keep(const struct search *s)
{
    const struct ct_conv_way *way = &s->best->way;
    char text[64];

    snprintf(text, sizeof(text), "%s%s %s %s %d %.4f",
             ct_conv_road_name(way->road), way->fused ? "+" : "",
             layout_name(way->layout),
             dtype_name(way->dtype), s->engine, (double)s->ms);
    ct_choices_keep(ct_cuda(s->c->dev)->choices, s->best->key, text);
}

static enum ct_status measure(struct search *s)
{
    enum ct_status st;

    s->cost = 1e30f;
    for (int i = 0; i < 2; i++)
        CT_TRY_GOTO(ct_cuda_check(s->c->dev, cudaEventCreate(&s->event[i]),
                                  "timing"), st, out);
    CT_TRY_GOTO(try_ways(s, s->road), st, out);
    if (!s->found && s->road != CT_CONV_ROADS)
        CT_TRY_GOTO(try_ways(s, CT_CONV_WHOLE), st, out);
out:
    for (int i = 0; i < 2; i++)
        if (s->event[i])
            (void)cudaEventDestroy(s->event[i]);
    return st;
}

/* Measures, or without room for that takes what the library thinks best. */
static enum ct_status choose(struct search *s)
{
    enum ct_status st = measure(s);

    if (st == CT_ENOMEM && !s->quick) {
        s->quick = true;
        st       = measure(s);
    }
    CT_TRY(st);
    if (!s->found)
        return CT_ENOTSUP;
    if (!s->quick)
        keep(s);
    return CT_OK;
}

static enum ct_status search(struct search *s)
{
    struct ct_choices *kept = NULL;
    enum ct_status st;

    if (s->quick)
        return choose(s);
    CT_TRY(ct_cuda_choices(s->c->dev, &kept));
    CT_TRY(take_kept(s, ct_choices_find(kept, s->best->key)));
    if (s->found)
        return CT_OK;
    ct_choices_alone(kept);
    st = take_kept(s, ct_choices_find(kept, s->best->key));
    if (st == CT_OK && !s->found)
        st = choose(s);
    ct_choices_go_on(kept);
    return st;
}

static void pick_free(const struct ct_device *d, struct ct_conv_pick *p)
{
    ct_conv_plan_fini(d, &p->plan);
    ct_free(p->key);
    ct_free(p);
}

/* Whether sums that are of use are made on the way, without measuring. */
static bool must_sum(enum ct_pass pass)
{
    return pass == CT_FORWARD ? !ct_impl_allowed("moments", "pass")
                              : ct_impl_allowed("ends", "conv");
}

enum ct_status ct_conv_pick_get(const struct ct_conv *c, enum ct_pass pass,
                                enum ct_conv_road road,
                                struct ct_conv_pick **out)
{
    struct ct_cuda *g = ct_cuda(c->dev);
    struct search s   = { .c = c, .pass = pass, .road = road,
                          .quick       = g->host_memory,
                          .must_repeat = must_repeat(c) };
    char *key         = NULL;
    enum ct_status st;

    if (road == CT_CONV_ROADS && ct_conv_sums_up(c, pass) && must_sum(pass))
        s.road = road = ct_conv_sums_road(pass);
    CT_TRY(make_key(c, pass, road, &key));
    for (struct ct_conv_pick *p = g->convs; p; p = p->next)
        if (strcmp(p->key, key) == 0) {
            ct_free(key);
            p->users++;
            *out = p;
            return CT_OK;
        }
    st = ct_alloc(1, sizeof(*s.best), "convolution", &s.best);
    if (st != CT_OK) {
        ct_free(key);
        return st;
    }
    s.best->key   = key;
    s.best->users = 1;
    st            = search(&s);
    if (st != CT_OK) {
        pick_free(c->dev, s.best);
        return st;
    }
    s.best->bytes = ct_conv_way_bytes(&s.best->way, NULL, NULL) +
                    s.best->plan.bytes;
    s.best->next  = g->convs;
    g->convs = *out = s.best;
    return CT_OK;
}

void ct_conv_pick_put(const struct ct_device *d, struct ct_conv_pick *p)
{
    struct ct_conv_pick **at = &ct_cuda(d)->convs;

    if (!p || --p->users > 0)
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    pick_free(d, p);
}
