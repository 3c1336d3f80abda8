/* forecast.c - speed-up over ranks. */
#include "observe/forecast.h"

#include "base/mem.h"
#include "observe/plot.h"

enum { N_LINES = DIST_N_ROADS + 1, IDEAL = DIST_N_ROADS };

enum ct_status ct_plot_forecast(const struct dist_forecast *f, int n,
                                const char *title, struct ct_text *svg)
{
    struct ct_chart_line line[N_LINES];
    const struct ct_chart chart = { .title = title, .x_name = "ranks",
                                    .y_name = "speed-up", .log = true,
                                    .line = line, .n_lines = N_LINES };
    double *x = NULL, *y;
    enum ct_status st;

    CT_TRY(ct_alloc((size_t)(n * (N_LINES + 1)), sizeof(*x), "chart", &x));
    for (int i = 0; i < n; i++)
        x[i] = f[i].size;
    for (int r = 0; r < N_LINES; r++) {
        y       = x + (r + 1) * n;
        line[r] = (struct ct_chart_line){
            r == IDEAL ? "ideal" : dist_road_name((enum dist_road)r), x, y, n
        };
        for (int i = 0; i < n; i++)
            y[i] = r == IDEAL ? f[i].size : f[i].speedup[r];
    }
    st = ct_plot_chart(&chart, svg);
    ct_free(x);
    return st;
}
