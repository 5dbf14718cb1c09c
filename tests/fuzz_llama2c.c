/* Fuzz target: converts the input as a llama2.c checkpoint; the result must be a model or an
 * Error. */
#include "fuzz_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 28 || size > 1 << 20) return 0;
    Source *source = fuzz_source(SOURCE_LLAMA2C, "fuzz.bin");
    if (fuzz_add_file(source, "fuzz.bin", data, size)) {
        fuzz_convert(source, size % 3 == 0 ? "q8" : size % 3 == 1 ? "q4" : NULL);
    } else {
        source_close(source);
    }
    return 0;
}
