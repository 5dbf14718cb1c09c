/* Quantizing a real model to 8 bits does not change the most likely token where it clearly
 * leads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "process.h"
#include "tests/tiny_model.h"

enum { N = 200 };

static double deviation(const float *x, size_t n) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    return sqrt(square);
}

/* Returns the difference between the largest logit and the second. */
static double lead(const float *x, size_t n, int32_t top) {
    float second = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if ((int32_t)i != top && x[i] > second) second = x[i];
    return x[top] - second;
}

static void eight_bits_choose_the_same_word_wherever_one_is_clearly_ahead(void **state) {
    (void)state;
    const char *shared = shared_data("stories260K/stories260K.bin");
    if (!shared) {
        print_message("stories260K is not here: skipped\n");
        skip();
    }
    char *path = strdup(shared);
    ModelOptions options = {.n_threads = 1};
    TinyModel exact = tiny_model_open(path, "f32", &options, KV_F32);
    TinyModel eight = tiny_model_open(path, "q8", &options, KV_F32);
    size_t vocab = exact.vocab_size;
    float *logits = malloc(vocab * sizeof *logits);
    int32_t ids[N + 1] = {1};
    kvcache_reset(exact.cache, 0, 0);
    for (size_t i = 0; i < N; i++) { /* the float32 model's greedy text */
        tiny_model_continue(&exact, 0, &ids[i], 1, 1, logits);
        ids[i + 1] = tiny_model_argmax(logits, vocab);
    }
    float *want = tiny_model_run(&exact, 0, 0, ids, N, N);
    float *got = tiny_model_run(&eight, 0, 0, ids, N, N);
    size_t clear = 0, same = 0;
    for (size_t i = 0; i < N; i++) {
        const float *w = want + i * vocab, *g = got + i * vocab;
        int32_t top = tiny_model_argmax(w, vocab);
        bool agrees = tiny_model_argmax(g, vocab) == top;
        same += agrees;
        if (lead(w, vocab, top) <= 0.05 * deviation(w, vocab)) continue;
        clear++;
        if (!agrees) fail_msg("position %zu: another word in 8 bits", i);
    }
    print_message("%zu of %d words clear, %zu the same\n", clear, N, same);
    assert_true(clear > N / 2);
    free(want);
    free(got);
    free(logits);
    free(path);
    tiny_model_close(&exact);
    tiny_model_close(&eight);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_bits_choose_the_same_word_wherever_one_is_clearly_ahead),
    };
    return cmocka_run_group_tests_name("quantized", tests, NULL, NULL);
}
