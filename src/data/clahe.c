/* clahe.c - contrast-limited adaptive histogram equalisation.
 *
 * Each tile has a table that equalises its own histogram, cut at the limit
 * and with what was cut off spread over all values.  A pixel takes the mean
 * of the tables of the four nearest tiles, weighted by how near they are. */
#include "data/clahe.h"

#include <math.h>

enum { TILES = 8, LIMIT = 4, VALUES = 256 };

static inline int least(int a, int b)
{
    return a < b ? a : b;
}

/* The table of the pixels [x0, x1) x [y0, y1). */
static void tile_table(const unsigned char *y, int width, int x0, int x1,
                       int y0, int y1, unsigned char *table)
{
    const int area = (x1 - x0) * (y1 - y0);
    const int most = area * LIMIT / VALUES > 1 ? area * LIMIT / VALUES : 1;
    int count[VALUES] = { 0 }, cut = 0, below = 0;

    for (int i = y0; i < y1; i++)
        for (int j = x0; j < x1; j++)
            count[y[i * width + j]]++;
    for (int v = 0; v < VALUES; v++)
        if (count[v] > most) {
            cut += count[v] - most;
            count[v] = most;
        }
    for (int v = 0; v < VALUES; v++)
        count[v] += cut / VALUES;
    /* What is left of the division goes to values at equal distances. */
    for (int left = cut % VALUES, step = VALUES / (left ? left : 1), v = 0;
         left > 0 && v < VALUES; v += step > 1 ? step : 1, left--)
        count[v]++;
    for (int v = 0; v < VALUES; v++) {
        below += count[v];
        table[v] = (unsigned char)(area ? lrintf(255 * (float)below /
                                                 (float)area)
                                        : v);
    }
}

void ct_clahe(unsigned char *y, int width, int height)
{
    unsigned char table[TILES][TILES][VALUES];
    const int tile_w = (width + TILES - 1) / TILES;
    const int tile_h = (height + TILES - 1) / TILES;

    for (int r = 0; r < TILES; r++)
        for (int c = 0; c < TILES; c++)
            tile_table(y, width, least(c * tile_w, width),
                       least((c + 1) * tile_w, width),
                       least(r * tile_h, height),
                       least((r + 1) * tile_h, height), table[r][c]);
    for (int i = 0; i < height; i++) {
        const float fr = (float)i / (float)tile_h - 0.5f;
        const int r0   = fr < 0 ? 0 : (int)fr;
        const int r1   = least(fr < 0 ? 0 : r0 + 1, (height - 1) / tile_h);
        const float wr = fr < 0 ? 0 : fr - (float)r0;

        for (int j = 0; j < width; j++) {
            const float fc = (float)j / (float)tile_w - 0.5f;
            const int c0   = fc < 0 ? 0 : (int)fc;
            const int c1   = least(fc < 0 ? 0 : c0 + 1, (width - 1) / tile_w);
            const float wc = fc < 0 ? 0 : fc - (float)c0;
            const int v    = y[i * width + j];
            const float up = (float)table[r0][c0][v] * (1 - wc) +
                             (float)table[r0][c1][v] * wc;
            const float lo = (float)table[r1][c0][v] * (1 - wc) +
                             (float)table[r1][c1][v] * wc;

            y[i * width + j] = (unsigned char)lrintf(up * (1 - wr) + lo * wr);
        }
    }
}
