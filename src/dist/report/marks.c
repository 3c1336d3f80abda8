/* marks.c - keeps the latest events among the ranks. */
#include "dist/report/marks.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void dist_marks_init(struct dist_marks *m)
{
    pthread_mutex_init(&m->lock, NULL);
}

void dist_marks_fini(struct dist_marks *m)
{
    pthread_mutex_destroy(&m->lock);
}

void dist_marks_add(struct dist_marks *m, enum ct_mark_kind kind, int rank,
                    int iter, const char *fmt, ...)
{
    struct ct_mark mark = { .kind = kind, .rank = rank, .iter = iter };
    struct timespec now;
    va_list ap;

    clock_gettime(CLOCK_REALTIME, &now);
    mark.time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    va_start(ap, fmt);
    vsnprintf(mark.text, sizeof(mark.text), fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&m->lock);
    m->ring[m->n++ % DIST_MARKS] = mark;
    pthread_mutex_unlock(&m->lock);
}

bool dist_marks_next(struct dist_marks *m, uint64_t *seen,
                     struct ct_mark *out)
{
    bool found;

    pthread_mutex_lock(&m->lock);
    if (m->n > *seen + DIST_MARKS)
        *seen = m->n - DIST_MARKS;
    found = *seen < m->n;
    if (found)
        *out = m->ring[(*seen)++ % DIST_MARKS];
    pthread_mutex_unlock(&m->lock);
    return found;
}
