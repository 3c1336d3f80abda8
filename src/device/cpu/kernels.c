/* kernels.c - whose arithmetic the CPU's results come from.
 *
 * Libraries choose kernels by the instructions that a CPU has, and these add in
 * different orders.  What the user has forced (OPENBLAS_CORETYPE,
 * DNNL_MAX_CPU_ISA) is part of it. */
#include "device/kernels.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "device/cpu/onednn.h"
#include "device/device_inner.h"
#include "device/peak.h"

/* "OpenBLAS 0.3.21 DYNAMIC_ARCH ..." */
static void add_openblas(struct ct_text *t)
{
    const char *words = openblas_get_config();
    const char *first = strchr(words, ' ');
    const char *end   = first ? strchr(first + 1, ' ') : NULL;

    ct_text_addf(t, ", %.*s %s", end ? (int)(end - words) : 24, words,
                 openblas_get_corename());
}

/* DNNL_MAX_CPU_ISA counts: it is oneDNN that uses them. */
bool ct_device_cpu_has_bf16(void)
{
#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned has = (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    return (isa & has) == has;
#else
    return false;
#endif
}

bool ct_cpu_has_amx(void)
{
#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned has = (unsigned)dnnl_cpu_isa_avx512_core_amx;

    return (isa & has) == has;
#else
    return false;
#endif
}

const char *ct_cpu_kernels(char *text, size_t bytes)
{
    struct ct_text t = { 0 };

    ct_text_addf(&t, "CPU, %s", ct_cpu_vector_name());
    add_openblas(&t);
#ifdef CT_HAVE_ONEDNN
    ct_text_addf(&t, ", oneDNN %d.%d.%d isa %x", dnnl_version()->major,
                 dnnl_version()->minor, dnnl_version()->patch,
                 (unsigned)dnnl_get_effective_cpu_isa());
#endif
    snprintf(text, bytes, "%s", t.failed ? "CPU" : t.s);
    ct_text_fini(&t);
    return text;
}
