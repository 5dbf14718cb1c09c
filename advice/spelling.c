#include "advice/spelling.h"

#include <stdint.h>
#include <string.h>

#include "base/status.h"

size_t spelling_distance(const char *a, const char *b) {
    enum { MOST = 32 };
    size_t n = strlen(a), m = strlen(b), d[MOST + 1][MOST + 1];
    if (n > MOST || m > MOST) return SIZE_MAX;
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t k = 0; k <= m; k++) d[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        for (size_t k = 1; k <= m; k++) {
            d[i][k] = size_min(size_min(d[i - 1][k], d[i][k - 1]) + 1,
                               d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = size_min(d[i][k], d[i - 2][k - 2] + 1);
        }
    }
    return d[n][m];
}

size_t spelling_tolerance(const char *word) {
    size_t third = strlen(word) / 3;
    return third < 3 ? third : 3;
}

const char *spelling_nearest(const char *word, const char *const *names, size_t n) {
    const char *best = NULL;
    size_t least = spelling_tolerance(word) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t distance = names[i] ? spelling_distance(word, names[i]) : SIZE_MAX;
        if (distance < least) best = names[i], least = distance;
    }
    return best;
}
