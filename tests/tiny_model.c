#include "tests/tiny_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "convert/convert_target.h"

static TinyModel open_file(const char *path, int fd, const ModelOptions *options, KvType kv_type) {
    Error error;
    TinyModel tiny = {0};
    if (modelfile_open(&tiny.file, path, fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    if (model_open(&tiny.model, tiny.file, options, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    KvShape shape = model_kv_shape(tiny.model, kv_type);
    if (kvcache_new(&tiny.cache, &shape, 8, 0, &error) != STATUS_OK) fail_msg("%s", error.text);
    tiny.vocab_size = model_config(tiny.model)->vocab_size;
    return tiny;
}

int tiny_model_convert(const char *source, const char *type) {
    Error error;
    int fd = -1;
    ConvertOptions convert = {.type = type, .n_threads = 1};
    if (convert_temporary(source, &convert, &fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    return fd;
}

TinyModel tiny_model_open_converted(int converted, const ModelOptions *options, KvType kv_type) {
    int fd = fcntl(converted, F_DUPFD_CLOEXEC, 0);
    assert_true(fd >= 0);
    return open_file("a conversion", fd, options, kv_type);
}

/* Tests open the same random model again and again, with other options. */
static int random_conversion(const char *source, const char *type) {
    static char kept_name[512];
    static int kept = -1;
    char name[sizeof kept_name];
    int length = snprintf(name, sizeof name, "%s as %s", source, type ? type : "it is");
    assert_in_range(length, 1, sizeof name - 1);
    if (strcmp(name, kept_name) != 0) {
        int made = tiny_model_convert(source, type);
        if (kept >= 0) close(kept);
        kept = made;
        memcpy(kept_name, name, sizeof name);
    }
    return kept;
}

TinyModel tiny_model_open(const char *source, const char *type, const ModelOptions *options,
                          KvType kv_type) {
    if (strncmp(source, "random:", 7) == 0)
        return tiny_model_open_converted(random_conversion(source, type), options, kv_type);
    return open_file(source, tiny_model_convert(source, type), options, kv_type);
}

TinyModel tiny_model_map(const char *path, const ModelOptions *options, KvType kv_type) {
    return open_file(path, -1, options, kv_type);
}

void tiny_model_close(TinyModel *tiny) {
    kvcache_free(tiny->cache);
    model_close(tiny->model);
    modelfile_close(tiny->file);
}

void tiny_model_continue(TinyModel *tiny, int32_t sequence, const int32_t *ids, size_t n,
                         size_t chunk, float *logits) {
    Error error;
    Row *rows = calloc(chunk, sizeof *rows);
    assert_non_null(rows);
    for (size_t at = 0; at < n;) {
        size_t count = n - at < chunk ? n - at : chunk;
        int32_t position = kvcache_next(tiny->cache, sequence);
        for (size_t i = 0; i < count; i++)
            rows[i] = (Row){sequence, position + (int32_t)i, ids[at + i], true};
        if (model_forward(tiny->model, tiny->cache, rows, count, logits + at * tiny->vocab_size,
                          &error) != STATUS_OK)
            fail_msg("%s", error.text);
        at += count;
    }
    free(rows);
}

float *tiny_model_run(TinyModel *tiny, int32_t sequence, int32_t start, const int32_t *ids,
                      size_t n, size_t chunk) {
    float *logits = malloc(n * tiny->vocab_size * sizeof *logits);
    assert_non_null(logits);
    kvcache_reset(tiny->cache, sequence, start);
    tiny_model_continue(tiny, sequence, ids, n, chunk, logits);
    return logits;
}

int32_t tiny_model_argmax(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}
