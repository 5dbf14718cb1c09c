/* Prints all that this tree makes of the inputs of scripts/same-as, for tests/print_differences.c,
 * which compares the records of two trees.
 *
 *     print_same LIST          every record of every input in LIST (see tests/seed_same.c)
 *     print_same --fast LIST   one type, no steps, a few of the cases
 *
 * A record is a line "KIND NAME PLACE WIDTH BYTES" and BYTES bytes; PLACE has no spaces.
 *
 *     file       a converted model.bin
 *     config     the fields of Config, one "name: value" a line
 *     logits     float32, rows of WIDTH
 *     case       Config and tensors of a variation of config.json, as lines
 *     refused    an error message; empty when there was none
 *     end        the input's last record
 *
 * scripts/same-as compiles this file with the headers of older revisions, too: it uses few
 * functions, and of the tests' helpers none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/config_fields.h"
#include "convert/convert.h"
#include "families/reading/source_open.h"
#include "session/config_text.h"
#include "model.h"

enum { MOST_ROWS = 512, FAST_CASES = 7 };

/* One line of LIST. */
typedef struct Input {
    char *name, *path, *type;
    uint32_t context;
    int32_t starts[8], *ids;
    size_t n_starts, n_ids;
} Input;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "print_same: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(1, bytes + 1);
    if (!memory) fail("no memory");
    return memory;
}

static void put(const char *kind, const Input *input, const char *place, size_t width,
                const void *bytes, size_t n) {
    printf("%s %s %s %zu %zu\n", kind, input->name, place, width, n);
    if (n && fwrite(bytes, 1, n, stdout) != n) fail("stdout");
}

/* ---- Config and tensors as lines ---- */

static void write_config(FILE *out, const Config *config) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++) {
        int n = config_text(config, field, NULL, 0);
        char *text = allocate((size_t)n);
        config_text(config, field, text, (size_t)n + 1);
        fprintf(out, "%s: %s\n", field->name, text);
        free(text);
    }
}

static void write_tensors(FILE *out, const ModelFile *file) {
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        fprintf(out, "tensor %s: type %u, %u of %llu x %llu\n", t->name, t->type, t->count,
                (unsigned long long)t->rows, (unsigned long long)t->cols);
    }
}

static void put_lines(const char *kind, const Input *input, const char *place,
                      const ModelFile *file, bool tensors) {
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    if (!out) fail("no memory");
    write_config(out, modelfile_config(file));
    if (tensors) write_tensors(out, file);
    fclose(out);
    put(kind, input, place, 0, text, n);
    free(text);
}

/* ---- Conversions and logits ---- */

static int memory_file(void) {
    int fd = memfd_create("model.bin", MFD_CLOEXEC);
    if (fd < 0) fail("memfd_create");
    return fd;
}

static void put_file(const Input *input, const char *place, int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) fail("fstat");
    size_t n = (size_t)status.st_size;
    void *bytes = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) fail("mmap");
    put("file", input, place, 0, bytes, n);
    munmap(bytes, n);
}

/* The logits of the whole text in calls of `chunk` rows, as place/START/CHUNK. */
static void put_logits(const Input *input, const char *place, const ModelFile *file, const Isa *isa,
                       KvType kv_type, int32_t start, size_t chunk) {
    Error error = {{0}};
    Model *model = NULL;
    KvCache *cache = NULL;
    ModelOptions options = {.isa = isa, .n_threads = 1, .context = input->context};
    size_t width = modelfile_config(file)->vocab_size, done = 0;
    char at[96];
    float *logits = allocate(input->n_ids * width * sizeof *logits);
    Row *rows = allocate(chunk * sizeof *rows);
    Status status = model_open(&model, file, &options, &error);
    if (status == STATUS_OK) {
        KvShape shape = model_kv_shape(model, kv_type);
        status = kvcache_new(&cache, &shape, 1, 0, &error);
    }
    if (status == STATUS_OK) kvcache_reset(cache, 0, start);
    while (status == STATUS_OK && done < input->n_ids) {
        size_t n = input->n_ids - done < chunk ? input->n_ids - done : chunk;
        for (size_t i = 0; i < n; i++)
            rows[i] = (Row){0, start + (int32_t)(done + i), input->ids[done + i], true};
        status = model_forward(model, cache, rows, n, logits + done * width, &error);
        done += n;
    }
    snprintf(at, sizeof at, "%s/from-%d/%s", place, start, chunk == 1 ? "steps" : "whole");
    if (status != STATUS_OK) {
        put("refused", input, at, 0, error.text, strlen(error.text));
    } else {
        put("logits", input, at, width, logits, input->n_ids * width * sizeof *logits);
    }
    if (cache) kvcache_free(cache);
    if (model) model_close(model);
    free(rows);
    free(logits);
}

/* Text in one call on the best instruction set; then token by token on another one. */
static void put_passes(const Input *input, const char *place, const ModelFile *file, KvType kv_type,
                       bool fast, size_t number) {
    size_t n_isas = 0;
    while (isa_available(n_isas)) n_isas++;
    for (size_t i = 0; i < input->n_starts; i++) {
        put_logits(input, place, file, NULL, kv_type, input->starts[i], MOST_ROWS);
        if (fast) continue;
        put_logits(input, place, file, isa_available(number % n_isas), kv_type, input->starts[i],
                   1);
    }
}

static void put_type(const Input *input, const char *type, KvType kv_type, bool fast,
                     size_t number) {
    Error error = {{0}};
    int fd = memory_file();
    ConvertOptions options = {.type = type, .n_threads = 1};
    Status status = convert_source(input->path, &options, fd, &error);
    put("refused", input, type, 0, error.text, status == STATUS_OK ? 0 : strlen(error.text));
    if (status != STATUS_OK) {
        close(fd);
        return;
    }
    put_file(input, type, fd);
    ModelFile *file;
    if (modelfile_open(&file, input->path, fd, &error) != STATUS_OK) {
        put("refused", input, type, 0, error.text, strlen(error.text));
        return;
    }
    put_lines("config", input, type, file, false);
    put_passes(input, type, file, kv_type, fast, number);
    modelfile_close(file);
}

/* ---- Variations of config.json ---- */

/* The current directory is a scratch directory, so that messages name the same path in all trees.
 */
static void put_case(const Input *input, const char *config, size_t length, size_t number) {
    Error error = {{0}};
    char place[32];
    Source *source = NULL;
    ModelFile *file;
    FILE *out = fopen("model/config.json", "w");
    if (!out || fwrite(config, 1, length, out) != length || fclose(out) != 0) fail("config.json");
    snprintf(place, sizeof place, "line-%zu", number + 1);
    int fd = memory_file();
    Status status = source_open(&source, "model", NULL, &error);
    if (status == STATUS_OK && (status = source_parse(source, &error)) == STATUS_OK)
        status = convert_description(source, NULL, fd, &error);
    if (status == STATUS_OK) {
        status = modelfile_open(&file, "model.bin", fd, &error); /* closes fd */
    } else {
        close(fd);
    }
    if (source) source_close(source);
    if (status == STATUS_OK) {
        put_lines("case", input, place, file, true);
        modelfile_close(file);
    } else {
        put("refused", input, place, 0, error.text, strlen(error.text));
    }
}

static void put_cases(const Input *input, bool fast) {
    char path[1024], *line = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s.cases", input->path);
    FILE *file = fopen(path, "r");
    if (!file) return; /* GGUF files have none */
    snprintf(path, sizeof path, "%s/model.safetensors", input->path);
    unlink("model/model.safetensors");
    if (symlink(path, "model/model.safetensors") != 0) fail("symlink");
    for (size_t i = 0; getline(&line, &capacity, file) > 0; i++)
        if (!fast || i % FAST_CASES == 0) put_case(input, line, strlen(line), i);
    free(line);
    fclose(file);
}

static void enter_scratch(char *directory) {
    if (!mkdtemp(directory) || chdir(directory) != 0 || mkdir("model", 0777) != 0)
        fail("scratch directory");
}

static void leave_scratch(const char *directory) {
    unlink("model/config.json");
    unlink("model/model.safetensors");
    rmdir("model");
    if (chdir("/") == 0) rmdir(directory);
}

/* ---- The list ---- */

static bool parse_input(char *line, Input *input) {
    char *words[6], *save = NULL;
    for (int i = 0; i < 6; i++)
        if (!(words[i] = strtok_r(i ? NULL : line, " \n", &save))) return false;
    *input = (Input){.name = words[0],
                     .path = words[1],
                     .type = words[2],
                     .context = (uint32_t)strtoul(words[3], NULL, 10)};
    char *at = words[4];
    while (*at && input->n_starts < 8) {
        input->starts[input->n_starts++] = (int32_t)strtol(at, &at, 10);
        at += *at == ',';
    }
    input->ids = allocate(strlen(words[5]) * sizeof *input->ids);
    for (at = words[5]; *at; at += *at == ',')
        input->ids[input->n_ids++] = (int32_t)strtol(at, &at, 10);
    return true;
}

int main(int argc, char **argv) {
    bool fast = argc == 3 && strcmp(argv[1], "--fast") == 0;
    if (argc != (fast ? 3 : 2)) {
        fprintf(stderr, "usage: print_same [--fast] LIST\n");
        return 2;
    }
    FILE *list = fopen(argv[argc - 1], "r");
    if (!list) fail(argv[argc - 1]);
    char scratch[] = "/tmp/verbatim-same-XXXXXX", *line = NULL;
    size_t capacity = 0;
    Input input;
    enter_scratch(scratch);
    for (size_t i = 0; getline(&line, &capacity, list) > 0 && parse_input(line, &input); i++) {
        if (!fast) put_type(&input, "f32", KV_F32, fast, i);
        put_type(&input, "q8", KV_F16, fast, i);
        if (!fast) put_type(&input, input.type, KV_Q8, fast, i + 1);
        put_cases(&input, fast);
        put("end", &input, "-", 0, "", 0);
        free(input.ids);
    }
    free(line);
    fclose(list);
    leave_scratch(scratch);
    return fflush(stdout) == 0 ? 0 : 1;
}
