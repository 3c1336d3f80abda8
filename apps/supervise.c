/* supervise.c - jobs of fixed size that start again when they fail.
 *
 * A job is all its ranks: when one is lost all end, and all start again.
 * Before that every host is asked whether it is there and which snapshot it
 * has; the one with the newest gets rank 0, which reads it.  Hosts that come
 * back are taken in at the next start. */
#include "supervise.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "command.h"
#include "launch.h"
#include "look.h"
#include "restarts.h"

enum { SAME_PLACE = 3, MOST_PAUSE = 60 };

struct job {
    const struct supervised *asked;
    struct hosts     hosts; /* that the next start takes, in order of ranks */
    struct look      look[HOSTS_MOST];
    int64_t          newest; /* snapshot that a host has which answers */
    int64_t          best;   /* that there ever was */
    int64_t          since;  /* that snapshots are of this job */
    struct ct_text   gone;   /* who does not answer */
    char             self[PATH_MAX], folder[PATH_MAX];
    int              n_starts, n_same, last_code;
    struct restarts  again;
    bool             was_lost; /* a host of the last start is gone */
    struct host      writer;   /* rank 0's of the last start */
    bool             lost_writer;
};

bool snapshot_is_auto(const char *word, int64_t *since)
{
    char *end = NULL;

    *since = 0;
    if (!word || strncmp(word, "auto", 4) != 0)
        return false;
    if (word[4] == '\0')
        return true;
    if (word[4] != '@')
        return false;
    *since = strtoll(word + 5, &end, 10);
    return end != word + 5 && *end == '\0' && *since >= 0;
}

/* ---- hosts */

/* The one with the newest snapshot first, the others as they were given. */
static void choose_hosts(struct job *j)
{
    const struct hosts *all = j->asked->hosts;
    int first               = 0;

    memset(&j->hosts, 0, sizeof(j->hosts));
    for (int i = 1; i < all->n; i++)
        if (j->look[i].answers && (!j->look[first].answers ||
                                   j->look[i].newest > j->look[first].newest))
            first = i;
    for (int k = -1; k < all->n; k++) {
        const int i = k < 0 ? first : k;

        if (!j->look[i].answers || k == first)
            continue;
        j->hosts.host[j->hosts.n++] = all->host[i];
        j->hosts.n_ranks += all->host[i].n_ranks;
    }
    j->newest = j->look[first].answers ? j->look[first].newest : -1;
}

/* "a, b do not answer; " */
static void note_those(struct job *j, bool lack)
{
    const struct hosts *all = j->asked->hosts;
    int n                   = 0;

    for (int i = 0; i < all->n; i++)
        if (!j->look[i].answers && j->look[i].lacks == lack && n++ < 4)
            ct_text_addf(&j->gone, "%s%s", n > 1 ? ", " : "",
                         all->host[i].name);
    if (n > 4)
        ct_text_addf(&j->gone, " and %d more", n - 4);
    if (n > 0 && lack)
        ct_text_addf(&j->gone, " cannot run %s; ", j->self);
    else if (n > 0)
        ct_text_add(&j->gone, n > 1 ? " do not answer; "
                                    : " does not answer; ");
}

static void note_gone(struct job *j)
{
    ct_text_fini(&j->gone);
    j->gone = (struct ct_text){ 0 };
    note_those(j, false);
    note_those(j, true);
}

/* Where rank 0 was, unless its host is there. */
static void note_writer(struct job *j)
{
    j->lost_writer = j->writer.name[0] != '\0';
    for (int i = 0; i < j->hosts.n; i++)
        j->lost_writer &= strcmp(j->hosts.host[i].name, j->writer.name) != 0;
}

/* What it finds changes nothing for a job on this host that starts once. */
static bool needs_look(const struct job *j)
{
    return j->asked->restarts > 0 || j->asked->hosts->n > 1 ||
           !j->asked->hosts->host[0].is_here;
}

static enum ct_status look_around(struct job *j)
{
    const struct look_for what = { j->self, j->folder, j->asked->prefix,
                                   j->since };
    const int n_before         = j->hosts.n;

    if (needs_look(j))
        CT_TRY(look_at(j->asked->hosts, &what, j->look));
    else
        j->look[0] = (struct look){ .answers = true, .newest = -1 };
    choose_hosts(j);
    note_gone(j);
    note_writer(j);
    j->was_lost = j->hosts.n < n_before;
    return CT_OK;
}

static bool can_start(const struct job *j, char *why, size_t bytes)
{
    if (j->hosts.n_ranks < j->asked->min_ranks)
        snprintf(why, bytes, "%d of %d rank(s) can start, fewer than "
                 "--min_ranks=%d", j->hosts.n_ranks, j->asked->hosts->n_ranks,
                 j->asked->min_ranks);
    else if (j->newest < j->best)
        snprintf(why, bytes, "nobody who answers has the snapshot of iteration "
                 "%" PRId64, j->best);
    else
        return true;
    return false;
}

/* ---- one start, and what comes of it */

static enum ct_status start(struct job *j, int *code)
{
    struct launch_call call = { &j->hosts, j->asked->words, NULL };
    char snapshot[64]       = "--snapshot=auto";

    if (j->since > 0)
        snprintf(snapshot, sizeof(snapshot), "--snapshot=auto@%" PRId64,
                 j->since);
    j->writer = j->hosts.host[0];
    if (j->n_starts++ > 0 && j->newest >= 0)
        call.snapshot = snapshot;
    if (j->asked->hosts->n > 1 || !j->hosts.host[0].is_here)
        CT_INFO("%s%d of %d rank(s) start on %d host(s), from %s",
                j->gone.s ? j->gone.s : "", j->hosts.n_ranks,
                j->asked->hosts->n_ranks, j->hosts.n, j->hosts.host[0].name);
    return launch_run(&call, code);
}

static void say_how(int code, double seconds, char *out, size_t bytes)
{
    if (code > 128)
        snprintf(out, bytes, "The job was ended by signal %d, after %.0f s",
                 code - 128, seconds);
    else
        snprintf(out, bytes, "The job ended with status %d, after %.0f s", code,
                 seconds);
}

/* The same end at the same place, again and again, will not get better. */
static void count_same(struct job *j, int code)
{
    const bool is_further = j->newest > j->best;

    if (is_further || j->was_lost || code != j->last_code)
        j->n_same = 0;
    j->n_same++;
    j->last_code = code;
    if (is_further) {
        j->best  = j->newest;
        j->again.pause = 0;
    }
}

/* Why there is no further start; NULL: there is one. */
static const char *reason_to_end(const struct job *j, int code)
{
    if (code == EXIT_INPUT && !j->was_lost)
        return "what it was given is bad";
    if (j->n_same >= SAME_PLACE)
        return "it ended so three times without a newer snapshot";
    return j->again.n >= j->asked->restarts ? "it has been so often" : NULL;
}

static enum ct_status give_up(const struct job *j, const char *how,
                              const char *why, bool has_run)
{
    if (!has_run)
        return ct_fail(CT_ECOMM, "%s%s", j->gone.s ? j->gone.s : "", how);
    if (j->asked->restarts > 0)
        CT_ERROR("%s; %sit is not started again: %s", how,
                 j->gone.s ? j->gone.s : "", why);
    return CT_OK;
}

static void say_next(const struct job *j, const char *how, bool starts)
{
    const struct restarts *r = &j->again;
    char from[400]           = "where it began";

    if (j->newest < 0 && j->lost_writer)
        snprintf(from, sizeof(from), "where it began, because nobody sees the "
                 "snapshots that rank 0 may have written on %s,",
                 j->writer.name);
    if (j->newest >= 0)
        snprintf(from, sizeof(from), "the snapshot of iteration %" PRId64,
                 j->newest);
    if (starts)
        CT_WARN("%s; %sit starts again with %d of %d rank(s) from %s in %.0f "
                "s, %d of %d times", how, j->gone.s ? j->gone.s : "",
                j->hosts.n_ranks, j->asked->hosts->n_ranks, from, r->pause,
                r->n, j->asked->restarts);
    else
        CT_WARN("%s; %sthis is looked at again in %.0f s, %d of %d times", how,
                j->gone.s ? j->gone.s : "", r->pause, r->n,
                j->asked->restarts);
}

static bool is_over(int code)
{
    return code == EXIT_DONE || code == EXIT_STOPPED ||
           launch_is_asked_to_end();
}

/* Starts it once, or finds that it cannot; *over: that was all. */
static enum ct_status try_once(struct job *j, char *how, size_t bytes,
                               bool *has_run, bool *over, int *code)
{
    *has_run = *over = false;
    if (!can_start(j, how, bytes))
        return look_around(j);
    restarts_began(&j->again);
    CT_TRY(start(j, code));
    *has_run = true;
    *over    = is_over(*code);
    if (*over)
        return CT_OK;
    say_how(*code, ct_now() - j->again.began, how, bytes);
    restarts_ended(&j->again);
    launch_tidy();
    CT_TRY(look_around(j));
    count_same(j, *code);
    return CT_OK;
}

static enum ct_status run(struct job *j, int *code)
{
    char how[200], why[200];

    CT_TRY(look_around(j));
    j->best = j->newest;
    if (launch_is_asked_to_end()) {
        *code = EXIT_STOPPED;
        return CT_OK;
    }
    for (;;) {
        const char *end;
        bool has_run, over;

        CT_TRY(try_once(j, how, sizeof(how), &has_run, &over, code));
        if (over)
            return CT_OK;
        if (!has_run && can_start(j, why, sizeof(why)))
            continue; /* a host has come back */
        end = has_run || j->again.n >= j->asked->restarts
                  ? reason_to_end(j, *code)
                  : NULL;
        if (end)
            return give_up(j, how, end, has_run || j->n_starts > 0);
        restarts_plan(&j->again, 1, MOST_PAUSE);
        j->again.n++;
        say_next(j, how, has_run);
        launch_pause((int)j->again.pause);
        if (launch_is_asked_to_end()) {
            if (j->n_starts == 0)
                *code = EXIT_STOPPED;
            return CT_OK;
        }
    }
}

enum ct_status supervise(const struct supervised *s, int *code)
{
    struct job *j = NULL;
    enum ct_status st;
    ssize_t n;

    CT_TRY(ct_alloc(1, sizeof(*j), "a job", &j));
    j->asked = s;
    *code    = EXIT_RUNTIME;
    n        = readlink("/proc/self/exe", j->self, sizeof(j->self) - 1);
    if (n < 0 || !getcwd(j->folder, sizeof(j->folder))) {
        st = ct_fail(CT_EIO, "this program's file or folder: %s",
                     strerror(errno));
    } else {
        /* Whoever does not ask for the newest snapshot begins a new job. */
        if (!snapshot_is_auto(s->snapshot, &j->since))
            j->since = time(NULL);
        launch_begin(s->signals);
        st = run(j, code);
    }
    ct_text_fini(&j->gone);
    ct_free(j);
    return st;
}
