/* fuzz_file.h - the input as a file, for readers that take a path. */
#ifndef CT_TESTS_FUZZ_FILE_H
#define CT_TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* One file per process, in memory where the system has that; it is written
 * anew each time and has no name when the process ends. */
static inline const char *fuzz_file(const uint8_t *data, size_t n_bytes,
                                    const char *suffix)
{
    static char path[128];
    FILE *f;

    snprintf(path, sizeof(path), "%s/cortado_fuzz_%ld%s",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid(), suffix);
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n_bytes, f) != n_bytes || fclose(f) != 0)
        abort();
    return path;
}

#endif
