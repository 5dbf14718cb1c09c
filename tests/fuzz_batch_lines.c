/* Request lines, and lines of an earlier run's results: any bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ResultMaker maker = {.model = "m", .fingerprint = "fp_0123456789abcdef"};

/* What an error line says is understood when the batch is resumed. */
static void check_error_line(const Request *r, const char *message) {
    ResultLine read;
    Error error;
    char *line = result_error_line(&maker, r, message);
    if (!line || strchr(line, '\n')) abort();
    if (result_read(line, strlen(line), &read, &error) != STATUS_OK) abort();
    RequestKey key = request_key(r);
    if (!read.failed || read.key.low != key.low || read.key.high != key.high) abort();
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    GenerationOptions defaults = {.sampling = sampler_options_default(), .max_tokens = 16};
    Request r;
    Error error;
    ResultLine result;
    const char *line = (const char *)data;
    bool good = request_parse(&r, line, size, 1, &defaults, &error) == STATUS_OK;
    if (good && (r.n < 1 || r.n > REQUEST_MAX_SAMPLES || !(r.prompt || r.messages))) abort();
    check_error_line(&r, good ? "a message" : error.text);
    request_free(&r);
    if (request_plain(&r, line, size, 1, &defaults, &error) == STATUS_OK && r.text_length != size)
        abort();
    request_free(&r);
    if (result_read(line, size, &result, &error) == STATUS_OK &&
        !memchr(result.fingerprint, '\0', sizeof result.fingerprint))
        abort();
    return 0;
}
