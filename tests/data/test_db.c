/* test_db.c - LMDB and LevelDB through one interface, and what goes wrong. */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/db.h"
#include "testing/files.h"

static const char *const backends[] = { "lmdb", "leveldb" };

#define EACH_BACKEND(b)                                                      \
    for (const char *const *b = backends; b < backends + 2; b++)

static struct ct_bytes text(const char *s)
{
    return (struct ct_bytes){ s, strlen(s) };
}

static bool same(struct ct_bytes a, const char *s)
{
    return a.n == strlen(s) && memcmp(a.ptr, s, a.n) == 0;
}

/* Keys key00000, key00001, ... with values v0, v1, ... */
static void put_range(struct ct_db *db, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[16], value[16];

        snprintf(key, sizeof(key), "key%05d", i);
        snprintf(value, sizeof(value), "v%d", i);
        ASSERT_OK(ct_db_put(db, text(key), text(value)));
    }
    ASSERT_OK(ct_db_commit(db));
}

static const char *made(const char *backend, int n)
{
    const char *path = test_path(test_format("%s-%d", backend, n));
    struct ct_db *db;

    ASSERT_OK(ct_db_open(backend, path, CT_DB_NEW, &db));
    put_range(db, 0, n);
    ct_db_close(db);
    return path;
}

TEST(db, records_come_back_in_the_order_of_their_keys)
{
    EACH_BACKEND(b) {
        const char *path = test_path(*b);
        struct ct_cursor *c;
        struct ct_db *db;
        int64_t n;

        ASSERT_OK(ct_db_open(*b, path, CT_DB_NEW, &db));
        ASSERT_OK(ct_db_put(db, text("b"), text("two")));
        ASSERT_OK(ct_db_put(db, text("c"), text("")));
        ASSERT_OK(ct_db_put(db, text("a"), text("one")));
        ASSERT_OK(ct_db_put(db, text("a"), text("first")));
        ASSERT_OK(ct_db_commit(db));
        ct_db_close(db);
        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &db));
        ASSERT_STR(path, ct_db_path(db));
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(3, n);
        ASSERT_OK(ct_cursor_create(db, &c));
        ASSERT(same(ct_cursor_key(c), "a"));
        ASSERT(same(ct_cursor_value(c), "first"));
        ASSERT_OK(ct_cursor_next(c));
        ASSERT(same(ct_cursor_key(c), "b") && same(ct_cursor_value(c), "two"));
        ASSERT_OK(ct_cursor_next(c));
        ASSERT(same(ct_cursor_key(c), "c") && same(ct_cursor_value(c), ""));
        ASSERT_OK(ct_cursor_next(c));
        ASSERT(!ct_cursor_valid(c));
        ASSERT_OK(ct_cursor_find(c, text("aa")));
        ASSERT(same(ct_cursor_key(c), "b"));
        ASSERT_OK(ct_cursor_find(c, text("d")));
        ASSERT(!ct_cursor_valid(c));
        ct_cursor_destroy(c);
        ct_db_close(db);
    }
}

TEST(db, any_record_is_found_by_its_number)
{
    EACH_BACKEND(b) {
        struct ct_room room = { 0 };
        struct ct_db_index *x;
        struct ct_bytes value;
        struct ct_cursor *c;
        struct ct_db *db;

        ASSERT_OK(ct_db_open(*b, made(*b, 2000), CT_DB_READ, &db));
        ASSERT_OK(ct_db_index_create(db, &x));
        ASSERT_OK(ct_cursor_create(db, &c));
        ASSERT_INT(2000, ct_db_index_n(x));
        for (int i = 1999; i >= 0; i -= 37) {
            ASSERT(same(ct_db_index_key(x, i), test_format("key%05d", i)));
            ASSERT_OK(ct_db_index_read(x, i, &room, &value));
            ASSERT(same(value, test_format("v%d", i)));
            ASSERT_OK(ct_cursor_seek(c, i));
            ASSERT(same(ct_cursor_value(c), test_format("v%d", i)));
        }
        ASSERT_STATUS(CT_ENOTFOUND, ct_cursor_seek(c, 2000));
        ct_room_fini(&room);
        ct_cursor_destroy(c);
        ct_db_index_destroy(x);
        ct_db_close(db);
    }
}

TEST(db, existing_database_is_refused_and_nothing_is_lost)
{
    EACH_BACKEND(b) {
        const char *path = made(*b, 3);
        struct ct_db *db;
        int64_t n;

        ASSERT_STATUS(CT_EEXIST, ct_db_open(*b, path, CT_DB_NEW, &db));
        ASSERT_HAS(path, ct_last_error());
        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &db));
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(3, n);
        ct_db_close(db);
    }
}

TEST(db, append_adds_to_what_is_there)
{
    EACH_BACKEND(b) {
        const char *path = made(*b, 3);
        struct ct_db *db;
        int64_t n;

        ASSERT_OK(ct_db_open(*b, path, CT_DB_APPEND, &db));
        put_range(db, 3, 5);
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(5, n);
        ASSERT_OK(ct_db_put(db, text("late"), text("never committed")));
        ct_db_close(db);
        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &db));
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(5, n);
        ASSERT_STATUS(CT_EINVAL, ct_db_put(db, text("k"), text("v")));
        ASSERT_STATUS(CT_EINVAL, ct_db_commit(db));
        ct_db_close(db);
    }
}

TEST(db, what_cannot_be_opened_is_named)
{
    const char *file = test_path("file");
    struct ct_db *db;

    test_write(file, "x", 1);
    EACH_BACKEND(b) {
        ASSERT_STATUS(CT_ENOTFOUND, ct_db_open(*b, test_path("no"), CT_DB_READ,
                                               &db));
        ASSERT_STATUS(CT_ENOTFOUND, ct_db_open(*b, test_path("no"),
                                               CT_DB_APPEND, &db));
        ASSERT_HAS("/no", ct_last_error());
        ASSERT_STATUS(CT_EIO, ct_db_open(*b, test_path("file/below"),
                                         CT_DB_NEW, &db));
        ASSERT_HAS("file/below", ct_last_error());
        ASSERT(ct_db_open(*b, file, CT_DB_READ, &db) != CT_OK);
    }
    ASSERT_STATUS(CT_EINVAL, ct_db_open("redis", file, CT_DB_READ, &db));
    ASSERT_STATUS(CT_EINVAL, ct_db_open("leveldb", made("lmdb", 1), CT_DB_READ,
                                        &db));
    ASSERT_HAS("LMDB", ct_last_error());
    ASSERT_STATUS(CT_EINVAL, ct_db_open("lmdb", made("leveldb", 1), CT_DB_READ,
                                        &db));
}

TEST(db, empty_database_has_no_valid_cursor)
{
    EACH_BACKEND(b) {
        struct ct_cursor *c;
        struct ct_db *db;
        int64_t n = -1;

        ASSERT_OK(ct_db_open(*b, made(*b, 0), CT_DB_READ, &db));
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(0, n);
        ASSERT_OK(ct_cursor_create(db, &c));
        ASSERT(!ct_cursor_valid(c));
        ct_cursor_destroy(c);
        ct_db_close(db);
    }
}

TEST(db, two_readers_in_one_process_share_a_handle)
{
    EACH_BACKEND(b) {
        const char *path = made(*b, 4);
        struct ct_db *one, *two, *writer;
        struct ct_cursor *c, *d;

        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &one));
        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &two));
        ASSERT(one == two);
        ASSERT_STATUS(CT_EEXIST, ct_db_open(*b, path, CT_DB_APPEND, &writer));
        ASSERT_OK(ct_cursor_create(one, &c));
        ASSERT_OK(ct_cursor_create(two, &d));
        ASSERT_OK(ct_cursor_next(c));
        ASSERT(same(ct_cursor_value(c), "v1"));
        ASSERT(same(ct_cursor_value(d), "v0"));
        ct_cursor_destroy(c);
        ct_db_close(one);
        ASSERT_OK(ct_cursor_next(d));
        ct_cursor_destroy(d);
        ct_db_close(two);
        ASSERT_OK(ct_db_open(*b, path, CT_DB_APPEND, &writer));
        ct_db_close(writer);
    }
}

TEST(db, lmdb_grows_beyond_its_first_map)
{
    const char *path = test_path("large");
    size_t n         = (size_t)3 << 20;
    char *value      = ct_calloc(1, n, "value");
    struct ct_cursor *c;
    struct ct_db *db;

    test_defer(ct_free, value);
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_NEW, &db));
    for (int i = 0; i < 8; i++) {
        value[n - 1] = (char)i;
        ASSERT_OK(ct_db_put(db, text(test_format("%d", i)),
                            (struct ct_bytes){ value, n }));
        if (i % 4 == 3)
            ASSERT_OK(ct_db_commit(db));
    }
    ct_db_close(db);
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_READ, &db));
    ASSERT_OK(ct_cursor_create(db, &c));
    for (int i = 0; i < 8; i++) {
        struct ct_bytes v = ct_cursor_value(c);

        ASSERT_INT(n, v.n);
        ASSERT_INT(i, ((const char *)v.ptr)[n - 1]);
        ASSERT_OK(ct_cursor_next(c));
    }
    ct_cursor_destroy(c);
    ct_db_close(db);
}

/* In a child: open, stand on a record, tell the parent, wait to be killed. */
static pid_t reader_process(const char *backend, const char *path, int *ready)
{
    int ends[2];
    pid_t pid;

    ASSERT(pipe(ends) == 0);
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        struct ct_cursor *c;
        struct ct_db *db;
        char ok = ct_db_open(backend, path, CT_DB_READ, &db) == CT_OK &&
                  ct_cursor_create(db, &c) == CT_OK && ct_cursor_valid(c);

        if (write(ends[1], &ok, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    *ready = ends[0];
    return pid;
}

TEST(db, reader_killed_while_a_writer_commits_harms_nothing)
{
    const char *path = made("lmdb", 100);
    struct ct_db *db;
    int64_t n;

    for (int round = 0; round < 3; round++) {
        int ready;
        pid_t pid = reader_process("lmdb", path, &ready);
        char ok   = 0;

        ASSERT(read(ready, &ok, 1) == 1 && ok);
        close(ready);
        ASSERT_OK(ct_db_open("lmdb", path, CT_DB_APPEND, &db));
        put_range(db, 100 * (round + 1), 100 * (round + 1) + 50);
        ASSERT(kill(pid, SIGKILL) == 0);
        put_range(db, 100 * (round + 1) + 50, 100 * (round + 2));
        ASSERT(waitpid(pid, NULL, 0) == pid);
        ct_db_close(db);
    }
    ASSERT_OK(ct_db_open("lmdb", path, CT_DB_READ, &db));
    ASSERT_OK(ct_db_count(db, &n));
    ASSERT_INT(400, n);
    ct_db_close(db);
}

TEST(db, cursor_shows_the_state_it_was_made_in)
{
    EACH_BACKEND(b) {
        const char *path = made(*b, 5);
        struct ct_db *writer, *reader;
        struct ct_cursor *c;
        int n = 0;

        ASSERT_OK(ct_db_open(*b, path, CT_DB_APPEND, &writer));
        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &reader));
        ASSERT_OK(ct_cursor_create(reader, &c));
        put_range(writer, 5, 9);
        for (; ct_cursor_valid(c); n++)
            ASSERT_OK(ct_cursor_next(c));
        ASSERT_INT(5, n);
        ct_cursor_destroy(c);
        ASSERT_OK(ct_cursor_create(reader, &c));
        ASSERT_OK(ct_cursor_seek(c, 8));
        ct_cursor_destroy(c);
        ct_db_close(reader);
        ct_db_close(writer);
    }
}

/* LevelDB lets one process in; several ranks read one all the same. */
TEST(db, leveldb_is_read_by_several_processes)
{
    const char *path = made("leveldb", 20);
    int ready;
    pid_t pid = reader_process("leveldb", path, &ready);
    struct ct_cursor *c;
    struct ct_db *db;
    char ok = 0;

    ASSERT(read(ready, &ok, 1) == 1 && ok);
    close(ready);
    ASSERT_OK(ct_db_open("leveldb", path, CT_DB_READ, &db));
    ASSERT_OK(ct_cursor_create(db, &c));
    ASSERT_OK(ct_cursor_seek(c, 19));
    ASSERT(same(ct_cursor_value(c), "v19"));
    ct_cursor_destroy(c);
    ct_db_close(db);
    ASSERT(kill(pid, SIGKILL) == 0);
    ASSERT(waitpid(pid, NULL, 0) == pid);
}

TEST(db, caffes_databases_have_its_keys)
{
    EACH_BACKEND(b) {
        const char *path = test_copy(test_format("caffe_files/%s_raw", *b));
        struct ct_cursor *c;
        struct ct_db *db;
        int64_t n;

        ASSERT_OK(ct_db_open(*b, path, CT_DB_READ, &db));
        ASSERT_OK(ct_db_count(db, &n));
        ASSERT_INT(100, n);
        ASSERT_OK(ct_cursor_create(db, &c));
        ASSERT(same(ct_cursor_key(c), "00000000_airplane_0000.jpg"));
        ct_cursor_destroy(c);
        ct_db_close(db);
    }
}
