/* status.c - the latest error of each thread. */
#include "cortado/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cortado/log.h"

enum { TEXT_BYTES = 2048 };

static _Thread_local char last_text[TEXT_BYTES];

const char *ct_status_name(enum ct_status s)
{
    static const char *const name[CT_N_STATUS] = {
        [CT_OK]        = "ok",
        [CT_EINVAL]    = "invalid value",
        [CT_ESHAPE]    = "shape mismatch",
        [CT_EPARSE]    = "malformed file",
        [CT_EIO]       = "input/output error",
        [CT_ENOTFOUND] = "not found",
        [CT_EEXIST]    = "already exists",
        [CT_ENOMEM]    = "out of memory",
        [CT_ENOTSUP]   = "not supported",
        [CT_EDEVICE]   = "device error",
        [CT_ECOMM]     = "communication error",
        [CT_ENAN]      = "not a finite number",
        [CT_ESTOP]     = "stopped",
        [CT_EINTERNAL] = "internal error",
    };

    return (unsigned)s < CT_N_STATUS ? name[s] : "unknown status";
}

const char *ct_last_error(void)
{
    return last_text;
}

enum ct_status ct_fail(enum ct_status code, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;

    /* Formatted aside first: an argument may be ct_last_error() itself. */
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    memcpy(last_text, text, sizeof(text));
    return code;
}

enum ct_status ct_fail_in(enum ct_status code, const char *fmt, ...)
{
    char context[TEXT_BYTES / 2], text[TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "%s: %.*s", context, TEXT_BYTES / 2 - 3,
             last_text);
    memcpy(last_text, text, sizeof(text));
    return code;
}

void ct_assert_failed(const char *cond, const char *file, int line)
{
    ct_log_write(CT_LOG_FATAL, file, line, "Check failed: %s", cond);
    abort();
}
