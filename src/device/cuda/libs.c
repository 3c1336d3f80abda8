/* libs.c - NVIDIA's libraries, opened when a GPU is asked for. */
#include "device/cuda/libs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CUBLASLT, CUDNN, N_LIBRARIES };

/* Newest first; then where NVIDIA's installer puts them. */
static const char *const files[N_LIBRARIES][4] = {
    [CUBLASLT] = { "libcublasLt.so.13", "libcublasLt.so.12",
                   "/usr/local/cuda/lib64/libcublasLt.so", NULL },
    [CUDNN]    = { "libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
                   NULL },
};

static struct {
    pthread_once_t      once;
    struct ct_cuda_libs table;
    char                missing[256]; /* "" when all is there */
} libs = { .once = PTHREAD_ONCE_INIT };

static void *open_any(int library)
{
    void *h = NULL;

    for (int i = 0; !h && files[library][i]; i++)
        h = dlopen(files[library][i], RTLD_NOW | RTLD_LOCAL);
    if (!h)
        snprintf(libs.missing, sizeof(libs.missing), "%s cannot be opened",
                 files[library][0]);
    return h;
}

static void take(void *library, const char *name, void *to)
{
    void *fn = library ? dlsym(library, name) : NULL;

    if (library && !fn)
        snprintf(libs.missing, sizeof(libs.missing), "%s is in no library "
                 "that is installed", name);
    memcpy(to, &fn, sizeof(fn));
}

static void open_all(void)
{
    void *const library[N_LIBRARIES] = { open_any(CUBLASLT),
                                         open_any(CUDNN) };

#define CT_LIB_FN(which, name) take(library[which], #name, &libs.table.name);
#include "device/cuda/libs.def"
#undef CT_LIB_FN
}

enum ct_status ct_cuda_libs(const struct ct_cuda_libs **out)
{
    pthread_once(&libs.once, open_all);
    if (libs.missing[0])
        return ct_fail(CT_ENOTFOUND, "%s: a GPU needs cuDNN 9 and cuBLASLt; "
                       "install them or add their folder to LD_LIBRARY_PATH",
                       libs.missing);
    *out = &libs.table;
    return CT_OK;
}

enum ct_status ct_cudnn_check(const struct ct_device *d, cudnnStatus_t e,
                              const char *what)
{
    const struct ct_cuda_libs *l = ct_cuda(d)->libs;
    char text[512]               = "";

    if (e == CUDNN_STATUS_SUCCESS)
        return CT_OK;
    l->cudnnGetLastErrorString(text, sizeof(text));
    return ct_fail(e == CUDNN_STATUS_ALLOC_FAILED ? CT_ENOMEM : CT_EDEVICE,
                   "GPU %d: %s: %s: %s", d->id, what,
                   l->cudnnGetErrorString(e), text);
}
