/* journal_inner.h - inside a journal; shared by the files that make it. */
#ifndef CT_OBSERVE_JOURNAL_INNER_H
#define CT_OBSERVE_JOURNAL_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pulse.h"
#include "comm/probe.h"
#include "cortado/log.h"
#include "observe/histogram.h"
#include "observe/journal.h"
#include "observe/output.h"

enum {
    JOURNAL_NOTES    = 256,
    JOURNAL_MOST_LOG = 4 << 20, /* bytes of log that wait to be written */
    JOURNAL_FILTERS  = 1 << 16, /* floats of filters that are shown */
    JOURNAL_SAMPLE   = 1 << 15  /* values of a parameter in its histogram */
};

/* What the thread that trains has noted. */
struct journal_note {
    enum { NOTE_ITERATION, NOTE_LINE } kind;
    double              time; /* seconds since 1970 */
    struct ct_iteration iteration;
    struct ct_text      line; /* a whole line of series.jsonl; owned */
};

/* One parameter, as inspect saw it. */
struct journal_param {
    char  *name; /* "conv1[0]"; owned */
    double norm, gradient_norm; /* gradient_norm < 0: not stored */
    struct ct_histogram values, gradients;
};

/* All of them.  The thread that trains fills it while it is WANTED and the
 * journal's thread reads it while it is FULL. */
struct journal_look {
    _Atomic(int) state;
    enum { LOOK_IDLE, LOOK_WANTED, LOOK_FULL } states;
    int     iter;
    double  time, seconds; /* seconds: that looking took */
    struct journal_param *param; /* owned */
    int     n_params;
    float  *sample;   /* JOURNAL_SAMPLE values; owned */
    float  *host;     /* a parameter of a GPU, whole; owned; NULL: on a CPU */
    int     filter_layer; /* the first convolution over an image; -1: none */
    int     filter_shape[4];
    float  *filters;  /* owned; NULL: none */
    struct ct_text roads; /* JSON; empty: none */
};

/* Layers by the clock: where work is queued, an iteration runs layer by layer
 * now and then, in which parameters are looked at too.  Whoever has the look
 * has this. */
struct journal_clocked {
    const struct ct_device *dev; /* NULL: this run is not clocked */
    double *forward, *backward;  /* seconds per layer; owned */
    double  mark, seconds;       /* seconds: of all layers */
};

/* Where the time of a step goes, by looking at the pulse now and then; layers,
 * where they are clocked, as they were at the last look. */
struct journal_times {
    double *forward, *backward; /* seconds per layer, fading; owned */
    double  phase[CT_PULSE_N_PHASES];
    double  iterations; /* in the same time */
    double  last, next_fade;
    int     last_iter, last_layer;
    int     clocked_iter; /* that layers are from; -1: they are samples */
    uint64_t n_samples;
};

/* A rank as it was when it was written before, to tell rates. */
struct journal_rank {
    double   time, waited;
    uint64_t sent;
    int      iter;
};

/* Where ranks are written: a line now and then, and a file for this moment. */
enum journal_ranks { RANKS_LINES, RANKS_NOW, N_RANKS_FILES };

struct ct_journal {
    char             *folder;
    char             *version, *command, *address; /* owned */
    char             *argv; /* the command's words, as JSON; owned */
    struct ct_dist   *dist;
    struct ct_pulse   own_pulse; /* alone */
    const struct ct_pulse *pulse;
    struct ct_solver *solver; /* borrowed; NULL: not yet */
    bool              clock_layers;
    int               max_iter, start_iter;
    double            started; /* seconds since 1970: the run, */
    double            begun;   /* and this process's part of it */
    atomic_int        iter;    /* the latest */

    /* Shared, under the lock: */
    pthread_mutex_t     lock;
    pthread_cond_t      wake;
    struct journal_note note[JOURNAL_NOTES];
    int                 first_note, n_notes;
    uint64_t            n_lost; /* notes for which there was no room */
    struct ct_text      log;    /* lines that wait */
    bool                ending;

    /* The thread that trains: */
    double last_noted; /* when an iteration was noted last */
    bool   asleep;     /* another rank records */
    bool   opened;     /* its files are */

    /* The journal's thread: */
    pthread_t        thread;
    bool             runs;
    bool             broken; /* something could not be written */
    bool             knows_ranks; /* run.json has their devices */
    struct ct_output series, ranks, layers, log_file, tf;
    struct journal_look  look;
    struct journal_clocked clocked;
    struct journal_times times;
    struct journal_rank *before[N_RANKS_FILES]; /* per rank; owned */
    int              n_ranks;
    uint64_t         n_marks;  /* of the job, noted so far */
    struct ct_pairs  links;    /* between ranks; size 0: not measured */
    struct ct_nvml  *nvml;     /* owned; NULL: none, or not asked for yet */
    bool             sought_nvml;
    double           tick;     /* seconds to the next one */
    double           next_look, next_ranks, next_now, next_times, next_flush;
    struct ct_iteration latest; /* noted last */
    double           latest_time, step_seconds; /* smoothed */
    const char      *status;   /* "running", "done", "stopped", "failed" */
    char             why[512]; /* of a failure */
    atomic_flag      last_words;
};

double journal_clock(void); /* seconds since 1970 */
/* Seconds to the next tick, after one of `tick`, where ticks have spent so many
 * seconds of processors, of `all` that this process had. */
double journal_next_tick(double tick, double spent, double all);

/* journal_notes.c: what happens, into the queue; lines of the log, likewise;
 * and the start of a line of series.jsonl. */
extern const struct ct_solver_events journal_events;
void journal_take_log(enum ct_log_level level, const char *line, void *arg);
struct ct_text journal_line(const char *kind, int iter, double time);

/* journal_facts.c: run.json; the prototxts, net.json and plan.txt. */
CT_MUST_CHECK enum ct_status journal_write_run(struct ct_journal *j);
/* A run that goes on has started when the run.json of before says. */
void journal_keep_started(struct ct_journal *j);
/* How this process began: version, argv, seed, ranks, into a JSON object. */
void journal_add_beginning(struct ct_journal *j, struct ct_text *t);
CT_MUST_CHECK enum ct_status journal_write_net(struct ct_journal *j);
/* Where the net of this process is: the GPU that layers run on, else the
 * CPU. */
const struct ct_device *journal_device(const struct ct_journal *j);

/* journal_look.c: makes room; fills it, on the thread that trains; writes it
 * out. */
CT_MUST_CHECK enum ct_status journal_look_init(struct ct_journal *j);
void journal_look_fini(struct ct_journal *j);
void journal_look_fill(struct ct_journal *j, struct ct_solver *s, int iter);
CT_MUST_CHECK enum ct_status journal_look_write(struct ct_journal *j);

/* journal_roads.c: JSON on links and roads, on the thread that trains; stays
 * empty alone. */
void journal_roads(struct ct_journal *j, struct ct_text *out);

/* journal_times.c */
CT_MUST_CHECK enum ct_status journal_times_init(struct ct_journal *j);
void journal_times_fini(struct ct_journal *j);
void journal_times_sample(struct ct_journal *j, double now);
/* Layers are as they were clocked in the look, if they were. */
void journal_times_clocked(struct ct_journal *j);
CT_MUST_CHECK enum ct_status journal_times_write(struct ct_journal *j);

/* journal_clocked.c: room; one iteration, on the thread that trains. */
CT_MUST_CHECK enum ct_status journal_clocked_init(struct ct_journal *j);
void journal_clocked_fini(struct ct_journal *j);
void journal_clocked_begin(struct ct_journal *j);
void journal_clocked_end(struct ct_journal *j, struct ct_solver *s);
/* journal_ranks.c: one line on all ranks, and scalars for TensorBoard; and
 * ranks_now.json. */
void journal_ranks_write(struct ct_journal *j, double now);
CT_MUST_CHECK enum ct_status journal_ranks_write_now(struct ct_journal *j,
                                                     double now);

#endif
