/* nccl_absent.c - what a build without NCCL says when it is asked for it. */
#include "device/nccl.h"

enum ct_status ct_nccl_available(void)
{
    return ct_fail(CT_ENOTSUP, "this build has no NCCL");
}

enum ct_status ct_nccl_new_id(struct ct_nccl_id *out)
{
    (void)out;
    return ct_nccl_available();
}

enum ct_status ct_nccl_create(const struct ct_device *d,
                              const struct ct_nccl_id *id, int rank, int size,
                              struct ct_nccl **out)
{
    (void)d, (void)id, (void)rank, (void)size, (void)out;
    return ct_nccl_available();
}

void ct_nccl_destroy(struct ct_nccl *n)
{
    (void)n;
}

enum ct_status ct_nccl_sum(struct ct_nccl *n, float *x, int64_t count)
{
    (void)n, (void)x, (void)count;
    return ct_nccl_available();
}

enum ct_status ct_nccl_join(struct ct_nccl *n)
{
    (void)n;
    return ct_nccl_available();
}

enum ct_status ct_nccl_check(struct ct_nccl *n)
{
    (void)n;
    return CT_OK;
}
