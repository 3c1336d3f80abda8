/* precision.c - the words for how a device computes, and the CPU's choice. */
#include <string.h>

#include "cortado/device.h"
#include "cortado/log.h"
#include "device/cpu/bf16.h"
#include "device/device_inner.h"

static const char *const words[] = { [CT_FP32] = "fp32",
                                     [CT_TF32] = "tf32",
                                     [CT_BF16_MIXED] = "bf16",
                                     [CT_FP16_MIXED] = "fp16",
                                     [CT_BF16_FORCED] = "bf16!" };

const char *ct_precision_name(enum ct_precision p)
{
    return words[p];
}

enum ct_status ct_precision_parse(const char *text, enum ct_precision *out)
{
    for (int i = 0; i < (int)(sizeof(words) / sizeof(words[0])); i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (enum ct_precision)i;
            return CT_OK;
        }
    return ct_fail(CT_EINVAL, "precision '%s': use fp32, tf32, bf16 or fp16; "
                   "bf16! for bf16 on a CPU without instructions for it",
                   text);
}

enum ct_status ct_device_cpu_open(enum ct_precision precision,
                                  const struct ct_device **out)
{
    *out = ct_device_cpu();
    if (precision == CT_FP16_MIXED)
        return ct_fail(CT_ENOTSUP, "fp16 needs a GPU; a CPU computes in fp32 "
                       "or bf16");
    if (precision == CT_TF32)
        CT_INFO("tf32 is for GPUs: the CPU computes in fp32");
    if (precision == CT_BF16_FORCED ||
        (precision == CT_BF16_MIXED && ct_device_cpu_has_bf16()))
        *out = ct_device_cpu_bf16();
    else if (precision == CT_BF16_MIXED)
        CT_WARN("this CPU has no instructions for bfloat16, with which bf16 "
                "is faster: it computes in fp32; --precision=bf16! insists");
    return CT_OK;
}
