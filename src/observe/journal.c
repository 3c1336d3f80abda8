/* journal.c - a journal's life, its queue and its thread. */
#include "observe/journal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "device/nvml.h"
#include "dist/report/figures.h"
#include "observe/journal_inner.h"
#include "observe/json.h"
#include "observe/tfevents.h"
#include "solver/exchange.h"

/* How often, in seconds; lines on ranks become rarer as the run gets longer. */
static const double least_tick = .05, most_tick = 1, flush_every = .5,
                    ranks_every = 1, times_every = 2, ranks_kept = 2000,
                    now_every = 1;
/* Of the time, that looking at parameters may take.  Looks become rarer, too:
 * each is a long line. */
static const double look_share = .001, look_least = 2, looks_kept = 500;
/* Of this process's time on processors, that the journal's thread may take. */
static const double tick_share = .001;

double journal_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the journal's thread */

static void scalar(struct ct_journal *j, double time, int iter,
                   const char *tag, double value)
{
    ct_tf_scalar(&j->tf.pending, time, iter, tag, value);
}

static void write_iteration(struct ct_journal *j, const struct journal_note *n)
{
    const struct ct_iteration *e = &n->iteration;
    struct ct_text t = journal_line("iteration", e->iter, n->time);
    double speed;

    j->step_seconds = j->step_seconds > 0
                          ? .8 * j->step_seconds + .2 * e->seconds
                          : e->seconds;
    speed = j->step_seconds > 0 ? (double)e->samples / j->step_seconds : 0;
    ct_json_field_number(&t, "loss", e->loss);
    ct_json_field_number(&t, "smoothed", e->smoothed);
    ct_json_field_number(&t, "rate", e->rate);
    ct_json_field_number(&t, "seconds", e->seconds);
    ct_json_field_number(&t, "samples_per_second", speed);
    ct_json_field_number(&t, "seconds_left", e->seconds_left);
    ct_text_add(&t, "}\n");
    ct_text_add(&j->series.pending, t.s ? t.s : "");
    ct_text_fini(&t);
    scalar(j, n->time, e->iter, "train/loss", e->loss);
    scalar(j, n->time, e->iter, "train/smoothed_loss", e->smoothed);
    scalar(j, n->time, e->iter, "train/learning_rate", e->rate);
    scalar(j, n->time, e->iter, "speed/samples_per_second", speed);
    scalar(j, n->time, e->iter, "speed/seconds_left", e->seconds_left);
    j->latest      = *e;
    j->latest_time = n->time;
}

/* Test outputs go to TensorBoard, too. */
static void test_scalars(struct ct_journal *j, const struct journal_note *n)
{
    struct ct_json *line = NULL;
    const struct ct_json *o;

    if (strncmp(n->line.s, "{\"kind\":\"test\"", 14) != 0 ||
        ct_json_parse(n->line.s, n->line.n_bytes, "a test", &line) != CT_OK)
        return;
    o = ct_json_get(line, "outputs");
    for (o = o ? o->child : NULL; o; o = o->next) {
        struct ct_text tag = { 0 };

        ct_text_addf(&tag, "test%.0f/%s",
                     ct_json_number(ct_json_get(line, "net"), 0), o->key);
        if (!tag.failed)
            scalar(j, n->time,
                   (int)ct_json_number(ct_json_get(line, "iter"), 0), tag.s,
                   ct_json_number(o, (double)NAN));
        ct_text_fini(&tag);
    }
    ct_json_free(line);
}

static bool take_note(struct ct_journal *j, struct journal_note *out)
{
    bool found;

    pthread_mutex_lock(&j->lock);
    found = j->n_notes > 0;
    if (found) {
        *out          = j->note[j->first_note];
        j->first_note = (j->first_note + 1) % JOURNAL_NOTES;
        j->n_notes--;
    }
    pthread_mutex_unlock(&j->lock);
    return found;
}

static void write_marks(struct ct_journal *j)
{
    struct ct_mark m;

    while (dist_next_mark(j->dist, &j->n_marks, &m)) {
        struct ct_text t = journal_line("mark", m.iter, m.time);

        ct_json_field_string(&t, "what", ct_mark_name(m.kind));
        ct_json_field_number(&t, "rank", m.rank);
        ct_json_field_string(&t, "text", m.text);
        ct_text_add(&t, "}\n");
        ct_text_add(&j->series.pending, t.s ? t.s : "");
        ct_text_fini(&t);
    }
}

static void drain(struct ct_journal *j)
{
    struct journal_note n;

    while (take_note(j, &n)) {
        if (n.kind == NOTE_ITERATION) {
            write_iteration(j, &n);
            continue;
        }
        ct_text_add(&j->series.pending, n.line.s);
        test_scalars(j, &n);
        ct_text_fini(&n.line);
    }
    write_marks(j);
    pthread_mutex_lock(&j->lock);
    ct_text_add(&j->log_file.pending, j->log.s ? j->log.s : "");
    j->log.n_bytes = 0;
    if (j->log.s)
        j->log.s[0] = '\0';
    pthread_mutex_unlock(&j->lock);
}

static enum ct_status flush(struct ct_journal *j)
{
    CT_TRY(ct_output_flush(&j->series));
    CT_TRY(ct_output_flush(&j->ranks));
    CT_TRY(ct_output_flush(&j->layers));
    CT_TRY(ct_output_flush(&j->tf));
    return ct_output_flush(&j->log_file);
}

static enum ct_status at_tick(struct ct_journal *j)
{
    const double now = ct_now(), age = journal_clock() - j->begun;

    journal_times_sample(j, now);
    if (atomic_load(&j->look.state) == LOOK_FULL) {
        CT_TRY(journal_look_write(j));
        journal_times_clocked(j);
        j->next_look = now + fmax(fmax(look_least, age / looks_kept),
                                  j->look.seconds / look_share);
        atomic_store(&j->look.state, LOOK_IDLE);
    }
    if (now >= j->next_look && atomic_load(&j->look.state) == LOOK_IDLE)
        atomic_store(&j->look.state, LOOK_WANTED);
    if (now >= j->next_ranks) {
        journal_ranks_write(j, journal_clock());
        j->next_ranks = now + fmax(2 * j->tick,
                                   fmax(ranks_every, age / ranks_kept)) *
                                  (1 + j->n_ranks / 64);
    }
    if (now >= j->next_now) {
        CT_TRY(journal_ranks_write_now(j, journal_clock()));
        j->next_now = now + fmax(2 * j->tick, now_every) *
                                (1 + j->n_ranks / 512);
    }
    /* Ranks know each other's devices once training has begun. */
    if (!j->knows_ranks && atomic_load(&j->iter) > j->start_iter) {
        CT_TRY(journal_write_run(j));
        j->knows_ranks = true;
    }
    if (now >= j->next_times) {
        CT_TRY(journal_times_write(j));
        j->next_times = now + fmax(times_every, 5 * j->tick);
    }
    if (now >= j->next_flush) {
        drain(j);
        CT_TRY(flush(j));
        j->next_flush = now + fmax(flush_every, 2 * j->tick);
    }
    return CT_OK;
}

static void give_up(struct ct_journal *j)
{
    j->broken = true;
    ct_log_set_listener(NULL, NULL);
    CT_WARN("%s; this run is no longer recorded, training goes on",
            ct_last_error());
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ticks are rarer where they would cost too much: where others leave this
 * process a small part of the machine, or it has little to do. */
double journal_next_tick(double tick, double spent, double all)
{
    return spent > tick_share * all ? fmin(2 * tick, most_tick)
                                    : fmax(.8 * tick, least_tick);
}

/* Waits for the next tick; false: it is over. */
static bool next_tick(struct ct_journal *j)
{
    struct timespec until;
    bool ending;

    j->tick = journal_next_tick(j->tick, seconds_of(CLOCK_THREAD_CPUTIME_ID),
                                seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * j->tick);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&j->lock);
    if (!j->ending)
        pthread_cond_timedwait(&j->wake, &j->lock, &until);
    ending = j->ending;
    pthread_mutex_unlock(&j->lock);
    return !ending;
}

static void *journal_main(void *arg)
{
    struct ct_journal *j = arg;

    ct_background("journal");
    while (next_tick(j))
        if (!j->broken && at_tick(j) != CT_OK)
            give_up(j);
    return NULL;
}

/* ---- beginning and end */

/* After CT_EIO errno says why. */
static enum ct_status make_folder(const char *path)
{
    char *part = ct_strdup(path, "path");
    enum ct_status st = part ? CT_OK : CT_ENOMEM;
    int why           = 0;

    for (char *at = part ? part + 1 : NULL; st == CT_OK && at;) {
        at = strchr(at, '/');
        if (at)
            *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            why = errno;
            st  = ct_fail(CT_EIO, "cannot make the folder %s: %s", part,
                          strerror(why));
        }
        if (at)
            *at++ = '/';
    }
    ct_free(part);
    errno = why;
    return st;
}

static enum ct_status open_tf(struct ct_journal *j)
{
    char host[64] = "host", name[160];

    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "host");
    /* Another start within a second gets a file of its own. */
    snprintf(name, sizeof(name), "events.out.tfevents.%010.0f.%s.%d",
             j->begun, host, (int)getpid());
    CT_TRY(ct_output_open(&j->tf, j->folder, name, 0));
    ct_tf_begin(&j->tf.pending, j->begun, j->start_iter);
    ct_tf_graph(&j->tf.pending, j->begun, ct_solver_net(j->solver));
    return CT_OK;
}

/* For people, with blanks between the words; and as a list of JSON. */
static enum ct_status keep_words(struct ct_journal *j, int n,
                                 char *const *words)
{
    struct ct_text line = { 0 }, list = { 0 };

    ct_text_add(&line, "");
    ct_text_add(&list, "[");
    for (int i = 0; i < n; i++) {
        ct_text_addf(&line, "%s%s", i ? " " : "", words[i]);
        ct_json_comma(&list);
        ct_json_add_string(&list, words[i]);
    }
    ct_text_add(&list, "]");
    if (!line.failed && !list.failed) {
        j->command = ct_strdup(line.s, "command line");
        j->argv    = ct_strdup(list.s, "command line");
    }
    ct_text_fini(&line);
    ct_text_fini(&list);
    return j->command && j->argv ? CT_OK : CT_ENOMEM;
}

static enum ct_status open_files(struct ct_journal *j)
{
    CT_TRY(make_folder(j->folder));
    CT_TRY(ct_output_open(&j->log_file, j->folder, "log.txt", 1));
    CT_TRY(ct_output_open(&j->series, j->folder, "series.jsonl", 1));
    CT_TRY(ct_output_open(&j->ranks, j->folder, "ranks.jsonl", 1));
    CT_TRY(ct_output_open(&j->layers, j->folder, "layers.jsonl", 1));
    ct_log_set_listener(journal_take_log, j);
    j->opened = true;
    return CT_OK;
}

/* A wrong path ends the run before it begins; a full disk does not. */
static enum ct_status open_first(struct ct_journal *j)
{
    const enum ct_status st = open_files(j);

    if (st != CT_EIO || !ct_disk_is_full(errno))
        return st;
    give_up(j);
    return CT_OK;
}

/* Those who train together now. */
static enum ct_status meet_ranks(struct ct_journal *j)
{
    const struct ct_exchange *x = ct_dist_exchange(j->dist);

    j->pulse = x && x->facts.pulse ? x->facts.pulse : &j->own_pulse;
    j->knows_ranks = false;
    j->n_ranks     = ct_dist_n_ranks(j->dist);
    for (int f = 0; f < N_RANKS_FILES; f++) {
        ct_free(j->before[f]);
        j->before[f] = NULL;
        CT_TRY(ct_alloc((size_t)j->n_ranks, sizeof(*j->before[f]), "journal",
                        &j->before[f]));
    }
    return CT_OK;
}

static enum ct_status init(struct ct_journal *j,
                           const struct ct_journal_options *o)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->wake, &attr);
    pthread_condattr_destroy(&attr);
    j->series.fd = j->ranks.fd = j->layers.fd = j->log_file.fd = j->tf.fd = -1;
    j->tick      = least_tick;
    j->status    = "running";
    j->begun     = journal_clock();
    j->dist      = o->dist;
    j->asleep    = o->asleep;
    j->clock_layers = o->clock_layers;
    j->look.filter_layer = -1;
    ct_pulse_init(&j->own_pulse);
    j->pulse   = &j->own_pulse;
    j->folder  = ct_strdup(o->folder, "run folder");
    j->version = ct_strdup(o->version, "version");
    j->address = ct_strdup(o->address ? o->address : "", "address");
    if (!j->folder || !j->version || !j->address)
        return CT_ENOMEM;
    CT_TRY(keep_words(j, o->argc, o->argv));
    return j->asleep ? CT_OK : open_first(j);
}

bool ct_journal_is_kept(const struct ct_journal *j)
{
    return !j->broken;
}

enum ct_status ct_journal_create(const struct ct_journal_options *options,
                                 struct ct_journal **out)
{
    struct ct_journal *j;
    enum ct_status st;

    CT_TRY(ct_alloc(1, sizeof(*j), "journal", &j));
    st = init(j, options);
    if (st == CT_OK)
        *out = j;
    else
        ct_journal_destroy(j);
    return st;
}

struct ct_pulse *ct_journal_pulse(struct ct_journal *j)
{
    return j ? &j->own_pulse : NULL;
}

static enum ct_status write_start(struct ct_journal *j)
{
    struct ct_text t = journal_line("start", j->start_iter, j->begun);

    journal_keep_started(j);
    journal_add_beginning(j, &t);
    ct_text_add(&t, "}\n");
    ct_text_add(&j->series.pending, t.s ? t.s : "");
    ct_text_fini(&t);
    CT_TRY(open_tf(j));
    CT_TRY(journal_write_run(j));
    CT_TRY(journal_write_net(j));
    return flush(j);
}

static enum ct_status start_thread(struct ct_journal *j)
{
    j->ending = false;
    j->runs   = pthread_create(&j->thread, NULL, journal_main, j) == 0;
    return j->runs ? CT_OK
                   : ct_fail(CT_ENOMEM, "cannot start the journal's thread");
}

enum ct_status ct_journal_follow(struct ct_journal *j, struct ct_solver *s)
{
    if (j->broken)
        return CT_OK;
    j->solver     = s;
    j->start_iter = ct_solver_iter(s);
    j->max_iter   = ct_solver_param(s)->max_iter;
    CT_TRY(meet_ranks(j));
    CT_TRY(journal_look_init(j));
    CT_TRY(journal_clocked_init(j));
    CT_TRY(journal_times_init(j));
    if (!j->asleep && write_start(j) != CT_OK) {
        give_up(j);
        return CT_OK;
    }
    CT_TRY(ct_solver_listen(s, &journal_events, j));
    return j->asleep ? CT_OK : start_thread(j);
}

static void stop_thread(struct ct_journal *j)
{
    if (!j->runs)
        return;
    pthread_mutex_lock(&j->lock);
    j->ending = true;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    j->runs = false;
}

void ct_journal_sleep(struct ct_journal *j)
{
    if (!j || j->asleep)
        return;
    stop_thread(j);
    drain(j);
    if (!j->broken && flush(j) != CT_OK)
        give_up(j);
    j->asleep = true;
}

/* It has seen what its process went through, as a rank of any number.  What
 * made it rank 0 is told: all since the view before began. */
static void skip_marks(struct ct_journal *j)
{
    struct ct_mark m;
    uint64_t before = j->n_marks, latest = j->n_marks;

    while (dist_next_mark(j->dist, &j->n_marks, &m)) {
        if (m.kind != CT_MARK_VIEW)
            continue;
        before = latest;
        latest = j->n_marks;
    }
    j->n_marks = before;
}

static enum ct_status begin_here(struct ct_journal *j)
{
    j->begun      = journal_clock();
    j->start_iter = ct_solver_iter(j->solver);
    skip_marks(j);
    CT_TRY(open_files(j));
    return write_start(j);
}

enum ct_status ct_journal_wake(struct ct_journal *j, const char *address)
{
    char *where;

    if (!j || !j->asleep)
        return CT_OK;
    where = ct_strdup(address ? address : "", "address");
    if (!where)
        return CT_ENOMEM;
    ct_free(j->address);
    j->address = where;
    CT_TRY(meet_ranks(j));
    j->asleep = false;
    if (!j->broken && !j->opened && begin_here(j) != CT_OK)
        give_up(j);
    return start_thread(j);
}

/* The thread has ended, and the solver may be gone. */
static enum ct_status write_rest(struct ct_journal *j)
{
    drain(j);
    if (atomic_load(&j->look.state) == LOOK_FULL) {
        CT_TRY(journal_look_write(j));
        journal_times_clocked(j);
    }
    if (j->solver) {
        journal_ranks_write(j, journal_clock());
        CT_TRY(journal_ranks_write_now(j, journal_clock()));
        CT_TRY(journal_times_write(j));
        CT_TRY(journal_write_run(j));
    }
    return flush(j);
}

static void end(struct ct_journal *j)
{
    stop_thread(j);
    ct_log_set_listener(NULL, NULL);
    if (!j->asleep && !j->broken && write_rest(j) != CT_OK)
        give_up(j);
}

void ct_journal_last_words(struct ct_journal *j, const char *why)
{
    if (!j || atomic_flag_test_and_set(&j->last_words))
        return;
    pthread_mutex_lock(&j->lock);
    if (strcmp(j->status, "running") == 0) {
        j->status = "failed";
        snprintf(j->why, sizeof(j->why), "%s", why);
    }
    pthread_mutex_unlock(&j->lock);
    end(j);
}

void ct_journal_destroy(struct ct_journal *j)
{
    if (!j)
        return;
    if (j->folder && !atomic_flag_test_and_set(&j->last_words))
        end(j);
    ct_output_close(&j->series);
    ct_output_close(&j->ranks);
    ct_output_close(&j->layers);
    ct_output_close(&j->log_file);
    ct_output_close(&j->tf);
    journal_look_fini(j);
    journal_clocked_fini(j);
    journal_times_fini(j);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
    for (int i = 0; i < j->n_notes; i++)
        ct_text_fini(&j->note[(j->first_note + i) % JOURNAL_NOTES].line);
    ct_text_fini(&j->log);
    ct_pairs_fini(&j->links);
    ct_nvml_close(j->nvml);
    for (int f = 0; f < N_RANKS_FILES; f++)
        ct_free(j->before[f]);
    ct_free(j->folder);
    ct_free(j->version);
    ct_free(j->command);
    ct_free(j->argv);
    ct_free(j->address);
    ct_free(j);
}
