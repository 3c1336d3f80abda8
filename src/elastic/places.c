/* places.c - places where a job may be. */
#include "elastic/places.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/doors.h"

static const int look_ms = 1000; /* from one look to the next */

bool places_is_here(const struct ct_ip *ip)
{
    static const uint8_t six_loopback[16] = { [15] = 1 };
    struct ct_ip own[CARD_ADDRESSES];
    int n;

    if (ip->family == AF_INET ? ip->ip[0] == 127
                              : memcmp(ip->ip, six_loopback, 16) == 0)
        return true;
    n = ct_list_addresses(own, CARD_ADDRESSES); /* that may take long */
    for (int i = 0; i < n; i++)
        if (own[i].family == ip->family &&
            memcmp(own[i].ip, ip->ip, ip->family == AF_INET ? 4 : 16) == 0)
            return true;
    return false;
}

void places_add(struct places *p, const char *name, bool counts)
{
    p->lost = p->n == MEMBER_DOORS || p->n_doors == MEMBER_DOORS;
    p->is_more |= p->lost && counts;
    if (p->lost)
        return;
    snprintf(p->name[p->n], PLACE_BYTES, "%s", name);
    p->counts[p->n++] = counts;
}

void places_add_door(struct places *p, const struct elastic_door *d)
{
    if (p->lost)
        return;
    if (p->n_doors == MEMBER_DOORS) {
        p->is_more |= p->counts[p->n - 1];
        return;
    }
    p->place[p->n_doors]  = p->n - 1;
    p->door[p->n_doors++] = *d;
}

/* Addresses of this machine, e.g. of a bridge that all have, say nothing of a
 * place that is elsewhere. */
static void drop_own_doors(struct places *p)
{
    bool away[MEMBER_DOORS] = { false }, known[MEMBER_DOORS] = { false };
    int n                   = 0;

    for (int i = 0; i < p->n_doors; i++) {
        away[p->place[i]] |= !places_is_here(&p->door[i].at);
        known[p->place[i]] = true;
    }
    for (int i = 0; i < p->n_doors; i++) {
        if (away[p->place[i]] && places_is_here(&p->door[i].at))
            continue;
        p->place[n]  = p->place[i];
        p->door[n++] = p->door[i];
    }
    p->n_doors = n;
    for (int i = 0; i < p->n; i++)
        p->here[i] = known[i] && !away[i];
}

void places_find_job(struct places *p, const uint8_t *secret,
                     enum places_verdict *out, const char **who)
{
    const struct doors_question question = { .what = MEMBER_ASK_JSON };
    enum door_state state[MEMBER_DOORS];
    bool told[MEMBER_DOORS] = { false }, met[MEMBER_DOORS] = { false };
    char *answer;

    *out = PLACES_NO_JOB;
    drop_own_doors(p);
    doors_ask(p->door, p->n_doors, secret, &question, state, &answer);
    if (answer) {
        ct_free(answer);
        *out = PLACES_JOB;
        return;
    }
    for (int i = 0; i < p->n_doors; i++) {
        told[p->place[i]] |= state[i] == DOOR_SHUT;
        met[p->place[i]] |= state[i] == DOOR_HUNG_UP;
        if (state[i] != DOOR_SILENT)
            continue;
        snprintf(p->silent, sizeof(p->silent), "somebody who listens on port "
                 "%d and does not answer", ntohs(p->door[i].port));
        *who = p->silent;
        *out = PLACES_UNKNOWN;
    }
    for (int i = 0; i < p->n && *out == PLACES_NO_JOB; i++)
        if (p->counts[i] && !told[i] && (!p->here[i] || met[i])) {
            *out = PLACES_UNKNOWN;
            *who = p->name[i];
        }
    if (p->is_more && *out == PLACES_NO_JOB) {
        *out = PLACES_UNKNOWN;
        *who = "one of more processes than can be asked at a time";
    }
}

/* Whoever cannot see whether there is a job begins none beside it: its network
 * may have parted.  It looks again, until that is too long. */
enum ct_status places_wait(const char *who, double begin,
                           const struct places_patience *p)
{
    const double waited = ct_now() - begin, most = p->most;

    if (waited > most)
        return ct_fail(CT_EIO, "--rendezvous: %s may be in the job, and "
                       "gave no answer for %.0f s (--orphan): this process "
                       "does not begin another one; start again when the "
                       "network is whole, or meet elsewhere", who, waited);
    CT_WARN("%s may be in the job and gives no answer: this process waits, "
            "and begins no other one", who);
    poll(NULL, 0, most < 4 * look_ms / 1e3 ? look_ms / 4 : look_ms);
    return places_gives_up(p)
               ? ct_fail(CT_ESTOP, "this process was asked to end before it "
                         "knew whether there is a job")
               : CT_OK;
}
