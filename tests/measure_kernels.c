/* Measures products of one core: build/tests/measure_kernels ISA [TYPE,... [ROWS,... [INPUTS
 * OUTPUTS]]]
 *
 * Prints GMAC/s (billions of multiply-adds a second) of matmul, packing of the activations
 * included, for a matrix of 2048 inputs by 2048 outputs, as a table of types by rows. The best of
 * many repetitions counts, so that a busy machine disturbs little. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/numbers.h"
#include "core/isa.h"
#include "kernels/matmul.h"

enum { MOST_ROWS = 512 };

/* A matrix of pseudo-random codes, whose scales are small numbers. */
static Matrix matrix_new(TensorType type, size_t rows, size_t cols) {
    size_t panel_bytes = 0, bytes = 0;
    if (!tensor_panel_bytes(type, cols, &panel_bytes) ||
        !tensor_matrix_bytes(type, rows, cols, &bytes))
        exit(1);
    uint8_t *data = aligned_alloc(64, round_up(bytes, 64));
    if (!data) exit(1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)((i * 2654435761u >> 13 & 0x2F) | (type == TENSOR_MXFP4 ? 0x60 : 0));
    return (Matrix){type, rows, cols, panel_bytes, data};
}

/* Billions of multiply-adds a second of the fastest repetition within 0.2 s. */
static double measure(const Kernels *kernels, const Matrix *w, const float *x, size_t n_rows) {
    float *out = malloc(n_rows * w->rows * sizeof *out);
    MatmulMemory *memory = matmul_memory_new(kernels, n_rows, w->cols, 1);
    if (!out || !memory) exit(1);
    Product product = {w, out, w->rows};
    ProductSet set = {x, n_rows, &product, 1, NULL};
    double best = 0.0, begin = clock_seconds();
    for (int i = 0; i < 3 || clock_seconds() - begin < 0.2; i++) {
        double start = clock_seconds();
        matmul(kernels, memory, w->cols, &set, 1);
        double rate =
            (double)n_rows * (double)w->rows * (double)w->cols / 1e9 / (clock_seconds() - start);
        best = rate > best ? rate : best;
    }
    matmul_memory_free(memory);
    free(out);
    return best;
}

/* Tells whether the list "a,b,c" has the name. */
static bool has_name(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)) != NULL; p++)
        if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == 0)) return true;
    return false;
}

int main(int argc, char **argv) {
    Error error;
    const Isa *isa = isa_choose(argc > 1 ? argv[1] : NULL, &error);
    if (!isa) return fprintf(stderr, "%s\n", error.text), 1;
    const char *types = argc > 2 ? argv[2] : NULL, *rows = argc > 3 ? argv[3] : "1,2,4,6,8,32,512";
    size_t cols = argc > 5 ? strtoul(argv[4], NULL, 10) : 2048;
    size_t outputs = argc > 5 ? strtoul(argv[5], NULL, 10) : 2048;
    float *x = malloc(MOST_ROWS * cols * sizeof *x);
    if (!x) return 1;
    for (size_t i = 0; i < MOST_ROWS * cols; i++)
        x[i] = (float)((int)(i * 40503 >> 3 & 1023) - 512) / 512;
    for (TensorType type = TENSOR_F32; type < TENSOR_TYPES; type++) {
        const char *name = tensor_type_info(type)->name;
        if (types && strcmp(types, "all") != 0 && !has_name(types, name)) continue;
        Matrix w = matrix_new(type, outputs, cols);
        printf("%-7s", name);
        for (const char *p = rows; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
            size_t n = strtoul(p, NULL, 10);
            if (n < 1 || n > MOST_ROWS) return 1;
            printf(" %4zu: %6.1f", n, measure(isa->kernels, &w, x, n));
            fflush(stdout);
        }
        printf("\n");
        free((void *)w.data);
    }
    free(x);
    return 0;
}
