/* journal_notes.c - what the thread that trains notes for the journal. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "observe/journal_inner.h"
#include "observe/json.h"

/* Seconds between notes of iterations; they become rarer as the run gets
 * longer, so that a week makes some hundred thousand and not a million. */
static const double note_every = .05, notes_kept = 20000;

/* Takes what the note owns. */
static void note(struct ct_journal *j, struct journal_note *n)
{
    bool kept;

    pthread_mutex_lock(&j->lock);
    kept = j->n_notes < JOURNAL_NOTES && !n->line.failed;
    if (kept)
        j->note[(j->first_note + j->n_notes++) % JOURNAL_NOTES] = *n;
    else
        j->n_lost++;
    pthread_mutex_unlock(&j->lock);
    if (!kept)
        ct_text_fini(&n->line);
}

struct ct_text journal_line(const char *kind, int iter, double time)
{
    struct ct_text t = { 0 };

    ct_text_add(&t, "{");
    ct_json_field_string(&t, "kind", kind);
    ct_json_field_number(&t, "iter", iter);
    ct_json_field_number(&t, "time", time);
    return t;
}

/* Ends the line and notes it; takes the text. */
static void note_line(struct ct_journal *j, struct ct_text *t)
{
    struct journal_note n = { .kind = NOTE_LINE, .time = journal_clock() };

    ct_text_add(t, "}\n");
    n.line = *t;
    if (j->asleep)
        ct_text_fini(t);
    else
        note(j, &n);
}

static void on_iteration(const struct ct_iteration *e, void *arg)
{
    struct ct_journal *j  = arg;
    struct journal_note n = { .kind = NOTE_ITERATION };
    const double now      = journal_clock();
    const double gap      = fmax(note_every, (now - j->begun) / notes_kept);

    if (j->asleep)
        return;
    atomic_store_explicit(&j->iter, e->iter, memory_order_relaxed);
    if (!e->displayed && now - j->last_noted < gap &&
        e->iter + 1 < e->max_iter)
        return;
    j->last_noted = now;
    n.time        = now;
    n.iteration   = *e;
    note(j, &n);
}

/* Outputs of several values, or of one name, are told apart by a number. */
static void add_outputs(struct ct_text *t, const struct ct_test_result *e)
{
    for (int i = 0; i < e->n_outputs; i++) {
        struct ct_text name = { 0 };
        int before          = 0;

        for (int k = 0; k < i; k++)
            before += strcmp(e->output[k].name, e->output[i].name) == 0;
        ct_text_add(&name, e->output[i].name);
        if (before)
            ct_text_addf(&name, "[%d]", before);
        if (!name.failed)
            ct_json_field_number(t, name.s, e->output[i].value);
        ct_text_fini(&name);
    }
}

static void on_test(const struct ct_test_result *e, void *arg)
{
    struct ct_text t = journal_line("test", e->iter, journal_clock());

    ct_json_field_number(&t, "net", e->net);
    ct_json_field_number(&t, "seconds", e->seconds);
    ct_json_key(&t, "outputs");
    ct_text_add(&t, "{");
    add_outputs(&t, e);
    ct_text_add(&t, "}");
    note_line(arg, &t);
}

static void on_snapshot(const struct ct_snapshot_files *e, void *arg)
{
    struct ct_text t = journal_line("snapshot", e->iter, journal_clock());

    ct_json_field_string(&t, "model", e->model);
    ct_json_field_string(&t, "state", e->state);
    note_line(arg, &t);
}

static void on_stop(int iter, enum ct_status why, void *arg)
{
    struct ct_journal *j = arg;
    struct ct_text t     = journal_line("stop", iter, journal_clock());

    pthread_mutex_lock(&j->lock);
    j->status = why == CT_OK ? "done" : why == CT_ESTOP ? "stopped" : "failed";
    if (why != CT_OK && why != CT_ESTOP)
        snprintf(j->why, sizeof(j->why), "%s", ct_last_error());
    ct_json_field_string(&t, "status", j->status);
    ct_json_field_string(&t, "text", j->why);
    pthread_mutex_unlock(&j->lock);
    note_line(j, &t);
}

static bool wants_inspect(int iter, void *arg)
{
    struct ct_journal *j = arg;

    (void)iter;
    if (j->asleep || atomic_load(&j->look.state) != LOOK_WANTED)
        return false;
    journal_clocked_begin(j);
    return true;
}

static void on_inspect(struct ct_solver *s, int iter, void *arg)
{
    struct ct_journal *j = arg;

    journal_clocked_end(j, s);
    journal_look_fill(j, s, iter);
    atomic_store(&j->look.state, LOOK_FULL);
}

/* Marks come from the job itself, also when no iteration ends any more. */
const struct ct_solver_events journal_events = {
    .iteration     = on_iteration,
    .test          = on_test,
    .snapshot      = on_snapshot,
    .stop          = on_stop,
    .wants_inspect = wants_inspect,
    .inspect       = on_inspect,
};

/* Any thread that logs. */
void journal_take_log(enum ct_log_level level, const char *line, void *arg)
{
    struct ct_journal *j = arg;

    (void)level;
    pthread_mutex_lock(&j->lock);
    if (j->log.n_bytes < JOURNAL_MOST_LOG)
        ct_text_add(&j->log, line);
    else
        j->n_lost++;
    pthread_mutex_unlock(&j->lock);
}
