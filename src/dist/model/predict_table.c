/* predict_table.c - forecasts as a table and as JSON. */
#include "dist/model/predict.h"

static const char *const names[DIST_N_ROADS] = { "auto", "allreduce",
                                                 "factors", "ps", "sharded" };

const char *dist_road_name(enum dist_road road)
{
    return names[road];
}

void dist_forecast_text(const struct dist_forecast *f, int n,
                        struct ct_text *out)
{
    ct_text_add(out, "          step, ms; * the best road\n  ranks ");
    for (int r = 0; r < DIST_N_ROADS; r++)
        ct_text_addf(out, " %11s ", names[r]);
    ct_text_add(out, "   MB/rank  waiting  speed-up\n");
    for (int i = 0; i < n; i++) {
        const struct dist_step *best = &f[i].step[f[i].best];

        ct_text_addf(out, "  %5d ", f[i].size);
        for (int r = 0; r < DIST_N_ROADS; r++)
            ct_text_addf(out, " %11.4g%c", 1e3 * f[i].step[r].seconds,
                         r == (int)f[i].best ? '*' : ' ');
        ct_text_addf(out, " %9.4g  %6.1f%%  %8.4g\n", best->bytes / 1e6,
                     100 * (best->seconds - best->compute) / best->seconds,
                     f[i].speedup[f[i].best]);
    }
}

void dist_forecast_json(const struct dist_forecast *f, int n,
                        struct ct_text *out)
{
    ct_text_add(out, "[");
    for (int i = 0; i < n; i++) {
        ct_text_addf(out, "%s\n  { \"ranks\": %d, \"best\": \"%s\"",
                     i ? "," : "", f[i].size, names[f[i].best]);
        for (int r = 0; r < DIST_N_ROADS; r++) {
            const struct dist_step *s = &f[i].step[r];

            ct_text_addf(out, ",\n    \"%s\": { \"step_s\": %.6g, "
                         "\"compute_s\": %.6g, \"comm_s\": %.6g, "
                         "\"bytes\": %.0f, \"factors\": %d, "
                         "\"speedup\": %.6g }", names[r], s->seconds,
                         s->compute, s->comm, s->bytes, s->n_factors,
                         f[i].speedup[r]);
        }
        ct_text_add(out, " }");
    }
    ct_text_add(out, "\n]\n");
}
