/* launcher.c - the process that started the ranks of this host. */
#include "liveness/launcher.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cortado/log.h"

enum {
    MOST_BETWEEN = 8,    /* most ancestors between a rank and its launcher */
    TURNS        = 26,   /* longest wait for the launcher's end, in s */
    PATIENCE     = 10,   /* s with a child that is not collected */
    ABORT_TURNS  = 20,   /* s after an abort */
    NOTICE       = 3000, /* ms between SIGTERM and SIGKILL */
    MOST_FILES   = 4096
};

struct process {
    pid_t parent;
    char  state, name[32];
};

static bool look_at(pid_t pid, struct process *p)
{
    char path[32];
    FILE *f;
    int n;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    n = fscanf(f, "%*d (%31[^)]) %c %d", p->name, &p->state, &p->parent);
    fclose(f);
    return n == 3;
}

static bool is_launcher(const char *name)
{
    static const char *const known[] = { "mpirun", "mpiexec",  "orterun",
                                         "orted",  "prterun",  "prted",
                                         "hydra_pmi_proxy" };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

struct live_launcher live_launcher_of(pid_t pid)
{
    struct live_launcher l = { 0, -1 };
    struct process p;

    for (int i = 0; i < MOST_BETWEEN && look_at(pid, &p); i++) {
        if (i > 0 && is_launcher(p.name)) {
            l.fd  = (int)syscall(SYS_pidfd_open, pid, 0);
            l.pid = l.fd >= 0 ? pid : 0;
            break;
        }
        pid = p.parent;
    }
    return l;
}

/* A child of `parent` that has ended and is not collected; 0 if a child is
 * alive, because then the launcher may have reasons to wait. */
static pid_t uncollected(pid_t parent)
{
    DIR *all = opendir("/proc");
    pid_t found = 0;
    bool lives  = false;
    struct dirent *e;

    while (all && !lives && (e = readdir(all)) != NULL) {
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        struct process p;

        if (!isdigit((unsigned char)e->d_name[0]) || !look_at(pid, &p) ||
            p.parent != parent)
            continue;
        lives = p.state != 'Z';
        found = pid;
    }
    if (all)
        closedir(all);
    return lives ? 0 : found;
}

/* Writes to the launcher's own stderr, because output of this process would go
 * through the launcher. */
static void speak_for(pid_t launcher, int seconds)
{
    char path[48];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)launcher,
             STDERR_FILENO);
    fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    dup2(fd, STDERR_FILENO);
    CT_ERROR("the launcher (pid %d) has not taken notice of ranks that ended "
             "%d s ago, and is ended, too", (int)launcher, seconds);
    close(fd);
}

static bool ends_within(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, ms) != 0;
}

void live_launcher_see_off(const struct live_launcher *l, bool aborted)
{
    const int fd   = STDIN_FILENO; /* so that all files above can be closed */
    const int most = aborted ? ABORT_TURNS : PATIENCE;
    pid_t child    = 0;
    int n_turns    = 0;

    if (l->pid <= 0 || dup2(l->fd, fd) != fd)
        return;
    for (int i = fd + 1; i < MOST_FILES; i++)
        close(i);
    for (int i = 0; i < TURNS && n_turns < most; i++) {
        const pid_t before = child;

        if (ends_within(fd, 1000))
            return;
        child   = uncollected(l->pid);
        n_turns = aborted || (child && child == before) ? n_turns + 1 : 0;
    }
    if (n_turns < most)
        return;
    speak_for(l->pid, most);
    syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0);
    if (!ends_within(fd, NOTICE))
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}
