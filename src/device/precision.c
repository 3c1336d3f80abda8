/* precision.c - the words for how a GPU computes. */
#include <string.h>

#include "cortado/device.h"

static const char *const words[] = { [CT_FP32] = "fp32",
                                     [CT_TF32] = "tf32",
                                     [CT_BF16_MIXED] = "bf16",
                                     [CT_FP16_MIXED] = "fp16" };

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
    return ct_fail(CT_EINVAL, "precision '%s': use fp32, tf32, bf16 or fp16",
                   text);
}
