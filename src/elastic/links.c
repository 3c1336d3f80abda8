/* links.c - under which addresses this machine is reached, now and then. */
#include "elastic/links.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "elastic/card.h"

enum { PAUSE_MS = 300, END_MS = 200 };
static const double touch_seconds = 4;

struct links {
    pthread_mutex_t lock;
    pthread_cond_t  change;
    links_fn        found;
    void           *arg;
    char           *file;  /* owned; NULL: none */
    bool            stop;  /* nobody wants to hear of them any more */
    bool            ended; /* the thread has, or will free all this itself */
};

/* With the lock held: so long, or until a change. */
static int await_change(struct links *l, long ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&l->change, &l->lock, &t);
}

static void links_free(struct links *l)
{
    pthread_cond_destroy(&l->change);
    pthread_mutex_destroy(&l->lock);
    ct_free(l->file);
    ct_free(l);
}

/* It may be gone by now, and is not made anew. */
static void touch(const struct links *l, double *next)
{
    if (!l->file || ct_now() < *next)
        return;
    *next = ct_now() + touch_seconds;
    (void)!utimensat(AT_FDCWD, l->file, NULL, 0);
}

static void *links_main(void *arg)
{
    struct links *l = arg;
    struct ct_ip address[CARD_ADDRESSES];
    double next_touch = 0;
    bool is_ours, touches = false;

    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        int n;

        pthread_mutex_unlock(&l->lock);
        n = ct_list_addresses(address, CARD_ADDRESSES);
        if (touches)
            touch(l, &next_touch);
        pthread_mutex_lock(&l->lock);
        if (!l->stop)
            touches = l->found(l->arg, address, n);
        while (!l->stop && await_change(l, PAUSE_MS) == 0)
            ;
    }
    is_ours  = l->ended;
    l->ended = true;
    pthread_cond_signal(&l->change);
    pthread_mutex_unlock(&l->lock);
    if (is_ours)
        links_free(l);
    return NULL;
}

static void links_init(struct links *l)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->change, &attr);
    pthread_condattr_destroy(&attr);
}

enum ct_status links_start(links_fn found, void *arg, const char *file,
                           struct links **out)
{
    struct links *l = NULL;
    pthread_attr_t alone;
    pthread_t thread;
    int error;

    CT_TRY(ct_alloc(1, sizeof(*l), "links", &l));
    l->found = found;
    l->arg   = arg;
    l->file  = file ? ct_strdup(file, "a file of addresses") : NULL;
    links_init(l);
    pthread_attr_init(&alone);
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &alone, links_main, l);
    pthread_attr_destroy(&alone);
    if (error != 0) {
        links_free(l);
        return ct_fail(CT_EIO, "a thread: %s", strerror(error));
    }
    *out = l;
    return CT_OK;
}

void links_stop(struct links *l)
{
    bool is_ours;

    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->change);
    while (!l->ended && await_change(l, END_MS) != ETIMEDOUT)
        ;
    is_ours  = l->ended;
    l->ended = true;
    pthread_mutex_unlock(&l->lock);
    if (is_ours)
        links_free(l);
}
