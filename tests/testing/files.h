/* files.h - files for tests: made, copied, read. */
#ifndef CT_TESTING_FILES_H
#define CT_TESTING_FILES_H

#include "data/db.h"
#include "testing/test.h"

/* `name` in the test's folder.  All strings here live until the test ends. */
const char *test_path(const char *name);
CT_PRINTF(1, 2) const char *test_format(const char *fmt, ...);

void test_write(const char *path, const void *data, size_t n);
struct ct_bytes test_read(const char *path);

/* A copy of a recorded file or folder in the test's folder, under its own
 * name. */
const char *test_copy(const char *below);

/* Of all epolls of this process: sockets and processes that they still look at
 * though nobody here has them open any more, because a forked process has. */
int test_n_stale_events(void);

/* Compare with dataset `name` of a shared HDF5 file. */
void test_h5_equal(const char *file, const char *name, const float *got,
                   int64_t n, float tol);

#endif
