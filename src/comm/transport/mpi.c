/* mpi.c - ranks as processes that a launcher started, over MPI-3.
 *
 * One thread calls MPI; another one may call it to end the job.  A lock
 * separates them, so MPI_THREAD_SERIALIZED is enough.  All messages use a
 * duplicate of MPI_COMM_WORLD, whose errors are returned.
 *
 *     struct ct_request: word 0 MPI_Request, 1 bytes, 2 what, 3 peer       */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "comm/transport/transports.h"
#include "cortado/log.h"

enum what { SEND, RECEIVE, SUM };

static const double cancel_seconds = 0.1, leave_seconds = 20;

enum { ABORT_SECONDS = 2 }; /* how long an abort waits for the comm thread */

struct mpi {
    struct ct_transport base;
    MPI_Comm            comm; /* owned */
    bool                started; /* this transport called MPI_Init and calls
                                  * MPI_Finalize */
    pthread_mutex_t     lock;    /* held while MPI is called */
    atomic_bool         is_over;
};

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "it fits a word");

/* Fails with the library's text for an error code. */
static enum ct_status mpi_fail(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    MPI_Error_string(code, text, &length);
    for (char *p = text; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return ct_fail(CT_ECOMM, "%.*s: %s", (int)strcspn(call, "("), call, text);
}

#define CT_MPI(call)                                                         \
    do {                                                                     \
        int ct_mpi_code = (call);                                            \
        if (ct_mpi_code != MPI_SUCCESS)                                      \
            return mpi_fail(ct_mpi_code, #call);                             \
    } while (0)

/* Like CT_MPI, with the lock, because another thread may end the job. */
#define CT_MPI_LOCKED(m, call)                                               \
    do {                                                                     \
        enum ct_status ct_mpi_st = CT_OK;                                    \
        int ct_mpi_code;                                                     \
        pthread_mutex_lock(&(m)->lock);                                      \
        ct_mpi_code = (call);                                                \
        if (ct_mpi_code != MPI_SUCCESS)                                      \
            ct_mpi_st = mpi_fail(ct_mpi_code, #call);                        \
        pthread_mutex_unlock(&(m)->lock);                                    \
        CT_TRY(ct_mpi_st);                                                   \
    } while (0)

static struct mpi *mpi_of(struct ct_transport *t)
{
    return (struct mpi *)t;
}

static void request_set(struct ct_request *out, MPI_Request r, size_t bytes,
                        enum what what, int peer)
{
    memset(out, 0, sizeof(*out));
    memcpy(&out->word[0], &r, sizeof(r));
    out->word[1] = bytes;
    out->word[2] = what;
    out->word[3] = (uint64_t)peer;
}

static enum ct_status mpi_check(const struct ct_transport *t, int peer,
                                size_t bytes)
{
    if (peer < 0 || peer >= t->size || peer == t->rank)
        return ct_fail(CT_EINVAL, "rank %d of %d has no peer %d", t->rank,
                       t->size, peer);
    if (bytes > INT_MAX)
        return ct_fail(CT_ENOTSUP, "a message of %zu bytes, and MPI takes %d: "
                       "cut it into segments", bytes, INT_MAX);
    return ct_transport_check(t);
}

static enum ct_status mpi_send(struct ct_transport *t, int to, int tag,
                               const void *data, size_t bytes,
                               struct ct_request *out)
{
    struct mpi *m = mpi_of(t);
    MPI_Request r;

    CT_TRY(mpi_check(t, to, bytes));
    CT_MPI_LOCKED(m, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, m->comm,
                               &r));
    request_set(out, r, bytes, SEND, to);
    return CT_OK;
}

static enum ct_status mpi_receive(struct ct_transport *t, int from, int tag,
                                  void *data, size_t bytes,
                                  struct ct_request *out)
{
    struct mpi *m = mpi_of(t);
    MPI_Request r;

    CT_TRY(mpi_check(t, from, bytes));
    CT_MPI_LOCKED(m, MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, m->comm,
                               &r));
    request_set(out, r, bytes, RECEIVE, from);
    return CT_OK;
}

static enum ct_status mpi_sum(struct ct_transport *t, float *x, int64_t n,
                              struct ct_request *out)
{
    struct mpi *m = mpi_of(t);
    MPI_Request r;

    if (n > INT_MAX)
        return ct_fail(CT_ENOTSUP, "MPI adds %d floats at once, not %lld",
                       INT_MAX, (long long)n);
    CT_MPI_LOCKED(m, MPI_Iallreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT,
                                    MPI_SUM, m->comm, &r));
    request_set(out, r, (size_t)n * sizeof(*x), SUM, -1);
    return CT_OK;
}

static enum ct_status mpi_test(struct ct_transport *t, struct ct_request *q,
                               bool *done)
{
    struct mpi *m = mpi_of(t);
    MPI_Request r;
    MPI_Status status;
    int flag = 0, bytes;

    CT_TRY(ct_transport_check(t));
    memcpy(&r, &q->word[0], sizeof(r));
    CT_MPI_LOCKED(m, MPI_Test(&r, &flag, &status));
    memcpy(&q->word[0], &r, sizeof(r));
    *done = flag;
    if (!flag || q->word[2] != RECEIVE)
        return CT_OK;
    CT_MPI_LOCKED(m, MPI_Get_count(&status, MPI_BYTE, &bytes));
    if ((uint64_t)bytes != q->word[1])
        return ct_fail(CT_ECOMM, "rank %d: %d bytes came from rank %d, not "
                       "%zu", t->rank, bytes, (int)q->word[3],
                       (size_t)q->word[1]);
    return CT_OK;
}

/* Tests until done, at most for `seconds`; MPI's blocking calls have no
 * timeout. */
static bool mpi_wait_briefly(struct mpi *m, MPI_Request *r, double seconds)
{
    const struct timespec nap = { 0, 200000 };
    double end = ct_now() + seconds;
    int flag, code;

    for (;;) {
        flag = 0;
        pthread_mutex_lock(&m->lock);
        code = MPI_Test(r, &flag, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&m->lock);
        if (code != MPI_SUCCESS || flag || ct_now() >= end)
            return flag;
        nanosleep(&nap, NULL);
    }
}

/* A receive can be cancelled, unless its bytes are already arriving.  A send or
 * a sum cannot be cancelled; if it does not end, its buffer must stay. */
static bool mpi_cancel(struct ct_transport *t, struct ct_request *q)
{
    struct mpi *m = mpi_of(t);
    MPI_Request r;

    memcpy(&r, &q->word[0], sizeof(r));
    if (r == MPI_REQUEST_NULL) /* a message of another size was received */
        return true;
    pthread_mutex_lock(&m->lock);
    if (q->word[2] == RECEIVE)
        MPI_Cancel(&r);
    pthread_mutex_unlock(&m->lock);
    return mpi_wait_briefly(m, &r, cancel_seconds);
}

/* Sends a line of the process management protocol to Hydra, MPICH's launcher.
 * False: the launcher is another one, or the line could not be sent. */
static bool mpi_tell_hydra(const char *line, int *fd)
{
    const char *text = getenv("PMI_FD");

    *fd = text ? (int)strtol(text, NULL, 10) : -1;
    return getenv("HYDI_CONTROL_FD") && *fd >= 0 &&
           write(*fd, line, strlen(line)) == (ssize_t)strlen(line);
}

/* If a rank ends without MPI_Finalize, Hydra assumes a crash and kills the
 * other ranks of its host.  It waits for the last line that MPI_Finalize sends,
 * so this function sends that line.  Other launchers (srun) look at exit
 * statuses. */
static void mpi_say_farewell(void)
{
    struct pollfd fd = { .events = POLLIN };
    char answer[64];

    if (!getenv("HYDI_CONTROL_FD"))
        return;
    if (!mpi_tell_hydra("cmd=finalize\n", &fd.fd) ||
        poll(&fd, 1, (int)(1000 * cancel_seconds)) != 1 ||
        read(fd.fd, answer, sizeof(answer)) < 0)
        CT_WARN("the launcher was not told that this rank ends");
}

/* MPI_Abort of MPICH 4.0 first sends all pending messages, and hangs while a
 * peer receives nothing.  So this function tells Hydra directly, which ends all
 * ranks. */
static void mpi_abort_by_hydra(int code)
{
    char line[64];
    int fd;

    snprintf(line, sizeof(line), "cmd=abort exitcode=%d\n", code);
    if (mpi_tell_hydra(line, &fd))
        sleep(ABORT_SECONDS); /* Hydra ends this process meanwhile */
}

/* With the lock held the comm thread is not inside a call of MPI and cannot
 * begin one.  If it hangs inside a call, the job is ended without the lock. */
static void mpi_abort(struct ct_transport *t, int code)
{
    struct mpi *m = mpi_of(t);
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABORT_SECONDS;
    if (pthread_mutex_timedlock(&m->lock, &until) != 0)
        CT_WARN("rank %d ends the job while its comm thread hangs in MPI",
                t->rank);
    mpi_abort_by_hydra(code);
    MPI_Abort(m->comm, code);
}

/* MPICH 4.0 over TCP hangs in MPI_Finalize in one job of four.  With MPICH this
 * function only tells the launcher that the rank ends, and MPI stays open:
 * left_open() tells the program to end with _exit().  Open MPI's launcher needs
 * MPI_Finalize.  In both cases ranks wait for each other first, because a rank
 * that is gone while others still send would end the job.  The wait is limited,
 * so that a rank whose peers have died does not hang. */
static void mpi_leave(struct mpi *m)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    MPI_Request all;
    int length, code;

    code = MPI_Ibarrier(m->comm, &all);
    if (code != MPI_SUCCESS || !mpi_wait_briefly(m, &all, leave_seconds)) {
        CT_WARN("rank %d: the others have not come to the end; leaving "
                "without them", m->base.rank);
        return;
    }
    if (!m->started) {
        MPI_Comm_free(&m->comm);
        return;
    }
    MPI_Get_library_version(version, &length);
    if (strstr(version, "MPICH") && m->base.size > 1) {
        mpi_say_farewell();
        return;
    }
    MPI_Comm_free(&m->comm);
    MPI_Finalize();
}

static bool mpi_left_open(void)
{
    int begun = 0, ended = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    return begun && !ended;
}

static void mpi_over(struct ct_transport *t)
{
    atomic_store(&mpi_of(t)->is_over, true);
}

/* If the view is over, the other ranks do not come here, and MPI stays open. */
static void mpi_destroy(struct ct_transport *t)
{
    if (!atomic_load(&mpi_of(t)->is_over))
        mpi_leave(mpi_of(t));
    pthread_mutex_destroy(&mpi_of(t)->lock);
    ct_free((void *)(uintptr_t)t->host);
    ct_free(t);
}

static const struct ct_transport_ops mpi_ops = {
    .name    = "mpi",
    .send    = mpi_send,
    .receive = mpi_receive,
    .test    = mpi_test,
    .cancel  = mpi_cancel,
    .abort   = mpi_abort,
    .destroy = mpi_destroy,
    .sum     = mpi_sum,
    .over    = mpi_over,
};

static const char *mpi_version(char *text, size_t bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    for (char *p = version; *p; p++)
        if (*p == '\t')
            *p = ' ';
    snprintf(text, bytes, "%s", version);
    return text;
}

static const char *mpi_thread_level(void)
{
    int begun = 0, level = MPI_THREAD_SINGLE;

    MPI_Initialized(&begun);
    if (!begun || MPI_Query_thread(&level) != MPI_SUCCESS)
        return "none";
    return level == MPI_THREAD_MULTIPLE     ? "multiple"
           : level == MPI_THREAD_SERIALIZED ? "serialized"
           : level == MPI_THREAD_FUNNELED   ? "funneled"
                                            : "single";
}

/* Sets options of MPI libraries, unless the user has set them.
 *
 * Open MPI sends messages above 64 KB over TCP only after an answer of the
 * receiver.  On busy hosts this takes as long as the message itself.  Our
 * receives are posted in advance, so a segment (coll/transfer.h) can be sent
 * at once.
 *
 * MPICH's UCX reads long messages from the sender's memory (cma).  If the
 * sender has died, it aborts the receiver without a message, and the survivor
 * looks like the cause.  UCX's shared memory does not do that. */
static void mpi_prepare(void)
{
    setenv("UCX_TLS", "^cma", 0);
    setenv("OMPI_MCA_btl_tcp_eager_limit", "300000", 0);
    setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", "300000", 0);
    setenv("OMPI_MCA_btl_tcp_max_send_size", "400000", 0);
}

static enum ct_status mpi_start(bool *started)
{
    int begun, level, ended;

    CT_MPI(MPI_Initialized(&begun));
    CT_MPI(MPI_Finalized(&ended));
    if (ended)
        return ct_fail(CT_ECOMM, "MPI has ended and cannot start again in "
                       "this process");
    mpi_prepare();
    if (begun)
        CT_MPI(MPI_Query_thread(&level));
    else
        CT_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
    *started = !begun;
    if (level < MPI_THREAD_SERIALIZED)
        return ct_fail(CT_ECOMM, "this MPI gives thread level %d, and the "
                       "comm thread needs MPI_THREAD_SERIALIZED (%d)", level,
                       MPI_THREAD_SERIALIZED);
    return CT_OK;
}

/* The number of a host is its lowest rank. */
static enum ct_status mpi_hosts(const struct mpi *m, int *host)
{
    MPI_Comm shared;
    int first = m->base.rank;

    CT_MPI(MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->base.rank,
                               MPI_INFO_NULL, &shared));
    CT_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, shared));
    CT_MPI(MPI_Allgather(&first, 1, MPI_INT, host, 1, MPI_INT, m->comm));
    CT_MPI(MPI_Comm_free(&shared));
    return CT_OK;
}

static enum ct_status mpi_join(struct mpi *m)
{
    const int wanted = ct_launched_size();
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int *host;

    CT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &m->comm));
    CT_MPI(MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN));
    CT_MPI(MPI_Comm_rank(m->comm, &m->base.rank));
    CT_MPI(MPI_Comm_size(m->comm, &m->base.size));
    if (m->base.size == 1 && wanted > 1)
        return ct_fail(CT_ECOMM, "started as one of several, yet MPI knows "
                       "this process alone: start it with the launcher of %s "
                       "(for runs that are to be apart set "
                       "CORTADO_DISTRIBUTED=0)",
                       mpi_version(version, sizeof(version)));
    CT_TRY(ct_alloc((size_t)m->base.size, sizeof(*host), "hosts", &host));
    m->base.host = host;
    return mpi_hosts(m, host);
}

/* The ranks of MPI_COMM_WORLD.  Starts MPI with MPI_THREAD_SERIALIZED unless it
 * runs already; destroy finalizes it only if create started it. */
static enum ct_status mpi_create(struct ct_transport **out)
{
    bool started = false;
    struct mpi *m;
    enum ct_status st;

    CT_TRY(mpi_start(&started));
    CT_TRY(ct_alloc(1, sizeof(*m), "transport", &m));
    m->base.ops  = &mpi_ops;
    m->base.type = &ct_transport_mpi;
    m->started   = started;
    pthread_mutex_init(&m->lock, NULL);
    atomic_init(&m->is_over, false);
    m->base.is_over = &m->is_over;
    st              = mpi_join(m);
    if (st != CT_OK) {
        pthread_mutex_destroy(&m->lock);
        ct_free((void *)(uintptr_t)m->base.host);
        ct_free(m);
        return st;
    }
    *out = &m->base;
    return CT_OK;
}

/* Only Open MPI can tell this about itself. */
static bool mpi_takes_gpu_memory(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

const struct ct_transport_type ct_transport_mpi = {
    .name             = "mpi",
    .about            = "processes of an MPI job",
    .create           = mpi_create,
    .launched         = ct_launched,
    .version          = mpi_version,
    .thread_level     = mpi_thread_level,
    .takes_gpu_memory = mpi_takes_gpu_memory,
    .left_open        = mpi_left_open,
};
