/* fuzz_agent.c - what the parent of a host's ranks reads: letters of other
 * agents, what ranks that have ended leave behind, jobs that ranks say they are
 * in, and orders of a launcher.
 *
 * The input is records: what it is u8, its length u16, then its bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/member_inner.h"
#include "elastic/wire.h"

#include "../../apps/agent_deaths.h"
#include "../../apps/agent_doors.h"
#include "../../apps/agent_orders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEATH, LETTER, RANK_ENDS, JOB, ORDERS, BEGIN, N_WHATS };

static const uint8_t secret[SEAL_SECRET_BYTES] = "known";

/* An agent without a loop: nobody is called. */
static struct post post;
static struct agent_deaths deaths;
static struct agent_doors doors;
static struct agent_orders orders;
static struct will_page page;
static bool any_own;

static void check(void)
{
    if (deaths.newest.n > ELASTIC_MEMBERS || deaths.n_next > ELASTIC_MEMBERS)
        abort();
    if (deaths_leave_job_to_us(&deaths) && !any_own)
        abort(); /* rank 0 was of another agent, or nobody died */
}

static void on_letter(void *arg, struct post_caller *from, enum post_kind kind,
                      const uint8_t *body, size_t bytes)
{
    (void)arg;
    if (from->what == POST_AGENT && kind == POST_DEAD)
        deaths_take(&deaths, body, bytes);
}

static void start(void)
{
    static bool started;
    struct post_config c = { .secret = secret, .what = POST_AGENT, .door = -1,
                             .take = on_letter };

    if (started)
        return;
    ct_log_set_level(CT_LOG_ERROR + 1);
    card_of_this_process(&c.card);
    c.card.id = c.card.agent = 7;
    if (seal_init() != CT_OK)
        exit(77); /* there are no elastic jobs in this build */
    if (post_start(&post, &c) != CT_OK)
        abort();
    started = true;
}

static void take_letter(const uint8_t *letter, size_t n)
{
    static const enum post_what from[] = { 0, POST_MEMBER, POST_AGENT,
                                           POST_GUEST };
    struct post_caller c = { .post = &post, .id = 5 };

    if (n == 0)
        return;
    c.what = from[letter[0] % 4];
    post_take(&c, letter + 1, n - 1);
}

/* Its page, of which it says how long its will and its cards are, u32 each:
 * then come its job, the length of the will u16, the will, and the cards. */
static void fill_page(struct will_place *w, const uint8_t *left, size_t n)
{
    struct reader r = { left, left + n, false };
    size_t bytes;

    w->will_bytes  = (uint32_t)take(&r, 4);
    w->cards_bytes = (uint32_t)take(&r, 4);
    take_bytes(&r, w->job, sizeof(w->job));
    bytes = (size_t)take(&r, 2);
    if (bytes > sizeof(w->will))
        bytes = sizeof(w->will);
    take_bytes(&r, w->will, bytes);
    bytes = (size_t)(r.end - r.at);
    take_bytes(&r, w->cards, bytes < CARDS_BYTES ? bytes : CARDS_BYTES);
}

static void rank_ends(const uint8_t *left, size_t n)
{
    static struct will_place empty;
    struct will_place *w = &page.place[0];
    struct elastic_will will;

    fill_page(w, left, n);
    atomic_store(&page.id, 20 + deaths.n_graves % 4);
    any_own = true;
    if (w->will_bytes <= ELASTIC_WIRE_BYTES &&
        elastic_will_read(w->will, w->will_bytes, &will) == CT_OK)
        (void)deaths_are_newer(&deaths, w->job, &will.view);
    deaths_note_own(&deaths, &post, &page);
    for (const struct post_peer *q = post.peers; q; q = q->next)
        agent_doors_learn(&doors, &post.config.card, &q->card);
    *w = empty;
}

static void learn_job(const uint8_t *data, size_t n)
{
    uint8_t job[POST_JOB_BYTES] = { 0 };

    memcpy(job, data, n < sizeof(job) ? n : sizeof(job));
    deaths_learn_job(&deaths, job);
    if (deaths_knows_job(&deaths) &&
        !deaths_may_be_of(&deaths, deaths.job))
        abort();
}

static void obey(int number)
{
    if (number < -99 || number > 999)
        abort();
}

static void take_record(int what, const uint8_t *data, size_t n)
{
    switch (what) {
    case DEATH: deaths_take(&deaths, data, n); break;
    case LETTER: take_letter(data, n); break;
    case RANK_ENDS: rank_ends(data, n); break;
    case JOB: learn_job(data, n); break;
    case ORDERS: orders_take(&orders, (const char *)data, n, obey); break;
    case BEGIN: deaths_begin_anew(&deaths); break;
    }
    check();
}

static void end(void)
{
    static struct member_config next;

    next.n_knock = 0;
    agent_doors_knock(&doors, &post, &next);
    if (next.n_knock < 0 || next.n_knock > MEMBER_DOORS)
        abort();
    deaths_tell(&deaths, &post, true);
    (void)deaths_are_told(&deaths, &post);
    deaths_fini(&deaths);
    while (post.peers)
        post_forget(&post, post.peers->card.id);
    deaths  = (struct agent_deaths){ 0 };
    doors   = (struct agent_doors){ 0 };
    orders  = (struct agent_orders){ .n = 0 };
    any_own = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    while (size >= 3) {
        const int what = data[0] % N_WHATS;
        size_t n       = (size_t)data[1] | (size_t)data[2] << 8;

        data += 3;
        size -= 3;
        if (n > size)
            n = size;
        take_record(what, data, n);
        data += n;
        size -= n;
    }
    end();
    return 0;
}
