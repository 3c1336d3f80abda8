/* trace.c - the recorder: a block of events per thread, and shared names.
 *
 * Blocks and names stay until the process ends: a thread that is still at the
 * end of a span may write to its block after the stop.  A thread that finds
 * its block of an earlier recording starts it anew. */
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_EVENTS = 1 << 16, NAME_SLOTS = 1 << 13 };

/* A thread's span, with the name as a pointer that stays valid. */
struct event {
    uint64_t start, end;
    struct ct_trace_about about;
    const char *name;
    uint32_t kind;
};

struct block {
    struct block     *next; /* in the list of all; never changes */
    char              thread[32];
    atomic_uint       recording; /* whose events it has */
    atomic_uint       n;
    atomic_uint       n_dropped;
    struct event      event[BLOCK_EVENTS];
};

/* This process's: see the header. */
atomic_bool ct_trace_recording;
static atomic_uint recording_number;
static struct block *_Atomic blocks;
static char *_Atomic names[NAME_SLOTS];
static _Thread_local struct block *mine;
static _Thread_local char my_name[32];

uint64_t ct_trace_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The one copy of `name`.  A full table has no place for more names. */
static const char *intern(const char *name)
{
    uint64_t hash = 14695981039346656037u;

    for (const char *s = name; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 1099511628211u;
    for (unsigned i = 0; i < NAME_SLOTS; i++) {
        char *_Atomic *slot = &names[(hash + i) % NAME_SLOTS];
        char *there         = atomic_load(slot), *copy;

        if (!there) {
            copy = strdup(name);
            if (!copy)
                return "(no memory)";
            if (atomic_compare_exchange_strong(slot, &there, copy))
                return copy;
            free(copy); /* another thread was first, with any name */
        }
        if (strcmp(there, name) == 0)
            return there;
    }
    return "(too many names)";
}

static void take_name(struct block *b)
{
    if (my_name[0])
        memcpy(b->thread, my_name, sizeof(b->thread));
    else
        snprintf(b->thread, sizeof(b->thread), "thread %d", (int)gettid());
}

/* This thread's block for the recording under way; NULL: no memory. */
static struct block *my_block(void)
{
    const unsigned number = atomic_load(&recording_number);

    if (!mine) {
        mine = calloc(1, sizeof(*mine));
        if (!mine)
            return NULL;
        mine->next = atomic_load(&blocks);
        take_name(mine);
        while (!atomic_compare_exchange_weak(&blocks, &mine->next, mine))
            continue;
    }
    if (atomic_load_explicit(&mine->recording, memory_order_relaxed) !=
        number) {
        take_name(mine);
        atomic_store(&mine->n, 0);
        atomic_store(&mine->n_dropped, 0);
        atomic_store(&mine->recording, number);
    }
    return mine;
}

void ct_trace_add(uint64_t start, enum ct_trace_kind kind, const char *name,
                  const struct ct_trace_about *about)
{
    const uint64_t end = ct_trace_now();
    struct block *b    = my_block();
    unsigned n;

    if (!b)
        return;
    n = atomic_load_explicit(&b->n, memory_order_relaxed);
    if (n == BLOCK_EVENTS) {
        atomic_fetch_add(&b->n_dropped, 1);
        return;
    }
    b->event[n] = (struct event){ .start = start,
                                  .end   = end,
                                  .name  = intern(name ? name : "?"),
                                  .kind  = (uint32_t)kind };
    if (about)
        b->event[n].about = *about;
    atomic_store_explicit(&b->n, n + 1, memory_order_release);
}

void ct_trace_thread(const char *name)
{
    snprintf(my_name, sizeof(my_name), "%s", name);
}

void ct_trace_start(void)
{
    atomic_fetch_add(&recording_number, 1);
    atomic_store(&ct_trace_recording, true);
}

void ct_trace_stop(void)
{
    atomic_store(&ct_trace_recording, false);
}

/* Where `name` begins among the bytes of `all`, which it is added to.  `seen`
 * has the pointers that have been added and where. */
struct seen {
    const char *name[NAME_SLOTS];
    uint32_t    at[NAME_SLOTS];
};

static uint32_t name_at(struct seen *seen, struct ct_text *all,
                        const char *name)
{
    size_t i = ((uintptr_t)name >> 4) % NAME_SLOTS;

    for (int n = 0; n < NAME_SLOTS; n++, i = (i + 1) % NAME_SLOTS) {
        if (seen->name[i] == name)
            return seen->at[i];
        if (seen->name[i])
            continue;
        seen->name[i] = name;
        seen->at[i]   = (uint32_t)all->n_bytes;
        ct_text_add_bytes(all, name, strlen(name) + 1);
        return seen->at[i];
    }
    return 0; /* cannot be: there are no more names than slots */
}

static void pack_block(const struct block *b, struct seen *seen,
                       struct ct_text *all, struct ct_text *out)
{
    const unsigned n = atomic_load_explicit(&b->n, memory_order_acquire);
    struct ct_trace_track track = { .n_events = n };

    memcpy(track.name, b->thread, sizeof(track.name));
    ct_text_add_bytes(out, &track, sizeof(track));
    for (unsigned i = 0; i < n; i++) {
        const struct event *e = &b->event[i];
        struct ct_trace_event packed = {
            .start = e->start, .end = e->end, .about = e->about,
            .name = name_at(seen, all, e->name), .kind = e->kind };

        ct_text_add_bytes(out, &packed, sizeof(packed));
    }
}

void ct_trace_pack(int rank, struct ct_text *out)
{
    const unsigned number = atomic_load(&recording_number);
    struct ct_trace_part part = { .magic = CT_TRACE_MAGIC, .rank = rank,
                                  .pid = (int32_t)getpid() };
    struct ct_text all = { 0 };
    struct seen *seen  = calloc(1, sizeof(*seen));
    const size_t head  = out->n_bytes;

    if (gethostname(part.host, sizeof(part.host) - 1) != 0)
        snprintf(part.host, sizeof(part.host), "unknown");
    ct_text_add_bytes(out, &part, sizeof(part));
    for (const struct block *b = atomic_load(&blocks); b && seen;
         b = b->next) {
        if (atomic_load(&b->recording) != number)
            continue;
        pack_block(b, seen, &all, out);
        part.n_tracks++;
        part.n_dropped += atomic_load(&b->n_dropped);
    }
    free(seen);
    part.n_names = all.n_bytes;
    ct_text_add_bytes(out, all.s ? all.s : "", all.n_bytes);
    out->failed |= all.failed;
    ct_text_fini(&all);
    if (!out->failed)
        memcpy(out->s + head, &part, sizeof(part));
}
