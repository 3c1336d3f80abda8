/* fuzz_files.c - any bytes as one of the small files that tools and layers
 * read; the first byte chooses which: a list of images, windows, MNIST's images
 * and labels, a cache of choices, a trace. */
#include <string.h>

#include "base/mem.h"
#include "cortado/log.h"
#include "data/idx.h"
#include "data/image_list.h"
#include "device/choice.h"
#include "fuzz_file.h"
#include "layers/window_file.h"
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

/* The cache of this name in $XDG_CACHE_HOME; never a reason to fail. */
static enum ct_status read_choices(const uint8_t *data, size_t n_bytes)
{
    struct ct_choices *c = NULL;
    char home[64], folder[128], path[192];
    FILE *f;

    snprintf(home, sizeof(home), "/dev/shm/fuzz_%ld", (long)getpid());
    snprintf(folder, sizeof(folder), "mkdir -p %s/cortado", home);
    snprintf(path, sizeof(path), "%s/cortado/choices", home);
    if (access(path, F_OK) != 0 && system(folder) != 0)
        return CT_OK;
    f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n_bytes, f) != n_bytes || fclose(f) != 0)
        abort();
    setenv("XDG_CACHE_HOME", home, 1);
    if (ct_choices_open("choices", &c) != CT_OK)
        return CT_OK;
    (void)ct_choices_find(c, "key");
    ct_choices_close(c);
    unlink(path);
    return CT_OK;
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
    switch (data[0] % 6) {
    case 0: st = read_list(path); break;
    case 1: st = read_windows(path); break;
    case 2: st = read_idx(path, 3); break;
    case 3: st = read_idx(path, 1); break;
    case 4: st = read_choices(data + 1, n_bytes - 1); break;
    case 5: st = read_trace(path); break;
    }
    CT_ASSERT(st == CT_OK || ct_last_error()[0]);
    unlink(path);
    CT_ASSERT(ct_mem_stats().n_live == 0);
    return 0;
}
