/* Writes seeds for the fuzz targets from the tests' fixtures: models without weight data
 * (fuzz_gguf.c, fuzz_safetensors.c and fuzz_modelfile.c append it), tokenizers and chat templates.
 *
 *     seed_fixtures DIRECTORY      writes the seeds of the target fuzz_NAME into DIRECTORY/NAME */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "formats/family/builtin_pages.h"
#include "formats/containers/gguf.h"
#include "families/reading/source_open.h"
#include "core/modelfile.h"
#include "formats/family/family_lists.h"
#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/process.h"
#include "tests/tokenizer_sources.h"

/* Creates DIRECTORY/KIND and returns the path DIRECTORY/KIND/NAME; the caller frees it. */
static char *seed_path(const char *directory, const char *kind, const char *name) {
    char *parent = fixture_path(directory, kind), *path = fixture_path(parent, name);
    mkdir(directory, 0777);
    mkdir(parent, 0777);
    free(parent);
    return path;
}

/* The contents of the other files of a model directory. put_other_files adds a few of them to each
 * seed, chosen by turn, each followed by a zero byte. */
#define ADDED                                                                                      \
    "\"added_tokens_decoder\": {\"0\": {\"content\": \"<unk>\", \"special\": true}, "              \
    "\"70\": {\"content\": \"<x>\", \"special\": false, \"lstrip\": true}}"
static const char vocab[] = "{\"<unk>\": 0, \"a\": 1, \"b\": 2, \"c\": 3, \"ab\": 4, \"abc\": 5}";
static const char merges[] = "#version: 0.2\na b\nab c\n";
static const char slow_config[] =
    "{\"tokenizer_class\": \"GPT2Tokenizer\", \"unk_token\": {\"content\": \"<unk>\"}, "
    "\"eos_token\": \"c\", \"bos_token\": \"b\", \"add_bos_token\": true, \"add_eos_token\": true, "
    "\"add_prefix_space\": true, \"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}, "
    "{\"name\": \"default\", \"template\": \"{{ messages }}\"}], " ADDED "}";
static const char json_config[] = "{\"bos_token\": \"a\", \"eos_token\": {\"content\": \"b\"}, "
                                  "\"chat_template\": \"{{ eos_token }}\", " ADDED "}";

static void put_file(FILE *out, char letter, const char *text) {
    fprintf(out, "%c%s%c", letter, text, 0);
}

static void put_other_files(FILE *out, size_t turn) {
    size_t n;
    char *json = source_read("tests/seeds/tokenizer_json/model_plain", &n);
    assert_non_null(json);
    switch (turn % 8) {
    case 0:
        put_file(out, 'g', "{\"eos_token_id\": [2, 3], \"temperature\": 0.5, \"top_k\": 4}");
        put_file(out, 'h', json_config);
        put_file(out, 'j', json);
        break;
    case 1:
        put_file(out, 'i', "{\"weight_map\": {\"a\": \"model.safetensors\"}}");
        put_file(out, 'q', "{\"chat_template\": \"{{ messages[0] }}\"}");
        break;
    case 2:
        put_file(out, 't', vocab);
        put_file(out, 'v', merges);
        put_file(out, 'a', "{\"<y>\": 6}");
        put_file(out, 'h', slow_config);
        break;
    case 3:
        put_file(out, 'p', "{% for m in messages %}{{ m.content }}{% endfor %}");
        break;
    default:
        break;
    }
    free(json);
}

static void safetensors_seed(const char *directory, const char *name, size_t turn) {
    Fixture f = fixture_load(name);
    char *path = seed_path(directory, "safetensors", name);
    char *config = json_dumps(json_object_get(f.json, "config"), JSON_COMPACT);
    char *header = fixture_header(json_object_get(f.json, "tensors"));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    put_file(file, 'c', config);
    put_other_files(file, turn);
    fprintf(file, "%c%s", turn % 8 == 4 ? 'N' : 'M', header);
    assert_int_equal(fclose(file), 0);
    free(config);
    free(header);
    free(path);
    fixture_free(&f);
}

/* Writes a seed of a model that somebody wrote, whole as it stands in fixtures/own. */
static void own_seed(const char *directory, const char *name) {
    char *path = seed_path(directory, "safetensors", name), from[256];
    FILE *file = fopen(path, "wb");
    size_t n;
    assert_non_null(file);
    snprintf(from, sizeof from, "tests/fixtures/own/%s/config.json", name);
    char *config = source_read(from, &n);
    snprintf(from, sizeof from, "tests/fixtures/own/%s/model.safetensors", name);
    put_file(file, 'c', config);
    put_file(file, 'w', "once upon a time there was\na fox and a cat who ran home\n");
    char *weights = source_read(from, &n);
    assert_true(config && weights);
    fputc('m', file);
    assert_int_equal(fwrite(weights, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    free(config);
    free(weights);
    free(path);
}

/* Writes seeds for fuzz_tokenizer_json: tokenizer.json with tokenizer_config.json, and the files of
 * a slow tokenizer (vocab.json, merges.txt, ...). */
static void tokenizer_json_seeds(const char *directory) {
    size_t n;
    char *json = source_read("tests/seeds/tokenizer_json/model_plain", &n);
    char *path = seed_path(directory, "tokenizer_json", "with-config");
    FILE *file = fopen(path, "wb");
    assert_true(file && json);
    fprintf(file, "%s%c%s", json, 0, json_config);
    assert_int_equal(fclose(file), 0);
    free(path);
    free(json);
    path = seed_path(directory, "tokenizer_json", "slow");
    file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "S%s%c%s%c{\"<y>\": 6}%c%s", vocab, 0, merges, 0, 0, slow_config);
    assert_int_equal(fclose(file), 0);
    free(path);
}

/* A mix for --type by its number: each type of weights in turn, q4m, and none. */
static const char *mix_of(size_t number) {
    number %= TENSOR_TYPES + 1;
    if (number >= TENSOR_F32 && number < TENSOR_TYPES)
        return tensor_type_info((uint32_t)number)->name;
    return number == 0 ? NULL : "q4m";
}

/* Writes a fixture's model as a model.bin seed without data; the type changes with `number`. */
static void modelfile_seed(const char *directory, const char *name, size_t number) {
    const char *type = mix_of(number);
    Fixture f = fixture_load(name);
    char *source_path = fixture_source(&f), *path = seed_path(directory, "modelfile", name);
    Source *source;
    Error error;
    FileHeader header;
    FileSection section;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (source_open(&source, source_path, NULL, &error) != STATUS_OK ||
        source_parse(source, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    /* A model that cannot be converted to this type is written losslessly. */
    if (convert_description(source, type, fd, &error) != STATUS_OK &&
        (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
         convert_description(source, NULL, fd, &error) != STATUS_OK))
        fail_msg("%s", error.text);
    assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
    for (uint32_t i = 0; i < header.n_sections; i++) {
        off_t at = (off_t)(sizeof header + i * sizeof section);
        assert_int_equal(pread(fd, &section, sizeof section, at), sizeof section);
        if (section.kind == SECTION_DATA) assert_int_equal(ftruncate(fd, (off_t)section.offset), 0);
    }
    close(fd);
    source_close(source);
    free(path);
    fixture_remove_directory(source_path);
    fixture_free(&f);
}

/* Truncates the GGUF file at path where its tensor data begins. */
static void cut_data(const char *path) {
    InputFile file;
    Gguf gguf;
    RawTable table = {0};
    Error error;
    uint64_t begin = UINT64_MAX;
    if (input_open(&file, path, &error) != STATUS_OK ||
        gguf_read(&gguf, &file, 0, &table, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < table.n; i++)
        if (table.items[i].offset < begin) begin = table.items[i].offset;
    assert_true(begin <= file.bytes);
    gguf_free(&gguf);
    raw_table_free(&table);
    input_close(&file);
    assert_int_equal(truncate(path, (off_t)begin), 0);
}

static void gguf_seed(const char *directory, const char *name) {
    json_t *fixture = gguf_fixture_load(name);
    char *path = seed_path(directory, "gguf", name);
    gguf_fixture_write(fixture, path, STORED_F16, false);
    cut_data(path);
    free(path);
    json_decref(fixture);
}

/* ---- A GGUF seed of each block type ---- */

/* The fixture, its width, and the width that holds whole blocks of every type. */
#define BLOCKS_FIXTURE "llama-gqa"
enum { FIXTURE_WIDTH = 72, BLOCKS_WIDTH = 256 };

/* Leaves one layer of the fixture and makes its width BLOCKS_WIDTH in the keys. */
static void widen_keys(json_t *fixture) {
    json_t *keys = json_object_get(fixture, "keys"), *tensors = json_object_get(fixture, "tensors");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        json_t *pair = json_array_get(keys, i);
        const char *key = json_string_value(json_array_get(pair, 0));
        if (strcmp(key, "llama.block_count") == 0) json_array_set_new(pair, 2, json_integer(1));
        if (strcmp(key, "llama.embedding_length") == 0)
            json_array_set_new(pair, 2, json_integer(BLOCKS_WIDTH));
    }
    const char *name;
    json_t *tensor;
    void *next;
    json_object_foreach_safe(tensors, next, name, tensor) if (strncmp(name, "blk.", 4) == 0 &&
                                                              strncmp(name, "blk.0.", 6) != 0)
        json_object_del(tensors, name);
}

/* Changes the entry of a tensor in the list of a GGUF file's header: the fixture's width becomes
 * BLOCKS_WIDTH, matrices that have it for their rows get the type, and the data begins at *offset,
 * which moves past it. */
static void widen_tensor(char *bytes, size_t n, const char *name, StoredType type,
                         uint64_t *offset) {
    const uint64_t length = strlen(name);
    char sought[128];
    uint64_t dims[2] = {1, 1};
    uint32_t n_dims, number = 0, stored = STORED_F32;
    size_t size;
    memcpy(sought, &length, sizeof length);
    memcpy(sought + sizeof length, name, length);
    char *at = memmem(bytes, n, sought, sizeof length + length);
    assert_non_null(at);
    at += sizeof length + length;
    memcpy(&n_dims, at, sizeof n_dims);
    assert_in_range(n_dims, 1, 2);
    memcpy(dims, at + 4, n_dims * sizeof *dims);
    const bool is_output = strstr(name, "attn_output") || strstr(name, "ffn_down");
    if (is_output) {
        dims[1] = BLOCKS_WIDTH;
    } else if (dims[0] == FIXTURE_WIDTH) {
        dims[0] = BLOCKS_WIDTH;
    }
    if (n_dims == 2) stored = is_output ? STORED_F16 : (uint32_t)type;
    assert_true(gguf_type_number((StoredType)stored, &number));
    assert_true(
        stored_file_bytes((StoredType)stored, (size_t)(dims[0] * dims[1]), (size_t)dims[0], &size));
    memcpy(at + 4, dims, n_dims * sizeof *dims);
    at += 4 + n_dims * sizeof *dims;
    memcpy(at, &number, sizeof number);
    memcpy(at + sizeof number, offset, sizeof *offset);
    *offset += round_up(size, 32);
}

static void block_seed(const char *directory, StoredType type) {
    json_t *fixture = gguf_fixture_load(BLOCKS_FIXTURE), *tensor;
    char name[64];
    const char *tensor_name;
    size_t n;
    uint64_t offset = 0;
    snprintf(name, sizeof name, "blocks-%s", stored_type_info(type)->name);
    char *path = seed_path(directory, "gguf", name);
    widen_keys(fixture);
    gguf_fixture_write(fixture, path, STORED_F16, false);
    cut_data(path);
    char *bytes = file_read(path, &n);
    json_object_foreach(json_object_get(fixture, "tensors"), tensor_name, tensor)
        widen_tensor(bytes, n, tensor_name, type, &offset);
    file_write(path, bytes, n);
    free(bytes);
    free(path);
    json_decref(fixture);
}

/* Writes seeds for fuzz_chat_template from chat_template_cases.jsonl, which holds lines [TEMPLATE,
 * RESULT] after a line of variables. */
static void template_seeds(const char *directory) {
    FILE *file = fopen("tests/fixtures/chat_template_cases.jsonl", "r");
    char *line = NULL, name[32];
    size_t capacity = 0, number = 0;
    assert_non_null(file);
    for (; getline(&line, &capacity, file) > 0; number++) {
        json_t *row = json_loads(line, 0, NULL);
        const char *text = json_string_value(json_array_get(row, 0));
        if (text) {
            snprintf(name, sizeof name, "case-%zu", number);
            char *path = seed_path(directory, "chat_template", name);
            file_write(path, text, strlen(text));
            free(path);
        }
        json_decref(row);
    }
    free(line);
    fclose(file);
}

/* Imports each tokenizer in tests/seeds/tokenizer_KIND and writes its section, followed by a text,
 * as a seed for fuzz_tokenizer. */
static void section_seeds(const char *directory, const char *kind) {
    static const char text[] = "Hello <s> w\xC3\xB6rld 123  don't";
    char *seeds = fixture_path("tests/seeds/tokenizer", kind), name[300];
    seeds[strlen("tests/seeds/tokenizer")] = '_';
    DIR *dir = opendir(seeds);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char *path = fixture_path(seeds, e->d_name);
        TokenizerBlob blob;
        Error error;
        if (e->d_name[0] != '.' && source_import(kind, path, &blob, &error) == STATUS_OK) {
            size_t n = sizeof text - 1;
            char *bytes = malloc(2 + blob.size + n);
            assert_non_null(bytes);
            bytes[0] = (char)n, bytes[1] = 0;
            memcpy(bytes + 2, blob.bytes, blob.size);
            memcpy(bytes + 2 + blob.size, text, n);
            snprintf(name, sizeof name, "%s-%.200s", kind, e->d_name);
            char *out = seed_path(directory, "tokenizer", name);
            file_write(out, bytes, 2 + blob.size + n);
            free(out);
            free(bytes);
            tokenizer_blob_free(&blob);
        }
        free(path);
    }
    closedir(dir);
    free(seeds);
}

/* Whether the line has a word that only pages of the program may have. */
static bool is_own_line(const char *line, size_t n) {
    static const char *const words[] = {"finish ", "more ", "by_layer "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0) return true;
    return memmem(line, n, " parts ", 7) != NULL;
}

/* A copy of the lines that any page may have; the caller frees it. */
static char *without_own_lines(const char *text) {
    char *out = calloc(1, strlen(text) + 1), *end = out;
    assert_non_null(out);
    while (*text) {
        size_t n = strcspn(text, "\n") + (strchr(text, '\n') != NULL);
        if (!is_own_line(text, n)) end = mempcpy(end, text, n);
        text += n;
    }
    return out;
}

/* Writes the program's pages of families with the name of a family that it does not know, without
 * hooks; and a page that is like each, which has its hooks. */
static void page_seeds(const char *directory) {
    for (const BuiltinPage *page = families_pages; page->name; page++) {
        const char *line = strstr(page->text, "family ");
        if (strcmp(page->name, "groups") == 0 || !line) continue;
        char *out = seed_path(directory, "family_page", page->name), *text;
        const char *rest = line + strcspn(line, "\n"), *like = strstr(line, " like ");
        if (like && like < rest) rest = like;
        char *lines = without_own_lines(rest);
        char name[64];
        assert_true(asprintf(&text, "family mine%s", lines) > 0);
        file_write(out, text, strlen(text));
        free(text);
        free(lines);
        free(out);
        snprintf(name, sizeof name, "like-%.40s", page->name);
        out = seed_path(directory, "family_page", name);
        assert_true(asprintf(&text, "family mine like %s\n", page->name) > 0);
        file_write(out, text, strlen(text));
        free(text);
        free(out);
    }
    static const char counted[] = "family mine like llama\nset n_layers 100000 always\nwindows 4\n";
    char *out = seed_path(directory, "family_page", "counted");
    file_write(out, counted, sizeof counted - 1);
    free(out);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    char **names = fixture_names(), **gguf_names = gguf_fixture_names();
    for (size_t i = 0; names[i]; free(names[i++])) {
        safetensors_seed(argv[1], names[i], i);
        modelfile_seed(argv[1], names[i], i);
    }
    for (size_t i = 0; gguf_names[i]; free(gguf_names[i++])) gguf_seed(argv[1], gguf_names[i]);
    for (StoredType type = STORED_F32; type < STORED_TYPES; type++) {
        uint32_t number;
        if (stored_type_info(type)->block > 1 && gguf_type_number(type, &number))
            block_seed(argv[1], type);
    }
    static const char *const own[] = {"torch", "nanogpt", "lecture", "annotated", "universal"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) own_seed(argv[1], own[i]);
    template_seeds(argv[1]);
    page_seeds(argv[1]);
    tokenizer_json_seeds(argv[1]);
    section_seeds(argv[1], "json");
    section_seeds(argv[1], "spm");
    section_seeds(argv[1], "tiktoken");
    section_seeds(argv[1], "llama2c");
    free(names);
    free(gguf_names);
    return 0;
}
