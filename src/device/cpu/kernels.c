/* kernels.c - whose arithmetic the CPU's results come from.
 *
 * Libraries choose kernels by the instructions that a CPU has, and these add in
 * different orders.  What the user has forced (OPENBLAS_CORETYPE,
 * DNNL_MAX_CPU_ISA) is part of it. */
#include "device/kernels.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
#include <cpuid.h>
#endif

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

/* What the user has forced is as it should be. */
bool ct_cpu_blas_is_current(void)
{
#ifdef __x86_64__
    static const char *const narrow[] = {
        "Generic", "Prescott", "Core2", "Penryn", "Dunnington", "Atom",
        "Nano", "Nehalem", "Athlon", "Opteron", "Opteron_SSE3", "Barcelona",
        "Bobcat", "Sandybridge", "Bulldozer", "Piledriver", "Steamroller",
    };

    if (getenv("OPENBLAS_CORETYPE") || !__builtin_cpu_supports("avx2"))
        return true;
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++)
        if (strcasecmp(openblas_get_corename(), narrow[i]) == 0)
            return false;
#endif
    return true;
}

#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
enum { AMX_TILE = 1 << 24 }; /* of leaf 7, edx */

/* AMX, but not the leaf that says what its tiles can hold. */
static bool tiles_are_hidden(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_TILE))
        return false;
    return !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d) || a == 0;
}

/* Some virtual machines are so.  oneDNN would set up no tiles and die of the
 * first instruction that uses one.  It can be told before its first use only,
 * which is anywhere. */
__attribute__((constructor)) static void forgo_hidden_tiles(void)
{
    if (tiles_are_hidden() && !getenv("DNNL_MAX_CPU_ISA"))
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}
#endif

/* Such that bfloat16 is faster.  DNNL_MAX_CPU_ISA counts: it is oneDNN that
 * uses them.  A CPU that has AMX multiplies no faster by AVX512_BF16 than in
 * float32 (three quarters of the rate), so without its tiles it has nothing. */
bool ct_device_cpu_has_bf16(void)
{
#if defined(CT_HAVE_ONEDNN) && defined(__x86_64__)
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned has = (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    return (isa & has) == has && !tiles_are_hidden();
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
