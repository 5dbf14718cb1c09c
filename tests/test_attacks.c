/* Published attacks by model files on other programs (CVE-2024-23496, CVE-2025-49847, CVE-2026-7482
 * and similar ones), rebuilt for every reader that they could concern: each must give a clear error
 * within a second and in little memory. Then well-formed files with hostile values, which must give
 * text or a clear error as fast. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address_sanitizer.h"
#include "fixture.h"
#include "core/modelfile.h"
#include "process.h"
#include "small_model.h"
#include "tests/tier.h"

#if ADDRESS_SANITIZER
enum { SLOWER = 10, MOST_MEGABYTES = 1024 };
#else
enum { SLOWER = 1, MOST_MEGABYTES = 64 };
#endif

static char *directory, *model, *target;
static unsigned n_attacks;

static int set_up(void **state) {
    (void)state;
    directory = fixture_directory();
    model = small_model(directory, "tiny,n_layers=1");
    target = fixture_path(directory, "target.bin");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    print_message("%u files tried\n", n_attacks);
    free(model);
    free(target);
    fixture_remove_directory(directory);
    return 0;
}

/* ---- One attack ------------------------------------------------------------------------------ */

typedef struct Cost {
    int status;
    double seconds, megabytes; /* processor time; peak memory */
    char said[2048];
} Cost;

/* Runs the program after `limits`, a shell command such as ulimit; "" needs no shell. */
static Cost cost_of(const char *limits, const char *const *argv) {
    Cost cost = {0};
    int err[2], status;
    struct rusage usage;
    ssize_t n;
    size_t length = 0;
    char *program = build_path(argv[0]);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        const char *words[24] = {"sh", "-c"};
        char command[300];
        snprintf(command, sizeof command, "%s exec \"$0\" \"$@\"", limits);
        words[2] = command;
        words[3] = program;
        size_t k = 4;
        for (size_t i = 1; argv[i]; i++) words[k++] = argv[i];
        words[k] = NULL;
        const char *const *started = *limits ? words : words + 3;
        dup2(open("/dev/null", O_RDWR), 0);
        dup2(0, 1);
        dup2(err[1], 2);
        alarm(60);
        execv(*limits ? "/bin/sh" : program, (char *const *)(uintptr_t)started);
        _exit(127);
    }
    close(err[1]);
    while (length < sizeof cost.said - 1 &&
           (n = read(err[0], cost.said + length, sizeof cost.said - 1 - length)) > 0)
        length += (size_t)n;
    close(err[0]);
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    cost.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    cost.seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    cost.megabytes = (double)usage.ru_maxrss / 1024.0;
    free(program);
    n_attacks++;
    return cost;
}

#define COST(limits, ...) cost_of(limits, (const char *const[]){__VA_ARGS__, NULL})

static void check_cost(const char *name, const Cost *cost) {
    if (cost->seconds > 1.0 * SLOWER || cost->megabytes > MOST_MEGABYTES)
        fail_msg("%s: %.2f s, %.0f MB: %s", name, cost->seconds, cost->megabytes, cost->said);
}

static void assert_refused(const char *name, Cost cost) {
    if (cost.status != 1 || strlen(cost.said) < 20)
        fail_msg("%s: status %d: %s", name, cost.status, cost.said);
    check_cost(name, &cost);
}

/* Expects text, or an error with a message. */
static void assert_bounded(const char *name, Cost cost) {
    if (cost.status > 1 || (cost.status == 1 && strlen(cost.said) < 20))
        fail_msg("%s: status %d: %s", name, cost.status, cost.said);
    check_cost(name, &cost);
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

typedef struct Gguf {
    uint8_t bytes[8192];
    size_t size;
} Gguf;

static void put(Gguf *g, const void *bytes, size_t n) {
    memcpy(g->bytes + g->size, bytes, n);
    g->size += n;
}
static void put32(Gguf *g, uint32_t value) {
    put(g, &value, 4);
}
static void put64(Gguf *g, uint64_t value) {
    put(g, &value, 8);
}
static void put_text(Gguf *g, const char *text) {
    put64(g, strlen(text));
    put(g, text, strlen(text));
}

enum { G_U32 = 4, G_F32 = 6, G_TEXT = 8, G_ARRAY = 9, G_U64 = 10 };

static Gguf begin(uint64_t n_tensors, uint64_t n_keys) {
    Gguf g = {.size = 0};
    put(&g, "GGUF", 4);
    put32(&g, 3);
    put64(&g, n_tensors);
    put64(&g, n_keys);
    return g;
}
static void key_text(Gguf *g, const char *key, const char *value) {
    put_text(g, key);
    put32(g, G_TEXT);
    put_text(g, value);
}
static void key_number(Gguf *g, const char *key, uint32_t value) {
    put_text(g, key);
    put32(g, G_U32);
    put32(g, value);
}

/* The keys of a llama model, one of which may be replaced. */
enum { LLAMA_KEYS = 8 };
static void llama(Gguf *g, const char *changed, uint32_t value) {
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.block_count", 1},          {"llama.embedding_length", 32},
                   {"llama.feed_forward_length", 32}, {"llama.attention.head_count", 2},
                   {"llama.context_length", 16},      {"llama.rope.dimension_count", 16},
                   {"general.alignment", 32}};
    key_text(g, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        key_number(g, numbers[i].key,
                   changed && strcmp(changed, numbers[i].key) == 0 ? value : numbers[i].value);
}

/* The first tensor of a model: a file without tensors counts as a vocabulary, and is valid. */
static void embedding(Gguf *g) {
    put_text(g, "token_embd.weight");
    put32(g, 2);
    put64(g, 32);
    put64(g, 2);
    put32(g, 0);
    put64(g, 0);
    g->size += 512;
}

static void refuse_gguf(const char *name, const Gguf *g) {
    char *path = fixture_path(directory, "attack.gguf");
    file_write(path, g->bytes, g->size);
    assert_refused(name, COST("", "export", path, target, "-q"));
    /* Without tensors it may be a vocabulary, which --info can show. */
    assert_bounded(name, COST("", "run", path, "--info"));
    assert_int_equal(unlink(path), 0);
    free(path);
}

static const uint64_t huge[] = {1ull << 20,       (1ull << 31) - 1, 1ull << 32, 1ull << 61,
                                (1ull << 62) + 1, 1ull << 63,       UINT64_MAX};
enum { N_HUGE = sizeof huge / sizeof *huge };

static void counts_and_lengths_of_gguf_that_overflow_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < N_HUGE; i++) {
        if (!tier_takes(i, 3, 1)) continue;
        Gguf g = begin(huge[i], 0);
        refuse_gguf("tensors", &g);
        g = begin(0, huge[i]);
        refuse_gguf("keys", &g);
        g = begin(0, 1); /* the length of a key, then of a text */
        put64(&g, huge[i]);
        refuse_gguf("key length", &g);
        g = begin(0, 1);
        put_text(&g, "general.architecture");
        put32(&g, G_TEXT);
        put64(&g, huge[i]);
        put(&g, "llama", 5);
        refuse_gguf("text length", &g);
        g = begin(0, 1); /* arrays of texts, of numbers and of arrays */
        put_text(&g, "tokenizer.ggml.tokens");
        put32(&g, G_ARRAY);
        put32(&g, G_TEXT);
        put64(&g, huge[i]);
        refuse_gguf("array of texts", &g);
        g.bytes[g.size - 12] = G_U64;
        refuse_gguf("array of numbers", &g);
        g.bytes[g.size - 12] = G_ARRAY;
        refuse_gguf("array of arrays", &g);
    }
}

static void tensors_of_gguf_that_overflow_or_lie_outside_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t n_dims;
        uint64_t rows, cols;
        uint32_t type;
        uint64_t offset;
    } cases[] = {{"product", 2, 1ull << 32, 1ull << 32, 0, 0},
                 {"bytes", 2, 1ull << 31, 1ull << 31, 0, 0},
                 {"negative", 2, UINT64_MAX, 2, 0, 0},
                 {"nothing", 2, 0, 32, 0, 0},
                 {"no dimensions", 0, 32, 32, 0, 0},
                 {"many dimensions", UINT32_MAX, 32, 32, 0, 0},
                 {"five dimensions", 5, 32, 32, 0, 0},
                 {"type", 2, 32, 32, 1u << 31, 0},
                 {"type that went", 2, 32, 32, 4, 0},
                 {"offset", 2, 32, 32, 0, 1ull << 40},
                 {"offset that wraps", 2, 32, 32, 0, UINT64_MAX - 31},
                 {"offset between", 2, 32, 32, 0, 7},
                 {"half a block", 2, 33, 32, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Gguf g = begin(1, LLAMA_KEYS);
        llama(&g, NULL, 0);
        put_text(&g, "token_embd.weight");
        put32(&g, cases[i].n_dims);
        put64(&g, cases[i].cols);
        put64(&g, cases[i].rows);
        put32(&g, cases[i].type);
        put64(&g, cases[i].offset);
        g.size += 4096;
        refuse_gguf(cases[i].name, &g);
    }
}

static void limits_and_alignments_of_gguf_are_held(void **state) {
    (void)state;
    static const char *const keys[] = {"llama.block_count",          "llama.embedding_length",
                                       "llama.feed_forward_length",  "llama.attention.head_count",
                                       "llama.rope.dimension_count", "general.alignment"};
    static const uint32_t values[] = {0, 3, 1u << 16, 1u << 20, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            if (!tier_takes(i + k, 3, 1)) continue;
            Gguf g = begin(1, LLAMA_KEYS);
            llama(&g, keys[i], values[k]);
            embedding(&g);
            refuse_gguf(keys[i], &g);
        }
    }
}

/* Arrays with an unexpected element type, keys that should be arrays and are not, and malformed
 * byte tokens. */
static void keys_of_gguf_of_another_type_are_refused(void **state) {
    (void)state;
    static const char *const arrays[] = {
        "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
        "tokenizer.ggml.merges", "general.architecture",  "llama.attention.head_count",
        "tokenizer.ggml.model",  "general.alignment",     "llama.rope.freq_base"};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        for (uint32_t type = 0; type < 14; type++) {
            if (!tier_takes(i + type, 6, 1)) continue;
            Gguf g = begin(1, LLAMA_KEYS + 2);
            llama(&g, NULL, 0);
            key_text(&g, "tokenizer.ggml.model", "llama");
            put_text(&g, arrays[i]);
            put32(&g, G_ARRAY);
            put32(&g, type);
            put64(&g, 3);
            g.size += 8 * 3;
            embedding(&g);
            refuse_gguf(arrays[i], &g);
        }
    }
    static const char *const bytes[] = {"<0x-1>", "<0xGG>", "<0x100>", "<0x>", "<0x", "", "<0x+1>"};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        Gguf g = begin(1, LLAMA_KEYS + 4);
        llama(&g, NULL, 0);
        key_text(&g, "tokenizer.ggml.model", "llama");
        put_text(&g, "tokenizer.ggml.tokens");
        put32(&g, G_ARRAY), put32(&g, G_TEXT), put64(&g, 2);
        put_text(&g, "a"), put_text(&g, bytes[i]);
        put_text(&g, "tokenizer.ggml.scores");
        put32(&g, G_ARRAY), put32(&g, G_F32), put64(&g, 2), put64(&g, 0);
        put_text(&g, "tokenizer.ggml.token_type");
        put32(&g, G_ARRAY), put32(&g, 5), put64(&g, 2), put32(&g, 1), put32(&g, 6);
        embedding(&g);
        char *path = fixture_path(directory, "attack.gguf");
        file_write(path, g.bytes, g.size);
        /* A byte without a token must not be written to another place. */
        assert_bounded(bytes[i], COST("", "run", path, "--tokenize", "-i", "abc"));
        assert_refused(bytes[i], COST("", "export", path, target, "-q"));
        unlink(path);
        free(path);
    }
}

/* ---- safetensors with config.json ---------------------------------------------------------------
 */

#define CONFIG                                                                                     \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"       \
    "\"intermediate_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":2,"                  \
    "\"vocab_size\":16,\"max_position_embeddings\":16"

static void refuse_directory(const char *name, const char *config, const void *tensors, size_t n) {
    char *at = fixture_path(directory, "hf"), command[700];
    snprintf(command, sizeof command, "mkdir -p '%s'", at);
    assert_int_equal(system(command), 0);
    char *path = fixture_path(at, "config.json"), *data = fixture_path(at, "model.safetensors");
    file_write(path, config, strlen(config));
    file_write(data, tensors, n);
    assert_refused(name, COST("", "export", at, target, "-q"));
    assert_refused(name, COST("", "run", at, "--info"));
    unlink(path), unlink(data), rmdir(at);
    free(path), free(data), free(at);
}

static void safetensors_that_lie_are_refused(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[16,32],\"data_offsets\":[0,"
        "9e99]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[16,32],\"data_offsets\":[-1,"
        "2047]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[16,32],\"data_offsets\":["
        "2048,0]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[16,32],"
        "\"data_offsets\":[9223372036854775807,9223372036854775807]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
        "\"data_offsets\":[0,0]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[-16,-32],\"data_offsets\":[0,"
        "2048]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":\"16\",\"data_offsets\":[0,"
        "2048]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":\"X99\",\"shape\":[16,32],\"data_offsets\":[0,"
        "2048]}}",
        "{\"model.embed_tokens.weight\":{\"dtype\":5,\"shape\":[16,32],\"data_offsets\":[0,2048]}}",
        "{\"model.embed_tokens.weight\":[]}",
        "[]",
        "{\"a\":1,\"a\":2}",
        "{\"\\u0000\":{}}",
        "{"};
    uint8_t bytes[8192];
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        uint64_t length = strlen(headers[i]);
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, &length, 8);
        memcpy(bytes + 8, headers[i], length);
        refuse_directory(headers[i], CONFIG "}", bytes, sizeof bytes);
    }
    for (size_t i = 0; i < N_HUGE; i++) {
        memset(bytes, ' ', sizeof bytes);
        memcpy(bytes, &huge[i], 8);
        refuse_directory("header length", CONFIG "}", bytes, sizeof bytes);
    }
    uint64_t length = sizeof bytes - 8; /* nested without end */
    memset(bytes, '[', sizeof bytes);
    memcpy(bytes, &length, 8);
    refuse_directory("nesting", CONFIG "}", bytes, sizeof bytes);
}

/* Each byte of the data belongs to one tensor, and each name stands for one. */
static void safetensors_whose_tensors_share_or_leave_bytes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header, *says;
        size_t bytes;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
         "overlaps", 12},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "belong to no", 12},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", "belong to no", 12},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         "duplicate", 12},
        {"{\"a\":{\"dtype\":\"F32\\u0000X\",\"shape\":[2],\"data_offsets\":[0,8]}}", "NUL", 8}};
    char *at = fixture_path(directory, "hf"), command[700];
    snprintf(command, sizeof command, "mkdir -p '%s'", at);
    assert_int_equal(system(command), 0);
    char *path = fixture_path(at, "config.json"), *data = fixture_path(at, "model.safetensors");
    file_write(path, CONFIG "}", strlen(CONFIG "}"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[512] = {0};
        uint64_t length = strlen(cases[i].header);
        memcpy(bytes, &length, 8);
        memcpy(bytes + 8, cases[i].header, length);
        file_write(data, bytes, 8 + length + cases[i].bytes);
        Cost cost = COST("", "export", at, target, "-q");
        assert_refused(cases[i].header, cost);
        if (!strstr(cost.said, cases[i].says)) fail_msg("%s: %s", cases[i].header, cost.said);
    }
    unlink(path), unlink(data), rmdir(at);
    free(path), free(data), free(at);
}

/* A link out of a model's directory would carry a file of the user's into the model.bin; links
 * within Hugging Face's cache are how its models are stored. */
static void links_out_of_a_models_directory_are_refused(void **state) {
    (void)state;
    char command[2000];
    static const char *const snapshots[] = {"m/elsewhere/1", "m/snapshots/1"};
    for (int i = 0; i < 2; i++) {
        char *at = fixture_path(directory, snapshots[i]);
        snprintf(
            command, sizeof command,
            "cd '%s' && mkdir -p m/blobs '%s' && echo '{}' >m/blobs/c && echo secret >secret &&"
            "ln -s ../../blobs/c '%s/config.json'",
            directory, snapshots[i], snapshots[i]);
        assert_int_equal(system(command), 0);
        Cost cost = COST("", "export", at, target, "-q");
        assert_refused(snapshots[i], cost);
        /* The second one gets as far as the missing weights. */
        assert_int_equal(strstr(cost.said, "outside the model's directory") != NULL, i == 0);
        snprintf(command, sizeof command, "ln -s ../../../secret '%s/chat_template.jinja'", at);
        assert_int_equal(system(command), 0);
        cost = COST("", "export", at, target, "-q");
        assert_refused(snapshots[i], cost);
        assert_non_null(strstr(cost.said, "outside the model's directory"));
        free(at);
    }
    snprintf(command, sizeof command, "cd '%s' && rm -r m secret", directory);
    assert_int_equal(system(command), 0);
}

/* general.alignment must be a whole number, and tensors must obey it and not overlap. */
static void gguf_with_a_wrong_alignment_or_overlaps_is_refused(void **state) {
    (void)state;
    static const double floats[] = {32.0, -32.0, 0.0 / 0.0, 9007199254740992.0};
    for (size_t i = 0; i < 7; i++) {
        Gguf g = begin(2, 2);
        key_text(&g, "general.architecture", "llama");
        put_text(&g, "general.alignment");
        if (i < 4) {
            put32(&g, 12), put(&g, &floats[i], 8);
        } else if (i == 4) {
            put32(&g, G_TEXT), put_text(&g, "32");
        } else {
            put32(&g, G_U32), put32(&g, i == 5 ? 64 : 32);
        }
        for (uint64_t k = 0; k < 2; k++) {
            put_text(&g, k ? "output.weight" : "token_embd.weight");
            put32(&g, 2), put64(&g, 32), put64(&g, 2), put32(&g, 0),
                put64(&g, k * (i == 5 ? 288 : 32));
        }
        g.size += 1024;
        char *path = fixture_path(directory, "attack.gguf");
        file_write(path, g.bytes, g.size);
        Cost cost = COST("", "export", path, target, "-q");
        assert_refused("alignment", cost);
        const char *says = i < 5    ? "but a whole number is wanted"
                           : i == 5 ? "not a multiple"
                                    : "overlaps";
        if (!strstr(cost.said, says)) fail_msg("case %zu: %s", i, cost.said);
        unlink(path);
        free(path);
    }
}

static void dimensions_of_config_json_out_of_range_are_refused(void **state) {
    (void)state;
    static const char *const fields[] = {
        "hidden_size",         "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim",          "vocab_size",        "max_position_embeddings"};
    static const char *const values[] = {
        "0",  "-1",    "1e300", "2147483648", "9223372036854775807", "99999999999999999999999",
        "[]", "\"x\"", "null",  "0.5"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            if (!tier_takes(i + k, 6, 1)) continue;
            char config[1024];
            snprintf(config, sizeof config, CONFIG ",\"%s\":%s}", fields[i], values[k]);
            refuse_directory(config, config, "\2\0\0\0\0\0\0\0{}", 10);
        }
    }
}

/* ---- llama2.c -------------------------------------------------------------------------------- */

static void headers_of_llama2c_out_of_range_are_refused(void **state) {
    (void)state;
    static const int32_t values[] = {0, -1, INT32_MAX, INT32_MIN, 1 << 30, 1 << 16, 3};
    char *path = fixture_path(directory, "attack.bin");
    for (size_t field = 0; field < 7; field++) {
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            if (!tier_takes(field + k, 3, 1)) continue;
            int32_t bytes[1024] = {32, 32, 1, 2, 2, 16, 16};
            bytes[field] = values[k];
            file_write(path, bytes, sizeof bytes);
            assert_refused("llama2.c", COST("", "export", path, target, "-q"));
            assert_refused("llama2.c", COST("", "run", path, "--info"));
        }
    }
    unlink(path);
    free(path);
}

/* ---- Tokenizers -------------------------------------------------------------------------------
 */

static void refuse_tokenizer(const char *file, const void *bytes, size_t n) {
    char *path = fixture_path(directory, file);
    char name[300];
    file_write(path, bytes, n);
    snprintf(name, sizeof name, "%s: %.250s", file, (const char *)bytes);
    if (strstr(file, ".tiktoken"))
        assert_refused(name, COST("", "run", model, "-z", path, "--split-pattern", "llama3",
                                  "--tokenize", "-i", "abc"));
    assert_refused(name, COST("", "run", model, "-z", path, "--tokenize", "-i", "abc"));
    unlink(path);
    free(path);
}

static void tokenizers_that_lie_are_refused(void **state) {
    (void)state;
    static const char *const json[] = {
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967296},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2147483647},\"merges\":[]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"x y\"]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[7]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":[\"a\"],\"merges\":[]}}",
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":99,\"vocab\":[[\"a\",0]]}}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
        "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[7,\"a\"]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":"
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"((((\"},\"behavior\":\"Isolated\"}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":"
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{1,65535}{1,65535}\"},\"behavior\":"
        "\"Isolated\"}}",
        "{\"model\":7}",
        "{}",
        "[]",
        "{\"model\":{\"type\":\"BPE\"}}"};
    for (size_t i = 0; i < sizeof json / sizeof *json; i++)
        refuse_tokenizer("tokenizer.json", json[i], strlen(json[i]));
    char nested[65536];
    memset(nested, '[', sizeof nested);
    memcpy(nested, "{\"model\":", 9);
    refuse_tokenizer("tokenizer.json", nested, sizeof nested);
    /* SentencePiece: lengths of fields, numbers without end, groups. */
    static const char *const spm[] = {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
                                      "\x0A\xFF\xFF\xFF\xFF\x07x",
                                      "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
                                      "\x0B\x0B\x0B\x0B",
                                      "\x0A\x05\x0A\x10xx",
                                      "\xFA\xFF\xFF\xFF\x0F\x01x",
                                      "\x0A\x0A\x0A\x06<0x-1>\x18\x06"};
    for (size_t i = 0; i < sizeof spm / sizeof *spm; i++)
        refuse_tokenizer("tokenizer.model", spm[i], strlen(spm[i]));
    static const char *const ranks[] = {"YQ== 18446744073709551616\n",
                                        "YQ== -1\n",
                                        "YQ== 4294967295\n",
                                        "!!!! 0\n",
                                        "YQ== 0\nYQ== 1\n",
                                        "YQ==\n",
                                        "YQ== 0\nYg== 0\n"};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        refuse_tokenizer("x.tiktoken", ranks[i], strlen(ranks[i]));
    static const int32_t lengths[] = {-1, INT32_MAX, INT32_MIN, 1 << 20};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int32_t words[64] = {8, 0, lengths[i]};
        refuse_tokenizer("bad-tokenizer.bin", words, sizeof words);
        words[0] = lengths[i];
        refuse_tokenizer("bad-tokenizer.bin", words, sizeof words);
    }
}

/* Five decoders that each turn "a" into 1,000 of them: 10^15 bytes, of a file of 5 KB. */
static void decoders_that_multiply_a_token_are_refused(void **state) {
    (void)state;
    char text[8192], many[901] = "";
    memset(many, 'a', sizeof many - 1);
    for (int fused = 0; fused < 2; fused++) {
        int n = snprintf(text, sizeof text,
                         "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                         "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"%s\"}",
                         fused ? "Fuse" : "ByteFallback");
        for (int i = 0; i < 5; i++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                          "\"content\":\"%s\"}",
                          many);
        snprintf(text + n, sizeof text - (size_t)n, "]}}");
        if (!fused) {
            refuse_tokenizer("tokenizer.json", text, strlen(text));
            continue;
        }
        /* Joined texts are multiplied only when there is one. */
        char *path = fixture_path(directory, "tokenizer.json");
        file_write(path, text, strlen(text));
        assert_refused("fused", COST("", "run", model, "-z", path, "--detokenize", "-i", "0"));
        unlink(path);
        free(path);
    }
    static const char sparse[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2097151},\"merges\":[]}}";
    refuse_tokenizer("tokenizer.json", sparse, sizeof sparse - 1);
}

/* 80 merges whose slots in every table of up to 1,024 are one: a larger table would be more than 16
 * slots for each. */
static void merges_that_share_a_hash_are_refused(void **state) {
    (void)state;
    size_t length;
    char *text = file_read("tests/seeds/tokenizer_json/alike_merges", &length);
    char *path = fixture_path(directory, "tokenizer.json");
    file_write(path, text, length);
    Process p = RUN("run", model, "-z", path, "--tokenize", "-i", "a");
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "too many keys or merges share one hash")) fail_msg("%s", p.err);
    process_free(&p);
    unlink(path);
    free(path), free(text);
}

/* Looking each added token up among those before it took 4 s. */
static void fifty_thousand_added_tokens_are_no_work(void **state) {
    (void)state;
    char *path = fixture_path(directory, "tokenizer.json");
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    fprintf(out, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                 "\"added_tokens\":[");
    for (int i = 1; i <= 50000; i++)
        fprintf(out, "%s{\"id\":%d,\"content\":\"<%d>\"}", i > 1 ? "," : "", i, i);
    fprintf(out, "]}");
    assert_int_equal(fclose(out), 0);
    Cost cost = COST("", "run", model, "-z", path, "--tokenize", "-i", "a<4711>");
    if (cost.status != 0 || cost.seconds > 1.0 * SLOWER)
        fail_msg("%d, %.2f s: %s", cost.status, cost.seconds, cost.said);
    unlink(path);
    free(path);
}

/* ---- Well formed, but hostile ---------------------------------------------------------------- */

/* Writes a copy of the model.bin to `path`, with `word` in place of every `every`-th 32-bit word of
 * its data: weights, scales and norms. */
static void poison(const char *model_bytes, size_t length, uint32_t word, size_t every,
                   const char *path) {
    char *bytes = malloc(length);
    assert_non_null(bytes);
    memcpy(bytes, model_bytes, length);
    const FileHeader *header = (const FileHeader *)bytes;
    const FileSection *sections = (const FileSection *)(header + 1);
    for (size_t i = 0; i < header->n_sections; i++)
        for (size_t at = 0; sections[i].kind == SECTION_DATA && at + 4 <= sections[i].bytes;
             at += 4 * every)
            memcpy(bytes + sections[i].offset + at, &word, 4);
    file_write(path, bytes, length);
    free(bytes);
}

static void weights_that_are_no_numbers_end_in_text_or_an_error(void **state) {
    (void)state;
    static const char *const types[] = {
        "f32",     "f16",   "bf16",    "q8",    "q8_64",   "q4",     "q4_min", "q8_min",
        "q4_k",    "q5_k",  "q6_k",    "q4_nl", "mxfp4",   "nvfp4",  "q2_k",   "q3_k",
        "iq2",     "iq1",   "iq3_xxs", "iq3_s", "iq4_xs",  "q2_0",   "tq2_0",  "q1_0",
        "nvfp4_t", "iq2_k", "iq2_ks",  "iq3_k", "iq3_ks",  "iq4_k",  "iq4_ks", "iq5_k",
        "iq5_ks",  "iq6_k", "q5_0",    "q5_1",  "iq2_xxs", "iq2_xs", "iq2_s",  "iq3_xxs_g",
        "iq3_s_g", "iq1_s", "iq1_m"};
    static const uint32_t words[] = {0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFFFFFFFF,
                                     0x7BFF7BFF, 0x00000001, 0x7C007C00, 0x80808080};
    char *path = fixture_path(directory, "poisoned.bin");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t length;
        Process p = RUN("export", "--random",
                        "dim=64,n_layers=1,n_heads=2,ffn_dim=64,vocab_size=300,context=64", path,
                        "-t", types[t], "-q", "--force");
        if (p.status != 0) fail_msg("%s: %s", types[t], p.err);
        process_free(&p);
        char *bytes = file_read(path, &length);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            for (size_t every = 1; every < 2000; every = every * 40 + 1) {
                if (!tier_takes(t + w, 54, 3)) continue;
                poison(bytes, length, words[w], every, path);
                assert_bounded(types[t], COST("", "run", path, "-i", "the", "-n", "4", "-j", "2"));
            }
        }
        free(bytes);
    }
    unlink(path);
    free(path);
}

static void extreme_fields_end_in_text_or_an_error(void **state) {
    (void)state;
    static const char *const fields[] = {"window=1",
                                         "window=4294967295",
                                         "logit_softcap=1e-38",
                                         "logit_softcap=1e38",
                                         "attn_softcap=1e-38",
                                         "attn_softcap=1e38",
                                         "rope_theta=1e-30",
                                         "rope_theta=1e38",
                                         "rope_theta=0",
                                         "norm_eps=0",
                                         "norm_eps=1e38",
                                         "attn_scale=1e38",
                                         "logit_scale=1e38",
                                         "embed_scale=1e38",
                                         "residual_scale=1e38",
                                         "context=1",
                                         "context=268435456",
                                         "n_layers=512,dim=32,n_heads=1,ffn_dim=32",
                                         "n_layers=513",
                                         "dim=16777216",
                                         "vocab_size=1",
                                         "vocab_size=16777216",
                                         "ffn_dim=268435456",
                                         "n_experts=100000",
                                         "n_heads=65536"};
    char *path = fixture_path(directory, "extreme.bin"), shape[200];
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!tier_takes(i, 4, 1)) continue;
        snprintf(shape, sizeof shape,
                 "dim=64,n_layers=1,n_heads=2,ffn_dim=64,vocab_size=259,context=64,%s", fields[i]);
        Process p = RUN("export", "--random", shape, path, "-q", "-t", "q4", "--force");
        if (p.status == 0) {
            char *tokenizer = fixture_path(directory, "tokenizer.bin");
            assert_bounded(fields[i], COST("", "run", path, "-i", "the", "-n", "3", "-j", "2"));
            assert_bounded(fields[i],
                           COST("", "run", path, "-z", tokenizer, "-i", "the", "-n", "3"));
            free(tokenizer);
        } else if (p.status != 1 || !p.err[0]) {
            fail_msg("%s: %d: %s", fields[i], p.status, p.err);
        }
        process_free(&p);
        unlink(path);
    }
    free(path);
}

static void little_stack_and_few_files_are_enough_or_a_clear_error(void **state) {
    (void)state;
    char *checkpoint = fixture_path(directory, "few.bin");
#if !ADDRESS_SANITIZER
    Cost cost = COST("ulimit -s 256;", "run", model, "-i", "the", "-n", "8", "-j", "4");
    if (cost.status != 0) fail_msg("stack: %d: %s", cost.status, cost.said);
    cost = COST("ulimit -s 256;", "export", "--random", "tiny", checkpoint, "-j", "4", "-q");
    if (cost.status != 0) fail_msg("stack: %d: %s", cost.status, cost.said);
    /* With 16 KiB it depends on the size of the environment whether the loader itself can start. */
    cost = COST("ulimit -s 24;", "run", model, "-i", "the", "-n", "8");
    if (cost.status != 1 || !strstr(cost.said, "ulimit -s"))
        fail_msg("small stack: %d: %s", cost.status, cost.said);
    cost = COST("ulimit -s 64;", "export", "--random", "tiny", checkpoint, "-q");
    if (cost.status != 1 || !strstr(cost.said, "ulimit -s"))
        fail_msg("small stack: %d: %s", cost.status, cost.said);
#endif
    for (int n = 3; n <= 12; n++) {
        char limits[32];
        snprintf(limits, sizeof limits, "ulimit -n %d;", n);
        Cost few = COST(limits, "run", model, "-i", "the", "-n", "4", "-j", "2");
        if (few.status != 0 && (few.status != 1 || !few.said[0]) && few.status != 127)
            fail_msg("%d files: %d: %s", n, few.status, few.said);
        if (n >= 8 && few.status != 0) fail_msg("%d files: %d: %s", n, few.status, few.said);
    }
    unlink(checkpoint);
    free(checkpoint);
}

static void a_receipt_without_an_end_takes_no_memory(void **state) {
    (void)state;
    Cost cost = COST("", "run", "models/stories.bin", "--replay", "/dev/zero");
    if (cost.status != 1 || !strstr(cost.said, "/dev/zero: not a text: it has a NUL byte") ||
        cost.megabytes > 500)
        fail_msg("%d, %.0f MiB: %s", cost.status, cost.megabytes, cost.said);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_lengths_of_gguf_that_overflow_are_refused),
        cmocka_unit_test(tensors_of_gguf_that_overflow_or_lie_outside_are_refused),
        cmocka_unit_test(limits_and_alignments_of_gguf_are_held),
        cmocka_unit_test(keys_of_gguf_of_another_type_are_refused),
        cmocka_unit_test(safetensors_that_lie_are_refused),
        cmocka_unit_test(safetensors_whose_tensors_share_or_leave_bytes_are_refused),
        cmocka_unit_test(links_out_of_a_models_directory_are_refused),
        cmocka_unit_test(gguf_with_a_wrong_alignment_or_overlaps_is_refused),
        cmocka_unit_test(dimensions_of_config_json_out_of_range_are_refused),
        cmocka_unit_test(headers_of_llama2c_out_of_range_are_refused),
        cmocka_unit_test(tokenizers_that_lie_are_refused),
        cmocka_unit_test(decoders_that_multiply_a_token_are_refused),
        cmocka_unit_test(merges_that_share_a_hash_are_refused),
        cmocka_unit_test(fifty_thousand_added_tokens_are_no_work),
        cmocka_unit_test(weights_that_are_no_numbers_end_in_text_or_an_error),
        cmocka_unit_test(extreme_fields_end_in_text_or_an_error),
        cmocka_unit_test(little_stack_and_few_files_are_enough_or_a_clear_error),
        cmocka_unit_test(a_receipt_without_an_end_takes_no_memory),
    };
    return cmocka_run_group_tests_name("attacks", tests, set_up, tear_down);
}
