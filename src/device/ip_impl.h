/* ip_impl.h - what an implementation of the inner product provides.  The
 * contracts are ip.h's. */
#ifndef CT_DEVICE_IP_IMPL_H
#define CT_DEVICE_IP_IMPL_H

#include "device/ip.h"

struct ct_ip_impl {
    struct ct_impl head; /* first; the description is a struct ct_ip */
    enum ct_status (*forward)(const struct ct_ip *p, const float *x,
                              const float *w, const float *b, float *y);
    /* NULL: passes read w as it is. */
    enum ct_status (*pack)(const struct ct_ip *p, enum ct_pass pass,
                           const float *w);
    enum ct_status (*backward_data)(const struct ct_ip *p, const float *w,
                                    const float *dy, float *dx);
    /* The bias is the dispatcher's work. */
    enum ct_status (*backward_weights)(const struct ct_ip *p, const float *x,
                                       const float *dy, float *dw);
};

/* ip.c: y = max(y, 0) if p->relu, for one that does not on its way. */
void ct_ip_relu(const struct ct_ip *p, float *y);

extern const struct ct_ip_impl ct_ip_gemm; /* takes everything, anywhere */
#ifdef CT_HAVE_ONEDNN
extern const struct ct_ip_impl ct_ip_onednn;
#ifdef __x86_64__
extern const struct ct_ip_impl ct_ip_bf16; /* in that precision */
#endif
#endif

#endif
