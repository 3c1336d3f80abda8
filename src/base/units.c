/* units.c - quantities as people write them. */
#include "base/units.h"

#include <stdlib.h>
#include <strings.h>

struct unit {
    const char *name;
    double      factor;
};

static enum ct_status parse(const char *text, const struct unit *unit,
                            const char *example, double *out)
{
    char *end;
    double x = strtod(text, &end);

    for (; end != text && x > 0 && unit->name; unit++)
        if (strcasecmp(end, unit->name) == 0) {
            *out = x * unit->factor;
            return CT_OK;
        }
    return ct_fail(CT_EINVAL, "'%s' is not understood: write it like %s",
                   text, example);
}

enum ct_status ct_parse_seconds(const char *text, double *out)
{
    static const struct unit units[] = {
        { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },
        { "", 1 },      { NULL, 0 },
    };

    return parse(text, units, "30us or 2ms", out);
}

enum ct_status ct_parse_flops(const char *text, double *out)
{
    static const struct unit units[] = {
        { "mflops", 1e6 }, { "gflops", 1e9 }, { "tflops", 1e12 }, { "", 1 },
        { NULL, 0 },
    };

    return parse(text, units, "500gflops", out);
}
