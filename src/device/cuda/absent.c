/* absent.c - what a build without CUDA says when it is asked for a GPU. */
#include "cortado/device.h"
#include "device/conv_ahead.h"
#include "device/cpu/bf16.h"
#include "device/device_inner.h"
#include "device/kernels.h"
#include "device/nvml.h"
#include "device/recording.h"
#include "device/staging.h"
#include "device/peer.h"
#include "device/stage.h"
#include "device/update.h"

int ct_device_cuda_count(void)
{
    return 0;
}

enum ct_status ct_device_cuda_open(int id, enum ct_precision precision,
                                   const struct ct_device **out)
{
    (void)precision, (void)out;
    return ct_fail(CT_ENOTSUP, "GPU %d: this build has no GPU support; leave "
                   "out --gpu to run on the CPU", id);
}

void ct_device_close(const struct ct_device *d)
{
    (void)d;
}

const char *ct_device_name(const struct ct_device *d)
{
    (void)d;
    return "CPU";
}

struct ct_device_memory ct_device_memory(const struct ct_device *d)
{
    (void)d;
    return (struct ct_device_memory){ 0 };
}

bool ct_device_cuda_bus(int id, char *out, size_t bytes)
{
    (void)id, (void)out, (void)bytes;
    return false;
}

bool ct_cuda_kernels(const struct ct_device *d, char *text, size_t bytes)
{
    (void)d, (void)text, (void)bytes;
    return false;
}

void ct_device_trim(const struct ct_device *d)
{
    (void)d;
}

uint64_t ct_device_stamp(const struct ct_device *d)
{
    (void)d;
    return 0;
}

enum ct_dtype ct_device_dtype(const struct ct_device *d)
{
    return d == ct_device_cpu_bf16() ? CT_BF16 : CT_F32;
}

bool ct_device_prefers_nhwc(const struct ct_device *d)
{
    return d == ct_device_cpu_bf16();
}

enum ct_status ct_update_create(const struct ct_device *d,
                                enum ct_update_rule rule, int n,
                                const struct ct_update_run *runs,
                                struct ct_update **out)
{
    (void)d, (void)rule, (void)n, (void)runs, (void)out;
    return CT_ENOTSUP;
}

void ct_update_destroy(struct ct_update *u)
{
    (void)u;
}

enum ct_status ct_update_set(struct ct_update *u,
                             const struct ct_update_run *runs,
                             const struct ct_update_step *step)
{
    (void)u, (void)runs, (void)step;
    return CT_ENOTSUP;
}

enum ct_status ct_update_launch(struct ct_update *u,
                                const struct ct_gradient_state *state,
                                float *w, const float *g, float *h0, float *h1)
{
    (void)u, (void)state, (void)w, (void)g, (void)h0, (void)h1;
    return CT_ENOTSUP;
}

enum ct_status ct_gradients_create(const struct ct_device *d, float loss_scale,
                                   struct ct_gradients **out)
{
    (void)d, (void)loss_scale, (void)out;
    return CT_ENOTSUP;
}

void ct_gradients_destroy(struct ct_gradients *g)
{
    (void)g;
}

enum ct_status ct_gradients_judge(struct ct_gradients *g, int64_t n,
                                  const float *x, float mean, float clip)
{
    (void)g, (void)n, (void)x, (void)mean, (void)clip;
    return CT_ENOTSUP;
}

const struct ct_gradient_state *ct_gradients_state(
    const struct ct_gradients *g)
{
    (void)g;
    return NULL;
}

enum ct_status ct_gradients_get(const struct ct_gradients *g,
                                struct ct_gradient_state *out)
{
    (void)g, (void)out;
    return CT_ENOTSUP;
}

enum ct_status ct_gradients_put(struct ct_gradients *g,
                                const struct ct_gradient_state *state)
{
    (void)g, (void)state;
    return CT_ENOTSUP;
}

enum ct_status ct_gradients_note(struct ct_gradients *g, int step,
                                 struct ct_gradient_state *old, int *old_step,
                                 bool *any)
{
    (void)g, (void)step, (void)old, (void)old_step, (void)any;
    return CT_ENOTSUP;
}

enum ct_status ct_gradients_noted(struct ct_gradients *g,
                                  struct ct_gradient_state *old, int *old_step,
                                  bool *any)
{
    (void)g, (void)old, (void)old_step, (void)any;
    return CT_ENOTSUP;
}

enum ct_status ct_graph_begin(const struct ct_device *d)
{
    (void)d;
    return CT_ENOTSUP;
}

enum ct_status ct_graph_end(const struct ct_device *d, struct ct_graph **out)
{
    (void)d, (void)out;
    return CT_ENOTSUP;
}

enum ct_status ct_graph_launch(struct ct_graph *g)
{
    (void)g;
    return CT_ENOTSUP;
}

void ct_graph_destroy(struct ct_graph *g)
{
    (void)g;
}

enum ct_status ct_staging_create(const struct ct_device *d,
                                 struct ct_staging **out)
{
    (void)d, (void)out;
    return CT_ENOTSUP;
}

void ct_staging_destroy(struct ct_staging *s)
{
    (void)s;
}

enum ct_status ct_staging_send(struct ct_staging *s, int n,
                               struct ct_span *span)
{
    (void)s, (void)n, (void)span;
    return CT_ENOTSUP;
}

enum ct_status ct_staging_take(struct ct_staging *s)
{
    (void)s;
    return CT_ENOTSUP;
}

enum ct_status ct_staging_done(struct ct_staging *s)
{
    (void)s;
    return CT_ENOTSUP;
}

enum ct_status ct_staging_wait(struct ct_staging *s, int n)
{
    (void)s, (void)n;
    return CT_ENOTSUP;
}

void ct_pin(const struct ct_device *d, void *memory, size_t bytes)
{
    (void)d, (void)memory, (void)bytes;
}

void ct_unpin(const struct ct_device *d, void *memory)
{
    (void)d, (void)memory;
}

enum ct_status ct_pixels_transform(const struct ct_device *d,
                                   const struct ct_pixel_batch *b,
                                   enum ct_layout layout, enum ct_dtype dtype,
                                   void *y)
{
    (void)d, (void)b, (void)layout, (void)dtype, (void)y;
    return CT_ENOTSUP;
}

enum ct_status ct_beacon_create(const struct ct_device *d,
                                struct ct_beacon **out)
{
    (void)d, (void)out;
    return CT_ENOTSUP;
}

void ct_beacon_destroy(struct ct_beacon *b)
{
    (void)b;
}

enum ct_status ct_beacon_send(struct ct_beacon *b, int n,
                              const struct ct_beacon_part *part,
                              uint64_t *counter)
{
    (void)b, (void)n, (void)part, (void)counter;
    return CT_ENOTSUP;
}

enum ct_status ct_beacon_wait(struct ct_beacon *b, double *out)
{
    (void)b, (void)out;
    return CT_ENOTSUP;
}

enum ct_status ct_conv_weights_ahead(struct ct_conv *c, enum ct_pass pass,
                                     const float *w)
{
    (void)c, (void)pass, (void)w;
    return CT_OK;
}

enum ct_status ct_side_begin(const struct ct_device *d)
{
    (void)d;
    return CT_OK;
}

enum ct_status ct_side_end(const struct ct_device *d)
{
    (void)d;
    return CT_OK;
}

enum ct_status ct_side_join(const struct ct_device *d)
{
    (void)d;
    return CT_OK;
}

const struct ct_stage_ops *ct_cuda_stage_ops(void)
{
    return NULL;
}

enum ct_status ct_cuda_peer_create(const struct ct_device *d, int64_t n,
                                   struct ct_peer_memory **out)
{
    (void)d, (void)n, (void)out;
    return CT_ENOTSUP;
}

void ct_cuda_peer_destroy(struct ct_peer_memory *w)
{
    (void)w;
}

void ct_cuda_peer_export(const struct ct_peer_memory *w,
                         struct ct_peer_address *a)
{
    (void)w, (void)a;
}

enum ct_status ct_cuda_peer_open(struct ct_peer_memory *w,
                                 const struct ct_peer_address *a,
                                 const float **out)
{
    (void)w, (void)a, (void)out;
    return CT_ENOTSUP;
}

void ct_cuda_peer_close(struct ct_peer_memory *w, const float *x)
{
    (void)w, (void)x;
}

enum ct_status ct_cuda_peer_run(struct ct_peer_memory *w, bool add, int64_t n,
                                const float *x, float *y)
{
    (void)w, (void)add, (void)n, (void)x, (void)y;
    return CT_ENOTSUP;
}

struct ct_device_uuid ct_device_uuid(const struct ct_device *d)
{
    (void)d;
    return (struct ct_device_uuid){ { 0 } };
}
