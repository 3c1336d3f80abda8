/* rate.c - a token bucket. */
#include "comm/rate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum ct_status ct_rate_parse(const char *text, double *bytes_s,
                             const char **rest)
{
    static const struct {
        const char *name;
        double      bytes;
    } units[] = {
        { "bit", 1 / 8.0 },   { "kbit", 1e3 / 8 }, { "mbit", 1e6 / 8 },
        { "gbit", 1e9 / 8 },  { "B", 1 },          { "kB", 1e3 },
        { "MB", 1e6 },        { "GB", 1e9 },
    };
    char *unit;
    double v = strtod(text, &unit);
    size_t n = strcspn(unit, ":");

    for (size_t i = 0; unit != text && i < sizeof(units) / sizeof(units[0]);
         i++)
        if (strlen(units[i].name) == n &&
            strncasecmp(unit, units[i].name, n) == 0 && v > 0 && v < 1e9) {
            *bytes_s = v * units[i].bytes;
            *rest    = unit + n;
            return CT_OK;
        }
    return ct_fail(CT_EINVAL, "'%s' is no rate: write 100mbit, 1gbit or "
                   "12.5MB, a second", text);
}

void ct_rate_init(struct ct_rate *r, double bytes_s, double now)
{
    *r = (struct ct_rate){ .per_s = bytes_s, .most = bytes_s, .last = now };
}

double ct_rate_level(struct ct_rate *r, double now)
{
    if (now > r->last)
        r->level += (now - r->last) * r->per_s;
    r->last  = now > r->last ? now : r->last;
    r->level = r->level < r->most ? r->level : r->most;
    return r->level;
}

bool ct_rate_take(struct ct_rate *r, double now, size_t bytes)
{
    if (!(ct_rate_level(r, now) > 0))
        return false;
    r->level -= (double)bytes;
    return true;
}
