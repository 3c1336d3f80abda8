/* bound.c - as fast as records can be had: read() and libjpeg-turbo's decoder,
 * or for raw pixels the one pass that turns bytes into floats.
 *
 * Each thread has a part of the flat file for itself and shares nothing.  An
 * image is decoded and left there, its pixels unused.  Raw bytes become the
 * floats of a batch as large as a layer's, in as many buffers as it has: with
 * less memory they would stay in the cache, where no net finds them. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#ifdef CT_HAVE_JPEG
#include <turbojpeg.h>
#endif

#include "base/mem.h"

struct reader {
    const struct bench_files *files;
    int            first, end; /* records [first, end) are this thread's */
    int            fd;
    double         until;
    unsigned char *bytes, *pixels;
    float         *floats;  /* `room` records */
    int64_t        room, n_done;
    void          *jpeg;
    bool           failed;
    pthread_t      thread;
};

static bool decode(struct reader *r, size_t n)
{
#ifdef CT_HAVE_JPEG
    const int side = r->files->set->side;

    return tjDecompress2(r->jpeg, r->bytes, n, r->pixels, side, 0, side,
                         TJPF_BGR, 0) == 0;
#else
    (void)r, (void)n;
    return false;
#endif
}

/* The corner of the picture, so that nothing is computed but the floats. */
static void to_floats(const struct reader *r, float *restrict out)
{
    const struct bench_set *s = r->files->set;
    const int crop            = s->crop ? s->crop : s->side;

    for (int c = 0; c < 3; c++)
        for (int y = 0; y < crop; y++) {
            const unsigned char *restrict x =
                r->bytes + (c * s->side + y) * s->side;

            for (int i = 0; i < crop; i++)
                *out++ = (float)x[i];
        }
}

static bool read_one(struct reader *r, int i)
{
    const struct bench_set *s = r->files->set;
    const size_t *at = r->files->at;
    size_t n         = at[i + 1] - at[i];
    int64_t each     = 3ll * (s->crop ? s->crop : s->side) *
                   (s->crop ? s->crop : s->side);

    if (i == r->first && lseek(r->fd, (off_t)at[i], SEEK_SET) < 0)
        return false;
    if (read(r->fd, r->bytes, n) != (ssize_t)n)
        return false;
    if (s->jpeg)
        return decode(r, n);
    to_floats(r, r->floats + r->n_done % r->room * each);
    return true;
}

static void *reader_run(void *arg)
{
    struct reader *r = arg;

    while (bench_now().wall < r->until)
        for (int i = r->first; i < r->end; i++) {
            if (!read_one(r, i)) {
                r->failed = true;
                return NULL;
            }
            r->n_done++;
            if (i % 64 == 63 && bench_now().wall >= r->until)
                break;
        }
    return NULL;
}

static enum ct_status reader_init(struct reader *r,
                                  const struct bench_files *f, int number,
                                  int n_threads)
{
    const struct bench_set *s = f->set;
    size_t whole = 3 * (size_t)s->side * (size_t)s->side;
    size_t crop  = s->crop ? (size_t)s->crop : (size_t)s->side;

    r->files = f;
    r->first = s->n_records * number / n_threads;
    r->end   = s->n_records * (number + 1) / n_threads;
    r->room  = (BENCH_PREFETCH + 1) * s->batch / n_threads;
    r->fd    = open(f->flat.s, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return ct_fail(CT_EIO, "%s: %s", f->flat.s, strerror(errno));
    CT_TRY(ct_alloc(2 * whole, 1, "bytes", &r->bytes));
    CT_TRY(ct_alloc(whole, 1, "pixels", &r->pixels));
    if (!s->jpeg) {
        size_t n = (size_t)r->room * 3 * crop * crop;

        CT_TRY(ct_alloc(n, sizeof(*r->floats), "floats", &r->floats));
        memset(r->floats, 1, n * sizeof(*r->floats));
        return CT_OK;
    }
#ifdef CT_HAVE_JPEG
    r->jpeg = tjInitDecompress();
#endif
    return r->jpeg ? CT_OK : ct_fail(CT_ENOTSUP, "no JPEG decoder");
}

static void reader_fini(struct reader *r)
{
    if (r->fd > 0)
        close(r->fd);
    ct_free(r->bytes);
    ct_free(r->pixels);
    ct_free(r->floats);
#ifdef CT_HAVE_JPEG
    if (r->jpeg)
        tjDestroy(r->jpeg);
#endif
}

static enum ct_status bound_run(struct reader *r, int n_threads,
                                double seconds, bool by_cpu, double *rate)
{
    struct bench_time start = bench_now(), end;
    int n_started = 0;
    int64_t n     = 0;
    bool failed   = false;

    for (; n_started < n_threads; n_started++) {
        r[n_started].until = start.wall + seconds;
        if (pthread_create(&r[n_started].thread, NULL, reader_run,
                           &r[n_started]) != 0)
            break;
    }
    for (int i = 0; i < n_started; i++) {
        pthread_join(r[i].thread, NULL);
        failed |= r[i].failed;
        n += r[i].n_done;
    }
    if (failed || n_started < n_threads)
        return ct_fail(CT_EIO, "%s cannot be read", r->files->flat.s);
    end   = bench_now();
    *rate = by_cpu ? (double)n * n_threads / (end.cpu - start.cpu)
                   : (double)n / (end.wall - start.wall);
    return CT_OK;
}

enum ct_status bench_bound(const struct bench_files *f, int n_threads,
                           double seconds, bool by_cpu, double *rate)
{
    struct reader r[BENCH_MOST_THREADS] = { 0 };
    enum ct_status st = CT_OK;

    for (int i = 0; i < n_threads && st == CT_OK; i++)
        st = reader_init(&r[i], f, i, n_threads);
    if (st == CT_OK)
        st = bound_run(r, n_threads, seconds, by_cpu, rate);
    for (int i = 0; i < n_threads; i++)
        reader_fini(&r[i]);
    return st;
}
