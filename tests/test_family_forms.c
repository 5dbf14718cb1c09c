/* Model families in other forms than their fixtures have: with other names, or parts joined. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/family/families.h"
#include "formats/family/sizes.h"
#include "formats/family/verb_steps.h"
#include "tests/fixture.h"
#include "tests/hashed_weights.h"
#include "tests/process.h"
#include "tests/tiny_model.h"

/* The logits of the fixture's text by its model as it stands, in f32; the caller frees them. */
static float *logits_of(const Fixture *f) {
    const ModelOptions options = {.n_threads = 1};
    char *source = fixture_source(f);
    TinyModel model = tiny_model_open(source, "f32", &options, KV_F32);
    fixture_remove_directory(source);
    float *logits = tiny_model_run(&model, 0, 0, f->ids, f->n_ids, f->n_ids);
    tiny_model_close(&model);
    return logits;
}

/* The hub's GPT-2 was saved without the prefix of tensor names and with its causal masks. */
static void gpt2_is_read_without_its_prefix(void **state) {
    (void)state;
    Fixture f = fixture_load("gpt2");
    float *expected = logits_of(&f);
    json_t *renamed = json_object(), *recipe;
    const char *name, *prefix = "transformer.";
    json_object_foreach(json_object_get(f.json, "tensors"), name, recipe) {
        json_t *copy = json_deep_copy(recipe);
        json_array_append_new(copy, json_string(name));
        bool cut = strncmp(name, prefix, strlen(prefix)) == 0;
        json_object_set_new(renamed, cut ? name + strlen(prefix) : name, copy);
    }
    json_object_set_new(renamed, "h.1.attn.bias",
                        json_pack("[i, f, f, [i, i, i, i]]", 20, 1.0, 0.0, 1, 1, 96, 96));
    json_object_set_new(f.json, "tensors", renamed);
    float *logits = logits_of(&f);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(&f);
}

/* A checkpoint of Qwen 3 Omni holds the model that talks beside the one that thinks, whose
 * config.json is a member and whose tensors have longer names. */
static void a_model_that_thinks_and_talks_is_read_by_its_first_half(void **state) {
    (void)state;
    Fixture f = fixture_load("qwen3_omni_moe");
    float *expected = logits_of(&f);
    json_t *renamed = json_object(), *recipe;
    const char *name;
    json_object_foreach(json_object_get(f.json, "tensors"), name, recipe) {
        json_t *copy = json_deep_copy(recipe);
        char longer[256];
        const char *inner = strstr(name, "language_model.");
        json_array_append_new(copy, json_string(name));
        snprintf(longer, sizeof longer, "thinker.%s%s", inner ? "model." : "",
                 inner ? inner + strlen("language_model.") : name);
        json_object_set_new(renamed, longer, copy);
    }
    json_object_set_new(f.json, "tensors", renamed);
    json_t *thinker = json_incref(json_object_get(f.json, "config"));
    json_object_set_new(f.json, "config",
                        json_pack("{s:s, s:o, s:{}}", "model_type", "qwen3_omni_moe",
                                  "thinker_config", thinker, "talker_config"));
    float *logits = logits_of(&f);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(&f);
}

/* Phi 4's own model_type is phi4mm. Its files hold adapters for images and sound beside each
 * matrix, which is called base_layer; a text gets the logits of phi4_multimodal. */
static void phi4mm_is_phi4_multimodal_without_its_adapters(void **state) {
    (void)state;
    Fixture f = fixture_load("phi4_multimodal");
    float *expected = logits_of(&f);
    json_t *renamed = json_object(), *recipe;
    const char *name;
    json_object_foreach(json_object_get(f.json, "tensors"), name, recipe) {
        json_t *copy = json_deep_copy(recipe);
        char longer[256];
        const char *end = strstr(name, "_proj.weight");
        bool adapted = end && strncmp(name, "model.layers.", 13) == 0;
        if (adapted) {
            int stem = (int)(end - name) + 5;
            static const char *const adapters[] = {"A.vision", "B.vision", "A.speech", "B.speech"};
            for (size_t i = 0; i < 4; i++) {
                snprintf(longer, sizeof longer, "%.*s.lora_%s.weight", stem, name, adapters[i]);
                json_object_set_new(renamed, longer,
                                    json_pack("[i, f, f, [i, i]]", 20, 1.0, 0.0, 4, 4));
            }
            snprintf(longer, sizeof longer, "%.*s.base_layer.weight", stem, name);
            json_array_append_new(copy, json_string(name));
        }
        json_object_set_new(renamed, adapted ? longer : name, copy);
    }
    json_object_set_new(f.json, "tensors", renamed);
    json_object_set_new(json_object_get(f.json, "config"), "model_type", json_string("phi4mm"));
    float *logits = logits_of(&f);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    fixture_free(&f);
}

/* ---- Tensors under another's name ---- */

/* Gives the tensor `from` of the fixture another name; it keeps its values. */
static void rename_tensor(Fixture *f, const char *from, const char *to) {
    json_t *tensors = json_object_get(f->json, "tensors");
    json_t *recipe = json_deep_copy(json_object_get(tensors, from));
    if (!recipe) fail_msg("%s has no %s", f->name, from);
    json_array_append_new(recipe, json_string(from));
    json_object_del(tensors, from);
    json_object_set_new(tensors, to, recipe);
}

/* safetensors.torch.save_model keeps, of the names of one tensor, the first in the alphabet, and
 * transformers ties the embedding to the head as well as the head to the embedding (tie_weights).
 * So the logits are those of the file with the embedding alone. */
static void a_tied_model_may_have_the_embedding_under_the_heads_name(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *embedding, *head;
    } cases[] = {
        {"llama-narrow-tied", "model.embed_tokens.weight", "lm_head.weight"},
        {"gpt2", "transformer.wte.weight", "lm_head.weight"},
        {"gemma2-gguf", "model.embed_tokens.weight", "lm_head.weight"},
        {"bloom-8", "transformer.word_embeddings.weight", "lm_head.weight"},
        {"opt-350m", "model.decoder.embed_tokens.weight", "lm_head.weight"},
        {"biogpt", "biogpt.embed_tokens.weight", "output_projection.weight"},
        {"gpt_neox_japanese", "gpt_neox_japanese.embed_in.weight", "embed_out.weight"},
        {"mamba-bias", "backbone.embeddings.weight", "lm_head.weight"},
        {"gemma3-whole-cap", "language_model.model.embed_tokens.weight", "lm_head.weight"},
        {"gemma3-whole-cap", "language_model.model.embed_tokens.weight",
         "language_model.lm_head.weight"},
        {"qwen3_vl-bias", "model.language_model.embed_tokens.weight", "lm_head.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fixture f = fixture_load(cases[i].fixture);
        float *expected = logits_of(&f);
        rename_tensor(&f, cases[i].embedding, cases[i].head);
        float *logits = logits_of(&f);
        assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
        free(expected);
        free(logits);
        fixture_free(&f);
    }
}

/* Puts "__metadata__" before the tensors of a safetensors file. */
static void add_metadata(const char *path, const char *metadata) {
    size_t n, more = strlen(metadata);
    char *bytes = file_read(path, &n);
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    char *longer = malloc(n + more);
    assert_non_null(longer);
    length += more;
    memcpy(longer, &length, sizeof length);
    longer[8] = '{';
    memcpy(longer + 9, metadata, more);
    memcpy(longer + 9 + more, bytes + 9, n - 9);
    file_write(path, longer, n + more);
    free(longer);
    free(bytes);
}

/* save_model also says in the file's metadata which name stands for which (safetensors.torch's
 * load_model reads it), so a model whose config.json does not tie them is whole, too. */
static void names_that_save_model_left_out_are_read_from_the_metadata(void **state) {
    (void)state;
    const ModelOptions options = {.n_threads = 1};
    Fixture f = fixture_load("llama-narrow");
    json_t *tensors = json_object_get(f.json, "tensors"), *head;
    head = json_deep_copy(json_object_get(tensors, "lm_head.weight"));
    json_array_append_new(head, json_string("lm_head.weight"));
    json_object_set_new(tensors, "model.embed_tokens.weight", head);
    float *expected = logits_of(&f);
    json_object_del(tensors, "model.embed_tokens.weight");
    char *source = fixture_source(&f), *weights = fixture_path(source, "model.safetensors");
    add_metadata(weights,
                 "\"__metadata__\":{\"format\":\"pt\",\"lm_head.weight\":\"model.norm.weight\","
                 "\"model.embed_tokens.weight\":\"lm_head.weight\"},");
    TinyModel model = tiny_model_open(source, "f32", &options, KV_F32);
    float *logits = tiny_model_run(&model, 0, 0, f.ids, f.n_ids, f.n_ids);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    tiny_model_close(&model);
    free(expected);
    free(logits);
    free(weights);
    fixture_remove_directory(source);
    fixture_free(&f);
}

/* ---- Families that equal a llama ---- */

/* Renames a llama's tensors to InternLM 2's names. InternLM 2 is a llama whose layers store q, k
 * and v in one matrix, interleaved by key/value head (fuse_in_file). */
static json_t *internlm2_names(json_t *tensors) {
    static const char *const names[][2] = {{"self_attn.o_proj", "attention.wo"},
                                           {"mlp.gate_proj", "feed_forward.w1"},
                                           {"mlp.up_proj", "feed_forward.w3"},
                                           {"mlp.down_proj", "feed_forward.w2"},
                                           {"input_layernorm", "attention_norm"},
                                           {"post_attention_layernorm", "ffn_norm"},
                                           {"model.embed_tokens", "model.tok_embeddings"},
                                           {"lm_head", "output"}};
    json_t *renamed = json_object(), *recipe;
    const char *name;
    json_object_foreach(tensors, name, recipe) {
        char text[128];
        snprintf(text, sizeof text, "%s", name);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            const char *at = strstr(name, names[i][0]);
            if (at)
                snprintf(text, sizeof text, "%.*s%s%s", (int)(at - name), name, names[i][1],
                         at + strlen(names[i][0]));
        }
        json_t *copy = json_deep_copy(recipe);
        json_array_append_new(copy, json_string(name));
        json_object_set_new(renamed, text, copy);
    }
    return renamed;
}

/* Writes the llama's q, k and v matrices over each wqkv in the directory's model.safetensors. */
static void fuse_in_file(const char *directory, const Fixture *llama, size_t n_kv_heads) {
    char *path = fixture_path(directory, "model.safetensors"), *file;
    uint64_t length;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&length, sizeof length, 1, f), 1);
    assert_non_null(file = calloc(1, length + 1));
    assert_int_equal(fread(file, 1, length, f), length);
    json_t *header = json_loads(file, 0, NULL), *entry;
    const char *name;
    json_object_foreach(header, name, entry) {
        char *suffix = strstr((char *)name, "attention.wqkv");
        if (!suffix) continue;
        json_t *shape = json_object_get(entry, "shape");
        size_t rows = (size_t)json_integer_value(json_array_get(shape, 0));
        size_t cols = (size_t)json_integer_value(json_array_get(shape, 1)), at = 0;
        float *fused = malloc(rows * cols * sizeof *fused), *parts[3];
        size_t part_rows[3];
        for (size_t p = 0; p < 3; p++) {
            char from[128];
            snprintf(from, sizeof from, "%.*sself_attn.%c_proj.weight", (int)(suffix - name), name,
                     "qkv"[p]);
            const json_t *recipe = json_object_get(json_object_get(llama->json, "tensors"), from);
            part_rows[p] = (size_t)json_integer_value(json_array_get(json_array_get(recipe, 3), 0));
            parts[p] = malloc(part_rows[p] * cols * sizeof *fused);
            hashed_tensor(from, (unsigned)json_integer_value(json_array_get(recipe, 0)),
                          json_number_value(json_array_get(recipe, 1)),
                          json_number_value(json_array_get(recipe, 2)), parts[p],
                          part_rows[p] * cols);
        }
        for (size_t head = 0; head < n_kv_heads; head++)
            for (size_t p = 0; p < 3; p++) {
                size_t n = part_rows[p] / n_kv_heads * cols;
                memcpy(fused + at, parts[p] + head * n, n * sizeof *fused);
                at += n;
            }
        json_int_t begin =
            json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
        assert_int_equal(at, rows * cols);
        assert_int_equal(fseek(f, (long)(8 + length) + (long)begin, SEEK_SET), 0);
        assert_int_equal(fwrite(fused, sizeof *fused, at, f), at);
        for (size_t p = 0; p < 3; p++) free(parts[p]);
        free(fused);
    }
    json_decref(header);
    free(file);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static void internlm2_is_a_llama_with_joined_projections(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa"), llama = fixture_load("llama-gqa");
    float *expected = logits_of(&f);
    json_t *config = json_object_get(f.json, "config");
    json_t *tensors = internlm2_names(json_object_get(f.json, "tensors"));
    size_t layers = (size_t)json_integer_value(json_object_get(config, "num_hidden_layers"));
    for (size_t i = 0; i < layers; i++) {
        char name[128];
        json_int_t rows = 0;
        for (const char *p = "qkv"; *p; p++) {
            snprintf(name, sizeof name, "model.layers.%zu.self_attn.%c_proj.weight", i, *p);
            rows += json_integer_value(
                json_array_get(json_array_get(json_object_get(tensors, name), 3), 0));
            json_object_del(tensors, name);
        }
        snprintf(name, sizeof name, "model.layers.%zu.attention.wqkv.weight", i);
        json_object_set_new(tensors, name, json_pack("[i, f, f, [I, i]]", 20, 1.0, 0.0, rows, 72));
    }
    json_object_set_new(f.json, "tensors", tensors);
    json_object_set_new(config, "model_type", json_string("internlm2"));
    const ModelOptions options = {.n_threads = 1};
    char *source = fixture_source(&f);
    fuse_in_file(source, &llama, 3);
    TinyModel joined = tiny_model_open(source, "f32", &options, KV_F32);
    fixture_remove_directory(source);
    assert_string_equal(modelfile_config(joined.file)->family, "internlm2");
    float *logits = tiny_model_run(&joined, 0, 0, f.ids, f.n_ids, f.n_ids);
    assert_memory_equal(expected, logits, f.n_ids * f.vocab_size * sizeof *logits);
    free(expected);
    free(logits);
    tiny_model_close(&joined);
    fixture_free(&llama);
    fixture_free(&f);
}

/* ---- Descriptions ---- */

/* Whether each name in `to` has a term of `rows`, and all sizes are known. */
static void check_rules(const char *family, const TensorRule *rules) {
    const Config config = config_default();
    for (; rules->to; rules++) {
        size_t n_names = 1;
        SizeSum sum;
        for (const char *p = rules->to; *p; p++) n_names += *p == ' ';
        if (!size_sum(rules->rows ? rules->rows : "dim", &config, 0, &sum) ||
            (n_names > 1 && n_names != sum.n_terms))
            fail_msg("%s: '%s' has rows '%s'", family, rules->to, rules->rows);
        if (rules->cols && !size_sum(rules->cols, &config, 0, &sum))
            fail_msg("%s: '%s' has columns '%s'", family, rules->to, rules->cols);
        if (rules->by && !size_sum(rules->by, &config, 0, &sum))
            fail_msg("%s: '%s' lies by '%s'", family, rules->to, rules->by);
        bool is_vector = rules->form == FORM_NORM || rules->form == FORM_VECTOR;
        if (is_vector != !rules->cols)
            fail_msg("%s: '%s' is %s", family, rules->to, is_vector ? "a vector" : "a matrix");
    }
}

static void check_presets(const char *family, const Preset *presets) {
    Config config = config_default();
    Error error;
    if (preset_apply(presets, &config, &error) != STATUS_OK) fail_msg("%s: %s", family, error.text);
}

static void check_steps(const char *family, const Step *steps, bool of_gguf) {
    for (; steps && steps->verb; steps++) {
        const Verb *verb = verb_find(steps->verb);
        if (!verb) fail_msg("%s: no verb is called '%s'", family, steps->verb);
        if (of_gguf ? !verb->run_gguf : !verb->run)
            fail_msg("%s: the verb '%s' reads other files", family, steps->verb);
        Error error;
        if (verb_check(verb, steps->words ? steps->words : "", &error) != STATUS_OK)
            fail_msg("%s: %s", family, error.text);
    }
}

/* A name of a size, a field or a verb that does not exist shows here, not when the first model is
 * read. */
static void every_description_names_known_sizes_fields_and_verbs(void **state) {
    (void)state;
    const Family *family;
    for (size_t i = 0; (family = family_at(i)); i++) {
        if (family->keys) check_rules(family->model_type, family->tensors);
        check_presets(family->model_type, family->set);
        check_steps(family->model_type, family->steps, false);
        for (const GgufFamily *g = family->gguf; g && g->architecture; g++) {
            check_rules(g->architecture, g->tensors);
            check_presets(g->architecture, g->set);
            check_steps(g->architecture, g->steps, true);
        }
    }
}

static void sizes_are_sums_of_products(void **state) {
    (void)state;
    static const char *const wrong[] = {"",     "dim +",   "* dim", "dim dim",
                                        "dimm", "dim - 1", "2 *",   "Dim"};
    Config config = config_default();
    SizeSum sum;
    config.dim = 10;
    config.n_heads = 3;
    config.head_dim = 4;
    config.n_kv_heads = 1;
    assert_true(size_sum("n_heads * head_dim + 2 * n_kv_heads * head_dim + 5", &config, 0, &sum));
    assert_int_equal(sum.total, 25);
    assert_int_equal(sum.n_terms, 3);
    assert_int_equal(sum.terms[1], 8);
    assert_true(size_sum("99999999999999999999 * dim", &config, 0, &sum));
    assert_true(sum.total == SIZE_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (size_sum(wrong[i], &config, 0, &sum)) fail_msg("'%s' is a size", wrong[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_description_names_known_sizes_fields_and_verbs),
        cmocka_unit_test(sizes_are_sums_of_products),
        cmocka_unit_test(gpt2_is_read_without_its_prefix),
        cmocka_unit_test(a_model_that_thinks_and_talks_is_read_by_its_first_half),
        cmocka_unit_test(phi4mm_is_phi4_multimodal_without_its_adapters),
        cmocka_unit_test(a_tied_model_may_have_the_embedding_under_the_heads_name),
        cmocka_unit_test(names_that_save_model_left_out_are_read_from_the_metadata),
        cmocka_unit_test(internlm2_is_a_llama_with_joined_projections),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
