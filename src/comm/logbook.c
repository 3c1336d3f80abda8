/* logbook.c - the last collectives of a rank. */
#include "comm/logbook.h"

#include <string.h>

#include "base/pulse.h"

static void put(atomic_uint_least64_t *to, uint64_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t get(const atomic_uint_least64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static void put_text(atomic_uint_least64_t *to, int n_words, const char *text)
{
    for (int i = 0; i < n_words; i++) {
        uint64_t word = 0;
        size_t n      = strnlen(text, sizeof(word));

        memcpy(&word, text, n);
        put(&to[i], word);
        text += n; /* n is 0 at the end of the text */
    }
}

static void get_text(const atomic_uint_least64_t *from, int n_words, char *to)
{
    for (int i = 0; i < n_words; i++) {
        const uint64_t word = get(&from[i]);

        memcpy(to + 8 * i, &word, sizeof(word));
    }
    to[8 * n_words] = '\0';
}

uint64_t ct_logbook_begin(struct ct_logbook *b, uint64_t channel,
                          uint64_t sequence, const char *what, uint64_t bytes,
                          const char *label)
{
    struct ct_logbook_slot *s;
    uint64_t number;

    if (!b)
        return 0;
    number = atomic_fetch_add_explicit(&b->n, 1, memory_order_relaxed) + 1;
    s      = &b->slot[(number - 1) % CT_LOGBOOK_ENTRIES];
    put(&s->number, 0);
    atomic_thread_fence(memory_order_release);
    put(&s->channel, channel);
    put(&s->sequence, sequence);
    put(&s->bytes, bytes);
    put(&s->begun, ct_pulse_now());
    put(&s->ended, 0);
    put_text(s->what, CT_LOGBOOK_WHAT_WORDS, what);
    put_text(s->label, CT_LOGBOOK_LABEL_WORDS, label ? label : "");
    atomic_store_explicit(&s->state, CT_LOGBOOK_BEGUN, memory_order_relaxed);
    atomic_store_explicit(&s->number, number, memory_order_release);
    return number;
}

void ct_logbook_end(struct ct_logbook *b, uint64_t number, enum ct_status st)
{
    struct ct_logbook_slot *s;

    if (!b || number == 0)
        return;
    s = &b->slot[(number - 1) % CT_LOGBOOK_ENTRIES];
    if (get(&s->number) != number)
        return;
    put(&s->ended, ct_pulse_now());
    atomic_store_explicit(&s->state, st == CT_OK ? CT_LOGBOOK_DONE
                                                 : CT_LOGBOOK_FAILED,
                          memory_order_relaxed);
}

void ct_logbook_pen_begin(struct ct_logbook_pen *p, uint64_t channel,
                          uint64_t sequence, const char *what, uint64_t bytes)
{
    ct_logbook_pen_end(p, CT_OK);
    p->open = ct_logbook_begin(p->book, channel, sequence, what, bytes,
                               p->label);
}

void ct_logbook_pen_end(struct ct_logbook_pen *p, enum ct_status st)
{
    ct_logbook_end(p->book, p->open, st);
    p->open = 0;
}

bool ct_logbook_read(const struct ct_logbook *b, uint64_t number,
                     struct ct_logbook_entry *out)
{
    const struct ct_logbook_slot *s =
        &b->slot[(number - 1) % CT_LOGBOOK_ENTRIES];

    if (number == 0 ||
        atomic_load_explicit(&s->number, memory_order_acquire) != number)
        return false;
    *out = (struct ct_logbook_entry){
        .number   = number,
        .channel  = get(&s->channel),
        .sequence = get(&s->sequence),
        .bytes    = get(&s->bytes),
        .begun    = get(&s->begun),
        .ended    = get(&s->ended),
        .state    = (enum ct_logbook_state)atomic_load_explicit(
            &s->state, memory_order_relaxed),
    };
    get_text(s->what, CT_LOGBOOK_WHAT_WORDS, out->what);
    get_text(s->label, CT_LOGBOOK_LABEL_WORDS, out->label);
    atomic_thread_fence(memory_order_acquire);
    return get(&s->number) == number;
}
