/* compat.c - nets of a few lines in which ours is not what Caffe gives, or is
 * where one would not think so.
 *
 *     build/tests/compat FOLDER
 *
 * docs/reference/compat.md says what differs; a net of tests/compat shows it.
 * Lines of its prototxt that begin with #! say what is to come out:
 *
 *     feed BLOB: values         before each pass; param LAYER I: likewise
 *     text FILE: words          is written before; objects DB: a database
 *     passes: n                 forward and backward, from cleared diffs
 *     blob BLOB: values         its data afterwards; diff BLOB: its diff
 *     grad LAYER I: values      the diff of a parameter
 *     now LAYER I: values       its data
 *     shape BLOB: dims          loss: value
 *     file FILE I: values       dataset I that the net has written
 *     stored: FILE              parameters are the same after HDF5
 *     refused: text             the net is, and the message has this
 *
 * A file with `steps: n` is a solver, of which n iterations run:
 *
 *     history LAYER I: values   of its rule, before
 *
 * Each net runs with every blob kept, and as training runs it, where blobs
 * between layers are not there to look at.  Ends "N passed, M failed". */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "compat_files.h"
#include "core/buffer.h"
#include "cortado/log.h"
#include "cortado/solver.h"
#include "solver/solver_inner.h"
#include "testing/test.h"

enum { MOST = 64 };

struct trial {
    struct ct_net    *net;
    struct ct_solver *solver; /* NULL: none, and the net is owned */
    const char       *path, *text; /* of the file */
    double            loss;
    bool              all_blobs;
};

/* One line: a word, what it is about, numbers. */
struct line {
    char   word[16], name[64], rest[256];
    int    index, n;
    float  value[MOST];
};

/* The next #! line, or NULL. */
static const char *next_line(const char *at, struct line *out)
{
    char *from, *end;

    at = strstr(at, "#! ");
    if (!at)
        return NULL;
    *out = (struct line){ .index = 0 };
    sscanf(at + 3, "%15[^: ]%63[^:]", out->word, out->name);
    sscanf(out->name, " %*s %d", &out->index);
    sscanf(out->name, " %63s", out->name);
    at = strchr(at, ':');
    sscanf(at, ": %255[^\n]", out->rest);
    for (from = out->rest; out->n < MOST; from = end) {
        out->value[out->n] = strtof(from, &end);
        if (end == from)
            break;
        out->n++;
    }
    return at;
}

static struct ct_blob *blob_of(const struct trial *t, const struct line *l)
{
    const bool param = strcmp(l->word, "param") == 0 ||
                       strcmp(l->word, "grad") == 0 ||
                       strcmp(l->word, "now") == 0;
    int id = param ? ct_net_find_layer(t->net, l->name)
                   : ct_net_find_blob(t->net, l->name);

    if (id < 0)
        return NULL;
    return param ? ct_net_layer(t->net, id)->blob[l->index]
                 : ct_net_blob(t->net, id);
}

static enum ct_status feed(const struct trial *t)
{
    const char *at = t->text;
    struct line l;

    while ((at = next_line(at, &l))) {
        const bool feeds = strcmp(l.word, "feed") == 0 ||
                           strcmp(l.word, "param") == 0;
        struct ct_blob *b = feeds ? blob_of(t, &l) : NULL;

        if (feeds && (!b || b->count != l.n))
            return ct_fail(CT_EINVAL, "cannot feed %s", l.name);
        if (feeds)
            CT_TRY(ct_blob_put(b, false, l.value));
    }
    return CT_OK;
}

/* What is there before the net. */
static enum ct_status write_files(const char *text)
{
    struct line l;

    while ((text = next_line(text, &l))) {
        if (strcmp(l.word, "text") == 0)
            CT_TRY(compat_write_text(l.name, l.rest));
        if (strcmp(l.word, "objects") == 0)
            CT_TRY(compat_write_objects(l.name, l.value, l.n));
    }
    return CT_OK;
}

static enum ct_status near(const struct line *l, int i, double want,
                           double got)
{
    if (fabs(got - want) <= 1e-4 * fmax(1, fabs(want)) ||
        (isnan(got) && isnan(want)))
        return CT_OK;
    return ct_fail(CT_EINVAL, "%s %s: value %d is %g, not %g", l->word,
                   l->name, i, got, want);
}

static enum ct_status check_shape(const struct ct_blob *b,
                                  const struct line *l)
{
    if (b->shape.n_axes != l->n)
        return ct_fail(CT_ESHAPE, "%s has %d axes", l->name, b->shape.n_axes);
    for (int i = 0; i < l->n; i++)
        CT_TRY(near(l, i, (double)l->value[i], (double)b->shape.dim[i]));
    return CT_OK;
}

static enum ct_status check_values(const struct ct_blob *b, bool diff,
                                   const struct line *l)
{
    float got[MOST];

    if (b->count != l->n)
        return ct_fail(CT_ESHAPE, "%s has %d values", l->name, (int)b->count);
    CT_TRY(ct_blob_get(b, diff, got));
    for (int i = 0; i < l->n; i++)
        CT_TRY(near(l, i, (double)l->value[i], (double)got[i]));
    return CT_OK;
}

/* What is there when the net has gone. */
static enum ct_status check_files(const char *text)
{
    float got[MOST];
    struct line l;
    int n;

    while ((text = next_line(text, &l))) {
        if (strcmp(l.word, "file") != 0)
            continue;
        CT_TRY(compat_read_hdf5(l.name, l.index, got, MOST, &n));
        if (n != l.n)
            return ct_fail(CT_ESHAPE, "%s has %d values", l.name, n);
        for (int i = 0; i < n; i++)
            CT_TRY(near(&l, i, (double)l.value[i], (double)got[i]));
    }
    return CT_OK;
}

/* One line; *n counts what was compared. */
static enum ct_status check_line(const struct trial *t, const struct line *l,
                                 int *n)
{
    const bool grad = strcmp(l->word, "grad") == 0;
    const bool diff = strcmp(l->word, "diff") == 0;
    const bool data = strcmp(l->word, "blob") == 0;
    const bool dims = strcmp(l->word, "shape") == 0;
    const bool now  = strcmp(l->word, "now") == 0;
    const struct ct_blob *b;

    *n += strcmp(l->word, "file") == 0;
    if (strcmp(l->word, "stored") == 0) {
        (*n)++;
        return compat_store(t->net, t->path, l->rest);
    }
    if (strcmp(l->word, "loss") == 0) {
        (*n)++;
        return near(l, 0, (double)l->value[0], t->loss);
    }
    if (!grad && !now && !((diff || data || dims) && t->all_blobs))
        return CT_OK;
    (*n)++;
    b = blob_of(t, l);
    if (!b)
        return ct_fail(CT_ENOTFOUND, "there is no %s", l->name);
    return dims ? check_shape(b, l) : check_values(b, grad || diff, l);
}

static enum ct_status check(const struct trial *t)
{
    const char *at = t->text;
    int n          = 0;
    struct line l;

    while ((at = next_line(at, &l)))
        CT_TRY(check_line(t, &l, &n));
    return n > 0 || !t->all_blobs ? CT_OK
                                  : ct_fail(CT_EINVAL, "it says nothing");
}

/* Whether the file has a line of this word. */
static bool find(const char *text, const char *word, struct line *out)
{
    while ((text = next_line(text, out)))
        if (strcmp(out->word, word) == 0)
            return true;
    return false;
}

static enum ct_status run(struct trial *t)
{
    struct line l;
    const int n = find(t->text, "passes", &l) ? (int)l.value[0] : 1;

    CT_TRY(ct_net_clear_diffs(t->net));
    for (int i = 0; i < n; i++) {
        CT_TRY(feed(t));
        CT_TRY(ct_net_forward(t->net, &t->loss));
        CT_TRY(ct_net_backward(t->net));
    }
    return check(t);
}

/* As a snapshot would leave them. */
static enum ct_status set_histories(const struct trial *t)
{
    const char *at = t->text;
    struct line l;

    while ((at = next_line(at, &l))) {
        if (strcmp(l.word, "history") != 0)
            continue;
        for (int i = 0; i < ct_net_n_params(t->net); i++) {
            const struct ct_net_param *p = ct_net_param(t->net, i);

            if (strcmp(ct_net_layer(t->net, p->layer)->name, l.name) == 0 &&
                p->index == l.index && p->blob->count == l.n)
                memcpy(t->solver->history[0]->ptr + p->offset, l.value,
                       (size_t)l.n * sizeof(float));
        }
    }
    return CT_OK;
}

static enum ct_status run_solver(struct trial *t, int n_steps)
{
    const struct ct_solver_options o = { .device = test_device(),
                                         .keep_blobs = t->all_blobs };

    CT_TRY(ct_solver_create_file(t->path, &o, &t->solver));
    t->net = ct_solver_net(t->solver);
    CT_TRY(feed(t));
    CT_TRY(set_histories(t));
    CT_TRY(ct_solver_step(t->solver, n_steps));
    return check(t);
}

static enum ct_status run_file(const char *path, const char *text,
                               bool all_blobs)
{
    struct ct_net_options o = { .device = test_device(), .quiet = true,
                                .phase = CAFFE__PHASE__TRAIN, .seed = 1,
                                .keep_blobs = all_blobs };
    struct trial t = { .path = path, .text = text, .all_blobs = all_blobs };
    enum ct_status st;
    struct line l;

    CT_TRY(write_files(text));
    if (find(text, "steps", &l)) {
        st = run_solver(&t, (int)l.value[0]);
        ct_solver_destroy(t.solver);
        return st;
    }
    st = ct_net_create_file(path, &o, &t.net);
    if (!find(text, "refused", &l)) {
        if (st == CT_OK)
            st = run(&t);
    } else if (st == CT_OK) {
        st = ct_fail(CT_EINVAL, "it is not refused");
    } else {
        st = strstr(ct_last_error(), l.rest) ? CT_OK : st;
    }
    ct_net_destroy(t.net);
    return st == CT_OK ? check_files(text) : st;
}

static bool passes(const char *path)
{
    char *text = NULL;
    size_t n_bytes;
    enum ct_status st = ct_file_read(path, &text, &n_bytes);

    for (int keep = 1; keep >= 0 && st == CT_OK; keep--) {
        st = compat_enter();
        if (st == CT_OK)
            st = run_file(path, text, keep);
        compat_leave();
    }
    if (st != CT_OK)
        printf("FAILED %s: %s\n", path, ct_last_error());
    ct_free(text);
    return st == CT_OK;
}

static int is_net(const struct dirent *e)
{
    return strstr(e->d_name, ".prototxt") != NULL;
}

int main(int argc, char **argv)
{
    struct dirent **entry = NULL;
    char *folder = argc == 2 ? realpath(argv[1], NULL) : NULL;
    int n = folder ? scandir(folder, &entry, is_net, alphasort) : 0;
    int passed = 0;

    ct_log_set_level(CT_LOG_NONE);
    for (int i = 0; i < n; i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", folder, entry[i]->d_name);
        passed += passes(path);
        free(entry[i]);
    }
    free(entry);
    free(folder);
    printf("%d passed, %d failed\n", passed, n - passed);
    return passed < n || n <= 0;
}
