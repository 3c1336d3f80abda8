/* journal_times.c - where the time of a step goes.
 *
 * The pulse says what the rank is at; looking there up to twenty times a second
 * tells how the time is shared out, and costs the rank nothing.  Layers that
 * run as one are seen at the turn of the last of them.  Old samples fade: half
 * a minute is half.  Where layers are clocked (journal_clocked.c), samples tell
 * of phases alone. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "observe/journal_inner.h"
#include "observe/json.h"

static const double fade_every = 30;

enum ct_status journal_times_init(struct ct_journal *j)
{
    const size_t n = (size_t)ct_net_n_layers(ct_solver_net(j->solver)) + 1;

    CT_TRY(ct_alloc(n, sizeof(double), "times", &j->times.forward));
    CT_TRY(ct_alloc(n, sizeof(double), "times", &j->times.backward));
    j->times.last      = ct_now();
    j->times.next_fade = j->times.last + fade_every;
    j->times.last_iter = j->start_iter;
    j->times.clocked_iter = -1;
    return CT_OK;
}

void journal_times_fini(struct ct_journal *j)
{
    ct_free(j->times.forward);
    ct_free(j->times.backward);
}

static bool is_at(const struct ct_net *net, int layer, const char *start)
{
    return strncmp(ct_net_layer(net, layer)->name, start,
                   CT_PULSE_WORDS * 8) == 0;
}

/* The pulse has the start of the name; the layer is near the one before. */
static int find_layer(const struct ct_net *net, int from, const char *start)
{
    const int n = ct_net_n_layers(net);

    for (int i = 0; i < n; i++)
        if (is_at(net, (from + i) % n, start))
            return (from + i) % n;
    return -1;
}

static void fade(struct ct_journal *j)
{
    struct journal_times *t = &j->times;
    const int n             = ct_net_n_layers(ct_solver_net(j->solver));

    for (int i = 0; i < n && !j->clocked.dev; i++) {
        t->forward[i] /= 2;
        t->backward[i] /= 2;
    }
    for (int i = 0; i < CT_PULSE_N_PHASES; i++)
        t->phase[i] /= 2;
    t->iterations /= 2;
}

void journal_times_sample(struct ct_journal *j, double now)
{
    struct journal_times *t      = &j->times;
    const struct ct_pulse_view v = ct_pulse_view(j->pulse);
    const double lapse           = now - t->last;
    int layer;

    t->last = now;
    t->iterations += v.iter > t->last_iter ? v.iter - t->last_iter : 0;
    t->last_iter = v.iter;
    if (v.phase < 0 || v.phase >= CT_PULSE_N_PHASES || lapse > 2)
        return;
    t->n_samples++;
    t->phase[v.phase] += lapse;
    if (!j->clocked.dev &&
        (v.phase == CT_PULSE_FORWARD || v.phase == CT_PULSE_BACKWARD ||
         v.phase == CT_PULSE_DATA)) {
        layer = find_layer(ct_solver_net(j->solver), t->last_layer, v.layer);
        if (layer >= 0) {
            (v.phase == CT_PULSE_BACKWARD ? t->backward
                                          : t->forward)[layer] += lapse;
            t->last_layer = layer;
        }
    }
    if (now >= t->next_fade) {
        fade(j);
        t->next_fade = now + fade_every;
    }
}

void journal_times_clocked(struct ct_journal *j)
{
    const struct journal_clocked *c = &j->clocked;
    const size_t bytes = (size_t)ct_net_n_layers(ct_solver_net(j->solver)) *
                         sizeof(double);

    if (c->seconds <= 0)
        return;
    memcpy(j->times.forward, c->forward, bytes);
    memcpy(j->times.backward, c->backward, bytes);
    j->times.clocked_iter = j->look.iter;
}

enum ct_status journal_times_write(struct ct_journal *j)
{
    const struct journal_times *times = &j->times;
    const struct ct_net *net          = ct_solver_net(j->solver);
    const double n      = times->iterations > 0 ? times->iterations : 1;
    const double passes = j->clocked.dev ? 1 : n; /* that layers are of */
    struct ct_text t    = { 0 };

    ct_text_add(&t, "{");
    ct_json_field_number(&t, "time", journal_clock());
    ct_json_field_number(&t, "iter", atomic_load(&j->iter));
    ct_json_field_number(&t, "step_seconds", j->step_seconds);
    ct_json_field_number(&t, "samples", (double)times->n_samples);
    ct_json_key(&t, "phases");
    ct_text_add(&t, "{");
    for (int i = CT_PULSE_DATA; i < CT_PULSE_SERVING; i++)
        ct_json_field_number(&t, ct_pulse_phase_name(i),
                             times->phase[i] / n);
    ct_text_add(&t, "}");
    if (times->clocked_iter >= 0)
        ct_json_field_number(&t, "clocked_iter", times->clocked_iter);
    ct_json_key(&t, "layers");
    ct_text_add(&t, "[");
    for (int i = 0; i < ct_net_n_layers(net); i++) {
        ct_json_comma(&t);
        ct_text_add(&t, "[");
        ct_json_add_number(&t, times->forward[i] / passes);
        ct_json_comma(&t);
        ct_json_add_number(&t, times->backward[i] / passes);
        ct_text_add(&t, "]");
    }
    ct_text_add(&t, "]}\n");
    return ct_output_replace(j->folder, "times.json", &t);
}
