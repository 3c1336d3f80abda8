/* forecast.h - what more ranks would bring, as a picture. */
#ifndef CT_OBSERVE_FORECAST_H
#define CT_OBSERVE_FORECAST_H

#include "dist/model/predict.h"

/* Speed-up over ranks, a curve a road, and the ideal. */
CT_MUST_CHECK enum ct_status ct_plot_forecast(const struct dist_forecast *f,
                                              int n, const char *title,
                                              struct ct_text *svg);

#endif
