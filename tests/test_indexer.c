/* Sparse attention: which positions an indexer chooses, and what attention over them gives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/numbers.h"
#include "kernels/bfloat.h"
#include "core/isa.h"
#include "layers/attention/index_scores.h"
#include "layers/attention/selection.h"
#include "tests/portable.h"
#include "tests/hashed_weights.h"
#include "tests/tiny_model.h"

/* ---- The choice ---- */

/* Whether the score at position a comes before the one at b: larger, or equal and earlier; NaN
 * last. */
static bool precedes(const float *scores, size_t a, size_t b) {
    if (isnan(scores[a]) != isnan(scores[b])) return isnan(scores[b]);
    if (scores[a] != scores[b] && !isnan(scores[a])) return scores[a] > scores[b];
    return a < b;
}

/* Chooses k of scores[n], given in pieces of `step`, with the parts before and after `cut` chosen
 * apart and joined; compares with the definition. */
static void assert_chosen(const float *scores, size_t n, size_t k, size_t step, size_t cut) {
    size_t words = selection_words(k), kept = 0;
    uint32_t *memory = malloc(2 * words * sizeof *memory);
    Selection parts[2] = {selection_begin(memory, k), selection_begin(memory + words, k)};
    for (size_t at = 0, m; at < n; at += m) {
        size_t end = at < cut ? cut : n;
        m = end - at < step ? end - at : step;
        selection_add(&parts[at >= cut], scores + at, at, m);
    }
    selection_join(&parts[0], &parts[1]);
    selection_finish(&parts[0]);
    assert_int_equal(parts[0].n, n < k ? n : k);
    for (size_t i = 0; i < n; i++) {
        size_t before = 0;
        for (size_t j = 0; j < n && before < k; j++) before += precedes(scores, j, i);
        if (before >= k) continue;
        assert_int_equal(parts[0].positions[kept], i);
        kept++;
    }
    assert_int_equal(kept, parts[0].n);
    free(memory);
}

static void the_best_are_chosen_and_ties_go_to_the_lowest_position(void **state) {
    (void)state;
    enum { N = 3000 };
    static const float few[] = {0.0f, -0.0f, 1.0f, -1.0f, NAN, INFINITY, -INFINITY, 1e-40f};
    float *scores = malloc(N * sizeof *scores);
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < N; i++) {
            uint64_t bits = hashed_element(hashed_name("scores"), i) >> 20;
            scores[i] = kind == 0   ? (float)(bits % 100000) - 50000.0f
                        : kind == 1 ? few[bits % 8]
                                    : (float)(bits % 7);
        }
        assert_chosen(scores, N, 1, 64, 64);
        assert_chosen(scores, N, 70, 64, 1024);
        assert_chosen(scores, N, 1500, 1000, N);
        assert_chosen(scores, N, 4000, 17, 100);
    }
    for (size_t i = 0; i < N; i++) scores[i] = (float)i; /* each drops an earlier one */
    assert_chosen(scores, N, 5, 3, 2000);
    free(scores);
}

/* ---- The scores ---- */

/* A page of keys as the cache stores them. */
static void fill_page(KvType type, void *page, size_t dim, const float *keys) {
    for (size_t p = 0; p < KV_PAGE; p++)
        for (size_t d = 0; d < dim; d++) {
            float x = keys[p * dim + d];
            if (type == KV_F32) ((float *)page)[d * KV_PAGE + p] = x;
            if (type == KV_F16) ((uint16_t *)page)[d * KV_PAGE + p] = numbers_float_to_half(x);
            if (type == KV_BF16)
                ((uint16_t *)page)[bf16_key_place(dim, d, p)] = bfloat_round_floored(x);
        }
    for (size_t p = 0; p < KV_PAGE && type == KV_Q8; p++)
        attention_q8_reference.store_key(page, dim, p, keys + p * dim);
}

static const IndexScores *scores_of(const Isa *isa) {
#define RETURN(name, lanes)                                                                        \
    if (isa->numeric == &numeric_##lanes) return &index_scores_##lanes;
    EACH_ISA(RETURN)
#undef RETURN
    return NULL;
}

static void scores_are_the_same_on_every_instruction_set(void **state) {
    (void)state;
    enum { HEADS = 11, DIM = 37 };
    _Alignas(64) float keys[KV_PAGE * DIM], q[HEADS * DIM], weights[HEADS];
    _Alignas(64) unsigned char page[KV_PAGE * (DIM + 3) * sizeof(float) + 64] = {0};
    float *scratch = aligned_alloc(64, round_up(index_scratch_floats(HEADS, DIM) * 4, 64));
    for (size_t i = 0; i < KV_PAGE * DIM; i++)
        keys[i] = (float)(hashed_element(1, i) >> 40) / 8388608.0f - 1.0f;
    for (size_t i = 0; i < HEADS * DIM; i++)
        q[i] = (float)(hashed_element(2, i) >> 40) / 8388608.0f - 1.0f;
    for (size_t i = 0; i < HEADS; i++)
        weights[i] = (float)(hashed_element(3, i) >> 40) / 8388608.0f - 1.0f;
    for (KvType type = KV_F32; type < KV_TYPES; type++) {
        float expected[KV_PAGE], scores[KV_PAGE];
        const IndexQuery query = {q, weights, HEADS, DIM, 0.25f, type, scratch};
        fill_page(type, page, DIM, keys);
        for (size_t i = 0; isa_available(i); i++) {
            const IndexScores *kernel = scores_of(isa_available(i));
            kernel->begin(&query);
            kernel->page(&query, page, 0, i == 0 ? expected : scores);
            if (i > 0) assert_memory_equal(expected, scores, sizeof scores);
        }
        for (size_t p = 0; p < KV_PAGE; p++) {
            float sum = 0.0f;
            for (size_t h = 0; h < HEADS; h++) {
                float product = 0.0f;
                for (size_t d = 0; d < DIM; d++) {
                    float key = keys[p * DIM + d];
                    if (type == KV_F16) key = numbers_half_to_float(numbers_float_to_half(key));
                    if (type == KV_BF16) key = bfloat_activation(key);
                    product = fmaf(q[h * DIM + d], key, product);
                }
                product *= 0.25f;
                sum = fmaf(weights[h], product > 0.0f ? product : 0.0f, sum);
            }
            if (type != KV_Q8) assert_memory_equal(&sum, &expected[p], sizeof sum);
            assert_true(fabsf(sum - expected[p]) < 0.1f);
        }
    }
    free(scratch);
}

/* ---- Attention ---- */

#define LATENT                                                                                     \
    "random:tiny,n_layers=4,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,value_dim=12,"  \
    "context=512"
#define INDEXER LATENT ",index_heads=5,index_dim=12,index_topk="

static float *run(const char *source, KvType kv_type, int n_threads, size_t n, size_t chunk) {
    TinyModel tiny =
        tiny_model_open(source, NULL, &(ModelOptions){.n_threads = n_threads}, kv_type);
    int32_t *ids = malloc(n * sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)((hashed_element(4, i) >> 32) % 300);
    float *logits = tiny_model_run(&tiny, 0, 0, ids, n, chunk);
    tiny_model_close(&tiny);
    free(ids);
    return logits;
}

/* A row that sees no more positions than are chosen is computed as without an indexer, and the rows
 * after it otherwise. */
static void as_many_positions_as_are_seen_change_no_bit(void **state) {
    (void)state;
    enum { N = 90, VOCAB = 300 };
    for (KvType type = KV_F32; type < KV_TYPES; type++) {
        float *all = run(LATENT, type, 2, N, N), *most = run(INDEXER "70", type, 2, N, N);
        assert_memory_equal(all, most, 70 * VOCAB * sizeof *all);
        for (size_t i = 70; i < N; i++)
            assert_memory_not_equal(all + i * VOCAB, most + i * VOCAB, VOCAB * sizeof *all);
        free(all);
        free(most);
    }
}

/* The choice is longer than a page. */
static void threads_and_calls_change_no_bit(void **state) {
    (void)state;
    enum { N = 230, VOCAB = 300 };
    static const struct {
        int n_threads;
        size_t chunk;
    } calls[] = {{2, 1}, {3, 41}, {5, N}, {1, 7}};
    for (KvType type = KV_F32; type < KV_TYPES; type++) {
        float *expected = run(INDEXER "77", type, 1, N, N);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            float *logits = run(INDEXER "77", type, calls[i].n_threads, N, calls[i].chunk);
            assert_memory_equal(expected, logits, N * VOCAB * sizeof *logits);
            free(logits);
        }
        free(expected);
    }
}

/* The positions chosen are more than a segment of attention holds. */
static void a_choice_of_several_segments_changes_no_bit(void **state) {
    (void)state;
    enum { N = 1150, VOCAB = 300 };
    static const char source[] = INDEXER "1050,n_layers=2,context=2048";
    float *expected = run(source, KV_F16, 1, N, 512);
    float *logits = run(source, KV_F16, 3, N, 97);
    assert_memory_equal(expected, logits, N * VOCAB * sizeof *logits);
    free(expected);
    free(logits);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    portable_list(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_are_chosen_and_ties_go_to_the_lowest_position),
        cmocka_unit_test(scores_are_the_same_on_every_instruction_set),
        cmocka_unit_test(as_many_positions_as_are_seen_change_no_bit),
        cmocka_unit_test(threads_and_calls_change_no_bit),
        cmocka_unit_test(a_choice_of_several_segments_changes_no_bit),
    };
    return cmocka_run_group_tests_name("indexer", tests, NULL, NULL);
}
