/* fuzz_meet.c - what a process reads before it is in an elastic job; the first
 * byte chooses what.
 *
 *     0   the roll of a job, as one of its members answers
 *     1   a file of addresses in a folder
 *     2   a file with a secret
 *     3   standard input, as `cortado launch` fills it: a line with the secret,
 *         then orders
 *     4   what an agent hands down to a rank that is another program
 *     5   the file in which it is handed down, with its first bytes */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "elastic/bytes.h"
#include "elastic/handed.h"
#include "elastic/rendezvous.h"
#include "elastic/roll.h"
#include "elastic/secret.h"
#include "fuzz_file.h"

#include "../../apps/agent_orders.h"

enum { ROLL, ADDRESSES, SECRET, ORDERS, HANDED, HANDED_FILE, N_WHATS };

static char folder[128], where[160], secret_file[160], address_file[160];

static void write_file(const char *path, const void *data, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) != 0)
        abort();
}

static void remove_all(void)
{
    unlink(secret_file);
    unlink(address_file);
    rmdir(folder);
}

/* Nothing is to get its number. */
static void end_input(void)
{
    const int none = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (none < 0 || dup2(none, STDIN_FILENO) < 0)
        abort();
    if (none != STDIN_FILENO)
        close(none);
}

static void start(void)
{
    char digits[2 * SEAL_SECRET_BYTES + 1];

    if (folder[0])
        return;
    ct_log_set_level(CT_LOG_ERROR + 1);
    if (seal_init() != CT_OK)
        exit(77); /* there are no elastic jobs in this build */
    memset(digits, '5', sizeof(digits));
    digits[sizeof(digits) - 1] = '\n';
    snprintf(folder, sizeof(folder), "%s/cortado_meet_%ld",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    if (mkdir(folder, 0700) != 0)
        abort();
    snprintf(where, sizeof(where), "file:%s", folder);
    snprintf(secret_file, sizeof(secret_file), "%s/secret", folder);
    snprintf(address_file, sizeof(address_file), "%s/a-1.address", folder);
    atexit(remove_all);
    end_input();
    write_file(secret_file, digits, sizeof(digits));
}

static void read_roll(const uint8_t *data, size_t n)
{
    static const uint8_t job[POST_JOB_BYTES] = { 1, 2, 3 };
    struct elastic_roll *roll                = NULL;
    char *text                               = NULL;

    if (ct_alloc(n + 1, 1, "a roll", &text) != CT_OK)
        abort();
    memcpy(text, data, n);
    (void)roll_is_of(text, job);
    if (roll_read(text, &roll) != CT_OK) {
        CT_ASSERT(ct_last_error()[0]);
        CT_ASSERT(!roll);
    } else {
        CT_ASSERT(roll->n >= 0 && roll->n <= ELASTIC_MEMBERS);
        CT_ASSERT(roll_is_of(text, roll->job));
        for (int i = 0; i < roll->n; i++)
            CT_ASSERT(roll->door[i] >= 0 && roll->door[i] <= UINT16_MAX);
    }
    ct_free(roll);
    ct_free(text);
}

static void check_doors(const struct elastic_door *d, int n)
{
    CT_ASSERT(n >= 0 && n <= MEMBER_DOORS);
    for (int i = 0; i < n; i++)
        CT_ASSERT(d[i].at.family == AF_INET || d[i].at.family == AF_INET6);
}

static void read_addresses(const uint8_t *data, size_t n)
{
    struct rendezvous r;

    write_file(address_file, data, n);
    if (rendezvous_find(&r, where, secret_file) != CT_OK)
        abort(); /* lines that are no addresses are skipped */
    check_doors(r.knock, r.n_knock);
    for (int i = 0; i < r.n_knock; i++)
        CT_ASSERT(r.knock[i].port != 0);
    rendezvous_close(&r);
    unlink(address_file);
}

static void read_secret(const uint8_t *data, size_t n)
{
    uint8_t secret[SEAL_SECRET_BYTES];
    const char *path = fuzz_file(data, n, ".secret");

    if (chmod(path, 0600) != 0)
        abort();
    if (secret_read(path, false, secret) != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    unlink(path);
}

static void obey(int number)
{
    CT_ASSERT(number >= -99 && number <= 999);
}

static void read_input(const uint8_t *data, size_t n)
{
    struct agent_orders o = { .n = 0 };
    struct rendezvous r;
    char bytes[64];
    int ends[2];
    ssize_t more;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        abort();
    (void)!write(ends[1], data, n < 4096 ? n : 4096);
    close(ends[1]);
    if (dup2(ends[0], STDIN_FILENO) < 0)
        abort();
    close(ends[0]);
    if (rendezvous_find(&r, "", "-") != CT_OK)
        CT_ASSERT(ct_last_error()[0]);
    else
        while ((more = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
            orders_take(&o, bytes, (size_t)more, obey);
    rendezvous_close(&r);
    end_input();
}

/* Behind a good head, which holds the number of this process. */
static void take_handed(const uint8_t *data, size_t n, bool with_head)
{
    static const char magic[8] = { 'c', 'o', 'r', 't', 'r', 'a', 'n', 4 };
    const int fd               = memfd_create("cortado rank", 0);
    struct handed h;
    uint8_t head[sizeof(magic) + 4];
    struct writer w = { head };
    char number[16];

    put_bytes(&w, magic, sizeof(magic));
    put(&w, (uint64_t)getpid(), 4);
    if (fd < 0 ||
        (with_head &&
         write(fd, head, sizeof(head)) != (ssize_t)sizeof(head)) ||
        write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(number, sizeof(number), "%d", fd);
    (void)!setenv("CORTADO_HANDED", number, 1);
    if (handed_take(&h) != CT_OK) {
        CT_ASSERT(ct_last_error()[0]);
        close(fd);
    } else {
        check_doors(h.config.knock, h.config.n_knock);
        CT_ASSERT(h.config.description && !handed_is_there());
    }
    handed_fini(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    start();
    if (n_bytes == 0)
        return 0;
    n_bytes--;
    switch (*data++ % N_WHATS) {
    case ROLL: read_roll(data, n_bytes); break;
    case ADDRESSES: read_addresses(data, n_bytes); break;
    case SECRET: read_secret(data, n_bytes); break;
    case ORDERS: read_input(data, n_bytes); break;
    case HANDED: take_handed(data, n_bytes, true); break;
    case HANDED_FILE: take_handed(data, n_bytes, false); break;
    }
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
