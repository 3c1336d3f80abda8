/* fuzz_files.c - any bytes as one of the small files that tools and layers
 * read; the first byte chooses which: a list of images, windows, MNIST's images
 * and labels, a cache of choices, a trace, a batch of CIFAR-10, what a rank
 * left for an autopsy, a list of pairs, the state of a run. */
#include <string.h>
#include <sys/stat.h>

#include "../../apps/file_pairs.h"

#include "base/mem.h"
#include "cortado/log.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/image_list.h"
#include "device/choice.h"
#include "fuzz_file.h"
#include "layers/window_file.h"
#include "observe/autopsy_read.h"
#include "observe/top.h"
#include "observe/trace_read.h"

static enum ct_status read_list(const char *path)
{
    struct ct_image_list list = { 0 };
    enum ct_status st         = ct_image_list_read(path, &list);

    for (int64_t i = 0; st == CT_OK && i < list.n; i++)
        CT_ASSERT(strlen(ct_image_list_name(&list, i)) > 0);
    ct_image_list_fini(&list);
    return st;
}

static enum ct_status read_windows(const char *path)
{
    struct ct_window_file f = { 0 };
    enum ct_status st = ct_window_file_read(&f, path, "/root/", 0.5f, 0.3f);

    for (int64_t i = 0; st == CT_OK && i < f.n_fg; i++)
        CT_ASSERT(ct_window_path(&f, &f.fg[i]));
    ct_window_file_fini(&f);
    return st;
}

static enum ct_status read_idx(const char *path, int n_axes)
{
    struct ct_idx x   = { 0 };
    enum ct_status st = ct_idx_read(path, n_axes, &x);

    ct_idx_fini(&x);
    return st;
}

/* The input as `name` in a folder of this process.  Returns the folder. */
static const char *in_folder(const uint8_t *data, size_t n_bytes,
                             const char *name, char *path, size_t size)
{
    static char folder[64], inner[96];
    FILE *f;

    snprintf(folder, sizeof(folder), "/dev/shm/fuzz_%ld", (long)getpid());
    snprintf(inner, sizeof(inner), "%s/cortado", folder);
    snprintf(path, size, "%s/%s", folder, name);
    (void)mkdir(folder, 0700);
    (void)mkdir(inner, 0700);
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n_bytes, f) != n_bytes || fclose(f) != 0)
        abort();
    return folder;
}

static void leave_folder(const char *path)
{
    char inner[96];

    snprintf(inner, sizeof(inner), "/dev/shm/fuzz_%ld/cortado",
             (long)getpid());
    (void)unlink(path);
    (void)rmdir(inner);
    *strrchr(inner, '/') = '\0';
    (void)rmdir(inner);
}

/* The cache of this name in $XDG_CACHE_HOME; never a reason to fail. */
static enum ct_status read_choices(const uint8_t *data, size_t n_bytes)
{
    struct ct_choices *c = NULL;
    char path[192];

    setenv("XDG_CACHE_HOME",
           in_folder(data, n_bytes, "cortado/choices", path, sizeof(path)),
           1);
    if (ct_choices_open("choices", &c) == CT_OK) {
        (void)ct_choices_find(c, "key");
        ct_choices_close(c);
    }
    leave_folder(path);
    return CT_OK;
}

/* The batch becomes a database, which is not there afterwards. */
static enum ct_status read_cifar(const char *path)
{
    char db[160], part[192];
    enum ct_status st;

    snprintf(db, sizeof(db), "%s.db", path);
    st = ct_cifar_to_db(&path, 1, "lmdb", db, NULL);
    snprintf(part, sizeof(part), "%s/data.mdb", db);
    (void)unlink(part);
    snprintf(part, sizeof(part), "%s/lock.mdb", db);
    (void)unlink(part);
    (void)rmdir(db);
    return st;
}

static enum ct_status read_autopsy(const uint8_t *data, size_t n_bytes)
{
    struct autopsy a = { 0 };
    char path[192];
    enum ct_status st =
        autopsy_read(in_folder(data, n_bytes, "rank-0.txt", path,
                               sizeof(path)), &a);

    autopsy_fini(&a);
    leave_folder(path);
    return st;
}

static enum ct_status read_pairs(const char *path, bool labels)
{
    struct pairs p    = { 0 };
    enum ct_status st = pairs_read(path, labels, &p);

    for (int64_t i = 0; st == CT_OK && i < p.list.n; i++)
        CT_ASSERT(strlen(pairs_second(&p, i)) > 0);
    pairs_fini(&p);
    return st;
}

/* The same bytes as each of the three files that `cortado top` reads. */
static enum ct_status read_run(const uint8_t *data, size_t n_bytes)
{
    static const char *const name[] = { "run.json", "series.jsonl",
                                        "ranks_now.json" };
    const char *folder = NULL;
    struct ct_text t   = { 0 };
    bool running       = false;
    char path[3][192];
    enum ct_status st;

    for (int i = 0; i < 3; i++)
        folder = in_folder(data, n_bytes, name[i], path[i], sizeof(path[i]));
    st = ct_top(folder, 10, 0, &t, &running);
    ct_text_fini(&t);
    for (int i = 0; i < 3; i++)
        leave_folder(path[i]);
    return st;
}

static enum ct_status read_trace(const char *path)
{
    struct trace_file f = { 0 };
    enum ct_status st   = trace_file_read(path, &f);

    trace_file_fini(&f);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    enum ct_status st = CT_OK;
    const char *path;

    ct_log_set_level(CT_LOG_FATAL);
    if (n_bytes == 0)
        return 0;
    path = fuzz_file(data + 1, n_bytes - 1, "");
    switch (data[0] % 11) {
    case 0: st = read_list(path); break;
    case 1: st = read_windows(path); break;
    case 2: st = read_idx(path, 3); break;
    case 3: st = read_idx(path, 1); break;
    case 4: st = read_choices(data + 1, n_bytes - 1); break;
    case 5: st = read_trace(path); break;
    case 6: st = read_cifar(path); break;
    case 7: st = read_autopsy(data + 1, n_bytes - 1); break;
    case 8: st = read_pairs(path, true); break;
    case 9: st = read_pairs(path, false); break;
    case 10: st = read_run(data + 1, n_bytes - 1); break;
    }
    CT_ASSERT(st == CT_OK || ct_last_error()[0]);
    unlink(path);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
