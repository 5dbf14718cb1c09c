/* Prints what a model computes, for scripts that compare it with a reference implementation:
 *
 *     print_logits [--lora SPEC]... MODEL CONTEXT START ID...
 *                                     float32 logits, one row of the vocabulary an ID
 *     print_logits --config MODEL     every field of Config, one "name: value" a line
 *
 * MODEL is any source that `run` takes. CONTEXT is the context that the model is opened with (0:
 * its own), START the position of the first ID; the adapters (SPEC as `run` takes it) add to all
 * rows. Weights and cache are float32 unless the source has narrower ones. Exit status 1 and the
 * reason on stderr when the model is refused. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/adapter_opening.h"
#include "convert/convert_target.h"
#include "core/config_fields.h"
#include "session/config_text.h"
#include "model.h"

static _Noreturn void fail(const Error *error) {
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static ModelFile *convert(const char *source) {
    Error error;
    int fd = -1;
    ConvertOptions options = {.n_threads = 1};
    ModelFile *file = NULL;
    if (convert_temporary(source, &options, &fd, &error) != STATUS_OK ||
        modelfile_open(&file, source, fd, &error) != STATUS_OK)
        fail(&error);
    return file;
}

static void print_config(const Config *config) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++) {
        int n = config_text(config, field, NULL, 0);
        char *text = malloc((size_t)n + 1);
        if (!text) exit(1);
        config_text(config, field, text, (size_t)n + 1);
        printf("%s: %s\n", field->name, text);
        free(text);
    }
}

static void print_logits(ModelFile *file, const OptionList *adapters, const char *const *arguments,
                         size_t n_ids) {
    Error error;
    Model *model;
    KvCache *cache;
    AdapterOpening opening = {0};
    ModelOptions options = {.n_threads = 1, .context = (uint32_t)strtoul(arguments[0], NULL, 10)};
    if (model_open(&model, file, &options, &error) != STATUS_OK) fail(&error);
    Session session = {.model = model, .file = file};
    if (adapter_opening_begin(&opening, adapters, &error) != STATUS_OK ||
        adapter_opening_start(&opening, &session, &error) != STATUS_OK)
        fail(&error);
    KvShape shape = model_kv_shape(model, KV_F32);
    if (kvcache_new(&cache, &shape, 1, 0, &error) != STATUS_OK) fail(&error);
    int32_t start = (int32_t)strtol(arguments[1], NULL, 10);
    kvcache_reset(cache, 0, start);
    size_t n_logits = n_ids * model_config(model)->vocab_size;
    Row *rows = calloc(n_ids, sizeof *rows);
    float *logits = malloc(n_logits * sizeof *logits);
    if (!rows || !logits) exit(1);
    for (size_t i = 0; i < n_ids; i++)
        rows[i] = (Row){0, start + (int32_t)i, (int32_t)strtol(arguments[2 + i], NULL, 10), true};
    if (model_forward(model, cache, rows, n_ids, logits, &error) != STATUS_OK) fail(&error);
    if (fwrite(logits, sizeof *logits, n_logits, stdout) != n_logits) exit(1);
    free(rows);
    free(logits);
    adapter_opening_close(&opening);
    kvcache_free(cache);
    model_close(model);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--config") == 0) {
        ModelFile *file = convert(argv[2]);
        Error error;
        Model *model;
        ModelOptions options = {.n_threads = 1};
        if (model_open(&model, file, &options, &error) != STATUS_OK) fail(&error);
        print_config(model_config(model));
        model_close(model);
        modelfile_close(file);
        return 0;
    }
    OptionList adapters = {0};
    int at = 1;
    for (; argc - at >= 2 && adapters.n < OPTION_LIST_MOST && strcmp(argv[at], "--lora") == 0;
         at += 2)
        adapters.items[adapters.n++] = argv[at + 1];
    if (argc - at < 4) {
        fprintf(stderr, "usage: print_logits [--lora SPEC]... MODEL CONTEXT START ID... | "
                        "--config MODEL\n");
        return 2;
    }
    ModelFile *file = convert(argv[at]);
    print_logits(file, &adapters, (const char *const *)argv + at + 1, (size_t)(argc - at) - 3);
    modelfile_close(file);
    return 0;
}
