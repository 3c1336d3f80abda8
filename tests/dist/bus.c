/* bus.c - members of an elastic job as threads of one process. */
#include "dist/bus.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"

/* Of a member that came back it is another one. */
static int number_of(uint64_t id)
{
    return (int)((id - 1) % BUS_MEMBERS);
}

/* ---- Messages, with `lock` held. */

static void put(struct bus *b, const struct letter *l)
{
    if (b->member[l->to].alive && b->n_letters < BUS_LETTERS)
        b->letter[b->n_letters++] = *l;
}

static void send(void *arg, uint64_t to, const struct elastic_message *m)
{
    struct member *from   = arg;
    const struct letter l = { .from = from->number, .to = number_of(to),
                              .message = *m };

    put(from->bus, &l);
}

static void end_view(struct member *m)
{
    if (m->transport && !m->over) {
        m->transport->ops->over(m->transport);
        m->over = true;
    }
}

/* What follows from what members know now. */
void bus_look(struct bus *b)
{
    for (int i = 0; i < b->n; i++) {
        struct member *m = &b->member[i];

        if (!m->alive)
            continue;
        if (m->a.frozen || m->a.own.view.number > m->given)
            end_view(m);
    }
    pthread_cond_broadcast(&b->change);
}

static void deliver(struct bus *b, int at)
{
    const struct letter l = b->letter[at];
    const uint64_t from   = b->member[l.from].a.me;
    struct member *to     = &b->member[l.to];

    memmove(&b->letter[at], &b->letter[at + 1],
            sizeof(l) * (size_t)(--b->n_letters - at));
    if (!to->alive)
        return;
    if (l.death)
        elastic_dead(&to->a, from, &l.will);
    else
        elastic_receive(&to->a, from, &l.message);
    bus_look(b);
}

/* The first between two members may come before others. */
static bool is_first(const struct bus *b, int at)
{
    for (int i = 0; i < at; i++)
        if (b->letter[i].from == b->letter[at].from &&
            b->letter[i].to == b->letter[at].to)
            return false;
    return true;
}

int bus_any(struct bus *b, int n)
{
    const uint64_t at = atomic_fetch_add(&b->n_drawn, 1);

    return (int)(ct_philox_word(b->seed, 0, at) % (uint32_t)n);
}

void bus_nap(long us)
{
    const struct timespec t = { 0, us * 1000 };

    nanosleep(&t, NULL);
}

static void *bus_main(void *arg)
{
    struct bus *b = arg;

    for (int turn = 0;; turn++) {
        pthread_mutex_lock(&b->lock);
        if (b->stop)
            break;
        for (int i = 0; i < 8 && b->n_letters > 0; i++) {
            int at = bus_any(b, b->n_letters);

            while (!is_first(b, at))
                at--;
            deliver(b, at);
        }
        for (int i = 0; i < b->n && turn % 100 == 0; i++)
            if (b->member[i].alive)
                elastic_retry(&b->member[i].a);
        bus_look(b);
        pthread_mutex_unlock(&b->lock);
        bus_nap(100);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- Who comes back. */

static struct member *first_of(struct bus *b)
{
    for (int i = b->n - 1; i >= 0; i--)
        if (b->member[i].alive && b->member[i].a.rank == 0)
            return &b->member[i];
    return NULL;
}

/* As somebody new. */
static void rename_member(struct member *m)
{
    elastic_init(&m->a, m->a.me + BUS_MEMBERS, send, m);
    m->leaving = false;
}

/* Has it been left out, and can come back? */
static bool comes_back(const struct member *m)
{
    return m->a.rank < 0 && m->a.own.view.number > 0 && m->bus->left_out;
}

/* ---- What a rank asks. */

static struct ct_transport *take_end(struct bus *b,
                                     const struct elastic_view *v, int rank)
{
    struct ct_transport *t;

    CT_ASSERT(v->number < BUS_VIEWS);
    if (!b->opened[v->number]) {
        if (ct_loopback_create(v->n, NULL, b->end[v->number]) != CT_OK)
            abort();
        b->opened[v->number] = true;
        b->n_views++;
    }
    t = b->end[v->number][rank];
    b->end[v->number][rank] = NULL;
    return t;
}

/* A hint of the next view, right or wrong: one rank less, as many, or up to two
 * more. */
static void draw_hint(struct member *m, int rank, int size,
                      struct elastic_place *out)
{
    struct bus *b = m->bus;

    size += bus_any(b, 4) - 1;
    size = size > 1 ? size : 1;
    rank -= bus_any(b, 4) == 0;
    rank = rank < 0 ? 0 : rank < size ? rank : size - 1;
    *out = (struct elastic_place){ .hint = ++m->n_hints, .rank = rank,
                                   .size = size };
}

static bool expects(void *arg, struct elastic_place *out)
{
    struct member *m = arg;
    bool yes;

    pthread_mutex_lock(&m->bus->lock);
    yes = m->alive && m->a.rank >= 0 && bus_any(m->bus, 4) == 0;
    if (yes)
        draw_hint(m, m->a.rank, m->a.own.view.n, out);
    pthread_mutex_unlock(&m->bus->lock);
    return yes;
}

static void prepared(void *arg, uint64_t hint)
{
    struct member *m = arg;

    pthread_mutex_lock(&m->bus->lock);
    CT_ASSERT(hint > 0 && hint <= m->n_hints);
    pthread_mutex_unlock(&m->bus->lock);
}

static enum ct_status next(void *arg, struct elastic_place *out)
{
    struct member *m = arg;
    struct bus *b    = m->bus;
    const struct elastic_view *v = &m->a.own.view;
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&b->lock);
    if (m->alive && v->number == 0 && m->n_hints == 0) {
        const int n = bus_n_full(b); /* it comes behind them */

        draw_hint(m, n, n, out);
        pthread_mutex_unlock(&b->lock);
        return CT_OK;
    }
    if (m->alive && m->given > 0 && v->number == m->given && !m->a.frozen)
        elastic_renew(&m->a);
    while (m->alive && (v->number <= m->given || v->number == 0 ||
                        (m->a.rank < 0 && b->left_out))) {
        if (comes_back(m))
            b->left_out(b, m);
        else
            pthread_cond_wait(&b->change, &b->lock);
    }
    if (!m->alive || m->a.rank < 0) {
        st           = ct_fail(CT_ESTOP, "killed, or left out");
        m->transport = NULL;
    } else {
        m->given = v->number;
        m->others_came = v->n_full > 0 && v->n_full < v->n &&
                         m->a.rank < v->n - 1;
        memcpy(m->given_id, v->id, (size_t)v->n * sizeof(v->id[0]));
        *out = (struct elastic_place){ .view = v->number, .rank = m->a.rank,
                                       .size = v->n, .base = v->base,
                                       v->n_full, .left = b->part };
    }
    pthread_mutex_unlock(&b->lock);
    return st;
}

static enum ct_status open_end(void *arg, struct ct_transport **out)
{
    struct member *m  = arg;
    struct bus *b     = m->bus;
    enum ct_status st = CT_OK;

    pthread_mutex_lock(&b->lock);
    if (!m->alive || m->a.own.view.number != m->given) {
        st = ct_fail(CT_ECOMM, "view %u is over", m->given);
    } else {
        *out = m->transport = take_end(b, &m->a.own.view, m->a.rank);
        m->over = false;
        bus_look(b); /* it may be over already */
    }
    pthread_mutex_unlock(&b->lock);
    return st;
}

static void close_end(void *arg)
{
    struct member *m = arg;

    pthread_mutex_lock(&m->bus->lock);
    m->transport = NULL;
    pthread_mutex_unlock(&m->bus->lock);
}

static bool ready(void *arg, int iter)
{
    struct member *m = arg;
    bool yes;

    pthread_mutex_lock(&m->bus->lock);
    yes = m->alive && m->a.own.view.number == m->given &&
          elastic_ready(&m->a, iter);
    pthread_mutex_unlock(&m->bus->lock);
    return yes;
}

static bool others_came(void *arg)
{
    struct member *m = arg;
    bool yes;

    pthread_mutex_lock(&m->bus->lock);
    yes = m->others_came && (m->a.own.view.number != m->given ||
                             m->a.ready <= m->a.own.view.base);
    while (yes && m->alive && m->a.own.view.number == m->given && !m->a.frozen)
        pthread_cond_wait(&m->bus->change, &m->bus->lock);
    pthread_mutex_unlock(&m->bus->lock);
    return yes;
}

/* The members' numbers, from 1 on. */
static uint64_t id(void *arg, int rank)
{
    struct member *m = arg;

    return m->given_id[rank];
}

/* ---- What happens to them. */

static struct member *make_member(struct bus *b)
{
    struct member *m = &b->member[b->n];

    CT_ASSERT(b->n < BUS_MEMBERS);
    *m = (struct member){ .bus = b, .number = b->n, .threads = 1,
                          .made = true, .alive = true };
    m->asks = (struct elastic_membership){
        .arg = m, .next = next, .open = open_end, .close = close_end,
        .ready = ready, .id = id, .expects = expects, .prepared = prepared,
        .others_came = others_came };
    elastic_init(&m->a, (uint64_t)b->n + 1, send, m);
    b->n++;
    return m;
}

int bus_n_alive(const struct bus *b)
{
    int n = 0;

    for (int i = 0; i < b->n; i++)
        n += b->member[i].alive && !b->member[i].leaving;
    return n;
}

int bus_n_full(const struct bus *b)
{
    int n = 0;

    for (int i = 0; i < b->n; i++) {
        const struct member *m = &b->member[i];

        n += m->alive && !m->leaving && m->a.rank >= 0 &&
             m->a.ready != ELASTIC_NOTHING;
    }
    return n;
}

struct member *bus_any_alive(struct bus *b)
{
    struct member *m;

    do
        m = &b->member[bus_any(b, b->n)];
    while (!m->alive);
    return m;
}

/* Each of the others hears of its end, after a while. */
static void certify(struct bus *b, const struct member *m)
{
    struct letter l = { .from = m->number, .death = true, .will = m->a.own };

    for (int i = 0; i < b->n; i++) {
        l.to = i;
        put(b, &l);
    }
    pthread_cond_broadcast(&b->change);
}

void bus_kill(struct bus *b, struct member *m)
{
    m->alive = false;
    end_view(m);
    m->transport = NULL; /* its own thread destroys it */
    certify(b, m);
}

void bus_suspect(struct bus *b)
{
    struct member *m = bus_any_alive(b), *of = bus_any_alive(b);

    elastic_suspect(&m->a, of->a.me, true);
    bus_look(b);
}

void bus_suspect_of(struct bus *b, struct member *m)
{
    struct member *by = m;

    for (int i = 0; i < b->n; i++)
        if (&b->member[i] != m && b->member[i].alive)
            by = &b->member[i];
    m->leaving = true;
    if (by != m)
        elastic_suspect(&by->a, m->a.me, true);
    bus_look(b);
}

void bus_renew(struct bus *b, struct member *m)
{
    if (!m->a.frozen)
        elastic_renew(&m->a);
    bus_look(b);
}

void bus_let_go(struct bus *b)
{
    struct member *m = bus_any_alive(b);

    m->leaving = true;
    elastic_leave(&m->a);
    bus_look(b);
}

void bus_leave(struct member *m)
{
    struct bus *b = m->bus;
    bool some     = b->begins_again;

    m->alive = false;
    m->done  = m->st == CT_OK;
    end_view(m); /* it needs nobody any more */
    m->transport = NULL;
    for (int i = 0; i < b->n; i++)
        some |= b->member[i].alive && b->member[i].a.ready != ELASTIC_NOTHING;
    for (int i = 0; i < b->n && !some; i++)
        if (b->member[i].alive) {
            b->member[i].alive = false;
            end_view(&b->member[i]);
        }
    certify(b, m); /* a process that ends is seen to */
}

struct member *bus_join(struct bus *b)
{
    struct member *by = bus_any_alive(b), *m = make_member(b);

    elastic_join(&by->a, m->a.me);
    bus_look(b);
    return m;
}

static void join_both(struct bus *b, const struct member *one,
                      const struct member *other)
{
    const uint64_t id[] = { one->a.me, other->a.me };
    struct member *by   = first_of(b);

    if (by)
        elastic_join_all(&by->a, id, 2);
    bus_look(b);
}

struct member *bus_join_two(struct bus *b)
{
    struct member *m = make_member(b);

    join_both(b, m, make_member(b));
    return m;
}

struct member *bus_return(struct bus *b, struct member *m)
{
    struct member *new = make_member(b);

    rename_member(m);
    join_both(b, m, new);
    return new;
}

enum ct_status bus_create(uint64_t seed, const Caffe__SolverParameter *param,
                          const Caffe__DistributedParameter *options,
                          struct bus **out)
{
    struct bus *b;

    CT_TRY(ct_alloc(1, sizeof(*b), "bus", &b));
    if (ct_alloc(BUS_LETTERS, sizeof(*b->letter), "letters", &b->letter) !=
        CT_OK) {
        ct_free(b);
        return CT_ENOMEM;
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->change, NULL);
    b->seed    = seed;
    b->param   = param;
    b->options = options;
    *out       = b;
    return CT_OK;
}

void bus_destroy(struct bus *b)
{
    for (int i = 0; i < b->n; i++)
        ct_free(b->member[i].weights);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->change);
    ct_free(b->letter);
    ct_free(b);
}

void bus_start(struct bus *b, int n)
{
    struct elastic_message m = { .kind = ELASTIC_INSTALL, .view = 1 };

    m.next = (struct elastic_view){ .number = 1, .n = n, .n_full = n };
    for (int i = 0; i < n; i++) {
        make_member(b);
        m.next.id[i] = (uint64_t)i + 1;
    }
    for (int i = 0; i < n; i++)
        elastic_receive(&b->member[i].a, 1, &m);
    pthread_create(&b->thread, NULL, bus_main, b);
}

static int n_members(struct bus *b)
{
    int n;

    pthread_mutex_lock(&b->lock);
    n = b->n;
    pthread_mutex_unlock(&b->lock);
    return n;
}

void bus_await(struct bus *b)
{
    for (int i = 0; i < n_members(b); i++)
        pthread_join(b->member[i].thread, NULL);
}

void bus_stop(struct bus *b)
{
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    for (int v = 0; v < BUS_VIEWS; v++)
        for (int r = 0; r < BUS_MEMBERS; r++)
            if (b->end[v][r]) {
                b->end[v][r]->ops->over(b->end[v][r]);
                b->end[v][r]->ops->destroy(b->end[v][r]);
            }
}
