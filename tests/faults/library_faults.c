/* Every failed allocation of a run with the library is an error, or changes nothing: run by
 * scripts/test-shared with tests/faults in front of the allocator.
 *
 *     VERBATIM_FAULTS=FD LD_PRELOAD=faults.so library_faults MODEL.bin FIRST STEP FD
 *
 * includes verbatim.h alone, and the shim's. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <verbatim.h>

#include "tests/faults/shim.h"

static const char *const lines[] = {
    "{\"id\": 1, \"prompt\": \"Once\", \"logprobs\": 2, \"n\": 2, \"max_tokens\": 5}",
    "{\"id\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"max_tokens\": 4}",
    "{\"custom_id\": \"c\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
    "{\"prompt\": "
    "\"a\", \"logprobs\": 2, \"echo\": true, \"max_tokens\": 4}}",
    "{\"id\": 4, \"prompt\": \"x\", \"json_schema\": {\"type\": \"object\", \"properties\": "
    "{\"p\": "
    "{\"type\": \"number\"}}, \"required\": [\"p\"]}, \"max_tokens\": 12, \"return_logits\": true}",
    "{\"id\": 5, \"prompt\": \"x\", \"temperatur\": 0.5}",
    "{\"id\": 6, \"input\": [\"abc\", \"de\"], \"return_states\": true}",
    "{\"id\": 7, \"prompt",
};
enum { N = sizeof lines / sizeof *lines };
static char *wanted[N];

/* One run; returns false where a result is neither the wanted one nor an error for want of memory.
 */
static bool run(const char *model_file) {
    static const char options[] = "{\"threads\": 1, \"map\": false, \"pooling\": \"last\"}";
    char why[VERBATIM_ERROR_BYTES] = "";
    VerbatimRequest *requests[N];
    bool right = true;
    VerbatimModel *model = verbatim_open(model_file, options, why, sizeof why);
    if (!model) {
        if (!why[0]) fprintf(stderr, "no model and no error\n");
        return why[0] != '\0';
    }
    for (size_t i = 0; i < N; i++) {
        requests[i] = verbatim_begin(model, lines[i], strlen(lines[i]));
        if (requests[i]) continue;
        right = right && strstr(verbatim_error(model), "memory");
        requests[i] = verbatim_begin(model, lines[i], strlen(lines[i])); /* again */
        if (!requests[i]) right = false;
    }
    for (int passes = 0; verbatim_pass(model) != 0;)
        if (++passes > 1000) exit(3); /* it hangs */
    for (size_t i = 0; i < N; i++) {
        const char *line;
        size_t length;
        if (!requests[i]) continue;
        int done = verbatim_result(requests[i], &line, &length);
        if (done == -1) done = verbatim_result(requests[i], &line, &length); /* again */
        if (done == 1 && !wanted[i]) wanted[i] = strdup(line);
        bool is_error = done == 1 && strstr(line, "\"error\": {") && strstr(line, "emory");
        if (done != 1 || (strcmp(line, wanted[i]) != 0 && !is_error)) {
            fprintf(stderr, "request %zu: %s\n", i, done == 1 ? line : verbatim_error(model));
            right = false;
        }
    }
    verbatim_describe(model);
    verbatim_close(model);
    return right;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    long n = atol(argv[2]), step = atol(argv[3]), wrong = 0, runs = 0;
    Faults *faults =
        mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[4]), 0);
    if (faults == MAP_FAILED || !run(argv[1]) || !run(argv[1])) return 2;
    for (;; n += step, runs++) {
        long before = faults->failed;
        faults->fails[FAULT_MEMORY] = 0;
        faults->calls[FAULT_MEMORY] = 0;
        faults->fails[FAULT_MEMORY] = n;
        bool right = run(argv[1]);
        faults->fails[FAULT_MEMORY] = 0;
        if (!right && wrong++ < 10) fprintf(stderr, "allocation %ld\n", n);
        if (faults->failed == before) break;
    }
    printf("%ld runs with a failed allocation, %ld wrong\n", runs, wrong);
    return wrong > 0;
}
