/* observe.c - what `cortado train` records and shows of itself. */
#include "observe.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "observe/journal.h"
#include "peers.h"

struct observe {
    struct ct_journal *journal;
};

/* A signal ends this process, while other threads still run. */
static void ended(void *arg)
{
    struct observe *o = arg;

    ct_journal_last_words(o->journal, "ended by a signal");
}

/* The command line, as the system has it. */
static enum ct_status read_words(char **text, char **words, int most, int *n)
{
    size_t n_bytes = 0;

    *n = 0;
    CT_TRY(ct_file_read("/proc/self/cmdline", text, &n_bytes));
    for (size_t i = 0; i < n_bytes && *n < most;
         i += strlen(*text + i) + 1)
        words[(*n)++] = *text + i;
    return CT_OK;
}

static enum ct_status make_journal(const struct observe_flags *f,
                                   struct ct_dist *d, struct observe *o)
{
    enum { MOST_WORDS = 256 };
    char *words[MOST_WORDS], *text = NULL;
    struct ct_journal_options j = { .folder = f->run, .version = CT_VERSION,
                                    .argv = words, .dist = d };
    enum ct_status st;

    st = read_words(&text, words, MOST_WORDS, &j.argc);
    if (st == CT_OK)
        st = ct_journal_create(&j, &o->journal);
    ct_free(text);
    return st;
}

/* Every rank's, for `cortado autopsy`. */
static enum ct_status keep_records(const char *run, struct ct_dist *d)
{
    struct ct_text folder = { 0 };
    enum ct_status st;

    ct_text_addf(&folder, "%s/autopsy", run);
    st = folder.failed ? CT_ENOMEM : ct_dist_keep_records(d, folder.s);
    ct_text_fini(&folder);
    return st;
}

enum ct_status observe_start(const struct observe_flags *f,
                             const Caffe__SolverParameter *param,
                             struct ct_dist *d, struct observe **out)
{
    enum ct_status st;

    (void)param;
    *out = NULL;
    if (f->run)
        CT_TRY(keep_records(f->run, d));
    if (!f->run || ct_dist_rank(d) > 0)
        return CT_OK;
    CT_TRY(ct_alloc(1, sizeof(**out), "observe", out));
    st = make_journal(f, d, *out);
    if (st == CT_OK) {
        peers_set_last_words(ended, *out);
        CT_INFO("Recording this run in %s", f->run);
        return CT_OK;
    }
    observe_end(*out);
    *out = NULL;
    return st;
}

struct ct_pulse *observe_pulse(struct observe *o)
{
    return o ? ct_journal_pulse(o->journal) : NULL;
}

enum ct_status observe_follow(const struct observe_flags *f,
                              struct observe *o, struct ct_dist *d,
                              struct ct_solver *s)
{
    if (f->run)
        CT_TRY(ct_journal_measure_links(o ? o->journal : NULL, d));
    return o ? ct_journal_follow(o->journal, s) : CT_OK;
}

void observe_last_words(struct observe *o)
{
    if (!o)
        return;
    peers_set_last_words(NULL, NULL);
    ct_journal_last_words(o->journal, ct_last_error());
}

void observe_end(struct observe *o)
{
    if (!o)
        return;
    peers_set_last_words(NULL, NULL);
    ct_journal_destroy(o->journal);
    ct_free(o);
}
