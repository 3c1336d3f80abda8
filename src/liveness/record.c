/* record.c - writes the last collectives of a rank to a file. */
#include "liveness/record.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cortado/log.h"

/* Held while a record is written: threads of this process may write the same
 * file. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static void record_path(const struct live_page *page, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s/rank-%d.txt", page->folder, page->rank);
}

/* Makes the folder and its parents.  After CT_EIO errno has the cause. */
static enum ct_status make_folder(const char *folder)
{
    char path[512];
    int why = 0; /* errno of the first parent that could not be made */

    if (snprintf(path, sizeof(path), "%s", folder) >= (int)sizeof(path))
        return ct_fail(CT_EINVAL, "%s: this name is too long", folder);
    for (char *s = path + 1; *s; s++)
        if (*s == '/') {
            *s = '\0';
            if (mkdir(path, 0777) != 0 && errno != EEXIST && !why)
                why = errno;
            *s = '/';
        }
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return CT_OK;
    why = why ? why : errno;
    (void)ct_fail(CT_EIO, "cannot make the folder %s: %s", folder,
                  strerror(why));
    errno = why;
    return CT_EIO;
}

enum ct_status live_record_keep(struct live_page *page, const char *folder)
{
    char path[600], whole[PATH_MAX];

    CT_TRY(make_folder(folder));
    if (!realpath(folder, whole) || strlen(whole) >= sizeof(page->folder))
        return ct_fail(CT_EIO, "%s: no folder for records", folder);
    memcpy(page->folder, whole, strlen(whole) + 1);
    page->pid = (int)getpid();
    if (gethostname(page->host, sizeof(page->host) - 1) != 0)
        snprintf(page->host, sizeof(page->host), "unknown");
    record_path(page, path, sizeof(path));
    if (page->view == 0)
        (void)unlink(path); /* it belongs to an earlier job */
    atomic_store(&page->keeps, true);
    return CT_OK;
}

void live_records_forget(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *d;

    while (dir && (d = readdir(dir)))
        if (strncmp(d->d_name, "rank-", 5) == 0)
            (void)unlinkat(dirfd(dir), d->d_name, 0);
    if (dir)
        closedir(dir);
}

/* Adds a line; control characters of the text become blanks. */
static void add_line(struct ct_text *t, const char *key, const char *text)
{
    ct_text_addf(t, "%s\t", key);
    for (; *text; text++)
        ct_text_addf(t, "%c", (unsigned char)*text < 0x20 ? ' ' : *text);
    ct_text_add(t, "\n");
}

static double ago(uint64_t then, uint64_t now)
{
    return now > then ? 1e-6 * (double)(now - then) : 0;
}

static void add_entry(struct ct_text *t, const struct ct_logbook_entry *e,
                      uint64_t now)
{
    static const char *const states[] = { "begun", "done", "failed" };
    char label[sizeof(e->label)];

    snprintf(label, sizeof(label), "%s", e->label[0] ? e->label : "-");
    for (char *s = label; *s; s++)
        *s = (unsigned char)*s < 0x20 ? ' ' : *s;
    ct_text_addf(t, "entry\t%" PRIx64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%s\t%s"
                 "\t%.6f\t%.6f\n", e->channel, e->sequence, e->what, e->bytes,
                 label, states[(unsigned)e->state % 3], ago(e->begun, now),
                 e->ended ? ago(e->begun, e->ended) : ago(e->begun, now));
}

static void add_entries(struct ct_text *t, const struct ct_logbook *b,
                        uint64_t now)
{
    const uint64_t n    = atomic_load(&b->n);
    const uint64_t from = n > CT_LOGBOOK_ENTRIES ? n - CT_LOGBOOK_ENTRIES : 0;

    for (uint64_t i = from + 1; i <= n; i++) {
        struct ct_logbook_entry e;

        if (ct_logbook_read(b, i, &e))
            add_entry(t, &e, now);
    }
}

static void add_facts(struct ct_text *t, const struct live_page *page,
                      const char *why, uint64_t now)
{
    const struct ct_pulse_view v = ct_pulse_view(&page->pulse);
    struct timespec clock;
    char where[128];

    clock_gettime(CLOCK_REALTIME, &clock);
    ct_text_addf(t, "cortado autopsy\t1\nrank\t%d\nranks\t%d\npid\t%d\n",
                 page->rank, page->size, page->pid);
    if (page->view > 0)
        ct_text_addf(t, "view\t%u\n", (unsigned)page->view);
    add_line(t, "host", page->host);
    add_line(t, "why", why[0] ? why : "it is not known why");
    ct_text_addf(t, "time\t%lld.%03ld\n", (long long)clock.tv_sec,
                 clock.tv_nsec / 1000000);
    add_line(t, "where", ct_pulse_text(&v, where, sizeof(where)));
    ct_text_addf(t, "moved_ago\t%.3f\n", ago(v.changed, now));
    ct_text_addf(t, "beat_ago\t%.3f\n", ago(v.beat, now));
    if (v.waiting)
        ct_text_addf(t, "waiting\t%.3f\nwaiting_for\t%d\n",
                     ago(v.waiting, now), v.peer);
}

void live_record_write(const struct live_page *page, const char *why)
{
    const uint64_t now  = ct_pulse_now();
    struct ct_text text = { 0 };
    char path[600];

    if (!atomic_load(&page->keeps))
        return;
    add_facts(&text, page, why, now);
    add_entries(&text, &page->book, now);
    record_path(page, path, sizeof(path));
    pthread_mutex_lock(&writing);
    if (text.failed || ct_file_write(path, text.s, text.n_bytes) != CT_OK)
        CT_WARN("no record for an autopsy: %s", ct_last_error());
    pthread_mutex_unlock(&writing);
    ct_text_fini(&text);
}
