/* pulse.c - where a rank stands. */
#include "base/pulse.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t ct_pulse_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void put(atomic_uint_least64_t *to, uint64_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_least64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void ct_pulse_init(struct ct_pulse *p)
{
    memset(p, 0, sizeof(*p));
    for (int i = 0; i < CT_PULSE_THREADS; i++)
        atomic_init(&p->wait[i].peer, -1);
    put(&p->changed, ct_pulse_now());
    put(&p->beat, ct_pulse_now());
}

static void put_layer(struct ct_pulse *p, const char *name)
{
    for (int i = 0; i < CT_PULSE_WORDS; i++) {
        uint64_t word = 0;
        size_t n      = strnlen(name, sizeof(word));

        memcpy(&word, name, n);
        put(&p->layer[i], word);
        name += n; /* at its end it stays there */
    }
}

void ct_pulse_set(struct ct_pulse *p, enum ct_pulse_phase phase,
                  const char *layer)
{
    if (!p)
        return;
    put_layer(p, layer ? layer : "");
    atomic_store_explicit(&p->phase, (int)phase, memory_order_relaxed);
    put(&p->changed, ct_pulse_now());
}

void ct_pulse_iter(struct ct_pulse *p, int iter)
{
    if (p)
        atomic_store_explicit(&p->iter, iter, memory_order_relaxed);
}

void ct_pulse_tell_wait(struct ct_pulse *p, enum ct_pulse_thread thread,
                        int peer, uint64_t since)
{
    if (!p)
        return;
    atomic_store(&p->wait[thread].peer, peer);
    atomic_store(&p->wait[thread].since, since);
}

static void view_waits(const struct ct_pulse *p, struct ct_pulse_view *v)
{
    v->peer = -1;
    for (int i = 0; i < CT_PULSE_THREADS; i++) {
        const uint64_t since = get(&p->wait[i].since);

        if (since == 0 || (v->waiting && v->waiting <= since))
            continue;
        v->waiting = since;
        v->peer    = atomic_load_explicit(&p->wait[i].peer,
                                          memory_order_relaxed);
    }
}

struct ct_pulse_view ct_pulse_view(const struct ct_pulse *p)
{
    struct ct_pulse_view v = {
        .changed  = get(&p->changed),
        .beat     = get(&p->beat),
        .waited   = get(&p->waited),
        .sent     = get(&p->sent),
        .memory   = get(&p->memory),
        .device_memory = get(&p->device_memory),
        .phase    = atomic_load_explicit(&p->phase, memory_order_relaxed),
        .iter     = atomic_load_explicit(&p->iter, memory_order_relaxed),
        .sequence = atomic_load_explicit(&p->sequence, memory_order_relaxed),
    };

    view_waits(p, &v);
    for (int i = 0; i < CT_PULSE_WORDS; i++) {
        uint64_t word = get(&p->layer[i]);

        memcpy(v.layer + i * (int)sizeof(word), &word, sizeof(word));
    }
    return v;
}

void ct_pulse_put(struct ct_pulse *p, const struct ct_pulse_view *v)
{
    put_layer(p, v->layer);
    put(&p->changed, v->changed);
    ct_pulse_tell_wait(p, CT_PULSE_COMM, v->peer, v->waiting);
    put(&p->beat, v->beat);
    put(&p->waited, v->waited);
    put(&p->sent, v->sent);
    put(&p->memory, v->memory);
    put(&p->device_memory, v->device_memory);
    atomic_store_explicit(&p->phase, v->phase, memory_order_relaxed);
    atomic_store_explicit(&p->iter, v->iter, memory_order_relaxed);
    atomic_store_explicit(&p->sequence, v->sequence, memory_order_relaxed);
}

uint64_t ct_process_memory(void)
{
    unsigned long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f)
        return 0;
    if (fscanf(f, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

const char *ct_pulse_phase_name(int phase)
{
    static const char *const names[CT_PULSE_N_PHASES] = {
        "start-up", "data", "forward", "backward", "exchange", "update",
        "test", "snapshot", "serving", "done", "the end",
    };

    return names[phase >= 0 && phase < CT_PULSE_N_PHASES ? phase : 0];
}

const char *ct_pulse_text(const struct ct_pulse_view *v, char *text,
                          size_t bytes)
{
    snprintf(text, bytes, "iteration %d, %s%s%s", v->iter,
             ct_pulse_phase_name(v->phase),
             v->layer[0] ? " of layer " : "", v->layer);
    return text;
}
