/* observe.c - what `cortado train` records and shows of itself. */
#include "observe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "observe/board.h"
#include "observe/journal.h"
#include "observe/output.h"
#include "observe/trace_file.h"
#include "peers.h"

struct observe {
    const struct observe_flags *flags; /* borrowed */
    struct ct_dist    *job;    /* borrowed */
    bool               elastic; /* any rank may become rank 0 */
    struct ct_journal *journal;
    struct ct_board   *board;
    char              *folder; /* owned */
    atomic_int         asked;  /* by a button: enum ct_solver_action */
    pthread_mutex_t    lock;   /* of the next */
    struct ct_trace_file *trace; /* borrowed; NULL: none can be had */
    struct ct_dist       *dist;  /* borrowed; NULL: a job of one rank */
};

static bool wants_any(const struct observe_flags *f)
{
    return f->run || f->http;
}

/* On the server's thread. */
static bool act(const char *action, void *arg)
{
    struct observe *o = arg;
    bool done         = true;

    if (strcmp(action, "trace") == 0) {
        pthread_mutex_lock(&o->lock);
        done = o->trace != NULL;
        if (done)
            ct_trace_file_want(o->trace);
        ct_dist_ask_records(o->dist);
        pthread_mutex_unlock(&o->lock);
        return done;
    }
    atomic_store(&o->asked, strcmp(action, "stop") == 0 ? CT_ACTION_STOP
                                                        : CT_ACTION_SNAPSHOT);
    return true;
}

void observe_trace(struct observe *o, struct ct_trace_file *trace,
                   struct ct_dist *d)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    if (trace)
        trace->folder = o->folder;
    o->trace = trace;
    o->dist  = d;
    pthread_mutex_unlock(&o->lock);
}

enum ct_solver_action observe_action(struct observe *o)
{
    return o ? (enum ct_solver_action)atomic_exchange(&o->asked,
                                                      CT_ACTION_NONE)
             : CT_ACTION_NONE;
}

/* A signal ends this process, while other threads still run. */
static void ended(void *arg)
{
    struct observe *o = arg;

    ct_journal_last_words(o->journal, "ended by a signal");
    ct_board_linger(o->board);
}

/* The command line, as the system has it. */
static enum ct_status read_words(char **text, char ***words, int *n)
{
    size_t n_bytes = 0, n_words = 1;

    *n = 0;
    CT_TRY(ct_file_read("/proc/self/cmdline", text, &n_bytes));
    for (size_t i = 0; i < n_bytes; i++)
        n_words += (*text)[i] == '\0';
    CT_TRY(ct_alloc(n_words, sizeof(**words), "command line", words));
    for (size_t i = 0; i < n_bytes; i += strlen(*text + i) + 1)
        (*words)[(*n)++] = *text + i;
    return CT_OK;
}

/* Of the live page, without the token: others read the folder. */
static const char *address_of(const struct observe *o, char *out, size_t bytes)
{
    const char *url = o->board ? ct_board_url(o->board) : NULL;

    if (!url)
        return NULL;
    snprintf(out, bytes, "%.*s", (int)strcspn(url, "#"), url);
    return out;
}

static enum ct_status make_journal(struct ct_dist *d, struct observe *o)
{
    char **words = NULL, *text = NULL, address[400];
    struct ct_journal_options j = {
        .folder = o->folder, .version = CT_VERSION, .dist = d,
        .address = address_of(o, address, sizeof(address)),
        .asleep = o->elastic };
    enum ct_status st;

    st     = read_words(&text, &words, &j.argc);
    j.argv = words;
    if (st == CT_OK)
        st = ct_journal_create(&j, &o->journal);
    ct_free(words);
    ct_free(text);
    return st;
}

/* Every rank's, for `cortado autopsy`.  *full: there is no room for them. */
static enum ct_status keep_records(const char *run, struct ct_dist *d,
                                   bool *full)
{
    struct ct_text folder = { 0 };
    enum ct_status st;

    ct_text_addf(&folder, "%s/autopsy", run);
    st    = folder.failed ? CT_ENOMEM : ct_dist_keep_records(d, folder.s);
    *full = st == CT_EIO && ct_disk_is_full(errno);
    ct_text_fini(&folder);
    return st;
}

/* Once per host; what rank 0 cannot write, its journal says. */
static void say_no_records(const struct observe *o, struct ct_dist *d,
                           const char *why)
{
    if (o ? ct_journal_is_kept(o->journal)
          : ct_dist_rank(d) > 0 && ct_dist_local_rank(d) == 0)
        CT_WARN("no records for an autopsy: %s", why);
}

/* The folder's name, as rank 0 has it, on all ranks. */
static enum ct_status name_folder(const struct observe_flags *f,
                                  const Caffe__SolverParameter *param,
                                  const uint64_t *job, struct ct_dist *d,
                                  char *out, size_t bytes)
{
    char *made = NULL;
    int n;

    if (job && !f->run) { /* whoever comes has the number, too */
        snprintf(out, bytes, "runs/%016llx", (unsigned long long)*job);
        return CT_OK;
    }
    if (!f->run)
        CT_TRY(ct_journal_default_folder(param, &made));
    n = snprintf(out, bytes, "%s", f->run ? f->run : made);
    ct_free(made);
    if (n >= (int)bytes)
        return ct_fail(CT_EINVAL, "--run: the folder's name is too long");
    return f->run ? CT_OK : ct_dist_broadcast(d, out, bytes);
}

/* The address goes to the terminal alone: it has the token, and a log is read
 * by others. */
static enum ct_status make_board(const struct observe_flags *f,
                                 struct observe *o)
{
    const char *folder[]      = { o->folder };
    struct ct_board_options b = { .address = f->http, .folder = folder,
                                  .n_folders = 1, .act = act, .arg = o };
    enum ct_status st         = ct_board_create(&b, &o->board);

    if (st != CT_OK)
        return ct_fail_in(st, "--http=%s", f->http);
    fprintf(stderr, "Live page: %s\n", ct_board_url(o->board));
    return CT_OK;
}

/* On rank 0, or where any rank may become it. */
static enum ct_status make_observe(const struct observe_flags *f,
                                   const char *folder, bool elastic,
                                   struct ct_dist *d, struct observe **out)
{
    struct observe *o;

    CT_TRY(ct_alloc(1, sizeof(*o), "observe", &o));
    *out = o;
    pthread_mutex_init(&o->lock, NULL);
    o->flags   = f;
    o->job     = d;
    o->elastic = elastic;
    o->folder  = ct_strdup(folder, "run folder");
    if (!o->folder)
        return CT_ENOMEM;
    if (f->http && !elastic)
        CT_TRY(make_board(f, o));
    CT_TRY(make_journal(d, o));
    if (elastic)
        return CT_OK;
    peers_set_last_words(ended, o);
    if (ct_journal_is_kept(o->journal))
        CT_INFO("Recording this run in %s", o->folder);
    return CT_OK;
}

enum ct_status observe_start(const struct observe_flags *f,
                             const Caffe__SolverParameter *param,
                             const uint64_t *job, struct ct_dist *d,
                             struct observe **out)
{
    char folder[512] = "", why[1024];
    bool full        = false;
    enum ct_status kept, st = CT_OK;

    *out = NULL;
    if (!wants_any(f))
        return CT_OK;
    CT_TRY(name_folder(f, param, job, d, folder, sizeof(folder)));
    kept = keep_records(folder, d, &full);
    snprintf(why, sizeof(why), "%s", ct_last_error());
    if (kept != CT_OK && !full && !job)
        return kept;
    if (ct_dist_rank(d) == 0 || job)
        st = make_observe(f, folder, job != NULL, d, out);
    if (st != CT_OK) {
        observe_end(*out);
        *out = NULL;
        return st;
    }
    if (kept != CT_OK)
        say_no_records(*out, d, why);
    return CT_OK;
}

struct ct_pulse *observe_pulse(struct observe *o)
{
    return o ? ct_journal_pulse(o->journal) : NULL;
}

/* As rank 0, whoever that was before: the page is shown here, and the journal
 * kept.  Without either training goes on. */
static void lead(struct observe *o)
{
    const char *http = o->flags->http;
    char address[400];

    if (http && !o->board && make_board(o->flags, o) != CT_OK)
        CT_WARN("%s; there is no live page for now", ct_last_error());
    if (ct_journal_wake(o->journal,
                        address_of(o, address, sizeof(address))) != CT_OK)
        CT_WARN("%s; this run is not recorded any more", ct_last_error());
}

static void on_view(bool begins, void *arg)
{
    struct observe *o = arg;

    if (!begins) {
        ct_journal_sleep(o->journal);
    } else if (ct_dist_rank(o->job) == 0) {
        lead(o);
    } else { /* another process has the page now, or will */
        ct_board_destroy(o->board);
        o->board = NULL;
    }
}

static const struct ct_solver_events view_events = { .view = on_view };

enum ct_status observe_follow(const struct observe_flags *f,
                              struct observe *o, struct ct_dist *d,
                              struct ct_solver *s)
{
    if (o && o->elastic) {
        CT_TRY(ct_journal_follow(o->journal, s));
        CT_TRY(ct_solver_listen(s, &view_events, o));
        on_view(true, o);
        return CT_OK;
    }
    if (wants_any(f))
        CT_TRY(ct_journal_measure_links(o ? o->journal : NULL, d));
    return o ? ct_journal_follow(o->journal, s) : CT_OK;
}

void observe_last_words(struct observe *o)
{
    if (!o)
        return;
    peers_set_last_words(NULL, NULL);
    ct_journal_last_words(o->journal, ct_last_error());
    ct_board_linger(o->board);
}

void observe_end(struct observe *o)
{
    if (!o)
        return;
    peers_set_last_words(NULL, NULL);
    ct_journal_destroy(o->journal);
    ct_board_linger(o->board);
    ct_board_destroy(o->board);
    pthread_mutex_destroy(&o->lock);
    ct_free(o->folder);
    ct_free(o);
}
