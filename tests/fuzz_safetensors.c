/* Hugging Face directories. The input is config.json up to the first zero byte, then
 * generation_config.json up to the next, then model.safetensors. */
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"fuzz/config.json", "fuzz/generation_config.json"};
    if (size > 1 << 20) return 0;
    Source *source = fuzz_source(SOURCE_HUGGINGFACE, "fuzz");
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *end = memchr(data, 0, size);
        size_t n = end ? (size_t)(end - data) : size;
        if (n) fuzz_add_file(source, names[i], data, n);
        n += n < size;
        data += n;
        size -= n;
    }
    if (size) fuzz_add_file(source, "fuzz/model.safetensors", data, size);
    fuzz_convert(source, NULL);
    return 0;
}
