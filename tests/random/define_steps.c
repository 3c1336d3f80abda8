/* define_steps.c - definitions of the recurrent layers, step by step, from a
 * state of zeros. */
#include <math.h>
#include <stdlib.h>

#include "define.h"
#include "proto/params.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Row `unit` of w times x of n values. */
static double product(const struct tensor *w, int64_t unit, const double *x,
                      int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += w->v[unit * n + i] * x[i];
    return sum;
}

/* With expose_hidden the last bottoms are the states at the start. */
static int n_states(const struct definition *d)
{
    return d->n_top - 1;
}

static bool has_static(const struct definition *d)
{
    return d->n_bottom - n_states(d) > 2;
}

/* State k of stream n at the start: 0 where no bottom brings it. */
static void begin(const struct definition *d, int k, int64_t n, int64_t H,
                  double *state)
{
    const int at = d->n_bottom - n_states(d) + k;

    for (int64_t i = 0; i < H; i++)
        state[i] = n_states(d) > 0 ? d->bottom[at].v[n * H + i] : 0;
}

static void end(const struct definition *d, int k, int64_t n, int64_t H,
                const double *state)
{
    for (int64_t i = 0; i < H && n_states(d) > 0; i++)
        d->top[1 + k].v[n * H + i] = state[i];
}

/* x_t, the static input and the last h through one row of the weights; W_h is
 * the blob behind b, or behind W_static. */
static double gate(const struct definition *d, int64_t row, int64_t t,
                   int64_t n, const double *h, int64_t n_h)
{
    const bool fixed   = has_static(d);
    const int64_t N    = define_dim(d->bottom, 1);
    const int64_t n_x  = define_count(d->bottom, 2, 99);
    double g = product(&d->blob[0], row, d->bottom->v + (t * N + n) * n_x,
                       n_x) + d->blob[1].v[row];

    if (fixed) {
        const int64_t n_s = define_count(&d->bottom[2], 1, 99);

        g += product(&d->blob[2], row, d->bottom[2].v + n * n_s, n_s);
    }
    return g + product(&d->blob[fixed ? 3 : 2], row, h, n_h);
}

static void lstm(const struct definition *d)
{
    const int64_t T = define_dim(d->bottom, 0), N = define_dim(d->bottom, 1);
    const int64_t H = define_dim(d->top, 2);
    double *h    = calloc((size_t)H, sizeof(*h));
    double *c    = calloc((size_t)H, sizeof(*c));
    double *next = calloc((size_t)H, sizeof(*next));

    for (int64_t n = 0; n < N && h && c && next; n++) {
        begin(d, 0, n, H, h);
        begin(d, 1, n, H, c);
        for (int64_t t = 0; t < T; t++) {
            const double cont = d->bottom[1].v[t * N + n];

            for (int64_t k = 0; k < H; k++)
                h[k] *= cont;
            for (int64_t k = 0; k < H; k++) {
                const double i = sigmoid(gate(d, k, t, n, h, H));
                const double f = sigmoid(gate(d, H + k, t, n, h, H));
                const double o = sigmoid(gate(d, 2 * H + k, t, n, h, H));
                const double g = tanh(gate(d, 3 * H + k, t, n, h, H));

                c[k]    = cont * f * c[k] + i * g;
                next[k] = o * tanh(c[k]);
            }
            for (int64_t k = 0; k < H; k++)
                d->top->v[(t * N + n) * H + k] = h[k] = next[k];
        }
        end(d, 0, n, H, h);
        end(d, 1, n, H, c);
    }
    free(h);
    free(c);
    free(next);
}

static void rnn(const struct definition *d)
{
    const int64_t T = define_dim(d->bottom, 0), N = define_dim(d->bottom, 1);
    const int64_t H = define_dim(d->top, 2);
    const int w_o   = has_static(d) ? 4 : 3;
    double *h = calloc((size_t)H, sizeof(*h));
    double *next = calloc((size_t)H, sizeof(*next));

    for (int64_t n = 0; n < N && h && next; n++) {
        begin(d, 0, n, H, h);
        for (int64_t t = 0; t < T; t++) {
            for (int64_t k = 0; k < H; k++)
                h[k] *= d->bottom[1].v[t * N + n];
            for (int64_t k = 0; k < H; k++)
                next[k] = tanh(gate(d, k, t, n, h, H));
            for (int64_t k = 0; k < H; k++)
                h[k] = next[k];
            for (int64_t k = 0; k < H; k++)
                d->top->v[(t * N + n) * H + k] =
                    tanh(product(&d->blob[w_o], k, h, H) +
                         d->blob[w_o + 1].v[k]);
        }
        end(d, 0, n, H, h);
    }
    free(h);
    free(next);
}

static void lstm_unit(const struct definition *d)
{
    const int64_t H = define_dim(d->top, 2);

    for (int64_t k = 0; k < d->top->n; k++) {
        const double *g   = d->bottom[1].v + k / H * 4 * H + k % H;
        const double cont = d->bottom[2].v[k / H];

        d->top[0].v[k] = cont * sigmoid(g[H]) * d->bottom->v[k] +
                         sigmoid(g[0]) * tanh(g[3 * H]);
        d->top[1].v[k] = sigmoid(g[2 * H]) * tanh(d->top[0].v[k]);
    }
}

const struct define_entry define_steps[] = {
    { "LSTMUnit", lstm_unit },
    { "LSTM", lstm },
    { "RNN", rnn },
    { NULL, NULL },
};
