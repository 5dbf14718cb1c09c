/* A store of ollama's, as ollama writes it, whose models run by their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixture.h"
#include "base/sha256.h"
#include "gguf_fixture.h"
#include "process.h"

enum { VOCABULARY = 131, PATH_BYTES = 512 };

static char *store; /* OLLAMA_MODELS: manifests/ and blobs/ */

static int set_up(void **state) {
    (void)state;
    char *directory = fixture_directory();
    store = realpath(directory, NULL);
    assert_non_null(store);
    free(directory);
    setenv("HOME", store, 1);
    setenv("OLLAMA_MODELS", store, 1);
    static const char *const others[] = {"XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE",
                                         "VERBATIM_MODELS"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    char *make = NULL;
    assert_true(asprintf(&make, "cd '%s' && mkdir -p blobs manifests/registry.ollama.ai/library",
                         store) > 0);
    Process p = RUN("/bin/sh", "-c", make);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(make);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove_directory(store);
    return 0;
}

/* ---- Models ---- */

static void set_key(json_t *gguf, const char *key, json_t *value, const char *kind) {
    json_t *keys = json_object_get(gguf, "keys"), *pair = json_pack("[s, s, o]", key, kind, value);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        if (strcmp(json_string_value(json_array_get(json_array_get(keys, i), 0)), key) != 0)
            continue;
        json_array_set_new(keys, i, pair);
        return;
    }
    json_array_append_new(keys, pair);
}

static void remove_key(json_t *gguf, const char *key) {
    json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(keys, i), 0)), key) == 0)
            json_array_remove(keys, i--);
}

/* A model with a vocabulary of the printable characters and a template that shows its messages. */
static json_t *model_load(const char *fixture) {
    json_t *gguf = gguf_fixture_load(fixture), *tokens = json_array(), *types = json_array();
    json_t *scores = json_array();
    for (int id = 0; id < VOCABULARY; id++) {
        static const char *const first[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81"};
        char text[16];
        snprintf(text, sizeof text, "%c", id < 98 ? '!' + id - 4 : '?');
        if (id >= 98) snprintf(text, sizeof text, "zz%d", id);
        json_array_append_new(tokens, json_string(id < 4 ? first[id] : text));
        json_array_append_new(types, json_integer(id == 0 ? 2 : id < 3 ? 3 : 1));
        json_array_append_new(scores, json_real(-id));
    }
    set_key(gguf, "tokenizer.ggml.model", json_string("llama"), "string");
    set_key(gguf, "tokenizer.ggml.tokens", tokens, "string[]");
    set_key(gguf, "tokenizer.ggml.token_type", types, "int32[]");
    set_key(gguf, "tokenizer.ggml.scores", scores, "float32[]");
    set_key(gguf, "tokenizer.ggml.bos_token_id", json_integer(1), "uint32");
    set_key(gguf, "tokenizer.ggml.eos_token_id", json_integer(2), "uint32");
    set_key(gguf, "tokenizer.chat_template",
            json_string("{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}"),
            "string");
    return gguf;
}

static void rename_keys(json_t *gguf, const char *from, const char *to) {
    json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        json_t *pair = json_array_get(keys, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        char other[200];
        if (strncmp(name, from, strlen(from)) != 0) continue;
        snprintf(other, sizeof other, "%s%s", to, name + strlen(from));
        json_array_set_new(pair, 0, json_string(other));
    }
}

static void rename_ends(json_t *gguf, const char *from, const char *to) {
    json_t *renamed = json_object(), *tensor;
    const char *name;
    json_object_foreach(json_object_get(gguf, "tensors"), name, tensor) {
        char other[100];
        size_t n = strlen(name), m = strlen(from);
        bool ends = n >= m && strcmp(name + n - m, from) == 0;
        snprintf(other, sizeof other, "%.*s%s", (int)(ends ? n - m : n), name, ends ? to : "");
        json_object_set(renamed, other, tensor);
    }
    json_object_set_new(gguf, "tensors", renamed);
}

/* ---- The store ---- */

/* Moves the file to the blob that has its digest, which it writes to out. */
static void store_blob(const char *path, char out[SHA256_HEX]) {
    char blob[PATH_BYTES];
    size_t bytes;
    char *content = file_read(path, &bytes);
    sha256_text(content, bytes, out);
    snprintf(blob, sizeof blob, "%s/blobs/sha256-%s", store, out);
    assert_int_equal(rename(path, blob), 0);
    free(content);
}

/* Adds a layer to the manifest: of the file, or of the text where it is not NULL. */
static void add_layer(json_t *layers, const char *type, const char *path, const char *text) {
    char whole[100], digest[SHA256_HEX], prefixed[SHA256_HEX + 8];
    if (text) file_write(path, text, strlen(text));
    store_blob(path, digest);
    snprintf(whole, sizeof whole, "application/vnd.ollama.image.%s", type);
    snprintf(prefixed, sizeof prefixed, "sha256:%s", digest);
    json_array_append_new(
        layers, json_pack("{s:s, s:s, s:i}", "mediaType", whole, "digest", prefixed, "size", 1));
}

/* Puts the model into the store as NAME:latest, with parameters and a system prompt that may be
 * NULL (server/manifest.go and server/create.go of ollama write this). */
static void store_model(const char *name, const json_t *gguf, const char *parameters,
                        const char *system) {
    char path[PATH_BYTES];
    json_t *layers = json_array();
    snprintf(path, sizeof path, "%s/new", store);
    gguf_fixture_write(gguf, path, STORED_F32, false);
    add_layer(layers, "model", path, NULL);
    add_layer(layers, "template", path, "{{ .Prompt }}");
    if (system) add_layer(layers, "system", path, system);
    if (parameters) add_layer(layers, "params", path, parameters);
    json_t *manifest =
        json_pack("{s:i, s:s, s:{s:s, s:s, s:i}, s:o}", "schemaVersion", 2, "mediaType",
                  "application/vnd.docker.distribution.manifest.v2+json", "config", "mediaType",
                  "application/vnd.docker.container.image.v1+json", "digest", "sha256:00", "size",
                  1, "layers", layers);
    assert_non_null(manifest);
    snprintf(path, sizeof path, "%s/manifests/registry.ollama.ai/library/%s", store, name);
    char *make = NULL;
    assert_true(asprintf(&make, "mkdir -p '%s'", path) > 0);
    Process p = RUN("/bin/sh", "-c", make);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(make);
    strcat(path, "/latest");
    assert_int_equal(json_dump_file(manifest, path, JSON_COMPACT), 0);
    json_decref(manifest);
}

/* ---- The five cases ---- */

/* Expects that the model of this name scores a text as the file of the other one does. */
static void assert_same_scores(const char *name, const json_t *ollama, const json_t *whole) {
    char path[PATH_BYTES];
    store_model(name, ollama, NULL, NULL);
    snprintf(path, sizeof path, "%s/whole.gguf", store);
    gguf_fixture_write(whole, path, STORED_F32, false);
    Process one = RUN("run", name, "--score", "json", "-i", "what is said of it?");
    Process other = RUN("run", path, "--score", "json", "-i", "what is said of it?");
    if (one.status || other.status) fail_msg("%s%s", one.err, other.err);
    assert_true(strlen(one.out) > 100);
    assert_string_equal(one.out, other.out);
    process_free(&one);
    process_free(&other);
}

static void gemma3_without_epsilon_and_base_runs(void **state) {
    (void)state;
    json_t *ollama = model_load("gemma3-gguf"), *whole = json_deep_copy(ollama);
    static const char *const absent[] = {"gemma3.attention.layer_norm_rms_epsilon",
                                         "gemma3.rope.freq_base", "gemma3.rope.freq_base_swa",
                                         "gemma3.rope.scaling.type", "gemma3.rope.scaling.factor"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) remove_key(ollama, absent[i]);
    /* Google's config.json of Gemma 3 4B, and ollama's model/models/gemma3. */
    set_key(whole, "gemma3.attention.layer_norm_rms_epsilon", json_real(1e-6), "float32");
    set_key(whole, "gemma3.rope.freq_base", json_real(1e6), "float32");
    assert_same_scores("gemma3", ollama, whole);
    json_decref(ollama);
    json_decref(whole);
}

static void qwen35_with_another_name_of_its_steps_runs(void **state) {
    (void)state;
    json_t *ollama = model_load("qwen3_5"), *whole = json_deep_copy(ollama);
    rename_ends(ollama, ".ssm_dt.bias", ".ssm_dt");
    assert_same_scores("qwen3.5", ollama, whole);
    json_decref(ollama);
    json_decref(whole);
}

static void gptoss_runs(void **state) {
    (void)state;
    json_t *ollama = model_load("gpt_oss"), *whole = json_deep_copy(ollama);
    set_key(whole, "tokenizer.ggml.pre", json_string("gpt-4o"), "string");
    set_key(ollama, "general.architecture", json_string("gptoss"), "string");
    rename_keys(ollama, "gpt-oss.", "gptoss.");
    remove_key(ollama, "gptoss.rope.scaling.type");
    rename_ends(ollama, ".attn_output.weight", ".attn_out.weight");
    rename_ends(ollama, ".attn_output.bias", ".attn_out.bias");
    rename_ends(ollama, ".attn_sinks.weight", ".attn_sinks");
    assert_same_scores("gpt-oss", ollama, whole);
    json_decref(ollama);
    json_decref(whole);
}

/* Runs with these words, and expects the text on stdout and the words on stderr. */
static void says(const char *const *words, const char *out, const char *err) {
    Process p = process_run(words, NULL, 0);
    if (p.status || strcmp(p.out, out) != 0 || !strstr(p.err, err))
        fail_msg("%d: '%s' is not '%s'; %s", p.status, p.out, out, p.err);
    process_free(&p);
}

/* Token 37 is 'B'; a bias makes it every token. */
static void a_text_ends_at_any_of_the_listed_tokens(void **state) {
    (void)state;
    json_t *gguf = model_load("llama-mha");
    store_model("endless", gguf, NULL, NULL);
    static const char *const words[] = {"run", "endless", "-i",           "a",     "-n", "3",
                                        "-t",  "0",       "--logit-bias", "37=99", NULL};
    static const char *const ended[] = {"run", "ended", "-i",           "a",     "-n", "3",
                                        "-t",  "0",     "--logit-bias", "37=99", NULL};
    says(words, "BBB\n", "");
    json_t *ids = json_pack("[i, i, i, i]", 2, 5000, 37, -1); /* beyond the vocabulary: none */
    set_key(gguf, "tokenizer.ggml.eos_token_ids", ids, "int32[]");
    store_model("ended", gguf, NULL, NULL);
    says(ended, "\n", "");
    json_decref(gguf);
}

/* What the manifest's params and system say are the defaults of the options. */
static void parameters_and_system_prompt_of_the_manifest_count(void **state) {
    (void)state;
    json_t *gguf = model_load("llama-mha");
    store_model("tuned", gguf,
                "{\"temperature\":0,\"num_predict\":4,\"stop\":[\"CC\",\"x\"],\"top_k\":-1,"
                "\"num_gpu\":1,\"mirostat\":2,\"seed\":7,\"min_p\":3,\"repeat_penalty\":1}",
                "Be brief.");
    static const char line[] = "--temperature 0, --tokens 4, --stop (2), --top-k 0, --seed 7, "
                               "--repetition-penalty 1; not taken from ollama's model: ";
    static const char *const four[] = {"run", "tuned", "-i", "a", "--logit-bias", "37=99", NULL};
    says(four, "BBBB\n", line);
    says(four, "BBBB\n", "mirostat, --min-p 3");
    says(four, "BBBB\n", "system prompt (it is for -m chat and --batch)");
    static const char *const two[] = {"run", "tuned",  "-i", "a", "--logit-bias", "37=99", "-n",
                                      "2",   "--stop", "zz", NULL};
    says(two, "BB\n", "--temperature 0, --top-k 0, --seed 7");
    static const char *const stopped[] = {"run", "tuned", "-i", "a", "--logit-bias", "38=99", NULL};
    says(stopped, "\n", "--stop (2)"); /* token 38 is 'C' */
    static const char *const rendered[] = {"run", "tuned", "--render", "-i", "hi", NULL};
    says(rendered, "system: Be brief.;user: hi;", "system prompt");
    static const char *const own[] = {"run", "tuned", "--render", "-i", "hi", "-y", "Own.", NULL};
    says(own, "system: Own.;user: hi;", "");
    /* A conversation that goes on keeps the system prompt that it has. */
    char session[PATH_BYTES];
    snprintf(session, sizeof session, "%s/session", store);
    Process p = RUN("run", "tuned", "-m", "chat", "--session", session, "-i", "hi", "-y", "Mine.");
    assert_int_equal(p.status, 0);
    process_free(&p);
    p = RUN("run", "tuned", "-m", "chat", "--session", session, "-i", "ho");
    assert_int_equal(p.status, 0);
    assert_null(strstr(p.err, "system prompt"));
    process_free(&p);
    size_t bytes;
    char *kept = file_read(session, &bytes);
    assert_non_null(strstr(kept, "Mine."));
    assert_null(strstr(kept, "Be brief."));
    free(kept);
    /* A stranger's parameters. */
    store_model("broken", gguf, "[1, 2", NULL);
    p = RUN("run", "broken", "-i", "a", "-n", "1");
    PROCESS_SAYS(p, 1, "its parameters of ollama are not a JSON object");
    json_decref(gguf);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma3_without_epsilon_and_base_runs),
        cmocka_unit_test(qwen35_with_another_name_of_its_steps_runs),
        cmocka_unit_test(gptoss_runs),
        cmocka_unit_test(a_text_ends_at_any_of_the_listed_tokens),
        cmocka_unit_test(parameters_and_system_prompt_of_the_manifest_count),
    };
    return cmocka_run_group_tests_name("ollama", tests, set_up, tear_down);
}
