/* Fuzz target: reads the input as an adapter of a small llama, and runs the model with it when it
 * is taken. 'g' begins a GGUF file, which takes the rest of the input; 'e' before anything else
 * means a base with experts, named as in Qwen3. Otherwise the input is adapter_config.json, a zero
 * byte, and the JSON header of adapter_model.safetensors. The target appends tensor data to
 * both. */
#include <jansson.h>

#include "convert/convert_target.h"
#include "adapters/adapter.h"
#include "fuzz_mutate.h"
#include "fuzz_source.h"
#include "adapters/lora.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

FUZZ_MUTATE_PARTS('\0')

enum { DATA = 1 << 18 };

/* The models that adapters are for: without experts and with them. */
static ModelFile *base(bool experts) {
    static const char *const sources[] = {"random:tiny",
                                          "random:tiny,n_experts=4,n_experts_used=2"};
    static ModelFile *files[2];
    const ConvertOptions options = {.n_threads = 1};
    Error error;
    int fd = -1;
    if (files[experts]) return files[experts];
    if (convert_temporary(sources[experts], &options, &fd, &error) != STATUS_OK ||
        modelfile_open(&files[experts], "tiny", fd, &error) != STATUS_OK)
        abort();
    return files[experts];
}

static void add_file(Adapter *adapter, const char *path, const void *bytes, size_t n) {
    Error error;
    int fd = fuzz_memory_file(bytes, n);
    if (fd >= 0 && input_adopt(&adapter->files[adapter->n_files], path, fd, &error) == STATUS_OK)
        adapter->n_files++;
}

/* The bytes of data that a header's tensors cover, at most DATA. */
static size_t data_bytes(const uint8_t *header, size_t n) {
    json_t *json = json_loadb((const char *)header, n, 0, NULL), *tensor;
    const char *name;
    json_int_t end = 0;
    json_object_foreach(json, name, tensor) {
        json_int_t last =
            json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
        if (last > end) end = last;
    }
    json_decref(json);
    return end < DATA ? (size_t)end : DATA;
}

/* The input with data after it, and before it, for safetensors, its length. */
static void add_with_data(Adapter *adapter, const char *path, const uint8_t *data, size_t n,
                          bool is_gguf) {
    size_t before = is_gguf ? 0 : 8, behind = is_gguf ? DATA : data_bytes(data, n);
    uint64_t length = n;
    uint8_t *bytes = malloc(before + n + behind + 1);
    if (!bytes) return;
    memcpy(bytes, &length, before);
    memcpy(bytes + before, data, n);
    fuzz_fill(bytes + before + n, behind);
    add_file(adapter, path, bytes, before + n + behind);
    free(bytes);
}

/* Runs three tokens with the adapter. */
static void run(const Adapter *adapter, ModelFile *file) {
    const ModelOptions options = {.n_threads = 1, .max_rows = 4};
    Error error;
    Model *model;
    Lora *lora = NULL;
    LoraMatrix *matrices = calloc(adapter->n_parts + 1, sizeof *matrices);
    if (!matrices || model_open(&model, file, &options, &error) != STATUS_OK) abort();
    for (size_t i = 0; i < adapter->n_parts; i++) {
        const AdapterPart *p = &adapter->parts[i];
        matrices[i] = (LoraMatrix){
            p->name,        p->rows,        p->cols,      p->rank,     (float)p->alpha_over_rank,
            p->rows_factor, p->cols_factor, p->rows_type, p->cols_type};
    }
    KvCache *cache = NULL;
    KvShape shape = model_kv_shape(model, KV_F32);
    float *logits = malloc(3 * model_config(model)->vocab_size * sizeof *logits);
    const Row rows[] = {{0, 0, 1, true}, {0, 1, 2, false}, {1, 0, 3, true}};
    if (lora_new(&lora, model, file, &error) == STATUS_OK &&
        lora_add(lora, matrices, adapter->n_parts, &error) == STATUS_OK &&
        lora_begin(lora, &error) == STATUS_OK && logits &&
        kvcache_new(&cache, &shape, 2, 0, &error) == STATUS_OK)
        model_forward(model, cache, rows, 3, logits, &error);
    lora_free(lora);
    kvcache_free(cache);
    model_close(model);
    free(matrices);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3 || size > 1 << 20) return 0;
    bool experts = data[0] == 'e';
    data += experts, size -= experts;
    ModelFile *file = base(experts);
    Adapter adapter = {.path = strdup("fuzz"), .is_gguf = data[0] == 'g'};
    Error error;
    if (!adapter.path) return 0;
    if (adapter.is_gguf) {
        add_with_data(&adapter, "fuzz.gguf", data + 1, size - 1, true);
    } else {
        const uint8_t *stop = memchr(data, 0, size);
        size_t n = stop ? (size_t)(stop - data) : size;
        if (n > 0) add_file(&adapter, "fuzz/adapter_config.json", data, n);
        if (n + 1 < size)
            add_with_data(&adapter, "fuzz/adapter_model.safetensors", data + n + 1, size - n - 1,
                          false);
    }
    Config config = *modelfile_config(file);
    if (experts) snprintf(config.family, sizeof config.family, "qwen3_moe");
    const AdapterBase plain = {.config = &config},
                      reordered = {.config = &config, .is_reordered = true};
    if (adapter.n_files == (adapter.is_gguf ? 1 : 2) &&
        adapter_read(&adapter, size % 2 ? &plain : &reordered, &error) == STATUS_OK)
        run(&adapter, file);
    adapter_close(&adapter);
    return 0;
}
