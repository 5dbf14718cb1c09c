/* export --target-size: the knapsack, the size, the table, and one matrix in place of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convert/knapsack.h"
#include "convert/target_size.h"
#include "convert/type_table.h"
#include "fixture.h"
#include "model.h"
#include "process.h"
#include "tests/tier.h"

/* ---- The knapsack ---- */

enum { UNITS = 5, OPTIONS_EACH = 4 };

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* The least cost of all choices that fit; infinity: none does. */
static double best_cost(const KnapsackUnit *units, uint64_t limit) {
    double best = INFINITY;
    for (size_t code = 0; code < 1024; code++) {
        uint64_t bytes = 0;
        double cost = 0.0;
        for (size_t i = 0; i < UNITS; i++) {
            const KnapsackOption *o = &units[i].options[code >> 2 * i & 3];
            bytes += o->bytes;
            cost += o->cost;
        }
        if (bytes <= limit && cost < best) best = cost;
    }
    return best;
}

static void the_knapsack_fits_and_is_near_the_best_of_all_choices(void **state) {
    (void)state;
    uint32_t seed = 7;
    double all = 0.0, all_best = 0.0;
    for (int round = 0; round < 200; round++) {
        KnapsackOption options[UNITS][OPTIONS_EACH];
        KnapsackUnit units[UNITS];
        size_t chosen[UNITS];
        for (size_t i = 0; i < UNITS; i++) {
            units[i] = (KnapsackUnit){options[i], OPTIONS_EACH};
            uint64_t size = 64 + next_random(&seed) % 1000;
            double weight = 1.0 + next_random(&seed) % 100;
            for (size_t k = 0; k < OPTIONS_EACH; k++)
                options[i][k] = (KnapsackOption){size * (k + 2), weight * pow(0.25, (double)k)};
        }
        uint64_t least = knapsack_least(units, UNITS);
        uint64_t limit = least + next_random(&seed) % (least * 2), bytes = 0;
        double cost = 0.0, best = best_cost(units, limit);
        assert_true(knapsack_solve(units, UNITS, limit, chosen));
        for (size_t i = 0; i < UNITS; i++) {
            bytes += options[i][chosen[i]].bytes;
            cost += options[i][chosen[i]].cost;
        }
        assert_true(bytes <= limit);
        assert_true(cost >= best * (1.0 - 1e-12));
        assert_true(cost <= best * 1.25);
        all += cost;
        all_best += best;
        assert_false(knapsack_solve(units, UNITS, least - 1, chosen));
    }
    print_message("%.4f of the best choices' cost\n", all / all_best);
    assert_true(all <= all_best * 1.02);
}

/* ---- Texts ---- */

static void sizes_are_bytes_or_bits_a_weight(void **state) {
    (void)state;
    TargetSize size;
    Error error;
    assert_int_equal(target_size_parse("4.5b", &size, &error), STATUS_OK);
    assert_true(size.bits == 4.5 && size.bytes == 0);
    assert_int_equal(target_size_parse("40M", &size, &error), STATUS_OK);
    assert_int_equal(size.bytes, 40 << 20);
    static const char *const wrong[] = {"", "b", "4.5x", "-3b", "nanb", "1e9b", "M"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(target_size_parse(wrong[i], &size, &error), STATUS_USAGE);
}

static void a_table_is_read_as_it_was_written(void **state) {
    (void)state;
    const TypeTableRow rows[] = {{"layers.0.output", TENSOR_Q8, 64, 0.25},
                                 {"norm", TENSOR_VECTOR, 0, 0.0},
                                 {"output", TENSOR_Q4_K, 128, 0.75}};
    char *text = type_table_text(rows, 3, 4.5, 0.01), *mix;
    Error error;
    assert_non_null(text);
    assert_int_equal(type_table_mix(text, strlen(text), &mix, &error), STATUS_OK);
    assert_string_equal(mix, ",output=q4_k,layers.0.output=q8");
    free(text);
    free(mix);
    static const char *const wrong[] = {"",       "# none\n",  "wq\n", "wq q5,wk=q4",
                                        "w=q q4", "a\n\nwq no"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(type_table_mix(wrong[i], strlen(wrong[i]), &mix, &error), STATUS_FAILED);
        assert_null(mix);
    }
}

/* ---- Files ---- */

typedef struct Files {
    char *directory, *text, *source, *target, *other;
} Files;

static Files make_files(const char *shape) {
    static const char words[] =
        "Once upon a time there was a little dog. It ran to the big tree.\n";
    Files f = {.directory = fixture_directory()};
    f.text = fixture_path(f.directory, "text");
    f.source = fixture_path(f.directory, "source.bin");
    f.target = fixture_path(f.directory, "target.bin");
    f.other = fixture_path(f.directory, "other.bin");
    file_write(f.text, words, strlen(words));
    Process p = RUN("export", "--random", shape, f.source, "-q", "-t", "f32");
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
    return f;
}

static void remove_files(Files *f) {
    free(f->text);
    free(f->source);
    free(f->target);
    free(f->other);
    fixture_remove_directory(f->directory);
}

static ModelFile *opened(const char *path) {
    ModelFile *file;
    Error error;
    if (modelfile_open(&file, path, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

static size_t size_of(const char *path) {
    size_t n;
    free(file_read(path, &n));
    return n;
}

static void no_size_gives_a_larger_file_and_threads_change_nothing(void **state) {
    (void)state;
    static const char *const sizes[] = {"4.8b", "7b", "115000"};
    Files f = make_files("tiny,n_experts=4,n_experts_used=2,expert_ffn_dim=48");
    for (size_t i = 0; i < 3; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        Process p = RUN("export", f.source, f.target, "-q", "-f", "--target-size", sizes[i],
                        "--calibrate", f.text, "-j", "1");
        if (p.status) fail_msg("%s: %s", sizes[i], p.err);
        Process q = RUN("export", f.source, f.other, "-q", "-f", "--target-size", sizes[i],
                        "--calibrate", f.text, "-j", "3");
        size_t n, m;
        char *a = file_read(f.target, &n), *b = file_read(f.other, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        assert_string_equal(p.out, q.out);
        double bits;
        assert_int_equal(sscanf(p.out, "# %lf bits a weight", &bits), 1);
        assert_true(bits <= (i < 2 ? atof(sizes[i]) : 64.0));
        if (i == 2) assert_true(n <= 115000);
        free(a);
        free(b);
        process_free(&p);
        process_free(&q);
    }
    remove_files(&f);
}

static void what_cannot_be_reached_is_refused_with_the_smallest_that_can(void **state) {
    (void)state;
    Files f = make_files("tiny");
    char smallest[32];
    unsigned long long bytes;
    Process p =
        RUN("export", f.source, f.target, "-q", "--target-size", "1b", "--calibrate", f.text);
    PROCESS_SAYS(p, 1, "no types make it so small: the smallest are ");
    p = RUN("export", f.source, f.target, "-q", "--target-size", "1000", "--calibrate", f.text);
    assert_int_equal(p.status, 1);
    const char *says = strstr(p.err, "the smallest are ");
    assert_non_null(says);
    assert_int_equal(sscanf(says, "the smallest are %llu bytes", &bytes), 1);
    process_free(&p);
    snprintf(smallest, sizeof smallest, "%llu", bytes - 1);
    p = RUN("export", f.source, f.target, "-q", "--target-size", smallest, "--calibrate", f.text);
    PROCESS_SAYS(p, 1, "no types make it so small");
    snprintf(smallest, sizeof smallest, "%llu", bytes);
    p = RUN("export", f.source, f.target, "-q", "--target-size", smallest, "--calibrate", f.text);
    assert_int_equal(p.status, 0);
    process_free(&p);
    assert_int_equal(size_of(f.target), bytes);
    p = RUN("export", f.source, f.target, "-t", "q4", "--target-size", "4b");
    PROCESS_SAYS(p, 2, "--target-size chooses all types");
    p = RUN("export", f.source, f.target, "--target-size", "4b");
    PROCESS_SAYS(p, 2, "--target-size needs --calibrate");
    remove_files(&f);
}

static void the_table_is_printed_kept_shown_and_taken_over(void **state) {
    (void)state;
    Files f = make_files("tiny");
    char at[4096];
    Process p =
        RUN("export", f.source, f.target, "-q", "--target-size", "6b", "--calibrate", f.text);
    if (p.status) fail_msg("%s", p.err);
    ModelFile *file = opened(f.target);
    const char *kept;
    size_t bytes;
    assert_true(modelfile_meta_text(file, METADATA_TYPE_TABLE, &kept, &bytes));
    assert_int_equal(bytes, p.out_length);
    assert_memory_equal(kept, p.out, bytes);
    char *table = fixture_path(f.directory, "table");
    file_write(table, p.out, p.out_length);
    process_free(&p);
    p = RUN("run", f.target, "--info");
    assert_non_null(strstr(p.out, "types chosen        for each matrix:\n  #  "));
    assert_non_null(strstr(p.out, "  layers.0.wq "));
    process_free(&p);
    snprintf(at, sizeof at, "@%s", table);
    p = RUN("export", f.source, f.other, "-q", "-t", "f32", "--calibrate", f.text, "--keep", at);
    if (p.status) fail_msg("%s", p.err);
    process_free(&p);
    /* The same tensors, and no table: this file's types were not chosen for a size. */
    ModelFile *other = opened(f.other);
    assert_false(modelfile_meta_text(other, METADATA_TYPE_TABLE, &kept, &bytes));
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *a = modelfile_tensor(file, i), *b = modelfile_tensor(other, i);
        assert_int_equal(a->type, b->type);
        assert_memory_equal(modelfile_data(file, a), modelfile_data(other, b), a->bytes);
    }
    modelfile_close(file);
    modelfile_close(other);
    p = RUN("export", f.target, f.other, "-q", "-f", "-t", "f16");
    assert_int_equal(p.status, 0);
    process_free(&p);
    other = opened(f.other);
    assert_false(modelfile_meta_text(other, METADATA_TYPE_TABLE, &kept, &bytes));
    modelfile_close(other);
    free(table);
    remove_files(&f);
}

/* ---- One matrix in place of another ---- */

static void first_logits(const ModelFile *file, float *logits) {
    const ModelOptions options = {.n_threads = 1};
    const Row row = {.token = 5, .wants_logits = true};
    Model *model;
    KvCache *cache;
    Error error;
    if (model_open(&model, file, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    const KvShape shape = model_kv_shape(model, KV_F32);
    assert_int_equal(kvcache_new(&cache, &shape, 1, 0, &error), STATUS_OK);
    assert_int_equal(model_forward(model, cache, &row, 1, logits, &error), STATUS_OK);
    kvcache_free(cache);
    model_close(model);
}

static void replaced_tensors_give_the_logits_of_the_file_that_has_them(void **state) {
    (void)state;
    Files f = make_files("tiny");
    Process p = RUN("export", f.source, f.target, "-q", "-t", "q4", "--keep", "layers.0=q8");
    assert_int_equal(p.status, 0);
    process_free(&p);
    ModelFile *file = opened(f.source), *same = opened(f.source), *from = opened(f.target);
    size_t vocab_size = modelfile_config(file)->vocab_size, n = modelfile_n_tensors(file);
    size_t bytes = vocab_size * sizeof(float);
    float *own = malloc(bytes), *wanted = malloc(bytes), *logits = malloc(bytes);
    Error error;
    assert_true(own && wanted && logits);
    first_logits(file, own);
    first_logits(from, wanted);
    assert_memory_not_equal(own, wanted, bytes);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(modelfile_replace(file, i, from, i, &error), STATUS_OK);
    first_logits(file, logits);
    assert_memory_equal(logits, wanted, bytes);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(modelfile_replace(file, i, same, i, &error), STATUS_OK);
    first_logits(file, logits);
    assert_memory_equal(logits, own, bytes);
    size_t q = (size_t)(modelfile_find(same, "layers.0.w_up") - modelfile_tensor(same, 0));
    size_t k = (size_t)(modelfile_find(same, "layers.0.w_down") - modelfile_tensor(same, 0));
    assert_int_equal(modelfile_replace(file, q, from, k, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "has another shape than"));
    modelfile_close(file);
    modelfile_close(same);
    modelfile_close(from);
    free(own);
    free(wanted);
    free(logits);
    remove_files(&f);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_knapsack_fits_and_is_near_the_best_of_all_choices),
        cmocka_unit_test(sizes_are_bytes_or_bits_a_weight),
        cmocka_unit_test(a_table_is_read_as_it_was_written),
        cmocka_unit_test(no_size_gives_a_larger_file_and_threads_change_nothing),
        cmocka_unit_test(what_cannot_be_reached_is_refused_with_the_smallest_that_can),
        cmocka_unit_test(the_table_is_printed_kept_shown_and_taken_over),
        cmocka_unit_test(replaced_tensors_give_the_logits_of_the_file_that_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
