/* board_files.c - run folders as the page gets them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "observe/board_inner.h"
#include "observe/json.h"
#include "observe/output.h"
#include "observe/run_folder.h"

enum { MOST_BYTES = 4 << 20 }; /* of an answer, and of a small file */

/* The files that can be had.  `grows`: lines that are appended. */
static const struct {
    const char *name, *type;
    bool        grows;
} files[] = {
    { "run.json", "application/json", false },
    { "net.json", "application/json", false },
    { "times.json", "application/json", false },
    { "ranks_now.json", "application/json", false },
    { "roads.json", "application/json", false },
    { "filters.json", "application/json", false },
    { "plan.txt", "text/plain; charset=utf-8", false },
    { "solver.prototxt", "text/plain; charset=utf-8", false },
    { "net.prototxt", "text/plain; charset=utf-8", false },
    { "series.jsonl", "application/x-ndjson", true },
    { "ranks.jsonl", "application/x-ndjson", true },
    { "layers.jsonl", "application/x-ndjson", true },
    { "log.txt", "text/plain; charset=utf-8", true },
};

/* ---- which runs there are */

static bool is_run(const char *folder)
{
    char *path = ct_path_join(folder, "run.json");
    const bool found = path && access(path, R_OK) == 0;

    ct_free(path);
    return found;
}

/* "runs/one/" is "runs/one". */
static char *without_slash(const char *folder)
{
    char *out = ct_strdup(folder, "run folder");
    size_t n  = strlen(folder);

    while (out && n > 1 && out[n - 1] == '/')
        out[--n] = '\0';
    return out;
}

static void add_run(struct ct_board *b, const char *folder)
{
    char *path = without_slash(folder);
    bool known = !path || b->n_runs == BOARD_MOST_RUNS;

    for (int i = 0; i < b->n_runs && !known; i++)
        known = strcmp(b->run[i], path) == 0;
    if (known)
        ct_free(path);
    else
        b->run[b->n_runs++] = path;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

const char *board_run_name(const struct ct_board *b, int run)
{
    const char *name = last_part(b->run[run]);

    for (int i = 0; i < b->n_runs; i++)
        if (i != run && strcmp(last_part(b->run[i]), name) == 0)
            return b->run[run];
    return name;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void look_into(struct ct_board *b, const char *folder)
{
    char *found[BOARD_MOST_RUNS];
    DIR *d = opendir(folder);
    struct dirent *e;
    int n = 0;

    while (d && n < BOARD_MOST_RUNS && (e = readdir(d))) {
        char *path = e->d_name[0] == '.' ? NULL
                                         : ct_path_join(folder, e->d_name);

        if (path && is_run(path))
            found[n++] = path;
        else
            ct_free(path);
    }
    if (d)
        closedir(d);
    qsort(found, (size_t)n, sizeof(found[0]), by_name);
    for (int i = 0; i < n; i++) {
        add_run(b, found[i]);
        ct_free(found[i]);
    }
}

void board_find_runs(struct ct_board *b)
{
    for (int i = 0; i < b->options.n_folders; i++) {
        /* The run that serves is known before it has written anything. */
        if (b->options.act || is_run(b->folder[i]))
            add_run(b, b->folder[i]);
        else
            look_into(b, b->folder[i]);
    }
}

/* ---- reading */

static int open_file(const char *folder, const char *name, struct stat *st)
{
    char *path = ct_path_join(folder, name);
    int fd     = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                             O_NOFOLLOW) : -1;

    ct_free(path);
    if (fd >= 0 && (fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Bytes [from, from + n), or as many as there are. */
static void read_part(int fd, off_t from, size_t n, struct ct_text *out)
{
    char *room = ct_malloc(n ? n : 1, "board");
    size_t got = 0;

    while (room && got < n) {
        ssize_t k = pread(fd, room + got, n - got, from + (off_t)got);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        got += (size_t)k;
    }
    if (room)
        ct_text_add_bytes(out, room, got);
    else
        out->failed = 1;
    ct_free(room);
}

/* Cuts the text behind its last newline. */
static void whole_lines(struct ct_text *t)
{
    while (t->n_bytes && t->s[t->n_bytes - 1] != '\n')
        t->n_bytes--;
    if (t->s)
        t->s[t->n_bytes] = '\0';
}

/* The first line may have lost its start. */
static void cut_first(struct ct_text *t)
{
    const char *end = t->n_bytes ? memchr(t->s, '\n', t->n_bytes) : NULL;
    const size_t n  = end ? (size_t)(end + 1 - t->s) : t->n_bytes;

    if (n == 0)
        return;
    memmove(t->s, t->s + n, t->n_bytes - n + 1);
    t->n_bytes -= n;
}

/* A line that says something once: it is kept whatever is left out. */
static bool is_rare(const char *line)
{
    static const char kind[] = "{\"kind\":\"", common[] = "iteration\"";

    return strncmp(line, kind, sizeof(kind) - 1) == 0 &&
           strncmp(line + sizeof(kind) - 1, common, sizeof(common) - 1) != 0;
}

/* Every k-th line of those that are common, and the last. */
static void thin(const struct ct_text *all, long most, struct ct_text *out)
{
    const char *at = all->s, *end, *next;
    long n = 0, step, i = 0;

    if (!all->s)
        return;
    end = at + all->n_bytes;
    for (const char *p = at; p && p < end; p = next ? next + 1 : NULL, n++)
        next = memchr(p, '\n', (size_t)(end - p));
    step = most > 0 ? (n + most - 1) / most : 1;
    for (; at && at < end; at = next, i++) {
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next + 1 : end;
        if (i % step == 0 || next == end || is_rare(at))
            ct_text_add_bytes(out, at, (size_t)(next - at));
    }
}

static void read_lines(int fd, off_t size, const struct ct_http_request *r,
                       struct ct_http_answer *out)
{
    const long most = ct_http_query(r, "thin", 0);
    long from       = ct_http_query(r, "from", 0);
    const long tail = ct_http_query(r, "tail", 0);
    struct ct_text all = { 0 };

    if (most > 0) {
        enum { MOST_FILE = 256 << 20 };
        const off_t skip = size > MOST_FILE ? size - MOST_FILE : 0;

        read_part(fd, skip, (size_t)(size - skip), &all);
        whole_lines(&all);
        thin(&all, most, &out->body);
        out->body.failed |= all.failed;
        out->next = (long)skip + (long)all.n_bytes;
        ct_text_fini(&all);
        return;
    }
    if (tail > 0 && size > tail) /* from the next line on */
        from = size - tail;
    if (from < 0 || from > size)
        from = 0;
    read_part(fd, from, size - from < MOST_BYTES ? (size_t)(size - from)
                                                 : MOST_BYTES, &out->body);
    whole_lines(&out->body);
    out->next = from + (long)out->body.n_bytes;
    if (tail > 0 && from > 0)
        cut_first(&out->body);
}

bool board_file(const struct ct_board *b, int run, const char *name,
                const struct ct_http_request *r, struct ct_http_answer *out)
{
    struct stat st;
    size_t i = 0;
    int fd;

    while (i < sizeof(files) / sizeof(files[0]) &&
           strcmp(files[i].name, name) != 0)
        i++;
    if (i == sizeof(files) / sizeof(files[0]))
        return false;
    fd        = open_file(b->run[run], name, &st);
    out->type = files[i].type;
    if (fd < 0) { /* it is not there yet, or never will be */
        if (strstr(name, ".json") && !files[i].grows)
            ct_text_add(&out->body, "null\n");
        out->next = files[i].grows ? 0 : -1;
        return true;
    }
    if (files[i].grows)
        read_lines(fd, st.st_size, r, out);
    else
        read_part(fd, 0, st.st_size < MOST_BYTES ? (size_t)st.st_size
                                                 : MOST_BYTES, &out->body);
    close(fd);
    return true;
}

/* ---- the list */

void board_list(struct ct_board *b, struct ct_text *out)
{
    ct_text_add(out, "[");
    for (int i = 0; i < b->n_runs; i++) {
        struct ct_text run = { 0 };
        struct ct_json *j = NULL;
        struct stat st;
        int fd            = open_file(b->run[i], "run.json", &st);

        if (fd >= 0) {
            read_part(fd, 0, st.st_size < MOST_BYTES ? (size_t)st.st_size
                                                     : MOST_BYTES, &run);
            close(fd);
        }
        ct_json_comma(out);
        ct_text_add(out, "\n{");
        ct_json_field_number(out, "id", i);
        ct_json_field_string(out, "name", board_run_name(b, i));
        ct_json_key(out, "alive");
        ct_text_add(out, ct_run_is_alive(b->run[i], (double)time(NULL))
                             ? "true"
                             : "false");
        /* Only what is whole is passed on. */
        if (run.s && ct_json_parse(run.s, run.n_bytes, b->run[i], &j) ==
                         CT_OK) {
            ct_json_key(out, "run");
            ct_text_add(out, run.s);
        }
        ct_json_free(j);
        ct_text_fini(&run);
        ct_text_add(out, "}");
    }
    ct_text_add(out, "]\n");
}
