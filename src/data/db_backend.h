/* db_backend.h - what a database library offers to db.c. */
#ifndef CT_DATA_DB_BACKEND_H
#define CT_DATA_DB_BACKEND_H

#include <stdatomic.h>

#include "data/db.h"

struct ct_cursor {
    struct ct_db   *db;
    bool            valid;
    struct ct_bytes key, value; /* value is filled on demand: `value` slot */
};

/* Where a record of an index lies. */
struct ct_record_at {
    const void *key, *value; /* value NULL: read it by its key */
    uint32_t    n_key, n_value;
};

struct ct_db_index {
    struct ct_db        *db;
    struct ct_record_at *at;
    int64_t              n, capacity;
    struct ct_cursor    *hold;  /* keeps stable records where they are */
    struct ct_room       keys;  /* or the copied keys */
    size_t               keys_used;
};

struct ct_db_ops {
    const char *name;
    bool        stable; /* keys and values stay put while a cursor lives */
    enum ct_status (*open)(const char *path, enum ct_db_mode mode,
                           struct ct_db **out);
    void (*close)(struct ct_db *db);
    /* NULL: db.c counts by walking. */
    enum ct_status (*count)(struct ct_db *db, int64_t *out);
    enum ct_status (*put)(struct ct_db *db, struct ct_bytes key,
                          struct ct_bytes value);
    enum ct_status (*commit)(struct ct_db *db);
    enum ct_status (*cursor_create)(struct ct_db *db, struct ct_cursor **out);
    void (*cursor_destroy)(struct ct_cursor *c);
    enum ct_status (*first)(struct ct_cursor *c);
    enum ct_status (*next)(struct ct_cursor *c);
    enum ct_status (*find)(struct ct_cursor *c, struct ct_bytes key);
    struct ct_bytes (*value)(const struct ct_cursor *c);
    /* The value of a key as `hold` sees it; NULL where values are stable. */
    enum ct_status (*read)(struct ct_cursor *hold, struct ct_bytes key,
                           struct ct_room *room, struct ct_bytes *out);
};

/* The first member of a backend's own struct. */
struct ct_db {
    const struct ct_db_ops *ops;
    char                   *path;
    enum ct_db_mode         mode;
    atomic_int              n_cursors;
    int64_t                 n_records; /* counted by db.c; -1: not yet */
    int                     n_users;   /* under db.c's lock */
    struct ct_db           *next;      /* in db.c's list */
    uint64_t                device, inode;
};

extern const struct ct_db_ops ct_db_lmdb, ct_db_leveldb;

#endif
