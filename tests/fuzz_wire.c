/* Fuzz target: the input changes what three ranks send to each other (tests/wire_cases.h). They
 * must end, each with an error or without. */
#include "tests/wire_cases.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For LeakSanitizer: a rank that fails in the middle of a pass ends its process and frees nothing.
 */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wire_case_run(data, size);
    return 0;
}
