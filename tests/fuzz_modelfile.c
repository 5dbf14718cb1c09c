/* model.bin files. Checksums are set right first, so that what they protect is reached. */
#include <xxhash.h>

#include "../weights.h"
#include "fuzz_source.h"

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

/* The sum keeps the reads. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < sizeof(FileHeader) || size > 1 << 20) return 0;
    uint8_t *bytes = malloc(size);
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    repair(bytes, size);
    int fd = fuzz_memory_file(bytes, size);
    free(bytes);
    ModelFile *file;
    Error error;
    Weights weights;
    if (fd < 0 || modelfile_open(&file, "fuzz", fd, &error) != STATUS_OK) return 0;
    static volatile float seen;
    seen = read_everything(file);
    (void)seen;
    modelfile_verify(file, NULL, NULL, &error);
    const ConfigField *field;
    char text[4096];
    for (size_t i = 0; (field = config_field(i)); i++)
        config_field_text(modelfile_config(file), field, text, sizeof text);
    weights_find(&weights, file, &error);
    weights_free(&weights);
    modelfile_close(file);
    return 0;
}
