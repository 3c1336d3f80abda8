/* cmd_export.c - `cortado export MODEL WEIGHTS OUT.onnx`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

/* --batch: a size, or "dynamic". */
static enum ct_status parse_batch(const char *text, int64_t *out)
{
    char *end;
    long long n;

    *out = 0;
    if (!text)
        return CT_OK;
    if (strcmp(text, "dynamic") == 0) {
        *out = CT_ONNX_DYNAMIC;
        return CT_OK;
    }
    errno = 0;
    n     = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < 1 || n > 1 << 24)
        return ct_fail(CT_EINVAL, "--batch is a size of at least 1, or "
                       "dynamic, not '%s'", text);
    *out = n;
    return CT_OK;
}

int cmd_export(int argc, char **argv)
{
    struct ct_onnx_options o = { .opset = 13 };
    const char *batch = NULL;
    bool fold = true;
    const struct flag flags[] = {
        FLAG("opset", &o.opset),
        FLAG("batch", &batch),
        FLAG("fold", &fold),
        FLAG_END,
    };
    enum ct_status st;
    int code;

    if (!tool_parse(flags, 3, 3, &argc, argv, &code))
        return code;
    o.no_fold = !fold;
    st = parse_batch(batch, &o.batch);
    if (st == CT_OK)
        st = ct_onnx_export_file(argv[1], argv[2], &o, argv[3]);
    return tool_end(st);
}
