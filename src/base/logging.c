/* logging.c - glog's line format, to stderr or to the program's sink. */
#include "cortado/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/hush.h"

static ct_log_fn log_sink;
static void *log_sink_arg;
static ct_log_fn log_listener;
static void *log_listener_arg;
static FILE *log_copy; /* under the lock; log_copies tells without */
static atomic_bool log_copies;
static atomic_int log_minimum = CT_LOG_INFO;
static _Thread_local bool log_hushed;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
CT_FORK_SAFE(log_lock, CT_FORK_LOG)

void ct_log_set_sink(ct_log_fn sink, void *arg)
{
    pthread_mutex_lock(&log_lock);
    log_sink     = sink;
    log_sink_arg = arg;
    pthread_mutex_unlock(&log_lock);
}

void ct_log_set_listener(ct_log_fn listener, void *arg)
{
    pthread_mutex_lock(&log_lock);
    log_listener     = listener;
    log_listener_arg = arg;
    pthread_mutex_unlock(&log_lock);
}

void ct_log_set_level(enum ct_log_level minimum)
{
    atomic_store(&log_minimum, (int)minimum);
}

enum ct_log_level ct_log_level(void)
{
    return (enum ct_log_level)atomic_load(&log_minimum);
}

void ct_log_hush(bool hush)
{
    log_hushed = hush;
}

enum ct_status ct_log_copy_to(const char *path)
{
    FILE *f = path ? fopen(path, "w") : NULL;

    if (path && !f)
        return ct_fail(CT_EIO, "cannot write a log to %s: %s", path,
                       strerror(errno));
    if (f)
        setvbuf(f, NULL, _IOLBF, BUFSIZ);
    pthread_mutex_lock(&log_lock);
    if (log_copy)
        fclose(log_copy);
    log_copy = f;
    atomic_store(&log_copies, f != NULL);
    pthread_mutex_unlock(&log_lock);
    return CT_OK;
}

static size_t log_prefix(char *out, size_t size, enum ct_log_level level,
                         const char *file, int line)
{
    const char *base = strrchr(file, '/');
    struct timespec now;
    struct tm tm;
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    n = snprintf(out, size, "%c%02d%02d %02d:%02d:%02d.%06ld %5ld %s:%d] ",
                 "IWEF"[level], tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                 tm.tm_min, tm.tm_sec, now.tv_nsec / 1000,
                 syscall(SYS_gettid), base ? base + 1 : file, line);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

/* The line in `text`, of `size` bytes, without the newline that it may lack;
 * returns the bytes that it has, or would have in more room. */
static size_t log_line(char *text, size_t size, size_t prefix,
                       const char *fmt, va_list ap)
{
    va_list again;
    int n;

    va_copy(again, ap);
    n = vsnprintf(text + prefix, size - prefix, fmt, again);
    va_end(again);
    return prefix + (n > 0 ? (size_t)n : 0);
}

/* A line may quote a file that nobody trusts: no byte of it steers the
 * terminal. */
static void make_harmless(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];

        if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
            text[i] = '?';
    }
}

void ct_log_write(enum ct_log_level level, const char *file, int line,
                  const char *fmt, ...)
{
    char few[4096], *text = few, *many = NULL;
    va_list ap;
    size_t used, prefix;
    bool shown = (int)level >= atomic_load(&log_minimum);

    if ((!shown && !atomic_load(&log_copies)) ||
        (log_hushed && level == CT_LOG_INFO))
        return;
    prefix = log_prefix(few, sizeof(few) - 2, level, file, line);
    va_start(ap, fmt);
    used = log_line(few, sizeof(few) - 1, prefix, fmt, ap);
    if (used >= sizeof(few) - 1 && (many = malloc(used + 2))) {
        memcpy(many, few, prefix);
        used = log_line(many, used + 1, prefix, fmt, ap);
        text = many;
    } else if (used >= sizeof(few) - 1) {
        used = sizeof(few) - 2;
    }
    va_end(ap);
    if (used == 0 || text[used - 1] != '\n') /* as glog: never a blank line */
        text[used++] = '\n';
    text[used] = '\0';
    make_harmless(text + prefix, used - prefix);

    pthread_mutex_lock(&log_lock);
    if (log_copy)
        fwrite(text, 1, used, log_copy);
    if (shown && log_listener)
        log_listener(level, text, log_listener_arg);
    if (shown && log_sink)
        log_sink(level, text, log_sink_arg);
    else if (shown)
        fwrite(text, 1, used, stderr);
    pthread_mutex_unlock(&log_lock);
    free(many);
}
