/* probe.c - ping-pong for alpha, two sizes for beta, a loop for gamma.
 *
 * On slow links the probe must be short: pings take at most a fifth of a
 * second, and if 64 KB take long, nothing larger is sent.
 *
 * Links that share a rank are measured one after the other: first (0,1) (2,3)
 * ..., then (1,2) (3,4) ..., and with an odd number of ranks the link from the
 * last rank to rank 0 by itself. */
#include "comm/probe.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/coll/coll.h"
#include "comm/coll/transfer.h"

enum {
    PINGS   = 20, /* at most */
    FIRST   = 3, /* first pings; their time limits the number of others */
    REPEATS = 3,
    TINY    = 1 << 16,  /* bytes, for slow links */
    SMALL   = 1 << 20,  /* bytes of the first size */
    LARGE   = CT_PROBE_BYTES /* bytes of the second size, at most */
};

/* If SMALL or TINY takes longer than slow_seconds or tiny_seconds, no larger
 * message follows.  The other two limit a larger message and all pings. */
static const double slow_seconds = 0.05, large_seconds = 0.1,
                    ping_seconds = 0.2, tiny_seconds = 0.02;
/* Ranks that train wait for a brief probe, which sends nothing larger than
 * TINY. */
static const double brief_ping_seconds = 0.001;

enum step { PING, DATA, WORD };

/* Sends data to the peer and back, in segments. */
static enum ct_status there_and_back(struct ct_comm *c, int peer, bool first,
                                     char *data, size_t bytes, int step)
{
    struct ct_transfer give = { .to = peer, .give = data,
                                .give_bytes = bytes };
    struct ct_transfer take = { .from = peer, .take = data,
                                .take_bytes = bytes };
    const int tag = ct_comm_tag(c, step);

    CT_TRY(ct_transfer(c, first ? &give : &take, tag));
    return ct_transfer(c, first ? &take : &give, tag);
}

/* The shortest time of one way among some repeats. */
static enum ct_status one_way(struct ct_comm *c, int peer, bool first,
                              char *data, size_t bytes, int repeats, int step,
                              double *out)
{
    *out = INFINITY;
    for (int i = 0; i < repeats; i++) {
        double start = ct_now();

        CT_TRY(there_and_back(c, peer, first, data, bytes, step));
        *out = fmin(*out, (ct_now() - start) / 2);
    }
    return CT_OK;
}

/* The second size, in units of SMALL, which took `seconds`; 0: none. */
static char larger(double seconds)
{
    const double n = fmin(large_seconds / seconds, LARGE / SMALL);

    return seconds < slow_seconds ? (char)n : 0;
}

/* Both ends use the word of the first end. */
static enum ct_status agree(struct ct_comm *c, int peer, bool first,
                            char *data, char *word)
{
    data[0] = *word;
    CT_TRY(there_and_back(c, peer, first, data, 1, WORD));
    *word = data[0];
    return CT_OK;
}

static enum ct_status probe_alpha(struct ct_comm *c, int peer, bool first,
                                  bool brief, char *data, double *out)
{
    const double room = brief ? brief_ping_seconds : ping_seconds;
    double more       = INFINITY;
    char n;

    CT_TRY(one_way(c, peer, first, data, 1, FIRST, PING, out));
    n = (char)fmin(room / (2 * *out + 1e-9), PINGS - FIRST);
    CT_TRY(agree(c, peer, first, data, &n));
    CT_TRY(one_way(c, peer, first, data, 1, n, PING, &more));
    *out = fmin(*out, more);
    return CT_OK;
}

/* Measures with SMALL, and with a larger size if there is time. */
static enum ct_status probe_beta(struct ct_comm *c, int peer, bool first,
                                 char *data, struct ct_link *out)
{
    double small, large;
    size_t bytes;
    char n;

    CT_TRY(one_way(c, peer, first, data, SMALL, 1, DATA, &small));
    n = small < slow_seconds;
    CT_TRY(agree(c, peer, first, data, &n));
    if (n == 0) {
        out->beta = fmax(small - out->alpha, 0) / SMALL;
        return CT_OK;
    }
    CT_TRY(one_way(c, peer, first, data, SMALL, REPEATS - 1, DATA, &small));
    n = larger(small);
    CT_TRY(agree(c, peer, first, data, &n));
    bytes = (size_t)n * SMALL;
    if (bytes == 0) {
        out->beta = fmax(small - out->alpha, 0) / SMALL;
        return CT_OK;
    }
    CT_TRY(one_way(c, peer, first, data, bytes, REPEATS, DATA, &large));
    out->beta = large > small ? (large - small) / (double)(bytes - SMALL)
                              : large / (double)bytes;
    return CT_OK;
}

/* Both ends of a link call it; the result of the first one counts. */
enum ct_status ct_probe_link(struct ct_comm *c, int peer, bool first,
                             bool brief, char *data, struct ct_link *out)
{
    double tiny;
    char n;

    CT_TRY(probe_alpha(c, peer, first, brief, data, &out->alpha));
    if (c->bytes_s > 0) { /* a limited rate is known; measuring takes long */
        out->beta = 1 / c->bytes_s;
        return CT_OK;
    }
    CT_TRY(one_way(c, peer, first, data, TINY, 1, DATA, &tiny));
    n = tiny < tiny_seconds && !brief;
    CT_TRY(agree(c, peer, first, data, &n));
    if (n > 0)
        return probe_beta(c, peer, first, data, out);
    out->beta = fmax(tiny - out->alpha, 0) / TINY;
    return CT_OK;
}

static enum ct_status probe_links(struct ct_comm *c, bool brief, char *data,
                                  struct ct_link *mine)
{
    const int P = c->size, next = (c->rank + 1) % P;
    const int last = (c->rank + P - 1) % P;
    struct ct_link theirs;

    for (int turn = 0; turn < 3; turn++) {
        /* Link r has turn r % 2; the last one of an odd ring the third. */
        int own    = P % 2 && c->rank == P - 1 ? 2 : c->rank % 2;
        int others = P % 2 && last == P - 1 ? 2 : last % 2;

        ct_comm_begin(c, "probe", brief ? TINY : CT_PROBE_BYTES);
        if (turn == own)
            CT_TRY(ct_probe_link(c, next, true, brief, data, mine));
        if (turn == others)
            CT_TRY(ct_probe_link(c, last, false, brief, data, &theirs));
        CT_TRY(ct_barrier(c));
    }
    return CT_OK;
}

/* Seconds per byte to add a megabyte that may not be in the cache. */
static double probe_gamma(char *data)
{
    const int64_t n = SMALL / (int64_t)sizeof(float);
    double best     = INFINITY;

    for (int i = 0; i < REPEATS; i++) {
        double start = ct_now();

        ct_comm_add(n, (float *)data, (float *)(data + SMALL * (i + 1)));
        best = fmin(best, ct_now() - start);
    }
    return best / SMALL;
}

/* The measurements of one rank. */
struct finding {
    struct ct_link link;
    double         gamma;
};

static enum ct_status probe_share(struct ct_comm *c,
                                  const struct finding *mine,
                                  struct ct_probe *out)
{
    struct finding *all = NULL;
    size_t *bytes       = NULL;
    enum ct_status st;

    CT_TRY_GOTO(ct_alloc((size_t)c->size, sizeof(*all), "probe", &all), st,
                out);
    CT_TRY_GOTO(ct_alloc((size_t)c->size, sizeof(*bytes), "probe", &bytes), st,
                out);
    CT_TRY_GOTO(ct_alloc((size_t)c->size, sizeof(*out->link), "probe",
                         &out->link), st, out);
    for (int r = 0; r < c->size; r++)
        bytes[r] = sizeof(*all);
    CT_TRY_GOTO(ct_allgather(c, mine, bytes, all), st, out);
    out->n_links = c->size > 1 ? c->size : 0;
    for (int r = 0; r < c->size; r++) {
        out->gamma   = fmax(out->gamma, all[r].gamma);
        out->link[r] = all[r].link;
        if (c->size == 1)
            break;
        out->alpha = fmax(out->alpha, all[r].link.alpha);
        if (all[r].link.beta <= out->beta)
            continue;
        out->beta      = all[r].link.beta;
        out->slow_rank = r;
        out->slow_peer = (r + 1) % c->size;
    }
out:
    ct_free(all);
    ct_free(bytes);
    return st;
}

static enum ct_status probe(struct ct_comm *c, bool brief,
                            struct ct_probe *out)
{
    struct finding mine = { { 0, 0 }, 0 };
    char *data          = NULL;
    enum ct_status st;

    *out = (struct ct_probe){ .slow_rank = -1, .slow_peer = -1 };
    CT_TRY(ct_alloc(brief ? TINY : LARGE, 1, "probe", &data));
    if (c->size > 1)
        CT_TRY_GOTO(probe_links(c, brief, data, &mine.link), st, out);
    mine.gamma = brief ? 0 : probe_gamma(data);
    CT_TRY_GOTO(probe_share(c, &mine, out), st, out);
out:
    ct_free(data);
    if (st != CT_OK)
        ct_probe_fini(out);
    return st;
}

enum ct_status ct_comm_probe(struct ct_comm *c, struct ct_probe *out)
{
    return probe(c, false, out);
}

enum ct_status ct_comm_probe_briefly(struct ct_comm *c, struct ct_probe *out)
{
    return probe(c, true, out);
}

enum ct_status ct_probe_adding(double *gamma)
{
    char *data = NULL;

    CT_TRY(ct_alloc((REPEATS + 1) * (size_t)SMALL, 1, "probe", &data));
    *gamma = probe_gamma(data);
    ct_free(data);
    return CT_OK;
}

void ct_probe_fini(struct ct_probe *p)
{
    ct_free(p->link);
    p->link = NULL;
}
