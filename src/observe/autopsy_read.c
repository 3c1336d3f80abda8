/* autopsy_read.c - records of ranks read back. */
#include "observe/autopsy_read.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

enum { MOST_RANKS = 1 << 17, FIELDS = 9 };

static enum ct_status bad(const char *path, int line)
{
    return ct_fail(CT_EPARSE, "%s:%d: no record of a rank", path, line);
}

/* Cuts a line at its tabs; returns how many fields it has. */
static int cut(char *line, char **field, int most)
{
    int n = 0;

    for (char *s = line; s && n < most; n++) {
        char *tab = strchr(s, '\t');

        field[n] = s;
        if (tab)
            *tab++ = '\0';
        s = tab;
    }
    return n;
}

static void copy(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from);
}

static enum ct_status take_entry(struct autopsy_rank *r, char **field)
{
    struct autopsy_entry *e;

    if (r->n == r->capacity) {
        const int more = r->capacity ? 2 * r->capacity : 64;
        void *grown    = ct_realloc(r->entry, (size_t)more * sizeof(*r->entry),
                                    "autopsy");

        if (!grown)
            return CT_ENOMEM;
        r->entry    = grown;
        r->capacity = more;
    }
    e  = &r->entry[r->n++];
    *e = (struct autopsy_entry){
        .channel  = strtoull(field[1], NULL, 16),
        .sequence = strtoull(field[2], NULL, 10),
        .bytes    = strtoull(field[4], NULL, 10),
        .done     = strcmp(field[6], "done") == 0,
        .ago      = strtod(field[7], NULL),
        .took     = strtod(field[8], NULL),
    };
    copy(e->what, sizeof(e->what), field[3]);
    copy(e->of, sizeof(e->of), strcmp(field[5], "-") == 0 ? "" : field[5]);
    return CT_OK;
}

static void take_fact(struct autopsy_rank *r, const char *key,
                      const char *value)
{
    if (strcmp(key, "pid") == 0)
        r->pid = (int)strtol(value, NULL, 10);
    else if (strcmp(key, "view") == 0)
        r->view = strtol(value, NULL, 10);
    else if (strcmp(key, "host") == 0)
        copy(r->host, sizeof(r->host), value);
    else if (strcmp(key, "why") == 0)
        copy(r->why, sizeof(r->why), value);
    else if (strcmp(key, "where") == 0)
        copy(r->where, sizeof(r->where), value);
    else if (strcmp(key, "time") == 0)
        r->time = strtod(value, NULL);
    else if (strcmp(key, "moved_ago") == 0)
        r->moved_ago = strtod(value, NULL);
    else if (strcmp(key, "waiting") == 0)
        r->waiting = strtod(value, NULL);
    else if (strcmp(key, "waiting_for") == 0)
        r->waiting_for = (int)strtol(value, NULL, 10);
}

/* Gives every rank of the job its place. */
static enum ct_status make_room(struct autopsy *a, int n_ranks)
{
    void *more;

    if (n_ranks <= a->n_ranks)
        return CT_OK;
    more = ct_realloc(a->rank, (size_t)n_ranks * sizeof(*a->rank), "autopsy");
    if (!more)
        return CT_ENOMEM;
    a->rank = more;
    memset(a->rank + a->n_ranks, 0,
           (size_t)(n_ranks - a->n_ranks) * sizeof(*a->rank));
    a->n_ranks = n_ranks;
    return CT_OK;
}

/* The first three lines: the format, the rank, the number of ranks. */
static enum ct_status take_head(struct autopsy *a, const char *path,
                                char **line, struct autopsy_rank **out)
{
    int format = 0, rank = -1, ranks = 0;

    if (sscanf(line[0], "cortado autopsy %d", &format) != 1 || format != 1 ||
        sscanf(line[1], "rank %d", &rank) != 1 ||
        sscanf(line[2], "ranks %d", &ranks) != 1 || rank < 0 ||
        rank >= ranks || ranks > MOST_RANKS)
        return bad(path, 1);
    CT_TRY(make_room(a, ranks));
    *out = &a->rank[rank];
    a->n_here += !(*out)->here;
    (*out)->here  = true;
    (*out)->ranks = ranks;
    return CT_OK;
}

static enum ct_status read_record(struct autopsy *a, const char *path,
                                  char *text)
{
    struct autopsy_rank *r = NULL;
    char *head[3], *save = NULL;
    int n = 0;

    for (char *line = strtok_r(text, "\n", &save); line;
         line       = strtok_r(NULL, "\n", &save), n++) {
        char *field[FIELDS];
        int n_fields;

        if (n < 3)
            head[n] = line;
        if (n == 2)
            CT_TRY(take_head(a, path, head, &r));
        if (n < 3)
            continue;
        n_fields = cut(line, field, FIELDS);
        if (strcmp(field[0], "entry") != 0 && n_fields == 2)
            take_fact(r, field[0], field[1]);
        else if (n_fields == FIELDS)
            CT_TRY(take_entry(r, field));
        else
            return bad(path, n + 1);
    }
    return r ? CT_OK : bad(path, n + 1);
}

static enum ct_status read_folder(struct autopsy *a, const char *folder,
                                  DIR *dir)
{
    const struct dirent *d;
    enum ct_status st = CT_OK;

    while (st == CT_OK && (d = readdir(dir))) {
        struct ct_text path = { 0 };
        const char *end     = strrchr(d->d_name, '.');
        char *text          = NULL;
        size_t n_bytes;

        if (strncmp(d->d_name, "rank-", 5) != 0 || !end ||
            strcmp(end, ".txt") != 0)
            continue;
        ct_text_addf(&path, "%s/%s", folder, d->d_name);
        st = path.failed ? CT_ENOMEM : ct_file_read(path.s, &text, &n_bytes);
        if (st == CT_OK)
            st = read_record(a, path.s, text);
        ct_free(text);
        ct_text_fini(&path);
    }
    return st;
}

static void leave_out(struct autopsy *a, struct autopsy_rank *r)
{
    ct_free(r->entry);
    *r = (struct autopsy_rank){ 0 };
    a->n_here--;
    a->n_old++;
}

/* Where ranks come and go, those of one view are compared: of the last one.  A
 * rank that was held up may write records of an earlier view after that. */
static void keep_newest_view(struct autopsy *a)
{
    const struct autopsy_rank *newest = NULL;
    int n_ranks;

    for (int r = 0; r < a->n_ranks; r++)
        if (a->rank[r].here && (!newest || a->rank[r].view > newest->view ||
                                (a->rank[r].view == newest->view &&
                                 a->rank[r].time > newest->time)))
            newest = &a->rank[r];
    if (!newest || newest->view == 0)
        return;
    a->view = newest->view;
    n_ranks = newest->ranks;
    for (int r = 0; r < a->n_ranks; r++)
        if (a->rank[r].here && a->rank[r].view != a->view)
            leave_out(a, &a->rank[r]);
    a->n_ranks = n_ranks;
}

enum ct_status autopsy_read(const char *folder, struct autopsy *out)
{
    struct ct_text below = { 0 };
    const char *where    = folder;
    enum ct_status st;
    DIR *dir;

    *out = (struct autopsy){ 0 };
    ct_text_addf(&below, "%s/autopsy", folder);
    dir = below.failed ? NULL : opendir(below.s);
    if (dir)
        where = below.s;
    else
        dir = opendir(folder);
    if (!dir) {
        st = ct_fail(CT_ENOTFOUND, "%s: there is no such folder", folder);
        goto out;
    }
    st = read_folder(out, where, dir);
    closedir(dir);
    if (st == CT_OK)
        keep_newest_view(out);
    if (st == CT_OK && out->n_here == 0)
        st = ct_fail(CT_ENOTFOUND, "%s: no rank has left a record there.  "
                     "Ranks of `cortado train --run=FOLDER` do so when the "
                     "job fails, waits for long, or gets SIGUSR2", where);
out:
    ct_text_fini(&below);
    return st;
}

void autopsy_fini(struct autopsy *a)
{
    for (int r = 0; a->rank && r < a->n_ranks; r++)
        ct_free(a->rank[r].entry);
    ct_free(a->rank);
    *a = (struct autopsy){ 0 };
}
