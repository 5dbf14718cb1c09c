#include "modes/inspect/attention_entropy.h"

#include <math.h>

#include "layers/model_watch.h"

/* PassObserver.attended */
static void add_entropy(PassObserver *observer, size_t layer, size_t row, size_t head,
                        int32_t first, float *weights, size_t n) {
    AttentionEntropy *entropy = (AttentionEntropy *)observer;
    double sum = 0.0;
    (void)layer, (void)row, (void)head, (void)first;
    for (size_t i = 0; i < n; i++)
        if (weights[i] > 0.0f) sum -= (double)weights[i] * log((double)weights[i]);
    int64_t fixed = (int64_t)(sum * 0x1p32), max = (int64_t)(log((double)n) * 0x1p32);
#pragma omp atomic
    entropy->sum += fixed;
#pragma omp atomic
    entropy->max += max;
#pragma omp atomic
    entropy->n++;
}

void attention_entropy_begin(AttentionEntropy *entropy, Model *model) {
    *entropy = (AttentionEntropy){.observer = {.attended = add_entropy}};
    model_add_observer(model, &entropy->observer);
}

void attention_entropy_end(AttentionEntropy *entropy, Model *model) {
    model_remove_observer(model, &entropy->observer);
}

static double mean(int64_t sum, int64_t n) {
    return n ? (double)sum * 0x1p-32 / (double)n : 0.0;
}

double attention_entropy_mean(const AttentionEntropy *entropy) {
    return mean(entropy->sum, entropy->n);
}

double attention_entropy_max(const AttentionEntropy *entropy) {
    return mean(entropy->max, entropy->n);
}
