/* Stacks with inputs of each layer's own and keys that layers share (Gemma 3n and 4), and layers
 * with chunks, growing queries and heads of their own number (Llama 4, Laguna), latent attention
 * with an indexer (DeepSeek V3.2), mixtures that skip a layer (LongCat-Flash): what keeps, forks,
 * drafts and shows keys gives what a fresh run gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_sizes.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

/* Gemma 4's proportions, small: 3 layers of 8 read the keys of others, and every third has no
 * window. */
#define SHAPE                                                                                      \
    "gemma4-e4b,dim=64,n_layers=8,vocab_size=300,per_layer_vocab=290,head_dim=16,"                 \
    "full_head_dim=32,ffn_dim=96,shared_layers=3,window_pattern=3,per_layer_dim=32,n_heads=4,"     \
    "context=256,window=20"

/* Chunks on two layers of three; the third has more heads, and queries grow early. */
#define CHUNKS                                                                                     \
    "tiny,n_layers=3,chunk=13,window_pattern=3,n_heads=4,n_kv_heads=2,head_dim=16,full_n_heads=6," \
    "full_n_kv_heads=3,query_scaling=0.5,query_scaling_floor=8,context=256"

#define LATENT                                                                                     \
    "tiny,n_layers=4,context=256,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,value_"    \
    "dim=12"
#define INDEXER LATENT ",index_heads=3,index_dim=16,index_topk=6"
#define SHORTCUT                                                                                   \
    LATENT ",stack=shortcut,n_experts=7,zero_experts=2,n_experts_used=3,expert_ffn_dim=48,"        \
           "router=softmax_scores,router_scale=2"
/* Scores by sigmoid, the best two groups of four, and layers with a window. */
#define ROUTED                                                                                     \
    "tiny,n_layers=3,context=256,window=20,window_pattern=3,n_experts=8,n_experts_used=2,expert_"  \
    "ffn_dim=32,router=sigmoid_scores,router_groups=4,router_groups_used=2,router_scale=2"

enum { IDS = 90, FORK = 50 };

/* ---- The cache ---- */

/* Runs a text, forks it, goes back, and expects the bits of a fresh run. */
static void check_forks(TinyModel *tiny) {
    int32_t ids[IDS];
    Error error;
    for (int i = 0; i < IDS; i++) ids[i] = 3 + i * i % 89;
    size_t row = tiny->vocab_size;
    float *fresh = tiny_model_run(tiny, 0, 0, ids, IDS, 11);
    float *logits = malloc((IDS - FORK) * row * sizeof *logits);
    assert_int_equal(kvcache_fork(tiny->cache, 0, FORK, 1, &error), STATUS_OK);
    tiny_model_continue(tiny, 1, ids + FORK, IDS - FORK, 1, logits);
    assert_memory_equal(logits, fresh + FORK * row, (IDS - FORK) * row * sizeof *logits);
    kvcache_truncate(tiny->cache, 0, FORK);
    int32_t next = kvcache_next(tiny->cache, 0);
    assert_true(next <= FORK);
    for (; next < FORK; next++) tiny_model_continue(tiny, 0, ids + next, 1, 1, logits);
    tiny_model_continue(tiny, 0, ids + FORK, IDS - FORK, IDS, logits);
    assert_memory_equal(logits, fresh + FORK * row, (IDS - FORK) * row * sizeof *logits);
    free(fresh);
    free(logits);
}

static void forks_and_truncations_give_the_bits_of_a_fresh_run(void **state) {
    (void)state;
    const ModelOptions options = {.n_threads = 2, .context = 256};
    TinyModel tiny = tiny_model_open("random:" SHAPE, "q8", &options, KV_F16);
    check_forks(&tiny);
    tiny_model_close(&tiny);
    tiny = tiny_model_open("random:" CHUNKS, "q8", &options, KV_F16);
    check_forks(&tiny);
    tiny_model_close(&tiny);
    Fixture f = fixture_load("gemma3n");
    char *source = fixture_source(&f);
    tiny = tiny_model_open(source, "f32", &options, KV_F32);
    check_forks(&tiny);
    tiny_model_close(&tiny);
    fixture_remove_directory(source);
    fixture_free(&f);
}

static void layers_that_share_keys_store_none(void **state) {
    (void)state;
    const ModelOptions options = {.n_threads = 1, .context = 256};
    TinyModel tiny = tiny_model_open("random:" SHAPE, "f32", &options, KV_F32);
    /* 4 layers with 2 heads of 16 and 1 with 2 of 32, keys and values of 4 bytes. */
    assert_int_equal(kvcache_position_bytes(kvcache_shape(tiny.cache)), 2 * 2 * 4 * (4 * 16 + 32));
    tiny_model_close(&tiny);
}

/* ---- The programs ---- */

enum { SHARED_KEYS, CHUNKED, INDEXED, SHORTCUTS, GROUPS, MODELS };
static const char *const shapes[MODELS] = {SHAPE, CHUNKS, INDEXER, SHORTCUT, ROUTED};

typedef struct Files {
    char *directory, *model; /* the Gemma 4 */
    char *models[MODELS];    /* it, and the others */
} Files;

static int set_up(void **state) {
    static Files files;
    files.directory = strdup("/tmp/verbatim-stacks-XXXXXX");
    if (!mkdtemp(files.directory)) return -1;
    for (size_t i = 0; i < MODELS; i++) {
        char *made = small_model(files.directory, shapes[i]), name[16];
        snprintf(name, sizeof name, "%zu.bin", i);
        files.models[i] = fixture_path(files.directory, name);
        assert_int_equal(rename(made, files.models[i]), 0);
        free(made);
    }
    files.model = files.models[SHARED_KEYS];
    *state = &files;
    return 0;
}

static int tear_down(void **state) {
    Files *files = *state;
    for (size_t i = 0; i < MODELS; i++) {
        unlink(files->models[i]);
        free(files->models[i]);
    }
    rmdir(files->directory);
    free(files->directory);
    return 0;
}

/* Runs the model with the options and returns what it writes. */
#define OUTPUT(input, ...) output(input, (const char *const[]){"run", __VA_ARGS__, NULL})
static char *output(const char *input, const char *const *argv) {
    Process p = process_run(argv, input, input ? strlen(input) : 0);
    if (p.status != 0) fail_msg("status %d: %s", p.status, p.err);
    char *out = strdup(p.out_length ? p.out : "");
    process_free(&p);
    return out;
}

#define TEXT "hello hello abcabcabcabc hello abc"

static void drafts_and_a_missing_cache(const char *model) {
    char *plain = OUTPUT(NULL, model, "-t", "0", "-n", "40", "-i", TEXT, "--lookup", "0");
    char *drafted = OUTPUT(NULL, model, "-t", "0", "-n", "40", "-i", TEXT, "--lookup", "7");
    assert_string_equal(plain, drafted);
    Process p = RUN("run", model, "--no-cache", "-c", "40", "-i", "abc");
    assert_int_equal(p.status, 0);
    if (!strstr(p.err, "the same bits") && !strstr(p.out, "the same bits"))
        fail_msg("not the same bits: %s%s", p.out, p.err);
    process_free(&p);
    free(plain);
    free(drafted);
}

/* As OUTPUT, for an answer that may hold bytes of 0. */
static Process chat(const char *model, const char *input, const char *session) {
    const char *const argv[] = {
        "run",   model, "-m", "chat", "-t", "0", "-n", "12", session ? "--session" : NULL,
        session, NULL};
    Process p = process_run(argv, input, strlen(input));
    if (p.status != 0) fail_msg("status %d: %s", p.status, p.err);
    return p;
}

static void saved_conversation(const char *model) {
    char session[128];
    snprintf(session, sizeof session, "%s.kept", model);
    Process whole = chat(model, "hello there\nand then\n", NULL);
    Process first = chat(model, "hello there\n", session);
    Process second = chat(model, "and then\n", session);
    size_t n = first.out_length, m = second.out_length;
    assert_true(whole.out_length >= n + m);
    assert_memory_equal(whole.out, first.out, n);
    assert_memory_equal(whole.out + whole.out_length - m, second.out, m);
    process_free(&whole);
    process_free(&first);
    process_free(&second);
    unlink(session);
}

/* The answer in the result of line `line`: its bytes, which stand there if they are not UTF-8, or
 * else its text. */
static char *result(const char *results, int line) {
    const char *at = results;
    char *found = NULL;
    while (!found && *at) {
        size_t length = strcspn(at, "\n");
        json_t *json = json_loadb(at, length, JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        json_t *bytes = json_object_get(json, "bytes"), *text = json_object_get(json, "text");
        assert_non_null(text);
        if (json_integer_value(json_object_get(json, "line")) == line)
            found = json_dumps(bytes ? bytes : text, JSON_ENCODE_ANY);
        json_decref(json);
        at += length + (at[length] == '\n');
    }
    assert_non_null(found);
    return found;
}

static void texts_with_a_common_beginning(const char *model) {
#define REQUEST(end)                                                                               \
    "{\"prompt\": \"hello hello hello hello hello hello hello hello hello hello hello hello "      \
    "hello " end "\", \"max_tokens\": 9, \"temperature\": 0}\n"
    char *both = OUTPUT(REQUEST("abd") REQUEST("xyz"), model, "--batch", "-");
    char *alone = OUTPUT(REQUEST("xyz"), model, "--batch", "-");
    char *of_two = result(both, 2), *of_one = result(alone, 1);
    assert_string_equal(of_two, of_one);
    free(of_two);
    free(of_one);
    free(both);
    free(alone);
}

static void drafts_and_a_missing_cache_change_nothing(void **state) {
    const Files *files = *state;
    for (size_t i = 0; i < MODELS; i++) drafts_and_a_missing_cache(files->models[i]);
}

static void a_saved_conversation_goes_on_as_if_never_closed(void **state) {
    const Files *files = *state;
    for (size_t i = 0; i < MODELS; i++) saved_conversation(files->models[i]);
}

static void texts_with_a_common_beginning_share_it(void **state) {
    const Files *files = *state;
    for (size_t i = 0; i < MODELS; i++) texts_with_a_common_beginning(files->models[i]);
}

/* The maps of --attention show chunks, and each layer its own number of heads. */
static void chunks_and_heads_of_each_layer_can_be_seen(void **state) {
    const char *model = ((const Files *)*state)->models[1];
    char *seen = OUTPUT(NULL, model, "--attention", "-", "-i", TEXT);
    assert_non_null(strstr(seen, "layer 1, mean of 4 heads, chunks of 13\n"));
    assert_non_null(strstr(seen, "layer 2, mean of 6 heads\n"));
    free(seen);
    char *path = fixture_path(((const Files *)*state)->directory, "map.json");
    free(OUTPUT(NULL, model, "--attention", path, "-i", TEXT));
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    assert_non_null(json);
    json_t *layers = json_object_get(json, "layers");
    for (size_t l = 0; l < 3; l++) {
        json_t *layer = json_array_get(layers, l), *heads = json_object_get(layer, "heads");
        json_int_t chunk = json_integer_value(json_object_get(layer, "chunk"));
        assert_int_equal(chunk, l < 2 ? 13 : 0);
        assert_int_equal(json_array_size(heads), l < 2 ? 4 : 6);
        for (size_t h = 0; h < json_array_size(heads); h++) {
            json_t *head = json_array_get(heads, h), *map = json_object_get(head, "weights");
            assert_int_equal(json_integer_value(json_object_get(head, "kv_head")), h / 2);
            for (size_t q = 0; q < json_array_size(map); q++) {
                double sum = 0.0, before = 0.0; /* before: the weight of earlier chunks */
                for (size_t k = 0; k < json_array_size(map); k++) {
                    double w = json_number_value(json_array_get(json_array_get(map, q), k));
                    sum += w;
                    if (chunk && k < q / 13 * 13) before += w;
                }
                assert_true(sum > 0.9999 && sum < 1.0001);
                assert_true(before == 0.0);
            }
        }
    }
    json_decref(json);
    unlink(path);
    free(path);
}

static void chunks_and_growing_queries_can_be_overridden(void **state) {
    const char *model = ((const Files *)*state)->models[1];
    static const char *const changes[] = {"chunk=5", "chunk=0", "query_scaling=0",
                                          "query_scaling_floor=1"};
    char *plain = OUTPUT(NULL, model, "--score", "json", "-i", TEXT);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed =
            OUTPUT(NULL, model, "--score", "json", "-i", TEXT, "--override", changes[i]);
        assert_string_not_equal(changed, plain);
        free(changed);
    }
    free(plain);
    Process p = RUN("run", model, "-i", "abc", "--override", "query_scaling_floor=0");
    assert_int_not_equal(p.status, 0);
    assert_non_null(strstr(p.err, "query_scaling_floor is 0"));
    process_free(&p);
}

static void layers_that_share_keys_can_be_seen_and_overridden(void **state) {
    const Files *files = *state;
    char *seen = OUTPUT(NULL, files->model, "--attention", "-", "-i", "abc hello");
    assert_non_null(strstr(seen, "layer 7, mean of 4 heads, window of 20"));
    assert_non_null(strstr(seen, "layer 5, mean of 4 heads"));
    char *narrow =
        OUTPUT(NULL, files->model, "-t", "0", "-n", "9", "-i", TEXT, "--override", "window=3");
    char *plain = OUTPUT(NULL, files->model, "-t", "0", "-n", "9", "-i", TEXT);
    assert_string_not_equal(narrow, plain);
    Process p = RUN("run", files->model, "-i", "abc", "--override", "norm_place=before");
    assert_int_not_equal(p.status, 0);
    assert_non_null(strstr(p.err, "norm_place"));
    process_free(&p);
    free(seen);
    free(narrow);
    free(plain);
}

/* The fewer positions an indexer chooses, the other the text. */
static void the_number_of_chosen_positions_can_be_overridden(void **state) {
    const Files *files = *state;
    const char *model = files->models[INDEXED];
    char *few = OUTPUT(NULL, model, "-t", "0", "-n", "9", "-i", TEXT, "--override", "index_topk=2");
    char *plain = OUTPUT(NULL, model, "-t", "0", "-n", "9", "-i", TEXT);
    assert_string_not_equal(few, plain);
    Process p = RUN("run", model, "-i", "abc", "--override", "index_topk=0");
    assert_int_not_equal(p.status, 0);
    assert_non_null(strstr(p.err, "index_topk"));
    process_free(&p);
    char *seen = OUTPUT(NULL, model, "--attention", "-", "-i", "abc hello");
    assert_non_null(strstr(seen, "layer 3, mean of 4 heads"));
    free(seen);
    free(few);
    free(plain);
}

/* A router that chooses by groups, in layers with and without windows: no head looks out of its
 * window, and the maps depend on neither threads nor chunks. */
static void windows_beside_groups_of_experts_can_be_seen(void **state) {
    const char *model = ((const Files *)*state)->models[GROUPS];
    char *path = fixture_path(((const Files *)*state)->directory, "groups.json");
    char *maps[2];
    for (int i = 0; i < 2; i++) {
        free(OUTPUT(NULL, model, "--attention", path, "-i", TEXT, "-j", i ? "2" : "1", "--chunk",
                    i ? "7" : "512"));
        json_error_t error;
        json_t *json = json_load_file(path, 0, &error);
        assert_non_null(json);
        json_t *layers = json_object_get(json, "layers");
        assert_int_equal(json_array_size(layers), 3);
        for (size_t l = 0; l < 3; l++) {
            json_t *layer = json_array_get(layers, l), *heads = json_object_get(layer, "heads");
            size_t window = (size_t)json_integer_value(json_object_get(layer, "window"));
            assert_int_equal(window, l < 2 ? 20 : 0);
            for (size_t h = 0; h < json_array_size(heads); h++) {
                json_t *map = json_object_get(json_array_get(heads, h), "weights");
                assert_true(json_array_size(map) > 30);
                for (size_t q = 0; q < json_array_size(map); q++) {
                    double inside = 0.0, outside = 0.0;
                    for (size_t k = 0; k < json_array_size(json_array_get(map, q)); k++) {
                        double w = json_number_value(json_array_get(json_array_get(map, q), k));
                        *(window && k + window <= q ? &outside : &inside) += w;
                    }
                    assert_true(inside > 0.9999 && inside < 1.0001);
                    assert_true(outside == 0.0);
                }
            }
        }
        maps[i] = json_dumps(layers, JSON_SORT_KEYS);
        json_decref(json);
        unlink(path);
    }
    assert_string_equal(maps[0], maps[1]);
    free(maps[0]);
    free(maps[1]);
    free(path);
}

/* Fields of a router other than the number of experts are refused by name. */
static void the_number_of_chosen_experts_can_be_overridden(void **state) {
    const char *model = ((const Files *)*state)->models[GROUPS];
    char *one =
        OUTPUT(NULL, model, "--score", "json", "-i", TEXT, "--override", "n_experts_used=1");
    char *plain = OUTPUT(NULL, model, "--score", "json", "-i", TEXT);
    assert_string_not_equal(one, plain);
    static const char *const refused[] = {"n_experts_used=9", "router=softmax", "router_scale=1",
                                          "router_groups_used=1"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Process p = RUN("run", model, "-i", "abc", "--override", refused[i]);
        assert_int_not_equal(p.status, 0);
        assert_non_null(strstr(p.err, "n_experts_used"));
        process_free(&p);
    }
    free(one);
    free(plain);
}

static void the_core_refuses_the_stack_by_name(void **state) {
    const Files *files = *state;
    char *core = build_path("core/run");
    Process p = RUN(core, files->model, "-i", "abc");
    PROCESS_SAYS(p, 1, "leaves out the stack of 'gemma4_text'");
    p = RUN(core, files->models[INDEXED], "-i", "abc");
    PROCESS_SAYS(p, 1, "is of a kind that this build leaves out");
    free(core);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_and_truncations_give_the_bits_of_a_fresh_run),
        cmocka_unit_test(layers_that_share_keys_store_none),
        cmocka_unit_test(drafts_and_a_missing_cache_change_nothing),
        cmocka_unit_test(a_saved_conversation_goes_on_as_if_never_closed),
        cmocka_unit_test(texts_with_a_common_beginning_share_it),
        cmocka_unit_test(layers_that_share_keys_can_be_seen_and_overridden),
        cmocka_unit_test(chunks_and_heads_of_each_layer_can_be_seen),
        cmocka_unit_test(windows_beside_groups_of_experts_can_be_seen),
        cmocka_unit_test(chunks_and_growing_queries_can_be_overridden),
        cmocka_unit_test(the_number_of_chosen_positions_can_be_overridden),
        cmocka_unit_test(the_number_of_chosen_experts_can_be_overridden),
        cmocka_unit_test(the_core_refuses_the_stack_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
