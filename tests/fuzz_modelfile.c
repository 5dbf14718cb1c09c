/* Fuzz target: opens, verifies and reads the input as a model.bin file. Its checksums are repaired
 * first, so that parsing gets past them, and data is appended up to the file size that the header
 * states. One input size in eight is taken as it is. */
#include <stdio.h>
#include <xxhash.h>

#include "fuzz_mutate.h"
#include "core/config_fields.h"
#include "fuzz_source.h"
#include "session/config_text.h"
#include "modes/inspect/modelfile_verify.h"
#include "core/weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair(uint8_t *bytes, size_t size) {
    FileHeader *header = (FileHeader *)bytes;
    FileSection *sections = (FileSection *)(header + 1);
    header->file_bytes = size;
    if (header->n_sections > 64) return;
    size_t end = sizeof *header + header->n_sections * sizeof *sections;
    if (end > size) return;
    for (uint32_t i = 0; i < header->n_sections; i++)
        if (sections[i].offset <= size && sections[i].bytes <= size - sections[i].offset)
            sections[i].checksum = XXH3_64bits(bytes + sections[i].offset, sections[i].bytes);
    header->checksum = 0;
    header->checksum = XXH3_64bits(bytes, end);
}

/* Reads the first and last row of every tensor. The returned sum keeps the compiler from removing
 * the reads. */
static float read_everything(const ModelFile *file) {
    float *row = NULL, seen = 0.0f;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        if (t->type == TENSOR_VECTOR) {
            const float *x = modelfile_data(file, t);
            seen += x[0] + x[t->rows * t->cols - 1];
            continue;
        }
        float *larger = realloc(row, t->cols * sizeof *row);
        if (!larger) break;
        row = larger;
        Matrix m = modelfile_matrix(file, t, t->count - 1);
        matrix_row(&m, 0, row);
        matrix_row(&m, m.rows - 1, row);
        seen += row[t->cols - 1];
    }
    free(row);
    return seen;
}

/* Reads every field of the configuration and every metadata entry. */
static void ask(const ModelFile *file) {
    const ConfigField *field;
    char text[4096];
    const char *found;
    size_t bytes;
    uint64_t whole;
    double number;
    for (size_t i = 0; (field = config_field(i)); i++) {
        config_text(modelfile_config(file), field, text, sizeof text);
        modelfile_meta_uint(file, field->name, 0, &whole);
    }
    for (size_t i = 0; modelfile_meta(file, i); i++) {
        const MetaEntry entry = *modelfile_meta(file, i);
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)entry.key_bytes, entry.key);
        modelfile_meta_float(file, key, entry.count - 1, &number);
        modelfile_meta_uint(file, key, entry.count, &whole);
        if (modelfile_meta_text(file, key, &found, &bytes) && bytes && !found) abort();
    }
}

/* Converts the file to another type, or to itself; the result must open. */
static void convert_again(const void *bytes, size_t size) {
    Error error = {{0}};
    const char *type = size % 2 ? "q8" : NULL;
    const ConvertOptions options = {.n_threads = 1, .type = type};
    Source *source = fuzz_source(SOURCE_MODELFILE, "fuzz");
    if (fuzz_add_file(source, "fuzz", bytes, size) && source_parse(source, &error) == STATUS_OK &&
        fuzz_is_small(source, type)) {
        ModelFile *file;
        int fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd >= 0 && convert_parsed(source, &options, fd, &error) == STATUS_OK) {
            if (modelfile_open(&file, "converted", fd, &error) != STATUS_OK) abort();
            modelfile_close(file);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 1 << 20 };
    if (size < sizeof(FileHeader) || size > MOST) return 0;
    uint64_t said = ((const FileHeader *)data)->file_bytes;
    size_t all = said > size && said <= MOST ? (size_t)said : size;
    uint8_t *bytes = malloc(all);
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    fuzz_fill(bytes + size, all - size);
    if (size % 8 != 7) {
        size = all;
        repair(bytes, size);
    }
    int fd = fuzz_memory_file(bytes, size);
    ModelFile *file;
    Error error;
    Weights weights;
    if (fd < 0 || modelfile_open(&file, "fuzz", fd, &error) != STATUS_OK) {
        free(bytes);
        return 0;
    }
    convert_again(bytes, size);
    free(bytes);
    static volatile float seen;
    seen = read_everything(file);
    (void)seen;
    modelfile_verify(file, NULL, NULL, &error);
    ask(file);
    weights_find(&weights, file, modelfile_config(file), &error);
    weights_free(&weights);
    modelfile_close(file);
    return 0;
}

/* Mostly replaces one number of the metadata or of the tensor directory by an interesting value;
 * else changes arbitrary bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      5,
                                      6,
                                      7,
                                      8,
                                      15,
                                      16,
                                      17,
                                      31,
                                      32,
                                      48,
                                      64,
                                      100,
                                      128,
                                      255,
                                      256,
                                      512,
                                      1024,
                                      65535,
                                      65536,
                                      1 << 20,
                                      0x7FFFFFFF,
                                      0xFFFFFFFF,
                                      1ull << 40,
                                      1ull << 62,
                                      UINT64_MAX,
                                      0x3FF0000000000000 /* 1.0 */,
                                      0x3FE0000000000000,
                                      0xBFF0000000000000,
                                      0x7FF0000000000000};
    const size_t n_values = sizeof values / sizeof *values;
    uint64_t state = seed;
    const FileHeader *header = (const FileHeader *)data;
    const FileSection *sections = (const FileSection *)(header + 1);
    if (size < sizeof *header + sizeof *sections || fuzz_random(&state, 4) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t fit = (size - sizeof *header) / sizeof *sections, n = header->n_sections;
    size_t at = 0, length = sizeof *header + sizeof *sections * (n < fit ? n : fit);
    const FileSection *section = &sections[fuzz_random(&state, n && n < fit ? n : 1)];
    if (fuzz_random(&state, 8) && section->offset < size) {
        at = (size_t)section->offset;
        length = section->bytes < size - at ? (size_t)section->bytes : size - at;
    }
    if (length < 16) return LLVMFuzzerMutate(data, size, max_size);
    size_t place = at + fuzz_random(&state, length - 8) / 4 * 4;
    uint64_t value = values[fuzz_random(&state, n_values)];
    switch (fuzz_random(&state, 4)) {
    case 0:
        data[at + fuzz_random(&state, length)] ^= (uint8_t)(1 << fuzz_random(&state, 8));
        break;
    case 1:
        memcpy(data + place, &value, 4);
        break;
    case 2:
        memcpy(data + place, &value, 8);
        break;
    default:
        data[place] = (uint8_t)(data[place] + fuzz_random(&state, 9) - 4);
        break;
    }
    return size;
}
