/* db.h - key/value databases: LMDB and LevelDB behind one interface.
 *
 * Records are ordered by key.  Reading sees the state of the moment at which
 * the cursor or index was made, whatever a writer commits meanwhile.
 *
 * A process opens a database once: both libraries demand it.  Opening it
 * again for reading gives the same handle, counted. */
#ifndef CT_DATA_DB_H
#define CT_DATA_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

/* Bytes that belong to somebody else. */
struct ct_bytes {
    const void *ptr;
    size_t      n;
};

/* Memory that grows and is used again; embedded, zeroed is empty. */
struct ct_room {
    void  *ptr;
    size_t bytes;
};
CT_MUST_CHECK enum ct_status ct_room_grow(struct ct_room *r, size_t bytes);
CT_MUST_CHECK enum ct_status ct_room_keep(struct ct_room *r,
                                          struct ct_bytes from,
                                          struct ct_bytes *out);
void ct_room_fini(struct ct_room *r);

enum ct_db_mode {
    CT_DB_READ,
    CT_DB_NEW,   /* refuses a path that is taken */
    CT_DB_APPEND /* refuses one that is not */
};

struct ct_db;       /* reading: any thread; writing: one thread */
struct ct_cursor;   /* one thread at a time */
struct ct_db_index; /* any thread once made */

/* `backend` is "lmdb" or "leveldb", in any case. */
CT_MUST_CHECK enum ct_status ct_db_open(const char *backend, const char *path,
                                        enum ct_db_mode mode,
                                        struct ct_db **out);
/* Takes NULL.  Cursors and indexes are destroyed before; what was put and not
 * committed is dropped. */
void ct_db_close(struct ct_db *db);
const char *ct_db_path(const struct ct_db *db);

/* LMDB knows; LevelDB walks over all records the first time. */
CT_MUST_CHECK enum ct_status ct_db_count(struct ct_db *db, int64_t *out);

/* Put copies; a key that is there gets the new value.  Nothing is visible or
 * safe from a crash before commit, everything after it. */
CT_MUST_CHECK enum ct_status ct_db_put(struct ct_db *db, struct ct_bytes key,
                                       struct ct_bytes value);
CT_MUST_CHECK enum ct_status ct_db_commit(struct ct_db *db);

/* A new cursor stands on the first record, or is not valid when there is
 * none.  Keys and values are borrowed until it moves; where values are stable
 * (ct_db_stable) until it is destroyed. */
CT_MUST_CHECK enum ct_status ct_cursor_create(struct ct_db *db,
                                              struct ct_cursor **out);
void ct_cursor_destroy(struct ct_cursor *c); /* takes NULL */
bool ct_cursor_valid(const struct ct_cursor *c);
CT_MUST_CHECK enum ct_status ct_cursor_first(struct ct_cursor *c);
CT_MUST_CHECK enum ct_status ct_cursor_next(struct ct_cursor *c);
/* To the first record whose key is not less than `key`. */
CT_MUST_CHECK enum ct_status ct_cursor_find(struct ct_cursor *c,
                                            struct ct_bytes key);
/* n records on from the first, without a look at the values in between. */
CT_MUST_CHECK enum ct_status ct_cursor_seek(struct ct_cursor *c, int64_t n);
struct ct_bytes ct_cursor_key(const struct ct_cursor *c);
struct ct_bytes ct_cursor_value(const struct ct_cursor *c);
bool ct_db_stable(const struct ct_db *db);

/* Records by number, for orders that jump.  Neither database can do that by
 * itself, so making the index passes once over all keys (LMDB: 24 bytes a
 * record, values are not read; LevelDB: the keys are copied). */
CT_MUST_CHECK enum ct_status ct_db_index_create(struct ct_db *db,
                                                struct ct_db_index **out);
void ct_db_index_destroy(struct ct_db_index *x); /* takes NULL */
int64_t ct_db_index_n(const struct ct_db_index *x);
struct ct_bytes ct_db_index_key(const struct ct_db_index *x, int64_t i);
/* The value is in `room`, or in the database's memory until the index is
 * destroyed. */
CT_MUST_CHECK enum ct_status ct_db_index_read(const struct ct_db_index *x,
                                              int64_t i, struct ct_room *room,
                                              struct ct_bytes *out);

/* "00000012_cat.jpg" for messages: printable, cut to the buffer. */
const char *ct_key_text(struct ct_bytes key, char *buf, size_t size);

#endif
