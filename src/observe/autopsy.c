/* autopsy.c - the records of all ranks, compared and put into words.
 *
 * Ranks number the collectives of a channel alike, so records are matched by
 * channel and number.  On a channel where a collective was begun and did not
 * end, those who have begun fewer did not come. */
#include "observe/autopsy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observe/autopsy_read.h"

/* What is wrong with a channel. */
struct finding {
    uint64_t channel;
    uint64_t differ;    /* the first collective that ranks differ in; 0 */
    /* The first that some rank began and did not end, and that another did not
     * come to; if there is none, that some rank did not end; 0. */
    uint64_t unfinished;
    bool     absent; /* a rank did not come to `unfinished` */
    uint64_t together;  /* the last that everyone with a record has ended */
    double   ago;       /* seconds since the latest began there */
};

static const struct autopsy_entry *find(const struct autopsy_rank *r,
                                        uint64_t channel, uint64_t sequence)
{
    for (int i = r->n - 1; i >= 0; i--)
        if (r->entry[i].channel == channel &&
            r->entry[i].sequence == sequence)
            return &r->entry[i];
    return NULL;
}

/* The last that a rank began there; NULL: none. */
static const struct autopsy_entry *latest(const struct autopsy_rank *r,
                                          uint64_t channel)
{
    const struct autopsy_entry *last = NULL;

    for (int i = 0; i < r->n; i++)
        if (r->entry[i].channel == channel &&
            (!last || r->entry[i].sequence > last->sequence))
            last = &r->entry[i];
    return last;
}

/* Ranks give different bytes to work that they share out. */
static bool alike(const struct autopsy_entry *a, const struct autopsy_entry *b)
{
    return strcmp(a->what, b->what) == 0 && strcmp(a->of, b->of) == 0 &&
           (a->bytes == b->bytes || strcmp(a->what, "share work") == 0);
}

/* Who takes part in a channel: those that have ever begun something there. */
static bool is_on(const struct autopsy_rank *r, uint64_t channel)
{
    return r->here && latest(r, channel);
}

/* It takes part, and stopped before that one. */
static bool has_not_come(const struct autopsy_rank *r, uint64_t channel,
                         uint64_t sequence)
{
    return is_on(r, channel) && latest(r, channel)->sequence < sequence;
}

static void look_at_entry(const struct autopsy *a, int rank,
                          const struct autopsy_entry *e, struct finding *f)
{
    bool by_all = true, absent = false;

    f->ago = e->ago < f->ago ? e->ago : f->ago;
    for (int q = 0; q < a->n_ranks; q++) {
        const struct autopsy_entry *other =
            find(&a->rank[q], e->channel, e->sequence);

        if (!is_on(&a->rank[q], e->channel))
            continue;
        by_all &= other && other->done;
        absent |= has_not_come(&a->rank[q], e->channel, e->sequence);
        if (other && q > rank && !alike(e, other) &&
            (f->differ == 0 || e->sequence < f->differ))
            f->differ = e->sequence;
    }
    if (by_all && e->sequence > f->together)
        f->together = e->sequence;
    if (!e->done && absent >= f->absent &&
        (absent > f->absent || !f->unfinished ||
         e->sequence < f->unfinished)) {
        f->unfinished = e->sequence;
        f->absent     = absent;
    }
}

static struct finding look_at(const struct autopsy *a, uint64_t channel)
{
    struct finding f = { .channel = channel, .ago = 1e300 };

    for (int r = 0; r < a->n_ranks; r++)
        for (int i = 0; i < a->rank[r].n; i++)
            if (a->rank[r].entry[i].channel == channel)
                look_at_entry(a, r, &a->rank[r].entry[i], &f);
    return f;
}

/* Ranks that differ weigh most, then something that did not end, then what
 * was latest. */
static bool weighs_more(const struct finding *a, const struct finding *b)
{
    if (!a->differ != !b->differ)
        return a->differ != 0;
    if (!a->unfinished != !b->unfinished)
        return a->unfinished != 0;
    return a->ago < b->ago;
}

static bool find_worst(const struct autopsy *a, struct finding *out)
{
    uint64_t seen[64];
    int n = 0;

    for (int r = 0; r < a->n_ranks; r++)
        for (int i = 0; i < a->rank[r].n; i++) {
            const uint64_t channel = a->rank[r].entry[i].channel;
            struct finding f = { 0 };
            int k = 0;

            while (k < n && seen[k] != channel)
                k++;
            if (k < n || n == 64)
                continue;
            seen[n++] = channel;
            f         = look_at(a, channel);
            if (n == 1 || weighs_more(&f, out))
                *out = f;
        }
    return n > 0;
}

/* ---- words */

/* "rank 3", "ranks 0, 1 and 4", "ranks 0 to 7": those that are marked. */
static void say_ranks(struct ct_text *out, const bool *marked, int n)
{
    int count = 0, said = 0;

    for (int r = 0; r < n; r++)
        count += marked[r];
    ct_text_add(out, count == 1 ? "rank " : "ranks ");
    for (int r = 0; r < n; r++) {
        int end = r;

        if (!marked[r])
            continue;
        while (end + 1 < n && marked[end + 1])
            end++;
        end = end - r < 2 ? r : end;
        said += end - r + 1;
        ct_text_addf(out, "%s%d",
                     said == end - r + 1 ? "" : said == count ? " and " : ", ",
                     r);
        if (end > r)
            ct_text_addf(out, " to %d", end);
        r = end;
    }
}

/* The same at the beginning of a sentence. */
static void say_ranks_first(struct ct_text *out, const bool *marked, int n)
{
    const size_t at = out->n_bytes;

    say_ranks(out, marked, n);
    if (!out->failed)
        out->s[at] = 'R';
}

static void say_entry(struct ct_text *out, const struct autopsy_entry *e)
{
    ct_text_addf(out, "\"%s\" number %" PRIu64, e->what, e->sequence);
    if (e->of[0])
        ct_text_addf(out, " for %s", e->of);
    ct_text_addf(out, " (%" PRIu64 " bytes)", e->bytes);
}

static void say_missing(const struct autopsy *a, bool *mark,
                        struct ct_text *out)
{
    int n = 0;

    for (int r = 0; r < a->n_ranks; r++)
        n += mark[r] = !a->rank[r].here;
    if (a->view > 0)
        ct_text_addf(out, "View %ld: ", a->view);
    ct_text_addf(out, "%d rank(s), %d record(s). ", a->n_ranks, a->n_here);
    if (a->n_old > 0)
        ct_text_addf(out, "%d record(s) of other views are left out. ",
                     a->n_old);
    if (n == 0)
        return;
    ct_text_add(out, "No record of ");
    say_ranks(out, mark, a->n_ranks);
    ct_text_add(out, ": killed with its host, or on a host that writes to "
                     "another disk. ");
}

/* Each cause once, with those who have it. */
static void say_causes(const struct autopsy *a, bool *mark,
                       struct ct_text *out)
{
    for (int r = 0; r < a->n_ranks; r++) {
        bool first = a->rank[r].here;

        for (int q = 0; q < a->n_ranks; q++) {
            mark[q] = a->rank[q].here &&
                      strcmp(a->rank[q].why, a->rank[r].why) == 0;
            first &= q >= r || !mark[q];
        }
        if (!first)
            continue;
        ct_text_add(out, "The record of ");
        say_ranks(out, mark, a->n_ranks);
        ct_text_addf(out, " says: %s. ", a->rank[r].why);
    }
}

static void say_difference(const struct autopsy *a, const struct finding *f,
                           bool *mark, struct ct_text *out)
{
    bool begun = false;

    ct_text_addf(out, "RANKS CALLED DIFFERENT THINGS: as collective %" PRIu64
                 " of one channel, ", f->differ);
    for (int r = 0; r < a->n_ranks; r++) {
        const struct autopsy_entry *e =
            find(&a->rank[r], f->channel, f->differ);
        bool first = e != NULL;

        for (int q = 0; q < a->n_ranks; q++) {
            const struct autopsy_entry *other =
                find(&a->rank[q], f->channel, f->differ);

            mark[q] = e && other && alike(e, other);
            first &= q >= r || !mark[q];
        }
        if (!first)
            continue;
        ct_text_add(out, begun ? "; " : "");
        say_ranks(out, mark, a->n_ranks);
        ct_text_add(out, " called ");
        say_entry(out, e);
        begun = true;
    }
    ct_text_add(out, ". ");
}

static void say_together(const struct autopsy *a, const struct finding *f,
                         struct ct_text *out)
{
    for (int r = 0; r < a->n_ranks && f->together; r++) {
        const struct autopsy_entry *e =
            find(&a->rank[r], f->channel, f->together);

        if (!e)
            continue;
        ct_text_add(out, "The last thing that all of them completed is ");
        say_entry(out, e);
        ct_text_addf(out, ", begun %.1f s before the end. ", e->ago);
        return;
    }
}

/* Those who did not come; of these, if there are some, those who did not wait
 * for others themselves. */
static void mark_absent(const struct autopsy *a, const struct finding *f,
                        bool *mark)
{
    bool idle = false;

    for (int r = 0; r < a->n_ranks; r++) {
        mark[r] = has_not_come(&a->rank[r], f->channel, f->unfinished);
        idle |= mark[r] && a->rank[r].waiting == 0;
    }
    for (int r = 0; r < a->n_ranks; r++)
        mark[r] &= !idle || a->rank[r].waiting == 0;
}

/* Who has begun it, who has not, and what these did instead. */
static void say_unfinished(const struct autopsy *a, const struct finding *f,
                           bool *mark, struct ct_text *out)
{
    const struct autopsy_entry *e = NULL;

    for (int r = 0; r < a->n_ranks; r++) {
        const struct autopsy_entry *mine =
            find(&a->rank[r], f->channel, f->unfinished);

        mark[r] = mine != NULL;
        e       = mine ? mine : e;
    }
    if (!e)
        return;
    say_ranks_first(out, mark, a->n_ranks);
    ct_text_add(out, " began ");
    say_entry(out, e);
    ct_text_add(out, ", which did not end. ");
    mark_absent(a, f, mark);
    if (!f->absent) {
        ct_text_add(out, "Everyone with a record came to it. ");
        return;
    }
    ct_text_add(out, "NOT COME: ");
    say_ranks(out, mark, a->n_ranks);
    ct_text_add(out, ". ");
}

/* What a rank did last; for those who matter. */
static void say_last(const struct autopsy *a, int r, const struct finding *f,
                     struct ct_text *out)
{
    const struct autopsy_rank *x  = &a->rank[r];
    const struct autopsy_entry *e = latest(x, f->channel);

    ct_text_addf(out, "Rank %d (pid %d on %s) was in %s, for %.1f s", r,
                 x->pid, x->host, x->where, x->moved_ago);
    if (e) {
        ct_text_add(out, "; its last collective was ");
        say_entry(out, e);
        ct_text_addf(out, ", %s after %.3f s", e->done ? "done"
                                                       : "unfinished",
                     e->took);
    }
    if (x->waiting > 0 && x->waiting_for >= 0)
        ct_text_addf(out, "; it had waited %.1f s for rank %d", x->waiting,
                     x->waiting_for);
    ct_text_add(out, ". ");
}

/* All of a few ranks; of many, those who did not come and one who did. */
static void say_lasts(const struct autopsy *a, const struct finding *f,
                      struct ct_text *out)
{
    enum { FEW = 4 };
    int n_said = 0;
    bool came  = false;

    for (int r = 0; r < a->n_ranks && n_said < FEW; r++) {
        const bool absent = f->absent && has_not_come(&a->rank[r], f->channel,
                                                      f->unfinished);

        if (!a->rank[r].here || (a->n_ranks > FEW && !absent && came))
            continue;
        came |= !absent;
        say_last(a, r, f, out);
        n_said++;
    }
}

/* A paragraph has lines. */
static void wrap(char *text)
{
    enum { WIDTH = 79 };
    char *line = text, *space = NULL;

    for (char *s = text; *s; s++) {
        if (*s == ' ')
            space = s;
        if (s - line >= WIDTH && space) {
            *space = '\n';
            line   = space + 1;
            space  = NULL;
        }
    }
}

static enum ct_status tell(const struct autopsy *a, struct ct_text *out)
{
    struct finding f = { 0 };
    bool *mark;

    CT_TRY(ct_alloc((size_t)a->n_ranks, sizeof(*mark), "autopsy", &mark));
    say_missing(a, mark, out);
    say_causes(a, mark, out);
    if (!find_worst(a, &f)) {
        ct_text_add(out, "None of them had begun a collective.");
    } else {
        if (f.differ)
            say_difference(a, &f, mark, out);
        say_together(a, &f, out);
        if (f.unfinished && f.unfinished != f.differ)
            say_unfinished(a, &f, mark, out);
        if (!f.differ && a->n_here > 1)
            ct_text_add(out, "All ranks called the same things in the same "
                             "order. ");
        say_lasts(a, &f, out);
    }
    ct_free(mark);
    if (out->failed)
        return CT_ENOMEM;
    while (out->n_bytes > 0 && out->s[out->n_bytes - 1] == ' ')
        out->s[--out->n_bytes] = '\0';
    wrap(out->s);
    ct_text_add(out, "\n");
    return out->failed ? CT_ENOMEM : CT_OK;
}

enum ct_status ct_autopsy(const char *folder, struct ct_text *out)
{
    struct autopsy a;
    enum ct_status st = autopsy_read(folder, &a);

    if (st == CT_OK)
        st = tell(&a, out);
    autopsy_fini(&a);
    return st;
}
