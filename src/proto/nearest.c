/* nearest.c - the known word nearest to a mistyped one.
 *
 * The distance counts letters left out, added, exchanged or swapped with
 * their neighbour (Damerau-Levenshtein, optimal string alignment):
 *
 *     d[i][j] = min(d[i-1][j] + 1, d[i][j-1] + 1, d[i-1][j-1] + (a_i != b_j),
 *                   d[i-2][j-2] + 1 if a_i = b_j-1 and a_i-1 = b_j)
 *
 * Upper and lower case are the same letter.  A third of the letters, and one
 * more, may be wrong. */
#include "proto/nearest.h"

#include <ctype.h>
#include <stdbool.h>

enum { LETTERS = 64 };

struct ct_nearest ct_nearest(const char *word, size_t n_bytes)
{
    return (struct ct_nearest){ .word     = word,
                                .n_bytes  = n_bytes,
                                .distance = (int)(n_bytes / 3) + 2 };
}

static int near_min(int a, int b)
{
    return a < b ? a : b;
}

static bool near_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int near_distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[3][LETTERS + 1];
    int *two = row[0], *one = row[1], *now = row[2];

    for (size_t j = 0; j <= m; j++)
        one[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *spare = two;

        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int d = one[j - 1] + !near_same(a[i - 1], b[j - 1]);

            d = near_min(d, near_min(one[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && near_same(a[i - 1], b[j - 2]) &&
                near_same(a[i - 2], b[j - 1]))
                d = near_min(d, two[j - 2] + 1);
            now[j] = d;
        }
        two = one;
        one = now;
        now = spare;
    }
    return one[m];
}

void ct_nearest_try(struct ct_nearest *n, const char *known, size_t n_bytes)
{
    int d;

    if (n->n_bytes > LETTERS || n_bytes > LETTERS)
        return;
    d = near_distance(n->word, n->n_bytes, known, n_bytes);
    if (d < n->distance && (size_t)d < n_bytes) {
        n->distance   = d;
        n->best       = known;
        n->best_bytes = n_bytes;
    }
}
