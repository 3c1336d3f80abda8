/* test_snapshot.c - snapshots on bad disks, in moved folders, half gone. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cortado/log.h"
#include "solver/solver_inner.h"
#include "solver/solver_test.h"
#include "solver/state.h"
#include "testing/files.h"

#ifdef CT_HAVE_HDF5
#include "data/hdf5_inner.h"
#endif

static const char *const words =
    ONE_WEIGHT "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.5 "
               "random_seed: 3 ";

static struct ct_solver *solver_in(const char *folder, const char *more)
{
    return solver_of(test_format("%s snapshot_prefix: '%s/s' %s", words,
                                 folder, more));
}

static struct ct_solver *solver_with(const char *more)
{
    return solver_in(test_folder(), more);
}

static const char *state_of(int iter, const char *h5)
{
    return test_path(test_format("s_iter_%d.solverstate%s", iter, h5));
}

static const char *model_of(int iter, const char *h5)
{
    return test_path(test_format("s_iter_%d.caffemodel%s", iter, h5));
}

static void flip(const char *path, struct ct_bytes whole, size_t bit)
{
    char *bytes = ct_malloc(whole.n, "flipped");

    memcpy(bytes, whole.ptr, whole.n);
    bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    test_write(path, bytes, whole.n);
    ct_free(bytes);
}

/* A restore fails for any bit of `path` that is flipped; every seventh is, so
 * that each place of a byte has its turn. */
static void flips_are_found(struct ct_solver *s, const char *path,
                            const char *state)
{
    const struct ct_bytes whole = test_read(path);

    for (size_t bit = 0; bit < 8 * whole.n; bit += 7) {
        flip(path, whole, bit);
        if (ct_solver_restore(s, state) == CT_OK)
            FAIL("bit %zu of %s is flipped and nobody says so", bit, path);
    }
    test_write(path, whole.ptr, whole.n);
    ASSERT_OK(ct_solver_restore(s, state));
}

TEST(snapshot, a_flipped_bit_of_a_snapshot_is_found)
{
    struct ct_solver *s = solver_with("");

    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_OK(ct_solver_snapshot(s));
    ct_log_set_level(CT_LOG_ERROR);
    flips_are_found(s, state_of(2, ""), state_of(2, ""));
    flips_are_found(s, model_of(2, ""), state_of(2, ""));
    ct_log_set_level(CT_LOG_INFO);
}

/* In HDF5 some bytes mean nothing; all others are found. */
TEST(snapshot, a_flipped_bit_of_an_hdf5_snapshot_changes_nothing)
{
    struct ct_solver *s = solver_with("snapshot_format: HDF5");
    const char *state = state_of(2, ".h5"), *model = model_of(2, ".h5");
    struct ct_bytes whole;
    int n_found = 0;
    float w;

    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_OK(ct_solver_snapshot(s));
    w     = weight(s);
    whole = test_read(state);
    ct_log_set_level(CT_LOG_ERROR);
    for (size_t bit = 5; bit < 8 * whole.n; bit += 97) {
        flip(state, whole, bit);
        if (ct_solver_restore(s, state) != CT_OK) {
            n_found++;
            continue;
        }
        ASSERT_INT(2, ct_solver_iter(s));
        ASSERT_FLOAT(w, weight(s), 0);
    }
    ASSERT(n_found > 100);
    test_write(state, whole.ptr, whole.n);
    whole = test_read(model);
    flip(model, whole, 4 * whole.n);
    ASSERT_STATUS(CT_EPARSE, ct_solver_restore(s, state));
    ASSERT_HAS("s_iter_2.caffemodel.h5", ct_last_error());
    ct_log_set_level(CT_LOG_INFO);
}

TEST(snapshot, a_moved_folder_is_found)
{
    const char *from = test_path("from"), *to = test_path("to");
    struct ct_solver *s;
    char *found = NULL;

    ASSERT_INT(0, mkdir(from, 0700));
    s = solver_in(from, "");
    ASSERT_OK(ct_solver_step(s, 3));
    ASSERT_OK(ct_solver_snapshot(s));
    ASSERT_INT(0, rename(from, to));
    s = solver_in(to, "");
    ASSERT_OK(ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("to/s_iter_3.solverstate", found);
    ASSERT_OK(ct_solver_restore(s, found));
    ct_free(found);
    ASSERT_INT(3, ct_solver_iter(s));
}

/* A state that was moved away from its model goes by the recorded path. */
TEST(snapshot, a_moved_state_finds_its_model)
{
    struct ct_solver *s = solver_with("");
    const char *away    = test_path("away");

    ASSERT_OK(ct_solver_step(s, 3));
    ASSERT_OK(ct_solver_snapshot(s));
    ASSERT_INT(0, mkdir(away, 0700));
    away = test_path("away/s_iter_3.solverstate");
    ASSERT_INT(0, rename(state_of(3, ""), away));
    ASSERT_OK(ct_solver_restore(s, away));
    ASSERT_INT(0, unlink(model_of(3, "")));
    ASSERT_STATUS(CT_ENOTFOUND, ct_solver_restore(s, away));
    ASSERT_HAS("are missing", ct_last_error());
}

TEST(snapshot, a_damaged_state_does_not_hide_the_hdf5_one)
{
    struct ct_solver *s = solver_with("");
    struct ct_solver *h = solver_with("snapshot_format: HDF5");
    char *found         = NULL;

    ASSERT_OK(ct_solver_step(s, 3));
    ASSERT_OK(ct_solver_snapshot(s));
    ASSERT_OK(ct_solver_step(h, 3));
    ASSERT_OK(ct_solver_snapshot(h));
    ASSERT_INT(0, truncate(state_of(3, ""), 30));
    ASSERT_OK(ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("s_iter_3.solverstate.h5", found);
    ct_free(found);
}

/* Two ranks of which the other one is lost at the k-th message. */
static int n_messages;

static enum ct_status lose_peer(struct ct_exchange *x, void *data, size_t bytes)
{
    (void)x;
    (void)data;
    (void)bytes;
    return n_messages-- > 0 ? CT_OK : ct_fail(CT_ECOMM, "rank 1 is lost");
}

TEST(snapshot, a_search_that_a_lost_rank_ends_leaves_nothing)
{
    const struct ct_job_ops job = { .broadcast = lose_peer };
    struct ct_exchange two      = { .facts = { .size = 2 }, .job = &job };
    struct ct_solver *s         = solver_with("");
    int n                       = 0;
    enum ct_status st           = CT_ECOMM;

    ASSERT_OK(ct_solver_step(s, 3));
    ASSERT_OK(ct_solver_snapshot(s));
    while (st != CT_OK) {
        char *found = NULL;

        n_messages          = n++;
        s->options.exchange = &two;
        st                  = ct_solver_newest_snapshot(s, &found);
        s->options.exchange = NULL;
        ASSERT(st == CT_OK || (st == CT_ECOMM && !found));
        ct_free(found);
    }
    ASSERT(n > 3);
}

TEST(snapshot, a_folder_that_cannot_be_listed_is_an_error)
{
    struct ct_solver *s;
    char *found = NULL;

    test_write(test_path("file"), "", 0);
    s = solver_in(test_path("file"), "");
    ASSERT_STATUS(CT_EIO, ct_solver_newest_snapshot(s, &found));
    ASSERT_HAS("cannot look for snapshots", ct_last_error());
    s = solver_in(test_path("nothing"), "");
    ASSERT_STATUS(CT_ENOTFOUND, ct_solver_newest_snapshot(s, &found));
}

TEST(snapshot, the_newest_are_kept)
{
    struct ct_solver *s = solver_with("snapshot: 1 snapshot_keep: 2");

    /* Of another run, which went further: not ours to remove. */
    test_write(state_of(90, ""), "x", 1);
    ASSERT_OK(ct_solver_step(s, 5));
    for (int i = 1; i <= 5; i++) {
        ASSERT_INT(i > 3, ct_file_exists(state_of(i, "")));
        ASSERT_INT(i > 3, ct_file_exists(model_of(i, "")));
    }
    ASSERT(ct_file_exists(state_of(90, "")));
}

/* A file-size limit stands in for a full disk. */
static struct rlimit limit_files(rlim_t bytes)
{
    struct rlimit kept, tiny;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &kept);
    tiny          = kept;
    tiny.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &tiny);
    return kept;
}

TEST(snapshot, one_that_fails_does_not_end_training)
{
    struct ct_solver *s = solver_with("snapshot: 1");
    struct rlimit kept;

    ASSERT_OK(ct_solver_step(s, 1));
    kept = limit_files(64);
    ASSERT_OK(ct_solver_step(s, 1));
    setrlimit(RLIMIT_FSIZE, &kept);
    ASSERT_INT(2, ct_solver_iter(s));
    ASSERT(!ct_file_exists(state_of(2, "")));
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_solver_restore(s, state_of(3, "")));
    ASSERT_OK(ct_solver_restore(s, state_of(1, "")));
}

/* Whoever is asked to make room does. */
static void make_room(enum ct_log_level level, const char *line, void *kept)
{
    (void)level;
    if (strstr(line, "make room on the disk"))
        setrlimit(RLIMIT_FSIZE, kept);
}

TEST(snapshot, the_last_one_is_tried_again)
{
    struct ct_solver *s = solver_with("max_iter: 2 snapshot_retry: 60");
    struct rlimit kept  = limit_files(64);
    enum ct_status st;

    ct_log_set_level(CT_LOG_WARNING);
    ct_log_set_sink(make_room, &kept);
    st = ct_solver_solve(s);
    ct_log_set_sink(NULL, NULL);
    setrlimit(RLIMIT_FSIZE, &kept);
    ASSERT_OK(st);
    ASSERT_OK(ct_solver_restore(s, state_of(2, "")));
}

TEST(snapshot, the_last_one_says_what_to_do)
{
    struct ct_solver *s = solver_with("max_iter: 2 snapshot: 1 "
                                      "snapshot_retry: 0");
    struct rlimit kept = limit_files(64);
    enum ct_status st  = ct_solver_solve(s);

    setrlimit(RLIMIT_FSIZE, &kept);
    ASSERT_STATUS(CT_EIO, st);
    ASSERT_HAS("Make room", ct_last_error());
}

/* In the fifth iteration most of an hour passes, and the hour in the seventh.
 */
static enum ct_solver_action pass_time(void *arg)
{
    struct ct_solver *s = *(struct ct_solver **)arg;

    if (s && (ct_solver_iter(s) == 4 || ct_solver_iter(s) == 6))
        s->snapshots.time -= 1800;
    return CT_ACTION_NONE;
}

TEST(snapshot, snapshots_come_by_the_clock)
{
    const char *text = test_format("%s snapshot_prefix: '%s/s' "
                                   "snapshot_seconds: 3600", words,
                                   test_folder());
    struct ct_solver *s        = NULL;
    struct ct_solver_options o = { .device = test_device(),
                                   .action = pass_time, .arg = &s };
    Caffe__SolverParameter *p  = NULL;
    int n = 0;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_solver_create(p, &o, &s));
    test_defer(solver_test_free, s);
    ct_message_free(p);
    ASSERT_OK(ct_solver_step(s, 10));
    solver_snapshot_wait(s);
    for (int i = 1; i <= 10; i++)
        n += ct_file_exists(state_of(i, ""));
    ASSERT_INT(1, n);
    ASSERT(ct_file_exists(state_of(6, "")) || ct_file_exists(state_of(7, "")));
}

#ifdef CT_HAVE_HDF5
/* Nobody can write HDF5 from iteration 3 to 5: training goes on. */
struct slow_disk {
    struct ct_solver *solver;
    struct h5_guard   lock;
    const char       *state;
    int               written_at; /* 0: not while the disk was slow */
};

static enum ct_solver_action hold_disk(void *arg)
{
    struct slow_disk *d = arg;
    const int iter      = d->solver ? ct_solver_iter(d->solver) : 0;

    if (iter == 2)
        d->lock = ct_h5_enter();
    if (iter >= 3 && iter <= 5 && ct_file_exists(d->state))
        d->written_at = iter;
    if (iter == 5)
        ct_h5_leave(d->lock);
    return CT_ACTION_NONE;
}

TEST(snapshot, training_goes_on_while_one_is_written)
{
    const char *text = test_format("%s snapshot_prefix: '%s/s' snapshot: 3 "
                                   "snapshot_format: HDF5", words,
                                   test_folder());
    struct slow_disk d = { .state = state_of(3, ".h5") };
    struct ct_solver_options o = { .device = test_device(),
                                   .action = hold_disk, .arg = &d };
    Caffe__SolverParameter *p  = NULL;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_solver_create(p, &o, &d.solver));
    test_defer(solver_test_free, d.solver);
    ct_message_free(p);
    ASSERT_OK(ct_solver_step(d.solver, 8));
    ASSERT_INT(0, d.written_at);
    ASSERT(ct_file_exists(d.state));
    ASSERT(ct_file_exists(state_of(6, ".h5")));
}

/* The disk stands still from iteration 2 on, until training has lost its
 * patience twice: at the next snapshot and at the end. */
struct still_disk {
    struct ct_solver *solver;
    struct h5_guard   lock;
    int               n_complaints;
};

static enum ct_solver_action stop_disk(void *arg)
{
    struct still_disk *d = arg;

    if (d->solver && ct_solver_iter(d->solver) == 1)
        d->lock = ct_h5_enter();
    return CT_ACTION_NONE;
}

static void hear(enum ct_log_level level, const char *line, void *arg)
{
    struct still_disk *d = arg;

    (void)level;
    if (strstr(line, "takes very long") && ++d->n_complaints == 2)
        ct_h5_leave(d->lock);
}

TEST(snapshot, the_last_one_is_written_though_the_one_before_takes_long)
{
    const char *text = test_format("%s snapshot_prefix: '%s/s' snapshot: 2 "
                                   "max_iter: 4 snapshot_format: HDF5", words,
                                   test_folder());
    struct still_disk d = { 0 };
    struct ct_solver_options o = { .device = test_device(),
                                   .action = stop_disk, .arg = &d };
    Caffe__SolverParameter *p  = NULL;

    ASSERT_OK(ct_text_parse(&caffe__solver_parameter__descriptor, text,
                            strlen(text), "test", &p));
    ASSERT_OK(ct_solver_create(p, &o, &d.solver));
    test_defer(solver_test_free, d.solver);
    ct_message_free(p);
    d.solver->snapshots.patience = 0.05;
    ct_log_set_level(CT_LOG_WARNING);
    ct_log_set_sink(hear, &d);
    ASSERT_OK(ct_solver_solve(d.solver));
    ct_log_set_sink(NULL, NULL);
    ASSERT_INT(2, d.n_complaints);
    ASSERT(ct_file_exists(state_of(2, ".h5")));
    ASSERT(ct_file_exists(state_of(4, ".h5")));
}
#endif

/* What was written before a restore is not what comes after it. */
TEST(snapshot, after_a_restore_the_last_one_is_written_again)
{
    struct ct_solver *s = solver_with("max_iter: 4");

    ASSERT_OK(ct_solver_step(s, 2));
    ASSERT_OK(ct_solver_snapshot(s));
    ASSERT_OK(ct_solver_solve(s));
    ASSERT_INT(0, unlink(state_of(4, "")));
    ASSERT_OK(ct_solver_restore(s, state_of(2, "")));
    ASSERT_OK(ct_solver_solve(s));
    ASSERT(ct_file_exists(state_of(4, "")));
}

static void age(const char *path)
{
    const struct timeval old[2] = { { 1000, 0 }, { 1000, 0 } };

    ASSERT_INT(0, utimes(path, old));
}

TEST(snapshot, leftovers_of_dead_processes_go)
{
    const char *dead  = test_path("s_iter_3.caffemodel.tmp2147483646");
    const char *fresh = test_path("s_iter_4.caffemodel.tmp2147483646");
    const char *other = test_path("t_iter_4.caffemodel.tmp2147483646");
    const char *alive = test_path(test_format("s_iter_3.caffemodel.tmp%ld",
                                              (long)getppid()));
    const char *all[] = { dead, fresh, other, alive };

    for (int i = 0; i < 4; i++) {
        test_write(all[i], "x", 1);
        if (i != 1)
            age(all[i]);
    }
    (void)solver_with("snapshot: 1");
    for (int i = 0; i < 4; i++)
        ASSERT_INT(i > 0, ct_file_exists(all[i]));
}

static enum ct_status newest(const struct ct_solver *s, int64_t job,
                             int64_t since, char **path)
{
    const struct snapshot_origin from = { job, since };

    return solver_newest_of(s, from, path);
}

/* Snapshots of a run before have the same names. */
TEST(snapshot, what_was_written_before_a_job_is_not_its_own)
{
    const time_t now                 = time(NULL);
    const struct timeval long_ago[2] = { { now - 900, 0 }, { now - 900, 0 } };
    struct ct_solver *s              = solver_with("");
    char *path                       = NULL;

    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_solver_snapshot(s));
    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_solver_snapshot(s));
    solver_snapshot_wait(s);
    ASSERT_INT(0, utimes(state_of(2, ""), long_ago));
    ASSERT_OK(newest(s, 0, 0, &path));
    ASSERT_HAS("_iter_2.", path);
    ct_free(path);
    ASSERT_OK(newest(s, 0, now - 600, &path));
    ASSERT_HAS("_iter_1.", path);
    ct_free(path);
    ASSERT_STATUS(CT_ENOTFOUND, newest(s, 0, now + 600, &path));
}

/* As rank 0 of an elastic job writes it. */
static void give_job(int iter, const char *end, int64_t job)
{
    Caffe__SolverState *m = NULL;

    ASSERT_OK(solver_state_read(state_of(iter, end), &m));
    m->has_job = true;
    m->job     = job;
    ASSERT_OK(solver_state_write(m, state_of(iter, end)));
    ct_message_free(m);
}

/* The clock was set back after the job began, or between two jobs. */
static void ask_for_own(const char *more, const char *end)
{
    const time_t now    = time(NULL);
    struct ct_solver *s = solver_with(more);
    char *path          = NULL;

    for (int i = 1; i <= 3; i++) {
        ASSERT_OK(ct_solver_step(s, 1));
        ASSERT_OK(ct_solver_snapshot(s));
    }
    solver_snapshot_wait(s);
    give_job(1, end, 5);
    give_job(2, end, (int64_t)1 << 47);
    give_job(3, end, 7);
    age(state_of(2, end));
    ASSERT_OK(newest(s, (int64_t)1 << 47, now - 600, &path));
    ASSERT_HAS("_iter_2.", path);
    ct_free(path);
    ASSERT_OK(newest(s, 5, now + 600, &path));
    ASSERT_HAS("_iter_1.", path);
    ct_free(path);
    ASSERT_STATUS(CT_ENOTFOUND, newest(s, 6, now - 600, &path));
    ASSERT_OK(newest(s, 0, now - 600, &path));
    ASSERT_HAS("_iter_3.", path);
    ct_free(path);
}

TEST(snapshot, a_job_knows_its_own_by_their_number)
{
    ask_for_own("", "");
#ifdef CT_HAVE_HDF5
    ask_for_own("snapshot_format: HDF5", ".h5");
#endif
}

static void forget_patience(void *usual)
{
    solver_find_patience = *(double *)usual;
}

/* A search waits for a minute, until this test ends. */
static void be_patient(void)
{
    static double usual;

    usual                = solver_find_patience;
    solver_find_patience = 60;
    test_defer(forget_patience, &usual);
}

/* The other process: how many snapshots it may write, and how many it has. */
enum { MANY = 60, A_FEW = 4 };
static atomic_int n_allowed, n_written;
static atomic_bool has_ended;

static void *write_on(void *arg)
{
    struct ct_solver *s = arg;

    for (int i = 0; i < MANY; i++) {
        while (i >= atomic_load(&n_allowed))
            sched_yield();
        if (ct_solver_step(s, 1) != CT_OK || ct_solver_snapshot(s) != CT_OK)
            break;
        atomic_store(&n_written, i + 1);
    }
    atomic_store(&has_ended, true);
    return NULL;
}

/* Who was rank 0 of an elastic job still writes snapshots, and keeps one, while
 * the next ranks go on from the newest.  It ends what it began, and does not
 * write one after the other: so few that each is looked for anew. */
TEST(snapshot, one_is_found_while_another_process_replaces_them)
{
    struct ct_solver *before = solver_with("snapshot_keep: 1");
    struct ct_solver *s      = solver_with("");
    enum ct_status st        = CT_OK;
    char why[512]            = "";
    pthread_t thread;

    be_patient();
    ASSERT_OK(ct_solver_step(before, 1));
    ASSERT_OK(ct_solver_snapshot(before));
    atomic_store(&n_written, 0);
    atomic_store(&n_allowed, 0);
    atomic_store(&has_ended, false);
    pthread_create(&thread, NULL, write_on, before);
    while (!atomic_load(&has_ended) && st == CT_OK) {
        atomic_store(&n_allowed, atomic_load(&n_written) + A_FEW);
        st = solver_resume_newest(s, solver_own_origin(NULL, 0));
    }
    if (st != CT_OK)
        snprintf(why, sizeof(why), "%s", ct_last_error());
    atomic_store(&n_allowed, MANY);
    pthread_join(thread, NULL);
    if (st != CT_OK)
        FAIL("%s", why);
    ASSERT_INT(MANY, atomic_load(&n_written));
    ASSERT_OK(solver_resume_newest(s, solver_own_origin(NULL, 0)));
    ASSERT_INT(1 + MANY, ct_solver_iter(s));
}

static struct ct_bytes late_state;
static const char     *late_path;

static void *write_late(void *arg)
{
    const struct timespec nap = { 0, 300000000 };

    (void)arg;
    nanosleep(&nap, NULL);
    test_write(late_path, late_state.ptr, late_state.n);
    return NULL;
}

/* The weights of an iteration are there anew, and their state is not yet. */
TEST(snapshot, one_that_is_written_again_is_waited_for)
{
    struct ct_solver *s = solver_with(""), *other = solver_with("");
    enum ct_status st;
    struct ct_bytes old;
    pthread_t thread;
    char *path = NULL;

    ASSERT_OK(ct_solver_step(s, 1));
    ASSERT_OK(ct_solver_snapshot(s));
    old = test_read(state_of(1, ""));
    ct_data(ct_net_param(ct_solver_net(other), 0)->blob)[0] += 1;
    ASSERT_OK(ct_solver_step(other, 1));
    ASSERT_OK(ct_solver_snapshot(other));
    be_patient();
    late_path  = state_of(1, "");
    late_state = test_read(late_path);
    ASSERT_OK(ct_file_write(state_of(1, ""), old.ptr, old.n));
    age(state_of(1, ""));
    pthread_create(&thread, NULL, write_late, NULL);
    st = newest(s, 0, 0, &path);
    pthread_join(thread, NULL);
    ASSERT_OK(st);
    ct_free(path);
}
