/* file.h - whole files in, whole files out or nothing. */
#ifndef CT_BASE_FILE_H
#define CT_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "cortado/status.h"

/* The whole file; *out is ct_free'd by the caller and has one zero byte after
 * the last.  Fails with the path and the system's reason. */
CT_MUST_CHECK enum ct_status ct_file_read(const char *path, char **out,
                                          size_t *n_bytes);

/* Write beside `path`, fsync, rename over it, fsync the folder: after a crash
 * or a full disk the old content is there or the new, never a part. */
CT_MUST_CHECK enum ct_status ct_file_write(const char *path, const void *data,
                                           size_t n_bytes);

/* For writers that need a path of their own (HDF5): write to the file named by
 * ct_file_temp(), then commit it as ct_file_write() does, or discard it. */
CT_MUST_CHECK enum ct_status ct_file_temp(const char *path, char **out);
CT_MUST_CHECK enum ct_status ct_file_commit(const char *temp,
                                            const char *path);
void ct_file_discard(const char *temp);

int ct_file_exists(const char *path);

/* The CRC-32C of a file's bytes. */
CT_MUST_CHECK enum ct_status ct_file_sum(const char *path, uint32_t *crc);

/* Fails where the disk that `path` would lie on has less than `need` bytes
 * left.  A file system that does not tell has enough. */
CT_MUST_CHECK enum ct_status ct_file_room(const char *path, uint64_t need);

/* Seconds by which the clock that stamps files in `folder`, maybe that of
 * another host, is behind one that says `now`; 0 where no file can be made
 * there. */
int64_t ct_file_clock_behind(const char *folder, int64_t now);

/* Removes files in `folder` that begin with `start`, have a name of
 * ct_file_temp() and were left by a process that is gone; returns how many.
 * The process may live on another host that shares the folder, so a file that
 * was written to within a minute stays. */
int ct_file_sweep(const char *folder, const char *start);

/* CT_OK where the file is there.  Otherwise CT_ENOTFOUND, with a hint where
 * its HDF5 or binary twin (the name with or without .h5) is there instead. */
CT_MUST_CHECK enum ct_status ct_file_expect(const char *path);

/* CRC-32C of a run of bytes; start with crc = 0, chain by passing it on. */
uint32_t ct_crc32c(uint32_t crc, const void *data, size_t n_bytes);

#endif
