/* whereabouts.c - where the agents of a launch are. */
#include "whereabouts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/transport/address.h"
#include "cortado/log.h"
#include "elastic/rendezvous.h"
#include "elastic/roll.h"

enum { USUAL_PORT = 29400 };
static const uint64_t last_digits = 0xffff; /* of an agent's number */

/* Seconds that the job has to say where its agents are, while others wait, and
 * those from one such question to the next. */
static const double most_answer   = 1;
static const double least_between = 0.5, most_between = 5;

/* ---- Ports. */

static bool is_same(const struct host *a, const struct host *b)
{
    return (a->is_here && b->is_here) || strcmp(a->name, b->name) == 0;
}

static const char *name_of(const struct whereabouts *w, int k)
{
    return w->all_here ? "127.0.0.1" : w->hosts->host[k].name;
}

/* Each agent has a port that is free on this machine.  Ports that follow each
 * other would not do: systems give odd ports to those who listen, and even ones
 * to connections, or the other way round. */
static enum ct_status choose_free_ports(struct whereabouts *w)
{
    int fd[HOSTS_MOST], n = 0;
    enum ct_status st = CT_OK;

    for (; n < w->hosts->n && st == CT_OK; n++) {
        uint16_t port = 0;

        fd[n] = ct_listen(&port);
        if (fd[n] < 0)
            st = ct_fail(CT_ECOMM, "there is no free port: %s",
                         strerror(errno));
        w->agent[n].port = ntohs(port);
    }
    while (n-- > 0)
        if (fd[n] >= 0)
            close(fd[n]);
    return st;
}

/* From `port` on, one port per agent of a host. */
static void count_ports(struct whereabouts *w, int port)
{
    for (int i = 0; i < w->hosts->n; i++) {
        w->agent[i].port = port;
        for (int k = 0; k < i; k++)
            w->agent[i].port += is_same(&w->hosts->host[i],
                                        &w->hosts->host[k]);
    }
}

/* All agents meet at the first host. */
enum ct_status where_choose(struct whereabouts *w, const struct hosts *hosts,
                            const uint8_t *key, int port)
{
    w->hosts    = hosts;
    w->key      = key;
    w->all_here = true;
    for (int i = 0; i < hosts->n; i++)
        w->all_here &= hosts->host[i].is_here;
    if (port == 0 && hosts->host[0].is_here)
        CT_TRY(choose_free_ports(w));
    else
        count_ports(w, port ? port : USUAL_PORT);
    snprintf(w->meet, sizeof(w->meet), "%s:%d", name_of(w, 0),
             w->agent[0].port);
    return CT_OK;
}

/* ---- What an agent is told. */

static bool knows_job(const struct whereabouts *w)
{
    return member_job_began(w->job) > 0;
}

bool where_begins(const struct whereabouts *w, int k)
{
    return k == 0 && !knows_job(w);
}

/* Each agent has a port of its own, where others find the job when the first
 * host is lost.  One that comes in place of another knows all of them, because
 * ranks live on without their agent, and begins no job, unless nobody has heard
 * of one and it is the one to begin it. */
void where_put_flag(const struct whereabouts *w, int k, bool again,
                    struct ct_text *out)
{
    ct_text_add(out, "--rendezvous=");
    if (!again) {
        ct_text_add(out, w->meet);
        if (k > 0)
            ct_text_addf(out, ",:%d", w->agent[k].port);
        return;
    }
    ct_text_addf(out, "%s:%d", where_begins(w, k) ? rendezvous_first
                                                  : rendezvous_again,
                 w->agent[k].port);
    for (int i = 0; i < w->hosts->n; i++)
        if (i != k)
            ct_text_addf(out, ",%s:%d", name_of(w, i), w->agent[i].port);
}

static void put_digits(struct ct_text *out, const uint8_t *at, int n)
{
    for (int i = 0; i < n; i++)
        ct_text_addf(out, "%02x", at[i]);
}

/* The agents of a host have numbers that differ in their last digits alone, so
 * that the ranks of one that was lost say which job it is, too. */
static uint64_t number_after(uint64_t number)
{
    if (number == 0) {
        seal_draw(&number, sizeof(number));
        return number & ~last_digits;
    }
    return (number & ~last_digits) | ((number + 1) & last_digits);
}

static bool is_of_host(uint64_t agent, uint64_t number)
{
    return ((agent ^ number) & ~last_digits) == 0;
}

void where_put_line(struct whereabouts *w, int k, struct ct_text *out)
{
    w->agent[k].number  = number_after(w->agent[k].number);
    w->agent[k].awaited = true;
    w->look             = (struct restarts){ 0 };
    put_digits(out, w->key, SEAL_SECRET_BYTES);
    ct_text_addf(out, " %016" PRIx64 " ", w->agent[k].number);
    if (knows_job(w))
        put_digits(out, w->job, POST_JOB_BYTES);
    ct_text_add(out, "\n");
}

void where_end(struct whereabouts *w, int k)
{
    w->agent[k].awaited = false;
}

/* ---- What the job says. */

/* The first roll with one of these agents, or of those before them, is of this
 * job. */
static enum ct_status take_roll(struct whereabouts *w,
                                const struct elastic_roll *roll)
{
    bool ours = knows_job(w);

    for (int i = 0; i < roll->n; i++)
        for (int k = 0; k < w->hosts->n; k++) {
            if (w->agent[k].number == 0 || roll->door[i] == 0)
                continue;
            ours |= is_of_host(roll->agent[i], w->agent[k].number);
            if (w->agent[k].number != roll->agent[i])
                continue;
            if (w->agent[k].port != roll->door[i])
                CT_INFO("%s: its agent is at port %d, because another program "
                        "had port %d", w->hosts->host[k].name, roll->door[i],
                        w->agent[k].port);
            w->agent[k].port    = roll->door[i];
            w->agent[k].awaited = false;
        }
    if (!ours)
        return ct_fail(CT_ENOTFOUND, "another job answers");
    memcpy(w->job, roll->job, sizeof(w->job));
    return CT_OK;
}

static enum ct_status ask(struct whereabouts *w, int what, double seconds)
{
    struct ct_text list       = { 0 };
    struct elastic_roll *roll = NULL;
    enum ct_status st         = CT_ENOMEM;

    for (int k = 0; k < w->hosts->n; k++)
        ct_text_addf(&list, "%s%s:%d", k > 0 ? "," : "", name_of(w, k),
                     w->agent[k].port);
    if (!list.failed)
        st = rendezvous_call_roll(list.s, w->key,
                                  knows_job(w) ? w->job : NULL, what, seconds,
                                  &roll);
    if (st == CT_OK)
        st = take_roll(w, roll);
    ct_text_fini(&list);
    ct_free(roll);
    return st;
}

bool where_ask(struct whereabouts *w, double seconds)
{
    return ask(w, MEMBER_ASK_ROLL, seconds) == CT_OK;
}

enum ct_status where_end_job(struct whereabouts *w)
{
    if (!knows_job(w))
        CT_TRY(ask(w, MEMBER_ASK_ROLL, most_answer));
    return ask(w, MEMBER_ASK_END, most_answer);
}

void where_look(struct whereabouts *w)
{
    bool any = false;

    for (int k = 0; k < w->hosts->n; k++)
        any |= w->agent[k].awaited;
    if (!any || ct_now() < w->look.next_start)
        return;
    if (w->look.next_start > 0) /* it has only just started */
        (void)where_ask(w, most_answer);
    restarts_plan(&w->look, least_between, most_between);
}
