/* model.c - every order of events, for a few members: nobody commits another
 * value of an iteration, nobody waits for ever, and agents begin no job anew
 * beside one that goes on.
 *
 *     elastic_model [MEMBERS ITERATIONS CRASHES SUSPICIONS JOINS LEAVES
 *                    RETRIES]
 *
 * The rules are the real ones, agreement.c compiled for few members.  What is
 * modelled is the rest: messages between two processes arrive in order, after
 * any time; what a process sent before it crashed arrives up to some message;
 * deaths are learnt at any time; a suspicion may be wrong.  An iteration's sums
 * are complete for a member when all of the view have begun it in that view,
 * and it is committed when all have been ready for it there. */
#define ELASTIC_MEMBERS 4
#include "elastic/agreement.c"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    P = ELASTIC_MEMBERS, LETTERS = 64, VIEWS = 12, ITERS = 2, DEPTH = 400
};

struct process {
    struct elastic_agreement a;
    bool     alive;
    uint32_t seen;         /* the view that its solver is in */
    bool     full;         /* it has parameters */
    int      applied;      /* iterations */
    bool     sums;         /* of iteration `applied`, of view `seen` */
};

/* A message on its way. */
struct letter {
    int from, to;
    struct elastic_message m;
};

/* Whole, without pointers: it is hashed and copied. */
struct state {
    struct process p[P];
    uint8_t learnt[P];               /* [q] bits: deaths that q knows of */
    uint8_t suspects[P];             /* [q] bits: whom q suspects */
    uint8_t began[VIEWS][ITERS];     /* bits: who began it in that view */
    uint8_t ready[VIEWS][ITERS];     /* bits: who had all sums of it */
    uint8_t committed[ITERS];        /* the view of the value; 0: none */
    struct elastic_view view[VIEWS]; /* as first installed */
    int iters; /* to train */
    int crashes, suspicions, joins, leaves, retries; /* still to come */
    int            n_letters;
    struct letter  letter[LETTERS];  /* by from and to, then in their order */
};

static struct state *now; /* the one that events act on */
static long n_states, n_ends;
static int all_crashes, all_suspicions; /* before any came */
static uint64_t *table; /* hashes of the states that were seen */
static int table_bits;
static struct state path[DEPTH]; /* a copy to try events on, for each depth */
static struct {
    const char *kind;
    int         i, k;
} trail[DEPTH]; /* the events that led here */
static int depth;

static void show(const char *what)
{
    fprintf(stderr, "%s, after:\n", what);
    for (int i = 0; i < depth; i++)
        fprintf(stderr, "  %s %d %d\n", trail[i].kind, trail[i].i,
                trail[i].k);
    for (int i = 0; i < P; i++)
        if (now->p[i].alive)
            fprintf(stderr, "process %d: view %u rank %d frozen %d"
                    " ready %d applied %d ballot %llx promised %llx\n", i,
                    now->p[i].a.own.view.number, now->p[i].a.rank,
                    now->p[i].a.frozen,
                    now->p[i].a.ready, now->p[i].applied,
                    (unsigned long long)now->p[i].a.ballot,
                    (unsigned long long)now->p[i].a.own.promised);
}

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    show(what);
    exit(1);
}

/* ---- A process's side of the model. */

static int index_of(uint64_t id)
{
    return (int)id - 1;
}

static void put(void *arg, uint64_t to, const struct elastic_message *m)
{
    struct letter new = { (int)(intptr_t)arg, index_of(to), *m };
    int at            = now->n_letters;

    if (!now->p[new.to].alive)
        return;
    require(at < LETTERS, "too many messages for the model");
    for (; at > 0; at--) {
        const struct letter *l = &now->letter[at - 1];

        if (l->from * P + l->to <= new.from * P + new.to)
            break;
        now->letter[at] = *l;
    }
    now->letter[at] = new;
    now->n_letters++;
}

/* The first letter between the two; -1: there is none. */
static int find_letter(const struct state *s, int from, int to)
{
    for (int i = 0; i < s->n_letters; i++)
        if (s->letter[i].from == from && s->letter[i].to == to)
            return i;
    return -1;
}

static void take_letter(int at)
{
    memmove(&now->letter[at], &now->letter[at + 1],
            sizeof(now->letter[0]) * (size_t)(--now->n_letters - at));
    memset(&now->letter[now->n_letters], 0, sizeof(now->letter[0]));
}

static void lose_letters(int from, int to)
{
    for (int at = find_letter(now, from, to); at >= 0;
         at     = find_letter(now, from, to))
        take_letter(at);
}

static void commit(struct process *p, uint32_t view)
{
    const int t = p->applied;

    require(t < ITERS, "more iterations than the model has");
    require(now->committed[t] == 0 || now->committed[t] == view,
            "an iteration has two committed values");
    now->committed[t] = (uint8_t)view;
    p->applied        = t + 1;
    p->sums           = false;
}

static void begin(int i)
{
    const struct process *p = &now->p[i];

    if (p->full && p->applied < now->iters)
        now->began[p->seen][p->applied] |= (uint8_t)(1 << i);
}

/* The solver follows what was installed. */
static void follow(int i)
{
    struct process *p            = &now->p[i];
    const struct elastic_view *v = &p->a.own.view;

    if (v->number == p->seen)
        return;
    require(v->number < VIEWS, "more views than the model has");
    if (now->view[v->number].number == 0)
        now->view[v->number] = *v;
    require(memcmp(&now->view[v->number], v, sizeof(*v)) == 0,
            "two views have one number");
    require(v->base != ELASTIC_NOTHING || now->crashes < all_crashes ||
                now->suspicions < all_suspicions,
            "somebody left with the parameters");
    if (p->full && p->a.rank >= 0 && p->a.rank < v->n_full) {
        if (p->applied == v->base - 1 && p->sums)
            commit(p, p->seen);
        require(p->applied == v->base, "a member cannot reach the base");
    } else {
        p->full = false;
    }
    p->sums = false;
    p->seen = v->number;
    begin(i);
}

static void make_process(int i)
{
    struct process *p = &now->p[i];

    memset(p, 0, sizeof(*p));
    elastic_init(&p->a, (uint64_t)i + 1, put, (void *)(intptr_t)i);
    p->alive = true;
}

static void start(int n)
{
    struct elastic_message m = { .kind = ELASTIC_INSTALL, .view = 1 };

    for (int i = 0; i < n; i++)
        m.next.id[i] = (uint64_t)i + 1;
    m.next.number = 1;
    m.next.n      = m.next.n_full = n;
    for (int i = 0; i < n; i++) {
        make_process(i);
        now->p[i].full = true;
        elastic_receive(&now->p[i].a, 1, &m);
        follow(i);
    }
}

/* ---- Events.  Each says whether it can happen in `now`, and does. */

static bool all_of(const struct elastic_view *v, uint8_t bits)
{
    for (int r = 0; r < v->n; r++)
        if (!(bits & 1 << index_of(v->id[r])))
            return false;
    return true;
}

static bool event_ready(int i)
{
    struct process *p = &now->p[i];

    if (!p->full || p->sums || p->applied == now->iters || p->a.rank < 0 ||
        p->seen != p->a.own.view.number ||
        !all_of(&p->a.own.view, now->began[p->seen][p->applied]) ||
        !elastic_ready(&p->a, p->applied + 1))
        return false;
    p->sums = true;
    now->ready[p->seen][p->applied] |= (uint8_t)(1 << i);
    return true;
}

static bool event_commit(int i)
{
    struct process *p = &now->p[i];

    if (!p->sums || !all_of(&p->a.own.view, now->ready[p->seen][p->applied]))
        return false;
    commit(p, p->seen);
    begin(i);
    return true;
}

/* A new member gets parameters from one that has them. */
static bool event_transfer(int i)
{
    struct process *p = &now->p[i];

    if (p->full || p->a.rank < 0 || p->a.frozen)
        return false;
    for (int k = 0; k < P; k++) {
        const struct process *q = &now->p[k];

        if (!q->alive || !q->full || q->seen != p->seen || q->a.rank < 0 ||
            q->a.rank >= p->a.own.view.n_full ||
            q->applied != p->a.own.view.base)
            continue;
        p->applied = q->applied;
        p->full    = true;
        (void)elastic_ready(&p->a, p->applied);
        begin(i);
        return true;
    }
    return false;
}

static bool event_deliver(int from, int to)
{
    const int at = find_letter(now, from, to);
    struct elastic_message m;

    if (at < 0)
        return false;
    m = now->letter[at].m;
    take_letter(at);
    elastic_receive(&now->p[to].a, (uint64_t)from + 1, &m);
    return true;
}

/* The rest of what a dead process sent is lost. */
static bool event_lose(int from, int to)
{
    if (now->p[from].alive || find_letter(now, from, to) < 0)
        return false;
    lose_letters(from, to);
    return true;
}

/* Of a dead process only its will counts. */
static void bury(int i)
{
    const struct elastic_agreement last = now->p[i].a;

    memset(&now->p[i], 0, sizeof(now->p[i]));
    now->p[i].a.me   = last.me;
    now->p[i].a.own  = last.own;
    now->learnt[i]   = 0;
    now->suspects[i] = 0;
}

static bool event_crash(int i, int unused)
{
    (void)unused;
    if (now->crashes == 0)
        return false;
    now->crashes--;
    bury(i);
    for (int k = 0; k < P; k++)
        lose_letters(k, i);
    return true;
}

static bool event_learn(int i, int dead)
{
    const struct process *p = &now->p[dead];

    if (p->alive || p->a.me == 0 || now->learnt[i] & 1 << dead)
        return false;
    now->learnt[i] |= (uint8_t)(1 << dead);
    elastic_dead(&now->p[i].a, p->a.me, &p->a.own);
    return true;
}

static bool event_suspect(int i, int of)
{
    if (i == of || !now->p[of].alive)
        return false;
    if (now->suspects[i] & 1 << of) {
        now->suspects[i] &= (uint8_t)~(1 << of);
        elastic_suspect(&now->p[i].a, now->p[of].a.me, false);
        return true;
    }
    if (now->suspicions == 0)
        return false;
    now->suspicions--;
    now->suspects[i] |= (uint8_t)(1 << of);
    elastic_suspect(&now->p[i].a, now->p[of].a.me, true);
    return true;
}

static bool event_join(int i, int by)
{
    if (now->p[i].alive || now->p[i].a.me != 0 || now->joins == 0 ||
        !now->p[by].alive)
        return false;
    now->joins--;
    make_process(i);
    elastic_join(&now->p[by].a, now->p[i].a.me);
    return true;
}

static bool event_leave(int i, int unused)
{
    (void)unused;
    if (now->leaves == 0 || now->p[i].a.rank < 0)
        return false;
    now->leaves--;
    elastic_leave(&now->p[i].a);
    return true;
}

/* ---- All of them. */

static size_t bytes_of(const struct state *s)
{
    return offsetof(struct state, letter) +
           (size_t)s->n_letters * sizeof(s->letter[0]);
}

static void copy_state(struct state *to, const struct state *from)
{
    memcpy(to, from, bytes_of(from));
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* In two sums, so that neither waits for the other. */
static uint64_t hash_of(const struct state *s)
{
    const uint64_t *w = (const uint64_t *)s;
    const size_t n    = bytes_of(s) / sizeof(*w);
    uint64_t a = 1, b = 2;
    size_t i = 0;

    for (; i + 1 < n; i += 2) {
        a = mix(a, w[i]);
        b = mix(b, w[i + 1]);
    }
    if (i < n)
        a = mix(a, w[i]);
    return mix(mix(a, b), n) | 1;
}

/* Where a hash stands, or would. */
static uint64_t *place_of(uint64_t h)
{
    const uint64_t mask = ((uint64_t)1 << table_bits) - 1;
    uint64_t i          = h >> 8;

    while (table[i & mask] != 0 && table[i & mask] != h)
        i++;
    return &table[i & mask];
}

static void make_table(int bits)
{
    table_bits = bits;
    table      = calloc((size_t)1 << bits, sizeof(*table));
    require(table != NULL, "no memory for so many states");
}

static void grow_table(void)
{
    uint64_t *old  = table;
    const size_t n = (size_t)1 << table_bits;

    make_table(table_bits + 1);
    for (size_t i = 0; i < n; i++)
        if (old[i] != 0)
            *place_of(old[i]) = old[i];
    free(old);
}

static bool is_new(const struct state *s)
{
    const uint64_t h = hash_of(s);

    if (*place_of(h) == h)
        return false;
    if (++n_states > (long)1 << (table_bits - 1))
        grow_table();
    *place_of(h) = h;
    return true;
}

/* Can a view of this number no longer come to anybody?  It is behind all. */
static bool is_past(const struct state *s, uint32_t view)
{
    for (int i = 0; i < P; i++)
        if (s->p[i].alive && s->p[i].a.own.view.number <= view)
            return false;
    return true;
}

/* What can change nothing any more goes, so that states that differ in nothing
 * else are one: records of views that are past, and news of views to members
 * that are as far or further. */
static void forget_past(void)
{
    struct state *s = now;

    for (uint32_t v = 1; v < VIEWS && is_past(s, v); v++) {
        memset(s->began[v], 0, sizeof(s->began[v]));
        memset(s->ready[v], 0, sizeof(s->ready[v]));
        memset(&s->view[v], 0, sizeof(s->view[v]));
    }
    for (int i = 0; i < s->n_letters;) {
        const struct letter *l = &s->letter[i];

        if (l->m.kind == ELASTIC_INSTALL &&
            l->m.next.number <= s->p[l->to].a.own.view.number)
            take_letter(i);
        else
            i++;
    }
}

/* Everything that happens by itself, in one order, until nothing does. */
static bool settle(void)
{
    bool moved = false;

    for (int i = 0; i < P; i++) {
        for (int k = 0; k < P; k++)
            moved |= event_deliver(i, k);
        if (now->p[i].alive)
            moved |= event_ready(i) || event_commit(i) || event_transfer(i);
        for (int k = 0; k < P; k++)
            if (now->p[k].alive)
                follow(k);
    }
    return moved;
}

/* A member that goes on, or may not; who would leave too few ends the job. */
static bool is_well(const struct process *p)
{
    return !p->alive || p->a.rank < 0 ||
           p->a.own.view.base == ELASTIC_NOTHING ||
           (!p->a.frozen && p->applied == now->iters &&
            (!p->a.leaves || !elastic_lets_go(&p->a)));
}

/* Who has not heard that it was taken in asks everybody again. */
static void knock(int i)
{
    for (int k = 0; k < P; k++)
        if (now->p[k].alive && now->p[k].a.rank >= 0 &&
            now->p[i].a.own.view.number == 0)
            elastic_join(&now->p[k].a, now->p[i].a.me);
}

/* Silence: connections come back, suspicions end, and all is said again.
 * Then every member gets to the end. */
static void check_end(const struct state *silent)
{
    static struct state s;

    s   = *silent;
    now = &s;
    for (int i = 0; i < P; i++)
        for (int k = 0; k < P; k++)
            if (s.p[i].alive && s.suspects[i] & 1 << k)
                event_suspect(i, k);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < P; i++)
            if (s.p[i].alive) {
                knock(i);
                elastic_retry(&s.p[i].a);
            }
        while (settle())
            continue;
    }
    for (int i = 0; i < P; i++)
        require(is_well(&s.p[i]), "a member waits for ever");
    n_ends++;
}

/* ---- Agents, which know of some of the dead. */

static bool is_gone(const struct state *s, int i)
{
    return !s->p[i].alive && s->p[i].a.me != 0;
}

/* The newest view that one of these was in, if all of it are among them, and
 * all of any view behind it that one of them had agreed to; NULL: they are
 * not. */
static const struct elastic_view *newest_of(const struct state *s, int these)
{
    const struct elastic_view *v = &s->view[0];
    bool all;

    for (int i = 0; i < P; i++)
        if (these & 1 << i && s->p[i].a.own.view.number > v->number)
            v = &s->p[i].a.own.view;
    all = v->number > 0 && all_of(v, (uint8_t)these);
    for (int i = 0; i < P; i++) {
        const struct elastic_will *w = &s->p[i].a.own;

        if (these & 1 << i && w->accepted && w->next.number > v->number)
            all &= all_of(&w->next, (uint8_t)these);
    }
    return all ? v : NULL;
}

/* Where agents know that all of the newest view are dead, the job may begin
 * anew: nobody goes on with the old one, and all agents that know this name the
 * same view, so that its rank 0 says who begins. */
static void check_deserted(const struct state *s)
{
    const struct elastic_view *first = NULL;
    int gone                         = 0;

    for (int i = 0; i < P; i++)
        gone |= is_gone(s, i) << i;
    for (int these = gone; these > 0; these = (these - 1) & gone) {
        const struct elastic_view *v = newest_of(s, these);

        if (!v)
            continue;
        first = first ? first : v;
        require(memcmp(first, v, sizeof(*v)) == 0,
                "two agents may begin the job anew");
        for (int i = 0; i < P; i++)
            require(!s->p[i].alive || s->p[i].a.rank < 0 ||
                        s->p[i].a.own.view.number < v->number,
                    "a job begins anew beside one that goes on");
    }
}

static void explore(void);

/* Goes on from `s`, in which something has just happened. */
static void after(struct state *s)
{
    require(++depth < DEPTH, "a path without an end");
    for (int i = 0; i < P; i++)
        if (s->p[i].alive)
            follow(i);
    check_deserted(s);
    forget_past();
    if (is_new(s))
        explore();
    depth--;
}

/* Tries one event on path[depth], a copy of `old`, which an event that cannot
 * happen leaves as it is. */
static bool attempt(const struct state *old, bool (*event)(int, int), int i,
                    int k, const char *kind)
{
    struct state *s = &path[depth];

    now               = s;
    trail[depth].kind = kind;
    trail[depth].i    = i;
    trail[depth].k    = k;
    if (!event(i, k))
        return false;
    after(s);
    copy_state(s, old);
    return true;
}

static bool ready1(int i, int k) { (void)k; return event_ready(i); }
static bool commit1(int i, int k) { (void)k; return event_commit(i); }
static bool transfer1(int i, int k) { (void)k; return event_transfer(i); }

static bool event_retry(int i, int k)
{
    (void)k;
    if (now->retries == 0)
        return false;
    now->retries--;
    elastic_retry(&now->p[i].a);
    return true;
}

static void explore(void)
{
    const struct state *old = now;
    bool moved              = false;

    copy_state(&path[depth], old);
    for (int i = 0; i < P; i++) {
        for (int k = 0; k < P; k++) {
            if (find_letter(old, i, k) >= 0) {
                moved |= attempt(old, event_deliver, i, k, "deliver");
                attempt(old, event_lose, i, k, "lose");
            }
            attempt(old, event_join, i, k, "join");
            if (!old->p[i].alive)
                continue;
            moved |= attempt(old, event_learn, i, k, "learn");
            attempt(old, event_suspect, i, k, "suspect");
        }
        if (!old->p[i].alive)
            continue;
        moved |= attempt(old, ready1, i, 0, "ready");
        moved |= attempt(old, commit1, i, 0, "commit");
        moved |= attempt(old, transfer1, i, 0, "transfer");
        attempt(old, event_crash, i, 0, "crash");
        attempt(old, event_leave, i, 0, "leave");
    }
    if (moved)
        return;
    check_end(old);
    now = (struct state *)old;
    for (int i = 0; i < P; i++)
        if (old->p[i].alive)
            attempt(old, event_retry, i, 0, "retry");
}

/* ---- One path that takes more than can be tried in every order. */

static void follow_all(void)
{
    for (int i = 0; i < P; i++)
        if (now->p[i].alive)
            follow(i);
}

/* Delivers what there is between two, both ways, until nothing is. */
static void talk(int i, int k)
{
    while (event_deliver(i, k) || event_deliver(k, i))
        follow_all();
}

/* Member 1 has not heard of view 2, in which 2 and 3 agree on view 3 without
 * it; 3 dies with that as its will, and 1 believes 2 lost. */
static void a_late_will_binds(void)
{
    static struct state s;

    now = &s;
    start(4);
    elastic_leave(&s.p[0].a);
    for (int i = 0; i < 3; i++)
        for (int k = 1; k < 4; k++)
            while (s.p[1].a.own.view.number == 1 &&
                   (event_deliver(k, 0) ||
                    (find_letter(&s, 0, k) >= 0 &&
                     !(k == 1 && s.letter[find_letter(&s, 0, 1)].m.kind ==
                                     ELASTIC_INSTALL) &&
                     event_deliver(0, k))))
                follow_all();
    require(s.p[1].a.own.view.number == 1 && s.p[3].a.own.view.number == 2,
            "member 1 has heard of view 2");
    elastic_suspect(&s.p[2].a, s.p[1].a.me, true);
    event_deliver(2, 3);
    event_deliver(3, 2);
    event_deliver(2, 3);
    event_deliver(3, 2);
    follow_all();
    require(s.p[2].a.own.view.number == 3 && s.p[3].a.own.view.number == 2,
            "2 and 3 have not agreed");
    s.crashes = 1;
    event_crash(3, 0);
    event_learn(1, 3);
    elastic_suspect(&s.p[1].a, s.p[2].a.me, true);
    follow_all();
    event_learn(2, 3);
    follow_all();
    talk(1, 2);
    require(s.p[1].a.rank < 0, "a member goes on by itself");
}

/* One that only serves, and never has parameters, stays alone when the one that
 * trains leaves; the snapshot has them. */
static void a_trainer_leaves_its_server(void)
{
    static struct state s;

    now = &s;
    s.iters = 2;
    s.joins = all_crashes = 1; /* as if there had been one */
    start(1);
    event_join(1, 0);
    talk(0, 1);
    require(s.p[0].a.own.view.n == 2, "the server has not come");
    (void)elastic_ready(&s.p[0].a, 1);
    elastic_leave(&s.p[0].a);
    for (int i = 0; i < 3; i++) {
        elastic_retry(&s.p[0].a);
        elastic_retry(&s.p[1].a);
        talk(0, 1);
    }
    require(s.p[0].a.rank < 0 && s.p[1].a.own.view.n == 1,
            "the trainer has not left");
}

/* How much of what may happen. */
struct extent {
    int members, iters, crashes, suspicions, joins, leaves, retries;
};

static void run(const struct extent *e)
{
    static struct state first;

    memset(&first, 0, sizeof(first));
    n_states         = n_ends = 0;
    first.iters      = e->iters;
    first.crashes    = e->crashes;
    first.suspicions = e->suspicions;
    first.joins      = e->joins;
    first.leaves     = e->leaves;
    first.retries    = e->retries;
    all_crashes      = e->crashes;
    all_suspicions   = e->suspicions;
    now              = &first;
    make_table(20);
    start(e->members);
    explore();
    free(table);
    printf("%d members, %d iterations, %d crashes, %d suspicions, %d joins, "
           "%d leaves, %d retries: %ld states, %ld ends\n", e->members,
           e->iters, e->crashes, e->suspicions, e->joins, e->leaves,
           e->retries, n_states, n_ends);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    /* Some 25 s; seven numbers on the command line for another extent. */
    static const struct extent usual[] = {
        { 3, 1, 2, 0, 1, 0, 1 }, { 3, 2, 2, 0, 1, 0, 0 },
        { 3, 2, 2, 0, 0, 0, 1 }, { 2, 1, 2, 1, 1, 0, 1 },
        { 2, 2, 1, 1, 1, 0, 1 }, { 3, 1, 1, 1, 0, 0, 0 },
        { 3, 1, 1, 0, 0, 1, 0 },
        { 3, 0, 0, 2, 0, 0, 0 }, { 1, 2, 0, 0, 1, 1, 1 },
        { 2, 1, 0, 0, 1, 1, 0 }, { 3, 0, 3, 0, 0, 0, 0 },
        { 2, 0, 2, 1, 1, 0, 0 }, { 1, 0, 2, 0, 2, 0, 0 },
        { 2, 0, 2, 2, 0, 0, 1 }, { 3, 0, 3, 1, 0, 0, 0 },
    };
    struct extent own;
    int *number[] = { &own.members, &own.iters, &own.crashes, &own.suspicions,
                      &own.joins, &own.leaves, &own.retries };

    for (int i = 1; i < argc && i <= 7; i++)
        *number[i - 1] = atoi(argv[i]);
    a_late_will_binds();
    a_trainer_leaves_its_server();
    if (argc == 8)
        run(&own);
    for (size_t i = 0; argc != 8 && i < sizeof(usual) / sizeof(usual[0]); i++)
        run(&usual[i]);
    return 0;
}
