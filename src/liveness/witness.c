/* witness.c - a process beside a rank that reports how the rank ended. */
#include "liveness/witness.h"

#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comm/transport/transports.h"
#include "cortado/log.h"
#include "liveness/record.h"
#include "liveness/launcher.h"
#include "liveness/pulse_page.h"
#include "liveness/watch.h"

/* The socket to the witness of this process, or -1, and the pid of this
 * process.  Static, because a signal handler needs them. */
static atomic_int witness = -1, witness_of;

/* Words of the rank to its witness; a number from 0 is the file of its pulse.
 * ENDED: the launcher ends the rank.  ABORTS: the rank ends the job. */
enum { GOODBYE = -1, ENDED = -2, ABORTS = -3 };

enum { ABORT_MS = 10000 }; /* how long the rank may take to end the job */

/* Tenths of a second that a launcher gets to read the last line. */
enum { MOST_MOMENTS = 50 };

/* Signals of a launcher or a terminal are meant for the rank.  The witness ends
 * after its parent. */
static void ignore_signals(void)
{
    static const int number[] = { SIGINT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2,
                                  SIGPIPE };
    sigset_t none;

    for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++)
        signal(number[i], SIG_IGN);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* Changes the name and the command line of the witness to ct_witness, so that a
 * search for ranks by name does not find it.  The kernel reads the command line
 * from memory of the process. */
static void change_name(void)
{
    static const char name[] = "ct_witness";
    unsigned long first = 0, end = 0;
    FILE *f = fopen("/proc/self/stat", "r");

    prctl(PR_SET_NAME, name, 0, 0, 0);
    if (!f)
        return;
    /* Words 48 and 49 are the addresses; the name ends word 2. */
    if (fscanf(f, "%*[^)])") == 0)
        for (int word = 3; word < 48; word++)
            if (fscanf(f, "%*s") != 0)
                break;
    if (fscanf(f, "%lu %lu", &first, &end) == 2 && end - first > sizeof(name)) {
        memset((void *)first, 0, end - first);
        memcpy((void *)first, name, sizeof(name));
    }
    fclose(f);
}

static void tell(pid_t parent, const struct ct_pulse *pulse)
{
    struct ct_pulse_view v = { 0 };
    char host[64] = "", where[128];

    if (pulse)
        v = ct_pulse_view(pulse);
    if (v.phase == CT_PULSE_LEAVING)
        return;
    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "unknown");
    CT_ERROR("rank %d (pid %d on %s) has died in %s", ct_launched_rank(),
             (int)parent, host, ct_pulse_text(&v, where, sizeof(where)));
}

/* Whether nothing is in flight to or from the launcher; reads what has
 * arrived. */
static bool is_quiet(int fd)
{
    char answer[256];
    int unread = 0;
    bool came  = false;

    while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
        came = true;
    return !came && (ioctl(fd, SIOCOUTQ, &unread) != 0 || unread == 0);
}

/* Keeps the rank's connection to the launcher open until the launcher has
 * forwarded the line of the witness.  MPICH's Hydra crashes, and loses the
 * line, if the connection ends between a question and its answer, which can
 * happen if a rank dies in MPI_Init. */
static void leave_launcher(void)
{
    const struct timespec moment = { 0, 100000000 };
    const char *text = getenv("PMI_FD");
    const int fd     = text ? (int)strtol(text, NULL, 10) : -1;
    int n_quiet      = 0;

    for (int i = 0; i < MOST_MOMENTS && n_quiet < 2; i++) {
        nanosleep(&moment, NULL);
        n_quiet = fd < 0 || is_quiet(fd) ? n_quiet + 1 : 0;
    }
}

/* Waits for a word or for the end of the parent; false: the end.  The end of
 * the socket would not tell, because other children of the parent may have
 * it. */
static bool hear_word(int from, int parent_fd, int32_t *word)
{
    struct pollfd fd[] = { { .fd = from, .events = POLLIN },
                           { .fd = parent_fd, .events = POLLIN } };

    while (poll(fd, 2, -1) < 0)
        continue;
    return fd[0].revents &&
           recv(from, word, sizeof(*word), MSG_DONTWAIT) ==
               (ssize_t)sizeof(*word);
}

/* Leaves the rank's process group, which the launcher ends, and waits for the
 * end of the rank. */
static void await_abort(int parent_fd)
{
    struct pollfd p = { .fd = parent_fd, .events = POLLIN };

    (void)!setsid();
    (void)poll(&p, 1, ABORT_MS);
}

static void watch_parent(int from, pid_t parent)
{
    const struct live_launcher launcher = live_launcher_of(parent);
    const struct live_page *page        = NULL;
    const int parent_fd = (int)syscall(SYS_pidfd_open, parent, 0);
    int32_t word        = 0;

    change_name();
    ignore_signals();
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (word != ENDED && word != ABORTS &&
           hear_word(from, parent_fd, &word)) {
        if (word == GOODBYE)
            return;
        if (word >= 0)
            page = live_page_map(parent, word);
    }
    if (word == ABORTS) {
        await_abort(parent_fd);
    } else if (word != ENDED) {
        tell(parent, page ? &page->pulse : NULL);
        if (page)
            live_record_write(page, "this rank has died");
        leave_launcher();
    }
    live_launcher_see_off(&launcher, word == ABORTS);
}

/* Can be called from signal handlers. */
static bool send_word(int32_t word)
{
    const int to = atomic_load(&witness);

    return to < 0 || atomic_load(&witness_of) != getpid() ||
           send(to, &word, sizeof(word), MSG_NOSIGNAL) > 0;
}

/* SIGTERM: the rank is ended from outside, which is not reported as a death. */
static void on_term(int number)
{
    (void)send_word(ENDED);
    signal(number, SIG_DFL);
    raise(number);
}

static void handle_term(void)
{
    struct sigaction now = { 0 }, then = { .sa_handler = on_term };

    sigemptyset(&then.sa_mask);
    if (sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
        sigaction(SIGTERM, &then, NULL) != 0)
        CT_WARN("an end by SIGTERM will look like a death");
}

void live_witness_start(void)
{
    const pid_t parent = getpid();
    int fd[2];
    pid_t pid;

    if (atomic_load(&witness) >= 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(fd[1]);
        watch_parent(fd[0], parent);
        _exit(0);
    }
    close(fd[0]);
    if (pid < 0) {
        close(fd[1]);
        return;
    }
    atomic_store(&witness_of, parent);
    atomic_store(&witness, fd[1]);
    handle_term();
}

void live_witness_introduce(struct live_watch *w)
{
    const int fd = atomic_load(&witness) >= 0 ? live_watch_show(w) : -1;

    if (fd >= 0 && !send_word(fd))
        CT_WARN("this rank's witness is gone");
}

static void take_leave(int32_t word)
{
    int to;

    (void)send_word(word);
    to = atomic_exchange(&witness, -1);
    if (to >= 0)
        close(to);
}

void live_witness_dismiss(void)
{
    take_leave(GOODBYE);
}

void live_witness_see_abort(void)
{
    take_leave(ABORTS);
}
