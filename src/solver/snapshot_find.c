/* snapshot_find.c - the files of snapshots in their folder.
 *
 *     <prefix>_iter_<N>.caffemodel[.h5]           the weights
 *     <prefix>_iter_<N>.solverstate[.h5]          the state (state_file.c)
 *     <prefix>_iter_<N>.rank<R>.residuals[.h5]    what only rank R > 0 has
 *
 * A state has a complete model, unless a file was damaged later. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "cortado/log.h"
#include "data/hdf5.h"
#include "solver/state.h"

bool solver_ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* Where the part after the iteration starts: ".solverstate" and so on. */
static size_t stem_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot   = strstr(slash ? slash : path, ".solverstate");

    return dot ? (size_t)(dot - path) : strlen(path);
}

enum ct_status solver_rank_file(const char *path, int rank, char **out)
{
    struct ct_text t = { 0 };

    ct_text_add_bytes(&t, path, stem_bytes(path));
    ct_text_addf(&t, ".rank%d.residuals%s", rank,
                 solver_ends_with(path, ".h5") ? ".h5" : "");
    *out = t.s;
    return t.failed ? CT_ENOMEM : CT_OK;
}

/* ---- the model of a state */

static enum ct_status check_model(const Caffe__SolverState *m,
                                  const char *model, const char *path)
{
    Caffe__NetParameter *net = NULL;
    struct ct_hdf5 *h        = NULL;
    uint32_t crc;

    if (m->has_crc) {
        CT_TRY(ct_file_sum(model, &crc));
        return crc == m->crc
                   ? CT_OK
                   : ct_fail(CT_EPARSE, "%s is damaged or another file than "
                             "the one that %s was written with: its checksum "
                             "differs.  To train on from changed weights use "
                             "--weights", model, path);
    }
    if (ct_hdf5_is(model)) {
        CT_TRY(ct_hdf5_open(model, &h));
        return ct_hdf5_close(h);
    }
    CT_TRY(ct_binary_read(&caffe__net_parameter__descriptor, model, &net));
    ct_message_free(net);
    return CT_OK;
}

/* `model` in the folder of `path`. */
static enum ct_status beside(const char *path, const char *model, char **out)
{
    const char *from = strrchr(path, '/'), *name = strrchr(model, '/');
    struct ct_text t = { 0 };

    if (from)
        ct_text_add_bytes(&t, path, (size_t)(from - path) + 1);
    ct_text_add(&t, name ? name + 1 : model);
    *out = t.s;
    return t.failed ? CT_ENOMEM : CT_OK;
}

enum ct_status solver_find_model(const Caffe__SolverState *m, const char *path,
                                 char **out)
{
    char *near = NULL;
    enum ct_status st;

    CT_TRY(beside(path, m->learned_net, &near));
    st = ct_file_exists(near) ? check_model(m, near, path) : CT_ENOTFOUND;
    if (st == CT_OK) {
        *out = near;
        return CT_OK;
    }
    /* The model may be in the folder where it was written. */
    if (st != CT_ENOMEM && strcmp(near, m->learned_net) != 0 &&
        ct_file_exists(m->learned_net)) {
        ct_free(near);
        near = NULL;
        CT_TRY(check_model(m, m->learned_net, path));
        *out = ct_strdup(m->learned_net, "model");
        return *out ? CT_OK : CT_ENOMEM;
    }
    if (st == CT_ENOTFOUND)
        st = ct_fail(st, "the weights of %s are missing: there is neither %s "
                     "nor %s", path, near, m->learned_net);
    ct_free(near);
    return st;
}

/* ---- a folder of them */

/* The iteration in "<stem>_iter_<N><rest>", and the rest; or -1. */
static int64_t iteration_in(const char *name, const char *stem,
                            const char **rest)
{
    size_t n = strlen(stem);
    char *end;
    int64_t iter;

    if (strncmp(name, stem, n) != 0 || strncmp(name + n, "_iter_", 6) != 0)
        return -1;
    name += n + 6;
    iter  = strtoll(name, &end, 10);
    *rest = end;
    return name[0] < '0' || name[0] > '9' ? -1 : iter;
}

/* A state in the folder.  The order is newest first, and of one iteration the
 * binary form before HDF5. */
struct candidate {
    int64_t iter;
    bool    hdf5;
};

static int newer(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->iter != y->iter ? (x->iter < y->iter) - (x->iter > y->iter)
                              : x->hdf5 - y->hdf5;
}

static enum ct_status cannot_list(const char *folder)
{
    return ct_fail(errno == ENOENT ? CT_ENOTFOUND : CT_EIO, "%s %s%s%s",
                   errno == ENOENT ? "there is no folder"
                                   : "cannot look for snapshots in",
                   folder, errno == ENOENT ? "" : ": ",
                   errno == ENOENT ? "" : strerror(errno));
}

/* The states of `stem` in `folder`, in order; *out is ct_free'd. */
static enum ct_status list_states(const char *folder, const char *stem,
                                  struct candidate **out, size_t *n)
{
    DIR *dir    = opendir(folder);
    size_t room = 0;
    struct dirent *e;

    *n = 0;
    if (!dir)
        return cannot_list(folder);
    while (errno = 0, (e = readdir(dir))) {
        const char *rest = "";
        const int64_t iter = iteration_in(e->d_name, stem, &rest);
        const bool hdf5    = strcmp(rest, ".solverstate.h5") == 0;
        struct candidate *more;

        if (iter < 0 || (!hdf5 && strcmp(rest, ".solverstate") != 0))
            continue;
        if (*n == room) {
            room = 2 * room + 16;
            more = ct_realloc(*out, room * sizeof(*more), "snapshots");
            if (!more) {
                closedir(dir);
                return CT_ENOMEM;
            }
            *out = more;
        }
        (*out)[(*n)++] = (struct candidate){ iter, hdf5 };
    }
    if (errno != 0) {
        enum ct_status st = cannot_list(folder);

        closedir(dir);
        return st;
    }
    closedir(dir);
    if (*n > 0)
        qsort(*out, *n, sizeof(**out), newer);
    return CT_OK;
}

/* Checks a state and its model.  Only some failures mean damage: a file may
 * also be unreadable, or too large for the free memory. */
static enum ct_status check_state(const char *path)
{
    Caffe__SolverState *m = NULL;
    char *model           = NULL;
    enum ct_status st     = solver_state_read(path, &m);

    if (st == CT_OK && m->learned_net && m->learned_net[0])
        st = solver_find_model(m, path, &model);
    ct_free(model);
    ct_message_free(m);
    return st;
}

static bool is_damage(enum ct_status st)
{
    return st == CT_EPARSE || st == CT_ESHAPE || st == CT_ENOTFOUND ||
           st == CT_EINVAL;
}

static bool is_of(const char *path, struct snapshot_origin from)
{
    const int64_t job = from.job ? solver_state_job(path) : 0;
    struct stat s;

    if (job != 0)
        return job == from.job;
    return from.since <= 0 || stat(path, &s) != 0 || s.st_mtime >= from.since;
}

/* `since` by the clock of the file system, which may belong to another host.  A
 * difference of one second is ignored, because both times are whole
 * seconds. */
static int64_t since_in(const char *folder, int64_t since)
{
    const int64_t behind = since > 0 ? ct_file_clock_behind(folder, time(NULL))
                                     : 0;

    return behind > 1 || behind < -1 ? since - behind : since;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec ||
           (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Whether an incomplete snapshot is being written, or was removed just now, by
 * a former rank 0 that finishes what it began.  `before`: stat of the state
 * before it was read. */
static bool is_changing(const char *folder, const char *stem,
                        const struct candidate *c, const struct stat *before)
{
    struct ct_text state = { 0 }, model = { 0 };
    struct stat s, m;
    bool yes = false;

    ct_text_addf(&state, "%s/%s_iter_%" PRId64 ".solverstate%s", folder, stem,
                 c->iter, c->hdf5 ? ".h5" : "");
    ct_text_addf(&model, "%s/%s_iter_%" PRId64 ".caffemodel%s", folder, stem,
                 c->iter, c->hdf5 ? ".h5" : "");
    if (!state.failed && !model.failed)
        yes = stat(state.s, &s) != 0
                  ? errno == ENOENT
                  : s.st_ino != before->st_ino ||
                        is_later(&s.st_mtim, &before->st_mtim) ||
                        (stat(model.s, &m) == 0 &&
                         is_later(&m.st_mtim, &s.st_mtim));
    ct_text_fini(&state);
    ct_text_fini(&model);
    return yes;
}

/* *changing: the search stopped at a snapshot that is being written.  NULL:
 * such snapshots are skipped. */
static enum ct_status newest_listed(const char *folder, const char *stem,
                                    int64_t limit,
                                    struct snapshot_origin from, char **path,
                                    int64_t *iter, bool *changing)
{
    struct candidate *list = NULL;
    size_t n               = 0;
    enum ct_status st      = list_states(folder, stem, &list, &n);

    for (size_t i = 0; i < n && st == CT_OK; i++) {
        struct ct_text name = { 0 };
        struct stat before  = { 0 };
        enum ct_status whole;

        if (limit >= 0 && list[i].iter >= limit)
            continue;
        ct_text_addf(&name, "%s/%s_iter_%" PRId64 ".solverstate%s", folder,
                     stem, list[i].iter, list[i].hdf5 ? ".h5" : "");
        if (!name.failed && !is_of(name.s, from)) {
            ct_text_fini(&name);
            continue;
        }
        if (!name.failed)
            (void)!stat(name.s, &before); /* zeroes: it is gone already */
        whole = name.failed ? CT_ENOMEM : check_state(name.s);
        if (whole == CT_OK) {
            *path = name.s;
            *iter = list[i].iter;
            ct_free(list);
            return CT_OK;
        }
        if (!is_damage(whole)) {
            st = whole;
        } else if (changing && is_changing(folder, stem, &list[i],
                                           &before)) {
            *changing = true;
            st        = CT_ENOTFOUND;
        } else {
            CT_WARN("%s; looking for an older snapshot", ct_last_error());
        }
        ct_text_fini(&name);
    }
    ct_free(list);
    CT_TRY(st);
    return ct_fail(CT_ENOTFOUND, "there is no whole snapshot %s/%s_iter_*."
                   "solverstate", folder, stem);
}

double solver_find_patience = 2;

static enum ct_status newest_of(const char *folder, const char *stem,
                                int64_t limit, struct snapshot_origin from,
                                char **path, int64_t *iter)
{
    const struct timespec nap = { 0, 100000000 };
    const double end          = ct_now() + solver_find_patience;

    do {
        bool changing           = false;
        const enum ct_status st = newest_listed(folder, stem, limit, from,
                                                path, iter, &changing);

        if (!changing)
            return st;
        nanosleep(&nap, NULL);
    } while (ct_now() < end);
    return newest_listed(folder, stem, limit, from, path, iter, NULL);
}

/* Splits a prefix into its folder and the start of file names.  Both lie in the
 * memory of *folder. */
static enum ct_status split(const char *prefix, char **folder, char **stem)
{
    const char *slash = strrchr(prefix, '/');
    const size_t n    = slash ? (size_t)(slash - prefix) : 0;

    CT_TRY(ct_alloc(2 * strlen(prefix) + 8, 1, "prefix", folder));
    if (!slash)
        memcpy(*folder, ".", 1);
    else if (n == 0)
        memcpy(*folder, "/", 1);
    else
        memcpy(*folder, prefix, n);
    *stem = *folder + strlen(*folder) + 1;
    memcpy(*stem, slash ? slash + 1 : prefix,
           strlen(slash ? slash + 1 : prefix));
    return CT_OK;
}

enum ct_status solver_find_newest(const char *prefix, int64_t limit,
                                  struct snapshot_origin from, char **path,
                                  int64_t *iter)
{
    char *folder = NULL, *stem;
    enum ct_status st;

    CT_TRY(split(prefix, &folder, &stem));
    from.since = since_in(folder, from.since);
    st         = newest_of(folder, stem, limit, from, path, iter);
    ct_free(folder);
    return st;
}

/* Whether `rest` ends the name of a file that this rank removes. */
static bool is_ours(const char *rest, int rank)
{
    static const char *const ends[] = { ".solverstate", ".solverstate.h5",
                                        ".caffemodel", ".caffemodel.h5" };
    char own[64];

    snprintf(own, sizeof(own), ".rank%d.residuals", rank);
    if (rank > 0)
        return strncmp(rest, own, strlen(own)) == 0 &&
               (rest[strlen(own)] == '\0' ||
                strcmp(rest + strlen(own), ".h5") == 0);
    for (int i = 0; i < 4; i++)
        if (strcmp(rest, ends[i]) == 0)
            return true;
    return false;
}

/* Snapshots of earlier iterations than this are removed; -1: none. */
static int64_t oldest_kept(const char *folder, const char *stem, int64_t iter,
                           int keep)
{
    struct candidate *list = NULL;
    size_t n               = 0;
    int64_t oldest = -1, before = -1;
    int seen = 0;

    if (list_states(folder, stem, &list, &n) != CT_OK)
        n = 0;
    for (size_t i = 0; i < n && seen < keep; i++) {
        if (list[i].iter > iter || list[i].iter == before)
            continue;
        before = list[i].iter;
        if (++seen == keep)
            oldest = before;
    }
    ct_free(list);
    return oldest;
}

void solver_remove_older(const char *prefix, int rank, int64_t iter, int keep)
{
    char *folder = NULL, *stem;
    int64_t oldest;
    DIR *dir;

    if (split(prefix, &folder, &stem) != CT_OK)
        return;
    oldest = oldest_kept(folder, stem, iter, keep);
    dir    = oldest < 0 ? NULL : opendir(folder);
    /* States first, because --snapshot=auto must not find one without its
     * model. */
    for (int models = 0; dir && models < 2; models++) {
        rewinddir(dir);
        for (struct dirent *e; (e = readdir(dir));) {
            const char *rest = "";
            const int64_t at = iteration_in(e->d_name, stem, &rest);

            if (at < 0 || at >= oldest || !is_ours(rest, rank) ||
                (strncmp(rest, ".solverstate", 12) != 0) != (models == 1))
                continue;
            if (unlinkat(dirfd(dir), e->d_name, 0) != 0)
                CT_WARN("cannot remove the old snapshot %s/%s: %s", folder,
                        e->d_name, strerror(errno));
        }
    }
    if (dir)
        closedir(dir);
    ct_free(folder);
}
