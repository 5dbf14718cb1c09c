/* Adapters of llama.cpp's convert_lora_to_gguf.py: a GGUF file whose tensors are called as the
 * base's with ".lora_a" or ".lora_b" after. An embedding's A is transposed. */
#include "adapters/adapter_gguf.h"

#include <math.h>
#include <string.h>

#include "adapters/adapter_modules.h"
#include "formats/containers/gguf.h"

/* The text of a key, which must be `expected`. */
static Status check_text(const Gguf *gguf, const char *key, const char *expected, Error *error) {
    TokenizerString text = {"", 0};
    gguf_text(gguf, key, &text);
    if (tokenizer_string_is(text, expected)) return STATUS_OK;
    return error_set(error, "%s: %s is '%.*s', but an adapter's is '%s'", gguf->file->path, key,
                     text.length < 40 ? (int)text.length : 40, text.bytes, expected);
}

/* Checks that the GGUF is a LoRA adapter without unknown keys, and reads its architecture and
 * alpha. */
static Status gguf_check_keys(const Gguf *gguf, char architecture[32], double *alpha,
                              Error *error) {
    TokenizerString text;
    const char *path = gguf->file->path;
    if (check_text(gguf, "general.type", "adapter", error) != STATUS_OK ||
        check_text(gguf, "adapter.type", "lora", error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < gguf->n_values; i++) {
        const TokenizerString key = gguf->values[i].key;
        static const char start[] = "adapter.";
        if (key.length < sizeof start - 1 || memcmp(key.bytes, start, sizeof start - 1) != 0 ||
            tokenizer_string_is(key, "adapter.type") ||
            tokenizer_string_is(key, "adapter.lora.alpha"))
            continue;
        return error_set(error, "%s: the key '%.*s' is not known to this program", path,
                         key.length < 60 ? (int)key.length : 60, key.bytes);
    }
    if (!gguf_text(gguf, "general.architecture", &text) || text.length >= 32)
        return error_set(error, "%s: general.architecture is missing", path);
    memset(architecture, 0, 32);
    memcpy(architecture, text.bytes, text.length);
    if (!gguf_float(gguf, "adapter.lora.alpha", alpha) || !isfinite(*alpha) || fabs(*alpha) > 1e9)
        return error_set(error, "%s: adapter.lora.alpha is missing or no number", path);
    return STATUS_OK;
}

/* Assigns a tensor to its module. */
static Status add_factor(AdapterModules *modules, const RawTensor *raw, const char *path,
                         Error *error) {
    size_t n = strlen(raw->name), end = strlen(".lora_a");
    bool is_a = ends_with(raw->name, ".lora_a");
    if (!is_a && !ends_with(raw->name, ".lora_b"))
        return error_set(error, "%s: '%.100s' is not a factor of LoRA", path, raw->name);
    AdapterModule *m = adapter_module(modules, raw->name, n - end);
    if (m && !m->name) m->name = strdup(m->own_name);
    if (!m || !m->name) return error_set(error, "%s: no memory", path);
    m->is_embedding = m->a_is_turned = strcmp(m->name, "token_embd.weight") == 0;
    *(is_a ? &m->a : &m->b) = raw;
    return STATUS_OK;
}

Status adapter_read_gguf(AdapterModules *modules, const InputFile *file, char architecture[32],
                         Error *error) {
    Gguf gguf;
    double alpha = 0.0;
    Status status = gguf_read(&gguf, file, 0, &modules->table, error);
    if (status == STATUS_OK) status = gguf_check_keys(&gguf, architecture, &alpha, error);
    if (gguf_check_types(&gguf, error) != STATUS_OK) status = STATUS_FAILED;
    if (status == STATUS_OK) status = raw_table_sort(&modules->table, error);
    for (size_t i = 0; status == STATUS_OK && i < modules->table.n; i++)
        status = add_factor(modules, &modules->table.items[i], file->path, error);
    if (status == STATUS_OK) status = adapter_check_modules(modules, file->path, error);
    for (size_t i = 0; status == STATUS_OK && i < modules->n; i++) {
        /* llama.cpp takes an alpha of 0 for a scale of 1. */
        double rank = (double)adapter_rank(&modules->items[i]);
        modules->items[i].alpha_over_rank = alpha == 0.0 ? 1.0 : alpha / rank;
    }
    gguf_free(&gguf);
    return status;
}
