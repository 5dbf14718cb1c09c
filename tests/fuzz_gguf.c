/* GGUF files: any bytes are a model, a vocabulary or an Error. */
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1 << 20) return 0;
    Source *source = fuzz_source(SOURCE_GGUF, "fuzz.gguf");
    if (fuzz_add_file(source, "fuzz.gguf", data, size)) {
        fuzz_convert(source, size % 3 == 0 ? NULL : size % 3 == 1 ? "f16" : "q4m");
    } else {
        source_close(source);
    }
    return 0;
}
