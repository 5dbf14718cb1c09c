/* Opening model.bin files: valid files open, damaged or hostile files are refused with an Error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <xxhash.h>

#include "convert/convert.h"
#include "modes/inspect/modelfile_verify.h"

typedef struct Bytes {
    uint8_t *data;
    size_t size;
} Bytes;

static int memory_file(const void *data, size_t size) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

static Bytes make_model(const char *source, const char *type) {
    Error error = {{0}};
    const ConvertOptions options = {.type = type, .n_threads = 2};
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (convert_source(source, &options, fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    Bytes b = {.size = (size_t)lseek(fd, 0, SEEK_END)};
    b.data = malloc(b.size);
    assert_non_null(b.data);
    assert_int_equal(pread(fd, b.data, b.size, 0), b.size);
    close(fd);
    return b;
}

static Bytes small_model_bytes(void) {
    return make_model("random:dim=32,n_layers=1,n_heads=2,ffn_dim=32,vocab_size=20,context=8",
                      NULL);
}

static FileHeader *header_of(Bytes b) {
    return (FileHeader *)b.data;
}

static FileSection *section_of(Bytes b, SectionKind kind) {
    FileSection *sections = (FileSection *)(header_of(b) + 1);
    for (uint32_t i = 0; i < header_of(b)->n_sections; i++)
        if (sections[i].kind == kind) return &sections[i];
    return NULL;
}

static FileTensor *tensor_of(Bytes b, const char *name) {
    FileSection *s = section_of(b, SECTION_TENSORS);
    FileTensor *t = (FileTensor *)(b.data + s->offset);
    for (size_t i = 0; i < s->bytes / sizeof *t; i++)
        if (strcmp(t[i].name, name) == 0) return &t[i];
    return NULL;
}

/* Recomputes all checksums, as an attacker would after changing the file. */
static void sign(Bytes b) {
    FileHeader *h = header_of(b);
    FileSection *s = (FileSection *)(h + 1);
    for (uint32_t i = 0; i < h->n_sections; i++)
        if (s[i].offset <= b.size && s[i].bytes <= b.size - s[i].offset)
            s[i].checksum = XXH3_64bits(b.data + s[i].offset, s[i].bytes);
    h->checksum = 0;
    h->checksum = XXH3_64bits(h, sizeof *h + h->n_sections * sizeof *s);
}

/* Opens the bytes as a model.bin and, if asked, verifies them; returns the Error's text, or "" on
 * success. */
static const char *opening(Bytes b, bool verifies) {
    static Error error;
    ModelFile *file;
    error.text[0] = '\0';
    Status status = modelfile_open(&file, "m.bin", memory_file(b.data, b.size), &error);
    if (status == STATUS_OK && verifies) status = modelfile_verify(file, NULL, NULL, &error);
    if (status != STATUS_OK) {
        assert_true(strncmp(error.text, "m.bin: ", 7) == 0);
        assert_null(strchr(error.text, '\n'));
        assert_true(strlen(error.text) > 10);
    }
    if (file) modelfile_close(file);
    return error.text;
}

static void assert_refused(Bytes b, const char *message) {
    const char *text = opening(b, false);
    if (!strstr(text, message)) fail_msg("'%s' does not say '%s'", text, message);
}

static void what_was_written_opens_and_verifies(void **state) {
    (void)state;
    static const char *const types[] = {"f32",   "f16", "bf16",   "q8",
                                        "q8_64", "q4",  "q4_min", "q8_min"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Bytes b = make_model("random:tiny,bias=1,norm=layer,tied=1", types[i]);
        assert_string_equal(opening(b, true), "");
        free(b.data);
    }
}

static void what_was_written_is_what_is_read(void **state) {
    (void)state;
    Bytes b = make_model("random:tiny,window=7,norm_eps=0.25,position=none,logit_softcap=30,tied=1",
                         NULL);
    ModelFile *file;
    Error error;
    assert_int_equal(modelfile_open(&file, "m", memory_file(b.data, b.size), &error), STATUS_OK);
    const Config *c = modelfile_config(file);
    assert_int_equal(c->dim, 64);
    assert_int_equal(c->n_layers, 2);
    assert_int_equal(c->window[1], 7);
    assert_true(c->norm_eps == 0.25f && c->logit_softcap == 30.0f);
    assert_int_equal(c->position, POSITION_NONE);
    const char *text;
    size_t bytes;
    assert_true(modelfile_meta_text(file, "source.format", &text, &bytes));
    assert_int_equal(bytes, 6);
    assert_memory_equal(text, "random", 6);
    uint64_t parameters;
    assert_true(modelfile_meta_uint(file, "source.parameters", 0, &parameters));
    assert_false(modelfile_meta_uint(file, "source.parameters", 1, &parameters));
    assert_false(modelfile_meta_uint(file, "no such key", 0, &parameters));
    /* A tied output head uses the embedding's bytes. */
    const FileTensor *embedding = modelfile_find(file, "token_embedding");
    const FileTensor *output = modelfile_find(file, "output");
    assert_non_null(embedding);
    assert_non_null(output);
    assert_int_equal(embedding->offset, output->offset);
    assert_null(modelfile_find(file, "layers.2.wq"));
    modelfile_close(file);
    free(b.data);
}

static void a_file_that_is_no_model_is_refused(void **state) {
    (void)state;
    Error error;
    ModelFile *file;
    assert_int_equal(modelfile_open(&file, "/no/such/file", -1, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "/no/such/file: No such file"));
    assert_int_equal(modelfile_open(&file, "/tmp", -1, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "directory"));
    assert_refused((Bytes){(uint8_t *)"", 0}, "empty file");
    assert_refused((Bytes){(uint8_t *)"GGUF....", 8}, "not a model.bin");
    assert_refused((Bytes){(uint8_t *)"verb", 4}, "cut off");
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    Bytes b = small_model_bytes();
    for (size_t size = 1; size < b.size; size += size < 512 ? 1 : 64)
        assert_true(strlen(opening((Bytes){b.data, size}, false)) > 0);
    assert_true(strlen(opening((Bytes){b.data, b.size - 1}, false)) > 0);
    free(b.data);
}

static void a_flipped_bit_is_found(void **state) {
    (void)state;
    Bytes b = small_model_bytes();
    FileSection *data = section_of(b, SECTION_DATA);
    for (size_t at = 0; at < b.size; at += at < 256 ? 1 : 61) {
        b.data[at] ^= 16;
        const char *text = opening(b, true);
        bool between_sections = at < data->offset; /* padding has no checksum */
        if (!between_sections || at < sizeof(FileHeader)) assert_true(strlen(text) > 0);
        b.data[at] ^= 16;
    }
    b.data[data->offset + 5] ^= 1;
    assert_string_equal(opening(b, false), "");
    assert_non_null(strstr(opening(b, true), "checksum of section 'data'"));
    free(b.data);
}

static void lies_about_places_and_sizes_are_refused(void **state) {
    (void)state;
    Bytes b = small_model_bytes(), copy = {malloc(b.size), b.size};
#define FORGE(change, message)                                                                     \
    do {                                                                                           \
        memcpy(copy.data, b.data, b.size);                                                         \
        change;                                                                                    \
        sign(copy);                                                                                \
        assert_refused(copy, message);                                                             \
    } while (0)
    FORGE(header_of(copy)->version = 2, "version 2");
    FORGE(header_of(copy)->file_bytes = 7, "its header says 7");
    FORGE(section_of(copy, SECTION_DATA)->offset = UINT64_MAX - 63, "section 'data'");
    FORGE(section_of(copy, SECTION_DATA)->bytes = UINT64_MAX, "section 'data'");
    FORGE(section_of(copy, SECTION_METADATA)->offset += 8, "no multiple of 64");
    FORGE(section_of(copy, SECTION_METADATA)->kind = SECTION_DATA, "two sections");
    FORGE(section_of(copy, SECTION_METADATA)->kind = 77, "'metadata' is missing");
    FORGE(section_of(copy, SECTION_TENSORS)->bytes -= 1, "directory");
    FORGE(tensor_of(copy, "output")->offset = 0, "tensor 'output'");
    FORGE(tensor_of(copy, "output")->offset = UINT64_MAX - 63, "tensor 'output'");
    FORGE(tensor_of(copy, "output")->offset += 4, "no multiple of 64");
    FORGE(tensor_of(copy, "output")->rows = UINT64_MAX, "do not fit its shape");
    FORGE(tensor_of(copy, "output")->cols = UINT64_MAX / 2, "do not fit its shape");
    FORGE(tensor_of(copy, "output")->count = UINT32_MAX, "do not fit its shape");
    FORGE(tensor_of(copy, "output")->rows = 0, "do not fit its shape");
    FORGE(tensor_of(copy, "output")->type = TENSOR_TYPES, "unknown type");
    FORGE(tensor_of(copy, "output")->name[0] = '\0', "no proper name");
    FORGE(memset(tensor_of(copy, "output")->name, 'x', MODELFILE_NAME_BYTES), "no proper name");
    FORGE(strcpy(tensor_of(copy, "final_norm")->name, "output"), "two tensors 'output'");
#undef FORGE
    header_of(b)->checksum ^= 1;
    assert_refused(b, "checksum is wrong");
    free(copy.data);
    free(b.data);
}

/* Finds the values of the metadata entry `key` in the file's bytes. */
static uint8_t *metadata_values(Bytes b, const char *key) {
    FileSection *s = section_of(b, SECTION_METADATA);
    uint8_t *found = memmem(b.data + s->offset, s->bytes, key, strlen(key));
    assert_non_null(found);
    size_t at = (size_t)(found - (b.data + s->offset));
    return b.data + s->offset + round_up(at + strlen(key), 8);
}

static void impossible_metadata_are_refused(void **state) {
    (void)state;
    Bytes b = small_model_bytes();
    uint64_t *heads = (uint64_t *)metadata_values(b, "n_kv_heads"), good = *heads;
    *heads = 0;
    sign(b);
    assert_refused(b, "n_kv_heads is 0");
    *heads = (uint64_t)1 << 40;
    sign(b);
    assert_refused(b, "'n_kv_heads' has a value that it cannot have");
    *heads = good;
    MetaHeader *first = (MetaHeader *)(b.data + section_of(b, SECTION_METADATA)->offset);
    first->count = UINT32_MAX;
    sign(b);
    assert_refused(b, "entry 0 is damaged");
    free(b.data);
}

static void weights_that_are_no_numbers_are_found(void **state) {
    (void)state;
    static const struct {
        const char *type;
        size_t element;
        uint8_t bytes[4];
    } cases[] = {{"f32", 4, {0, 0, 0xC0, 0x7F}}, {"f16", 2, {0, 0x7C}},
                 {"bf16", 2, {0x80, 0x7F}},      {"bf16_act", 2, {0xC0, 0xFF}},
                 {"bf16_act", 2, {0x7F, 0x2B}}, /* the largest number below 2^-40 */
                 {"bf16_act", 2, {0x01, 0x80}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = make_model("random:tiny", cases[i].type);
        FileTensor *t = tensor_of(b, "layers.1.wk");
        /* Line 3 of the second panel, which begins with row 16. */
        memcpy(b.data + t->offset + t->bytes / 2 + 3 * LINE_BYTES, cases[i].bytes,
               cases[i].element);
        sign(b);
        assert_string_equal(opening(b, false), "");
        assert_non_null(strstr(opening(b, true), "'layers.1.wk': row 16 holds"));
        free(b.data);
    }
    Bytes b = make_model("random:tiny", "q8");
    FileTensor *t = tensor_of(b, "layers.0.w_up");
    memcpy(b.data + t->offset + tensor_lines_bytes(TENSOR_Q8, 64) + 2 * 5, "\0\x7C", 2);
    sign(b);
    assert_non_null(strstr(opening(b, true), "'layers.0.w_up': row 5 holds"));
    free(b.data);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_opens_and_verifies),
        cmocka_unit_test(what_was_written_is_what_is_read),
        cmocka_unit_test(a_file_that_is_no_model_is_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_flipped_bit_is_found),
        cmocka_unit_test(lies_about_places_and_sizes_are_refused),
        cmocka_unit_test(impossible_metadata_are_refused),
        cmocka_unit_test(weights_that_are_no_numbers_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
