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

/* A file's lines, read block by block: it may be larger than memory. */
struct lines {
    int    fd;
    off_t  at, size; /* at: where the next block begins */
    char  *room;     /* owned */
    size_t capacity, from, end; /* of room; from, end: what is left in it */
    bool   failed;
};

static void read_block(struct lines *l)
{
    size_t wish;
    ssize_t got;

    memmove(l->room, l->room + l->from, l->end - l->from);
    l->end -= l->from;
    l->from = 0;
    if (l->end == l->capacity) { /* a long line */
        char *room = ct_malloc(2 * l->capacity, "board");

        l->failed = !room;
        if (!room)
            return;
        memcpy(room, l->room, l->end);
        ct_free(l->room);
        l->room = room;
        l->capacity *= 2;
    }
    wish = l->capacity - l->end;
    if ((off_t)wish > l->size - l->at)
        wish = (size_t)(l->size - l->at);
    do
        got = pread(l->fd, l->room + l->end, wish, l->at);
    while (got < 0 && errno == EINTR);
    l->failed = got <= 0;
    l->at += got > 0 ? got : 0;
    l->end += got > 0 ? (size_t)got : 0;
}

/* The next whole line, with its newline; NULL: there is none. */
static const char *next_line(struct lines *l, size_t *n_bytes)
{
    const char *line = NULL, *end = NULL;

    while (!l->failed) {
        line = l->room + l->from;
        end  = memchr(line, '\n', l->end - l->from);
        if (end || l->at >= l->size)
            break;
        read_block(l);
    }
    if (!end)
        return NULL;
    *n_bytes = (size_t)(end + 1 - line);
    l->from += *n_bytes;
    return line;
}

/* Every k-th line of those that are common, and the last.  Returns where the
 * whole lines end. */
static long thin(int fd, off_t size, long most, struct ct_text *out)
{
    struct lines l = { .fd = fd, .size = size, .capacity = 1 << 20 };
    long n = 0, step;
    const char *line;
    size_t bytes;

    l.room   = ct_malloc(l.capacity, "board");
    l.failed = !l.room;
    while (next_line(&l, &bytes))
        n++;
    step   = (n + most - 1) / most;
    l.at   = 0;
    l.from = l.end = 0;
    for (long i = 0; i < n && (line = next_line(&l, &bytes)); i++)
        if (i % step == 0 || i == n - 1 || is_rare(line))
            ct_text_add_bytes(out, line, bytes);
    out->failed |= l.failed;
    ct_free(l.room);
    return (long)(l.at - (off_t)(l.end - l.from));
}

/* Where the line begins that ends at `end`; 0: with the file. */
static off_t line_begin(int fd, off_t end)
{
    char block[1 << 12];

    while (end > 0) {
        const off_t from = end > (off_t)sizeof(block)
                               ? end - (off_t)sizeof(block)
                               : 0;
        const ssize_t n  = pread(fd, block, (size_t)(end - from), from);
        const char *last = n > 0 ? memrchr(block, '\n', (size_t)n) : NULL;

        if (last)
            return from + (last - block) + 1;
        end = from;
    }
    return 0;
}

/* The last whole line, whatever comes before.  Returns where it ends. */
static long last_line(int fd, off_t size, struct ct_text *out)
{
    const off_t end   = line_begin(fd, size);
    const off_t begin = end > 0 ? line_begin(fd, end - 1) : 0;

    read_part(fd, begin, (size_t)(end - begin), out);
    return (long)end;
}

static void read_lines(int fd, off_t size, const struct ct_http_request *r,
                       struct ct_http_answer *out)
{
    const long most = ct_http_query(r, "thin", 0);
    long from       = ct_http_query(r, "from", 0);
    const long tail = ct_http_query(r, "tail", 0);

    if (most > 0) {
        out->next = most > 1 ? thin(fd, size, most, &out->body)
                             : last_line(fd, size, &out->body);
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
