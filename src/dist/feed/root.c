/* root.c - rank 0 reads for all ranks. */
#include "dist/feed/root.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "comm/coll/transfer.h"
#include "comm/wait.h"
#include "data/feed.h"
#include "dist/engine.h"
#include "dist/feed/block.h"

enum {
    LEAST_AHEAD = 2,
    N_PACKS     = 3,
    WAIT_NS     = 100000000,
    SERVE_NS    = 200000 /* time between two polls if rank 0 also serves */
};

/* The block of this rank for one pass. */
struct slot {
    struct ct_job     job;
    struct dist_root *root;
    struct dist_block block;
    int64_t           pass;
};

/* The blocks of all ranks for one pass, on rank 0.  The lock protects it,
 * except while the reader fills it. */
struct pack {
    struct dist_block *of; /* per rank; owned */
    bool          full;
};

struct dist_root {
    struct ct_feed    base;
    struct ct_dist   *dist; /* borrowed; NULL: the view has ended */
    struct dist_root *next; /* in the list of the same dist */
    int               size, depth, n_slots;
    struct slot      *slot; /* owned */
    int64_t           n_asked, n_steps; /* only the compute thread uses them */
    int64_t           count, pass, item; /* position of next() */
    int64_t           skew; /* of the last seek */
    size_t            at; /* position in the block of that pass */
    /* Only on rank 0: */
    struct ct_feed *source; /* owned */
    int64_t        *counts; /* per rank: samples per pass; owned */
    struct pack     pack[N_PACKS];
    int64_t         first; /* the first pass of the reader */
    pthread_t       reader;
    bool            reads, stop;
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    enum ct_status  failed;
    char            why[512];
};

/* ---- rank 0's reader */

static enum ct_status fill_pack(struct dist_root *f, struct pack *p,
                                struct ct_record *record)
{
    for (int r = 0; r < f->size; r++) {
        p->of[r].bytes = 0;
        for (int64_t i = 0; i < f->counts[r]; i++) {
            CT_TRY(f->source->ops->next(f->source, record));
            CT_TRY(f->source->ops->fetch(f->source, record));
            CT_TRY(dist_block_add(&p->of[r], record));
        }
    }
    return CT_OK;
}

static void *reader_main(void *arg)
{
    struct dist_root *f     = arg;
    struct ct_record record = { 0 };
    enum ct_status st       = CT_OK;

    for (int64_t q = f->first; st == CT_OK; q++) {
        struct pack *p = &f->pack[q % N_PACKS];
        bool stop;

        pthread_mutex_lock(&f->lock);
        while (p->full && !f->stop)
            pthread_cond_wait(&f->moved, &f->lock);
        stop = f->stop;
        pthread_mutex_unlock(&f->lock);
        if (stop)
            break;
        st = fill_pack(f, p, &record);
        pthread_mutex_lock(&f->lock);
        if (st != CT_OK) {
            f->failed = st;
            snprintf(f->why, sizeof(f->why), "%s", ct_last_error());
        }
        p->full = st == CT_OK;
        pthread_cond_broadcast(&f->moved);
        pthread_mutex_unlock(&f->lock);
    }
    ct_record_fini(&record);
    return NULL;
}

static enum ct_status reader_start(struct dist_root *f, int64_t pass,
                                   int64_t skew)
{
    CT_TRY(f->source->ops->seek(f->source, pass, skew));
    f->first  = pass;
    f->stop   = false;
    f->failed = CT_OK;
    for (int i = 0; i < N_PACKS; i++)
        f->pack[i].full = false;
    if (pthread_create(&f->reader, NULL, reader_main, f) != 0)
        return ct_fail(CT_EIO, "cannot start the thread that reads for all");
    f->reads = true;
    return CT_OK;
}

static void reader_stop(struct dist_root *f)
{
    if (!f->reads)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->moved);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->reader, NULL);
    f->reads = false;
}

/* ---- the comm thread */

struct waiting {
    struct dist_root *feed;
    struct pack      *pack;
    long              nap_ns;
};

static void sleep_for_pack(void *arg)
{
    struct waiting *x   = arg;
    struct dist_root *f = x->feed;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += x->nap_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&f->lock);
    if (!x->pack->full && f->failed == CT_OK)
        pthread_cond_timedwait(&f->moved, &f->lock, &until);
    pthread_mutex_unlock(&f->lock);
}

static enum ct_status look(struct dist_root *f, const struct pack *p,
                           bool *full)
{
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&f->lock);
    *full = p->full;
    if (f->failed != CT_OK)
        st = ct_fail(f->failed, "%s", f->why);
    pthread_mutex_unlock(&f->lock);
    return st;
}

static enum ct_status await_pack(struct dist_root *f, struct ct_comm *c,
                                 struct pack *p)
{
    struct waiting x = { f, p, c->background ? SERVE_NS : WAIT_NS };
    struct ct_wait w = { .comm = c, .peer = c->rank, .owner = true,
                         .own = true, .sleep = sleep_for_pack, .arg = &x };
    enum ct_status st;
    bool full;

    ct_wait_begin(&w);
    while ((st = look(f, p, &full)) == CT_OK && !full) {
        st = ct_wait_on(&w);
        if (st != CT_OK)
            break;
    }
    (void)ct_wait_end(&w);
    return st;
}

static enum ct_status hand_out(struct ct_comm *c, struct slot *s)
{
    struct dist_root *f = s->root;
    struct pack *p      = &f->pack[s->pass % N_PACKS];
    struct dist_block mine;

    CT_TRY(await_pack(f, c, p));
    for (int r = 1; r < c->size; r++) {
        const uint64_t bytes = p->of[r].bytes;
        struct ct_request sent;
        struct ct_transfer t = { .to = r, .give = p->of[r].data,
                                 .give_bytes = bytes };

        CT_TRY(ct_comm_send(c, r, ct_comm_tag(c, 0), &bytes, sizeof(bytes),
                            &sent));
        CT_TRY(ct_comm_wait(c, r, &sent));
        CT_TRY(ct_transfer(c, &t, ct_comm_tag(c, 1)));
    }
    mine     = s->block;
    s->block = p->of[0];
    p->of[0] = mine;
    pthread_mutex_lock(&f->lock);
    p->full = false;
    pthread_cond_broadcast(&f->moved);
    pthread_mutex_unlock(&f->lock);
    return CT_OK;
}

static enum ct_status block_job(struct ct_comm *c, void *arg)
{
    struct slot *s = arg;
    struct ct_request got;
    struct ct_transfer t;
    uint64_t bytes = 0;

    ct_comm_begin(c, "deal out samples", 0);
    if (c->rank == 0)
        return hand_out(c, s);
    CT_TRY(ct_comm_receive(c, 0, ct_comm_tag(c, 0), &bytes, sizeof(bytes),
                           &got));
    CT_TRY(ct_comm_wait(c, 0, &got));
    s->block.bytes = 0;
    CT_TRY(dist_block_grow(&s->block, bytes));
    s->block.bytes = bytes;
    t = (struct ct_transfer){ .from = 0, .take = s->block.data,
                              .take_bytes = bytes };
    return ct_transfer(c, &t, ct_comm_tag(c, 1));
}

/* ---- the feed */

static struct dist_root *root_of(struct ct_feed *base)
{
    return (struct dist_root *)base;
}

static enum ct_status root_ask(struct dist_root *f)
{
    struct slot *s = &f->slot[f->n_asked % f->n_slots];

    if (!f->dist)
        return ct_fail(CT_ECOMM, "rank 0, who reads for all, is gone");
    s->pass = f->n_asked++;
    ct_job_submit(f->dist->view.thread, &s->job);
    return CT_OK;
}

static enum ct_status root_step(struct ct_feed *base)
{
    struct dist_root *f = root_of(base);

    while (f->n_asked <= f->n_steps + f->depth)
        CT_TRY(root_ask(f));
    f->n_steps++;
    return CT_OK;
}

/* Waits for all blocks that were asked for.  They will arrive, because all
 * ranks have asked. */
static void root_drain(struct dist_root *f)
{
    for (int i = 0; f->dist && f->slot && i < f->n_slots; i++)
        if (ct_job_wait(&f->slot[i].job) != CT_OK)
            break;
}

static enum ct_status root_seek(struct ct_feed *base, int64_t n_passes,
                                int64_t skew)
{
    struct dist_root *f = root_of(base);

    f->pass = n_passes;
    f->item = 0;
    if (skew == f->skew && n_passes == f->n_steps &&
        f->n_asked == n_passes + 1)
        return CT_OK; /* the block of this pass has been asked for already */
    root_drain(f);
    f->skew    = skew;
    f->n_asked = f->n_steps = n_passes;
    if (f->source) {
        reader_stop(f);
        CT_TRY(reader_start(f, n_passes, skew));
    }
    return CT_OK;
}

static enum ct_status root_next(struct ct_feed *base, struct ct_record *r)
{
    struct dist_root *f = root_of(base);
    struct slot *s      = &f->slot[f->pass % f->n_slots];

    if (f->item == 0) {
        CT_TRY(ct_job_wait(&s->job));
        f->at = 0;
    }
    CT_TRY(dist_block_next(&s->block, &f->at, r));
    if (++f->item == f->count) {
        f->item = 0;
        f->pass++;
    }
    return CT_OK;
}

static enum ct_status root_fetch(struct ct_feed *base, struct ct_record *r)
{
    (void)base, (void)r;
    return CT_OK;
}

static enum ct_status root_after(struct ct_feed *base, struct ct_record *r)
{
    (void)base, (void)r;
    return ct_fail(CT_EINVAL, "broken records cannot be skipped where rank 0 "
                   "reads for all: use data: shared");
}

static void root_destroy(struct ct_feed *base)
{
    struct dist_root *f = root_of(base);

    root_drain(f);
    reader_stop(f);
    for (struct dist_root **p = f->dist ? &f->dist->services.roots : NULL;
         p && *p;
         p = &(*p)->next)
        if (*p == f) {
            *p = f->next;
            break;
        }
    ct_feed_destroy(f->source);
    for (int i = 0; f->slot && i < f->n_slots; i++)
        dist_block_fini(&f->slot[i].block);
    for (int i = 0; i < N_PACKS; i++) {
        for (int r = 0; f->pack[i].of && r < f->size; r++)
            dist_block_fini(&f->pack[i].of[r]);
        ct_free(f->pack[i].of);
    }
    pthread_cond_destroy(&f->moved);
    pthread_mutex_destroy(&f->lock);
    ct_free(f->slot);
    ct_free(f->counts);
    ct_free(f);
}

static const struct ct_feed_ops root_ops = {
    .seek    = root_seek,
    .next    = root_next,
    .fetch   = root_fetch,
    .after   = root_after,
    .step    = root_step,
    .destroy = root_destroy,
};

/* Opens the database on rank 0, which reads the samples of all ranks in
 * order. */
static enum ct_status open_source(struct dist_root *f,
                                  const struct ct_feed_config *config)
{
    struct ct_feed_config all = *config;
    int64_t whole             = 0;

    for (int r = 0; r < f->size; r++)
        whole += f->counts[r];
    all.mode  = CT_DATA_SHARED;
    all.shard = ct_shard_even(0, 1, whole, 1);
    for (int i = 0; i < N_PACKS; i++)
        CT_TRY(ct_alloc((size_t)f->size, sizeof(*f->pack[i].of), "packs",
                        &f->pack[i].of));
    CT_TRY(ct_feed_open(&all, &f->source));
    return reader_start(f, 0, 0);
}

static enum ct_status open_feed(struct dist_root *f,
                                const struct ct_feed_config *config)
{
    struct ct_dist *d = f->dist;

    f->size    = d->view.size;
    f->count   = config->shard.count;
    /* One batch more, because a GPU prepares one in advance; all ranks must ask
     * equally often. */
    f->depth   = config->ahead < LEAST_AHEAD ? LEAST_AHEAD
                                             : config->ahead + 1;
    f->n_slots = f->depth + 2;
    CT_TRY(ct_alloc((size_t)f->n_slots, sizeof(*f->slot), "root feed",
                    &f->slot));
    for (int i = 0; i < f->n_slots; i++) {
        f->slot[i].root    = f;
        f->slot[i].job.run = block_job;
        f->slot[i].job.arg = &f->slot[i];
    }
    CT_TRY(ct_alloc((size_t)f->size, sizeof(*f->counts), "root feed",
                    &f->counts));
    CT_TRY(dist_gather_each(d, &f->count, sizeof(f->count), f->counts));
    if (d->view.rank == 0)
        CT_TRY(open_source(f, config));
    return root_ask(f); /* the layer reads its first sample in setup */
}

enum ct_status dist_root_open(const struct ct_feeds *p,
                              const struct ct_feed_config *config,
                              struct ct_feed **out)
{
    struct ct_dist *d = p->arg;
    struct dist_root *f;
    pthread_condattr_t attr;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*f), "root feed", &f));
    f->base.ops = &root_ops;
    f->dist     = d;
    f->next     = d->services.roots;
    d->services.roots    = f;
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->moved, &attr);
    pthread_condattr_destroy(&attr);
    st = open_feed(f, config);
    if (st != CT_OK) {
        root_destroy(&f->base);
        return st;
    }
    *out = &f->base;
    return CT_OK;
}

void dist_root_orphan(struct ct_dist *d)
{
    for (struct dist_root *f = d->services.roots; f; f = f->next) {
        root_drain(f);
        f->dist = NULL;
    }
    d->services.roots = NULL;
}
