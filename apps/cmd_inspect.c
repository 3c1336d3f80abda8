/* cmd_inspect.c - `cortado inspect`: what is in this file, in a page. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/hdf5.h"
#include "inspect.h"
#include "tool.h"

struct inspect_values inspect_values(const float *f, const double *d,
                                     int64_t n)
{
    struct inspect_values v = { INFINITY, -INFINITY, 0, 0 };

    for (int64_t i = 0; i < n; i++) {
        double x = d ? d[i] : (double)f[i];

        if (!isfinite(x)) {
            v.n_bad++;
            continue;
        }
        v.min = x < v.min ? x : v.min;
        v.max = x > v.max ? x : v.max;
        v.mean += x;
    }
    if (n > v.n_bad)
        v.mean /= (double)(n - v.n_bad);
    else
        v.min = v.max = 0;
    return v;
}

void inspect_print_values(const struct inspect_values *v)
{
    printf("min %-12.5g max %-12.5g mean %.5g", v->min, v->max, v->mean);
    if (v->n_bad)
        printf("  %" PRId64 " NOT FINITE", v->n_bad);
    putchar('\n');
}

const char *inspect_bytes(int64_t n, char *buf, size_t size)
{
    static const char *const unit[] = { "bytes", "kB", "MB", "GB", "TB" };
    double v = (double)n;
    int i    = 0;

    for (; v >= 1000 && i < 4; i++)
        v /= 1000;
    snprintf(buf, size, "%.*f %s", i ? 1 : 0, v, unit[i]);
    return buf;
}

/* Prototxt has no control characters but line ends and tabs. */
static enum ct_status looks_like_text(const char *path, bool *out)
{
    unsigned char head[4096];
    FILE *f = fopen(path, "rb");
    size_t n;

    if (!f)
        return ct_fail(errno == ENOENT ? CT_ENOTFOUND : CT_EIO,
                       "cannot open %s: %s", path, strerror(errno));
    n    = fread(head, 1, sizeof(head), f);
    *out = true;
    for (size_t i = 0; i < n; i++)
        if (head[i] < 32 && !strchr("\t\n\r", head[i]))
            *out = false;
    if (memchr(head, 0, n))
        *out = false;
    fclose(f);
    return CT_OK;
}

static enum ct_status inspect(struct inspect *in)
{
    struct stat info;
    bool text;

    if (stat(in->path, &info) != 0)
        return ct_fail(errno == ENOENT ? CT_ENOTFOUND : CT_EIO, "%s: %s",
                       in->path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return inspect_db(in);
    if (info.st_size == 0)
        return ct_fail(CT_EPARSE, "%s is empty", in->path);
    if (ct_hdf5_is(in->path))
        return inspect_hdf5(in);
    CT_TRY(looks_like_text(in->path, &text));
    return text ? inspect_text(in) : inspect_binary(in);
}

int cmd_inspect(int argc, char **argv)
{
    struct inspect in = { .whole = true };
    const struct flag flags[] = {
        FLAG("deep", &in.deep),
        FLAG_END,
    };
    enum ct_status st;
    int code;

    ct_log_set_level(CT_LOG_ERROR);
    if (!tool_parse(flags, 1, 1, &argc, argv, &code))
        return code;
    in.path = argv[1];
    st      = inspect(&in);
    if (st != CT_OK)
        return command_failed(st);
    return in.whole ? EXIT_DONE : EXIT_INPUT;
}
