/* Every failed allocation of a run with the library is an error, or changes nothing, and it is no
 * other model's: run by scripts/test-shared with tests/faults in front of the allocator.
 *
 *     VERBATIM_FAULTS=FD LD_PRELOAD=faults.so library_faults MODEL.bin FIRST STEP FD
 *
 * includes verbatim.h alone, and the shim's. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
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
    "{\"id\": 8, \"prompt\": \"y\", \"regex\": \"[a-f]{3,9}(one|two)+[0-9]*\", \"max_tokens\": 12}",
    "{\"id\": 9, \"prompt\": \"z\", \"grammar\": \"root ::= \\\"(\\\" list \\\")\\\"\\nlist ::= "
    "[a-z]+ | "
    "root root\", \"n\": 2, \"max_tokens\": 12}",
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

/* ---- Two models ---- */

typedef struct Starved {
    VerbatimModel *model;
    Faults *faults;
    atomic_bool stop;
    atomic_long refused;
} Starved;

/* Begins requests while each allocation of this thread fails. */
static void *starve(void *context) {
    Starved *s = context;
    s->faults->thread = syscall(SYS_gettid);
    s->faults->goes_on = 1;
    s->faults->fails[FAULT_MEMORY] = s->faults->calls[FAULT_MEMORY] + 1;
    while (!s->stop) s->refused += verbatim_begin(s->model, lines[0], strlen(lines[0])) == NULL;
    return NULL;
}

/* Whether requests of one model begin and end well while another thread's model gets no memory. */
static bool models_are_apart(const char *model_file, Faults *faults) {
    static const char options[] = "{\"threads\": 1, \"map\": false, \"pooling\": \"last\"}";
    VerbatimModel *model = verbatim_open(model_file, options, NULL, 0);
    Starved starved = {.model = verbatim_open(model_file, options, NULL, 0), .faults = faults};
    pthread_t thread;
    long failed = 0, n = 0;
    memset(faults, 0, sizeof *faults);
    if (!model || !starved.model || pthread_create(&thread, NULL, starve, &starved) != 0)
        return false;
    for (; n < 400 || (starved.refused < 400 && n < 4000); n++) {
        const char *line;
        size_t length, i = (size_t)n % 4;
        VerbatimRequest *request = verbatim_begin(model, lines[i], strlen(lines[i]));
        while (n < 40 && verbatim_pass(model) > 0) continue;
        if (!request) failed++;
        if (request && n < 40 &&
            (verbatim_result(request, &line, &length) != 1 || strstr(line, "\"error\": {")))
            failed++;
        verbatim_end(request);
    }
    starved.stop = true;
    pthread_join(thread, NULL);
    memset(faults, 0, sizeof *faults);
    verbatim_close(model);
    verbatim_close(starved.model);
    printf("%ld requests beside %ld that got no memory, %ld wrong\n", n, (long)starved.refused,
           failed);
    return failed == 0 && starved.refused > 0;
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
    return wrong > 0 || !models_are_apart(argv[1], faults);
}
