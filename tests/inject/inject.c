/* inject.c - makes the Nth operation of a kind fail.
 *
 *     CORTADO_INJECT=KIND:N        fails the Nth one (N 0: none)
 *     CORTADO_INJECT=KIND:N:M      and the M - 1 after it
 *     CORTADO_INJECT_COUNT=FILE    adds "KIND COUNT" lines at the end
 *
 * The linker leads calls of our own code here (--wrap), not those inside of
 * libraries: the program that is shipped knows nothing of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum kind { MEMORY, OPEN, LOOK, READ, WRITE, BROKEN, SHORT, CLOSE, SYNC,
            RENAME, THREAD, MPI, N_KINDS };

/* A write fails because the disk is full, or because it is broken. */
static const char *const names[N_KINDS] = {
    "memory", "open", "look", "read", "write", "broken", "short", "close",
    "sync", "rename", "thread", "mpi",
};

static atomic_long counts[N_KINDS];
static int  chosen = -1;
static long first, last;

static void write_counts(void)
{
    const char *path = getenv("CORTADO_INJECT_COUNT");
    FILE *f          = path ? fopen(path, "a") : NULL;

    for (int k = 0; f && k < N_KINDS; k++)
        fprintf(f, "%s %ld\n", names[k], atomic_load(&counts[k]));
    if (f)
        fclose(f);
}

static void read_words(void)
{
    const char *words = getenv("CORTADO_INJECT");
    const char *at    = words ? strchr(words, ':') : NULL;
    char *end         = NULL;

    if (getenv("CORTADO_INJECT_COUNT"))
        atexit(write_counts);
    for (int k = 0; at && k < N_KINDS; k++)
        if (strlen(names[k]) == (size_t)(at - words) &&
            strncmp(words, names[k], (size_t)(at - words)) == 0)
            chosen = k;
    if (chosen < 0)
        return;
    first = strtol(at + 1, &end, 10);
    last  = first + (*end == ':' ? strtol(end + 1, NULL, 10) : 1);
}

/* What libraries that are linked in do before the program starts is theirs. */
static bool started;

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
int __wrap_main(int argc, char **argv)
{
    read_words();
    started = true;
    return __real_main(argc, argv);
}

static bool fails(enum kind kind)
{
    long n;

    if (!started)
        return false;
    n = atomic_fetch_add(&counts[kind], 1) + 1;
    return (int)kind == chosen && n >= first && n < last;
}

#define WRAP(type, name, params, args, kind, code, failure)                  \
    type __real_##name params;                                               \
    type __wrap_##name params;                                               \
    type __wrap_##name params                                                \
    {                                                                        \
        if (fails(kind)) {                                                   \
            errno = (code);                                                  \
            return failure;                                                  \
        }                                                                    \
        return __real_##name args;                                           \
    }

WRAP(void *, malloc, (size_t n), (n), MEMORY, ENOMEM, NULL)
WRAP(void *, calloc, (size_t n, size_t m), (n, m), MEMORY, ENOMEM, NULL)
WRAP(void *, realloc, (void *p, size_t n), (p, n), MEMORY, ENOMEM, NULL)
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n), MEMORY, ENOMEM,
     NULL)
WRAP(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t at),
     (p, n, prot, flags, fd, at), MEMORY, ENOMEM, MAP_FAILED)
WRAP(char *, strdup, (const char *s), (s), MEMORY, ENOMEM, NULL)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), OPEN,
     EIO, NULL)
WRAP(DIR *, opendir, (const char *path), (path), OPEN, EIO, NULL)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), OPEN, EIO, -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags),
     OPEN, EMFILE, -1)
WRAP(int, socket, (int a, int b, int c), (a, b, c), OPEN, EMFILE, -1)
WRAP(int, socketpair, (int a, int b, int c, int *fd), (a, b, c, fd), OPEN,
     EMFILE, -1)
WRAP(int, stat, (const char *path, struct stat *s), (path, s), LOOK, EIO, -1)
WRAP(int, lstat, (const char *path, struct stat *s), (path, s), LOOK, EIO, -1)
WRAP(int, fstat, (int fd, struct stat *s), (fd, s), LOOK, EIO, -1)
WRAP(int, statvfs, (const char *path, struct statvfs *s), (path, s), LOOK,
     EIO, -1)
WRAP(off_t, lseek, (int fd, off_t at, int from), (fd, at, from), LOOK, EIO, -1)
WRAP(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), READ, EIO, -1)
WRAP(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at),
     READ, EIO, -1)
WRAP(size_t, fread, (void *p, size_t n, size_t m, FILE *f), (p, n, m, f), READ,
     EIO, 0)
WRAP(size_t, fwrite, (const void *p, size_t n, size_t m, FILE *f),
     (p, n, m, f), WRITE, ENOSPC, 0)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), WRITE, ENOSPC, -1)
WRAP(int, fsync, (int fd), (fd), SYNC, EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), RENAME, EIO,
     -1)
WRAP(int, renameat2, (int a, const char *from, int b, const char *to,
                      unsigned flags), (a, from, b, to, flags), RENAME, EIO,
     -1)
WRAP(int, unlink, (const char *path), (path), RENAME, EIO, -1)
WRAP(int, rmdir, (const char *path), (path), RENAME, EIO, -1)
WRAP(int, symlink, (const char *to, const char *path), (to, path), RENAME, EIO,
     -1)
WRAP(pid_t, fork, (void), (), THREAD, EAGAIN, -1)
WRAP(int, pthread_create,
     (pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg),
     (t, a, fn, arg), THREAD, EAGAIN, EAGAIN)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    int mode = 0;

    if (fails(OPEN)) {
        errno = EIO;
        return -1;
    }
    va_start(ap, flags);
    if (flags & O_CREAT)
        mode = va_arg(ap, int);
    va_end(ap);
    return __real_open(path, flags, mode);
}

ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    const bool full = fails(WRITE), broken = fails(BROKEN);

    if (full || broken) {
        errno = full ? ENOSPC : EIO;
        return -1;
    }
    return __real_write(fd, p, fails(SHORT) && n > 1 ? n / 2 : n);
}

/* What is closed is closed, also where that says that data is lost. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const int result = __real_close(fd);

    if (!fails(CLOSE))
        return result;
    errno = EIO;
    return -1;
}

int __real_fclose(FILE *f);
int __wrap_fclose(FILE *f);
int __wrap_fclose(FILE *f)
{
    const int result = __real_fclose(f);

    if (!fails(CLOSE))
        return result;
    errno = ENOSPC;
    return EOF;
}

#ifdef CT_INJECT_MPI
#include <mpi.h>

#define WRAP_MPI(name, params, args)                                         \
    int __real_MPI_##name params;                                            \
    int __wrap_MPI_##name params;                                            \
    int __wrap_MPI_##name params                                             \
    {                                                                        \
        return fails(MPI) ? MPI_ERR_OTHER : __real_MPI_##name args;          \
    }

WRAP_MPI(Isend, (const void *p, int n, MPI_Datatype t, int to, int tag,
                 MPI_Comm c, MPI_Request *r), (p, n, t, to, tag, c, r))
WRAP_MPI(Irecv, (void *p, int n, MPI_Datatype t, int from, int tag, MPI_Comm c,
                 MPI_Request *r), (p, n, t, from, tag, c, r))
WRAP_MPI(Test, (MPI_Request *r, int *done, MPI_Status *s), (r, done, s))
WRAP_MPI(Iallreduce, (const void *p, void *q, int n, MPI_Datatype t, MPI_Op o,
                      MPI_Comm c, MPI_Request *r), (p, q, n, t, o, c, r))
WRAP_MPI(Ibarrier, (MPI_Comm c, MPI_Request *r), (c, r))
WRAP_MPI(Get_count, (const MPI_Status *s, MPI_Datatype t, int *n), (s, t, n))
WRAP_MPI(Init_thread, (int *argc, char ***argv, int asked, int *given),
         (argc, argv, asked, given))
WRAP_MPI(Comm_size, (MPI_Comm c, int *n), (c, n))
WRAP_MPI(Comm_rank, (MPI_Comm c, int *n), (c, n))
WRAP_MPI(Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler h), (c, h))
WRAP_MPI(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info i,
                           MPI_Comm *out), (c, type, key, i, out))
WRAP_MPI(Comm_dup, (MPI_Comm c, MPI_Comm *out), (c, out))
WRAP_MPI(Bcast, (void *p, int n, MPI_Datatype t, int root, MPI_Comm c),
         (p, n, t, root, c))
WRAP_MPI(Allgather, (const void *p, int n, MPI_Datatype t, void *q, int m,
                     MPI_Datatype u, MPI_Comm c), (p, n, t, q, m, u, c))
#endif
