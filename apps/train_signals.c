/* train_signals.c - what signals ask of `cortado train`. */
#include "train_signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "elastic/member.h"
#include "observe/trace_file.h"
#include "peers.h"

/* What a signal asks for; the first of them that came counts. */
struct effect {
    int                   number;
    const char           *flag;
    enum ct_solver_action action;
};
enum { N_EFFECTS = 4 };

static struct effect effects[N_EFFECTS] = {
    { SIGTERM, "sigterm_effect", CT_ACTION_NONE },
    { SIGINT, "sigint_effect", CT_ACTION_NONE },
    { SIGUSR1, "sigusr1_effect", CT_ACTION_NONE },
    { SIGHUP, "sighup_effect", CT_ACTION_NONE },
};
static atomic_bool got[NSIG]; /* by the thread that takes signals */

/* Where SIGUSR2 asks for a trace and for records. */
static struct ct_trace_file *_Atomic traced;
static struct ct_dist *_Atomic recorded;
/* Who leaves its job at some signals, which are these. */
static struct elastic_member *_Atomic member;
static atomic_bool leaves_at[NSIG];
/* A process of its own trains later what it was asked before; who asks twice
 * does not want to wait for that. */
static atomic_bool is_alone, begun;

bool signal_flags_given(const struct signal_flags *f)
{
    return f->sigint || f->sighup || f->sigterm || f->sigusr1;
}

enum ct_status signal_flags_check(const struct signal_flags *f)
{
    static const char *const known[] = { "stop", "snapshot", "none", "leave" };
    const char *const word[] = { f->sigint, f->sighup, f->sigterm, f->sigusr1 };
    const int n = sizeof(word) / sizeof(word[0]);

    for (int i = 0, k = 0; i < n; i++) {
        for (k = 0; k < 4 && word[i] && strcmp(word[i], known[k]) != 0; k++)
            ;
        if (k == 4)
            return ct_fail(CT_EINVAL, "what a signal does is stop, snapshot, "
                           "none or leave, not '%s'", word[i]);
    }
    return CT_OK;
}

void signal_flags_default(struct signal_flags *f, bool elastic)
{
    const char *end = elastic ? "leave" : "stop";

    f->sigint  = f->sigint ? f->sigint : "stop";
    f->sighup  = f->sighup ? f->sighup : "snapshot";
    f->sigterm = f->sigterm ? f->sigterm : end;
    f->sigusr1 = f->sigusr1 ? f->sigusr1 : f->sigterm;
}

static const char *effect_of(const struct signal_flags *f, int number)
{
    return number == SIGINT    ? f->sigint
           : number == SIGTERM ? f->sigterm
           : number == SIGUSR1 ? f->sigusr1
           : number == SIGHUP  ? f->sighup
                               : "none";
}

bool signal_flags_stop(const struct signal_flags *f, int number)
{
    return strcmp(effect_of(f, number), "stop") == 0;
}

bool signal_flags_end(const struct signal_flags *f, int number)
{
    return signal_flags_stop(f, number) ||
           strcmp(effect_of(f, number), "leave") == 0;
}

static bool stops_at(int number)
{
    for (int i = 0; i < N_EFFECTS; i++)
        if (effects[i].number == number)
            return effects[i].action == CT_ACTION_STOP;
    return false;
}

static void on_signal(int number)
{
    struct elastic_member *m = member;

    if (m && leaves_at[number]) {
        member_leave(m);
        return;
    }
    if (m && stops_at(number))
        member_end(m); /* where it only waits to begin */
    if (atomic_exchange(&got[number], true) && is_alone && !begun &&
        stops_at(number)) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (number != SIGUSR2)
        return;
    ct_dist_ask_records(recorded);
    if (traced)
        ct_trace_file_want(traced);
}

/* Where a launcher's SIGTERM has a thread that asks (peers.h): once. */
static bool accept_term(void)
{
    got[SIGTERM] = true;
    return true;
}

enum ct_solver_action train_signals_action(void)
{
    for (int i = 0; i < N_EFFECTS; i++)
        if (atomic_exchange(&got[effects[i].number], false))
            return effects[i].action;
    return CT_ACTION_NONE;
}

static enum ct_status parse_effect(const char *flag, const char *word,
                                   bool *leaves, enum ct_solver_action *out)
{
    *leaves = strcmp(word, "leave") == 0;
    if (strcmp(word, "stop") == 0)
        *out = CT_ACTION_STOP;
    else if (*leaves && member)
        *out = CT_ACTION_NONE;
    else if (*leaves)
        return ct_fail(CT_EINVAL, "--%s=leave is for --elastic: a job of fixed "
                       "size goes on with all ranks or none", flag);
    else if (strcmp(word, "snapshot") == 0)
        *out = CT_ACTION_SNAPSHOT;
    else if (strcmp(word, "none") == 0)
        *out = CT_ACTION_NONE;
    else
        return ct_fail(CT_EINVAL, "--%s is stop, snapshot, none or, with "
                       "--elastic, leave, not '%s'", flag, word);
    return CT_OK;
}

enum ct_status train_signals_read(const struct signal_flags *f,
                                  struct elastic_member *m)
{
    const char *const word[N_EFFECTS] = { f->sigterm, f->sigint, f->sigusr1,
                                          f->sighup };

    member = m;
    for (int i = 0; i < N_EFFECTS; i++) {
        bool leaves;

        CT_TRY(parse_effect(effects[i].flag, word[i], &leaves,
                            &effects[i].action));
        leaves_at[effects[i].number] = leaves;
    }
    return CT_OK;
}

void train_signals_forget_member(void)
{
    member = NULL;
}

static void handle(int number)
{
    struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigaction(number, &sa, NULL);
}

void train_signals_catch(void)
{
    for (int i = 0; i < N_EFFECTS; i++)
        if (effects[i].number != SIGTERM || !ct_dist_launched())
            handle(effects[i].number);
    peers_set_accept(accept_term);
    is_alone = !ct_dist_launched() && !member;
}

void train_signals_catch_requests(void)
{
    handle(SIGUSR2);
}

void train_signals_ask(struct ct_trace_file *trace, struct ct_dist *d)
{
    begun |= trace != NULL;
    traced   = trace;
    recorded = d;
}
