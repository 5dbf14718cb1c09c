/* Compiles and runs any bytes as JSON schemas; see fuzz_shape.h. */
#include "fuzz_shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_shape(SHAPE_JSON_SCHEMA, data, size);
}
