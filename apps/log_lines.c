/* log_lines.c - where log lines go: glog's flags and variables. */
#include "log_lines.h"

#include <errno.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

enum { N_LEVELS = CT_LOG_FATAL + 1 };

/* What the flags say.  Caffe's program logs to standard error as well as to
 * files, so that is the default here. */
static struct {
    int         least, stderr_least;
    const char *only_stderr; /* "true", "false" or NULL: not given */
    const char *also_stderr;
    const char *folder, *unused;
    bool        color, prefix;
} wish;

static struct {
    char  path[4096]; /* of the files, up to the severity */
    char  stamp[64];  /* and after it */
    char  program[64];
    FILE *file[N_LEVELS];
    bool  colored;
    atomic_bool over_progress; /* other threads log, too */
    int   n_errors;
} lines;

const struct flag log_lines_flags[] = {
    FLAG("minloglevel", &wish.least),
    FLAG("stderrthreshold", &wish.stderr_least),
    FLAG("logtostderr", &wish.only_stderr),
    FLAG("alsologtostderr", &wish.also_stderr),
    FLAG("colorlogtostderr", &wish.color),
    FLAG("log_prefix", &wish.prefix),
    FLAG("log_dir", &wish.folder),
    FLAG("logbufsecs", &wish.unused),
    FLAG("v", &wish.unused),
    FLAG("vmodule", &wish.unused),
    FLAG_END,
};

static const char *const severity[N_LEVELS] = { "INFO", "WARNING", "ERROR",
                                                "FATAL" };

static bool is_on(const char *text)
{
    return strchr("tTyY1", text[0]) && text[0];
}

static void level_of(const char *variable, int *out)
{
    const char *text = getenv(variable);
    char *end        = NULL;
    long n           = text && *text ? strtol(text, &end, 10) : 0;

    if (end && !*end && n >= 0 && n <= CT_LOG_NONE)
        *out = (int)n;
}

void log_lines_defaults(void)
{
    const char *color = getenv("GLOG_colorlogtostderr");
    const char *head  = getenv("GLOG_log_prefix");

    wish.least        = CT_LOG_INFO;
    wish.stderr_least = CT_LOG_ERROR;
    level_of("GLOG_minloglevel", &wish.least);
    level_of("GLOG_stderrthreshold", &wish.stderr_least);
    wish.only_stderr = getenv("GLOG_logtostderr");
    wish.also_stderr = getenv("GLOG_alsologtostderr");
    wish.color       = color && is_on(color);
    wish.prefix      = !head || is_on(head);
    wish.folder      = getenv("GLOG_log_dir");
}

/* "FOLDER/PROGRAM.HOST.USER.log." and ".DATE-TIME.PID", as glog names them. */
static void name_files(const char *program)
{
    const struct passwd *who = getpwuid(geteuid());
    time_t now               = time(NULL);
    char host[256] = "unknown", when[32];
    struct tm tm;

    gethostname(host, sizeof(host) - 1);
    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(lines.program, sizeof(lines.program), "%s", program);
    snprintf(lines.path, sizeof(lines.path), "%s/%s.%s.%s.log.", wish.folder,
             program, host, who ? who->pw_name : "unknown");
    snprintf(lines.stamp, sizeof(lines.stamp), ".%s.%ld", when,
             (long)getpid());
}

/* The link PROGRAM.SEVERITY, which always leads to the latest file. */
static void link_latest(int level, const char *path)
{
    struct ct_text name = { 0 };

    ct_text_addf(&name, "%s/%s.%s", wish.folder, lines.program,
                 severity[level]);
    if (!name.failed) {
        unlink(name.s);
        if (symlink(strrchr(path, '/') + 1, name.s) != 0)
            errno = 0; /* the log itself is there */
    }
    ct_text_fini(&name);
}

static FILE *open_file(int level)
{
    struct ct_text path = { 0 };
    char when[64], host[256] = "unknown";
    time_t now = time(NULL);
    struct tm tm;
    FILE *f;

    ct_text_addf(&path, "%s%s%s", lines.path, severity[level], lines.stamp);
    f = path.failed ? NULL : fopen(path.s, "w");
    if (f) {
        gethostname(host, sizeof(host) - 1);
        localtime_r(&now, &tm);
        strftime(when, sizeof(when), "%Y/%m/%d %H:%M:%S", &tm);
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
        fprintf(f, "Log file created at: %s\nRunning on machine: %s\n"
                   "Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid "
                   "file:line] msg\n", when, host);
        link_latest(level, path.s);
    }
    ct_text_fini(&path);
    return f;
}

/* A line goes to the files of its severity and of all below. */
static void to_files(enum ct_log_level level, const char *line)
{
    for (int i = 0; i <= (int)level && i < N_LEVELS; i++) {
        if (!lines.file[i])
            lines.file[i] = open_file(i);
        if (lines.file[i])
            fputs(line, lines.file[i]);
    }
}

static void to_stderr(enum ct_log_level level, const char *line)
{
    const char *color = level == CT_LOG_INFO      ? ""
                        : level == CT_LOG_WARNING ? "\033[33m"
                                                  : "\033[31m";

    if (atomic_load(&lines.over_progress))
        fputs("\r\033[K", stderr);
    if (lines.colored && *color)
        fprintf(stderr, "%s%s\033[m", color, line);
    else
        fputs(line, stderr);
}

/* Called under the lock of the log. */
static void take_line(enum ct_log_level level, const char *line, void *arg)
{
    const char *head = strstr(line, "] ");
    const bool also  = !wish.also_stderr || is_on(wish.also_stderr) ||
                      !lines.path[0];

    (void)arg;
    lines.n_errors += level >= CT_LOG_ERROR;
    if (!wish.prefix && head)
        line = head + 2;
    if (lines.path[0])
        to_files(level, line);
    if (also || (int)level >= wish.stderr_least)
        to_stderr(level, line);
}

enum ct_status log_lines_apply(const char *program)
{
    const char *tmp       = getenv("TMPDIR");
    const bool only_files = wish.also_stderr && !is_on(wish.also_stderr);

    if (wish.least > (int)ct_log_level())
        ct_log_set_level((enum ct_log_level)
                         (wish.least > CT_LOG_NONE ? CT_LOG_NONE
                                                   : wish.least));
    if (only_files && !wish.folder) /* as glog: the lines are not lost */
        wish.folder = tmp ? tmp : "/tmp";
    if (wish.folder && wish.folder[0] &&
        !(wish.only_stderr && is_on(wish.only_stderr))) {
        name_files(program);
        lines.file[CT_LOG_INFO] = open_file(CT_LOG_INFO);
        if (!lines.file[CT_LOG_INFO])
            return ct_fail(CT_EIO, "--log_dir=%s: cannot write a log there: "
                           "%s", wish.folder, strerror(errno));
    }
    lines.colored = wish.color && isatty(STDERR_FILENO);
    ct_log_set_sink(take_line, NULL);
    return CT_OK;
}

void log_lines_over_progress(bool drawn)
{
    atomic_store(&lines.over_progress, drawn);
}

int log_lines_n_errors(void)
{
    return lines.n_errors;
}
