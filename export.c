/* export: a model in somebody else's format in, a model.bin out; or a GGUF file with other types.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "advice/option_hints.h"
#include "base/clock.h"
#include "base/mapped.h"
#include "base/machine.h"
#include "convert/adapter_opening.h"
#include "convert/convert_target.h"
#include "convert/gguf_write.h"
#include "convert/mix.h"
#include "json/json_memory.h"
#include "modes/open/model_names.h"
#include "convert/target_size.h"
#include "convert/type_choice.h"
#include "convert/type_table.h"
#include "core/modelfile.h"
#include "session/versions.h"
#include "system/command_line.h"
#include "system/sandbox.h"
#include "system/stack.h"
#include "system/standard_streams.h"
#include "system/stop_signals.h"
#include "system/terminal.h"
#include "system/text_file.h"

enum { MOST_THREADS = 4096, TABLE_BYTES = 64 << 20 };

/* The command line's arguments; texts are borrowed from argv. */
typedef struct Arguments {
    const char *operands[2]; /* SOURCE and TARGET, or TARGET alone after --random */
    size_t n_operands;
    const char *type, *target_size, *calibrate, *tokenizer, *split_pattern, *random, *family;
    OptionList keep, lora;
    uint64_t n_threads, kv_heads; /* kv_heads 0: the source's */
    enum { POOLING_AS_SOURCE, POOLING_LAST_TOKEN, POOLING_OF_ALL, POOLING_FIRST_TOKEN } pooling;
    bool force; /* replace a target that exists */
    bool quiet, no_sandbox, no_mtp, help, version;
} Arguments;

/* The arguments after checking. */
typedef struct Export {
    const Arguments *arguments;
    char source[4096];
    const char *target;
    bool gguf; /* the target is a GGUF file */
    double started;
    AdapterOpening adapters; /* merged into the weights */
    char *mix;               /* --type and all --keep; owned */
    bool fits;               /* --type auto */
    TypeWish wish;
    TargetSize target_size;
} Export;

#define FIELD(name) offsetof(Arguments, name)

static const OptionRow rows[] = {
    TEXT_ROW(USUAL, 't', "type", "TYPE", FIELD(type),
             "f32 f16 bf16 bf16_act q8 q6 q5 q4m q4 q3 q2, auto [source's]"),
    LIST_ROW(USUAL, "keep", "NAME=TYPE", FIELD(keep),
             "TYPE for matrices called NAME (w_down, layers.0); or @TABLE"),
    TEXT_ROW(USUAL, 0, "target-size", "SIZE", FIELD(target_size),
             "the best types for 40M, or 4.5b (bits/weight); needs --calibrate"),
    TEXT_ROW(USUAL, 0, "calibrate", "FILE", FIELD(calibrate),
             "text for an importance matrix (mean squared activations)"),
    LIST_ROW(USUAL, "lora", "NAME=PATH", FIELD(lora),
             "merge an adapter into the weights; NAME=PATH:SCALE; repeated"),
    UINT_ROW(USUAL, 0, "kv-heads", FIELD(kv_heads), 1, 4096,
             "reduce to N key/value heads by averaging groups of heads"),
    TEXT_ROW(USUAL, 'z', "tokenizer", "FILE", FIELD(tokenizer),
             "tokenizer.json, tokenizer.bin, .model or .tiktoken"),
    TEXT_ROW(USUAL, 0, "split-pattern", "REGEX", FIELD(split_pattern),
             "pre-tokenizer regex of -z FILE, for unknown .tiktoken lists"),
    TEXT_ROW(USUAL, 0, "family", "FILE", FIELD(family), "a page that defines a new model_type"),
    UINT_ROW(USUAL, 'j', "threads", FIELD(n_threads), 1, MOST_THREADS,
             "worker threads [the physical cores]"),
    TEXT_ROW(USUAL, 0, "random", "SHAPE", FIELD(random),
             "random weights: tinyllama-1.1b, tiny, dim=64,n_layers=2,..."),
    CHOICE_ROW(USUAL, 0, "pooling", "auto|last|mean|cls", FIELD(pooling), NULL,
               "how hidden states are pooled if SOURCE does not say"),
    FLAG_ROW(USUAL, 0, "no-mtp", FIELD(no_mtp), "leave out the layers of multi-token prediction"),
    FLAG_ROW(USUAL, 0, "no-sandbox", FIELD(no_sandbox), "run without the sandbox (files, network)"),
    FLAG_ROW(USUAL, 'f', "force", FIELD(force), "replace TARGET if it exists"),
    FLAG_ROW(USUAL, 'q', "quiet", FIELD(quiet), "no progress and no summary"),
    FLAG_ROW(USUAL, 'h', "help", FIELD(help), "this text"),
    FLAG_ROW(USUAL, 0, "version", FIELD(version), "versions of the program and its libraries"),
    END_ROW,
};

/* ---- The command line ---- */

static Status usage(Error *error, const char *text, const char *about) {
    error_set(error, "%s%s (--help lists the options)", text, about);
    return STATUS_USAGE;
}

static Status set_operand(void *values, const char *word, Error *error) {
    Arguments *a = values;
    if (a->n_operands == 2) return usage(error, "too many operands: ", word);
    if (!word[0]) return usage(error, "an empty name names no file", "");
    a->operands[a->n_operands++] = word;
    return STATUS_OK;
}

static void print_help(const CommandLine *line) {
    const char *name = program_invocation_short_name;
    terminal_print(
        stdout,
        "usage: %s SOURCE TARGET [options]\n"
        "       %s --random SHAPE TARGET [options]\n"
        "\n"
        "Writes the model.bin TARGET. SOURCE is a Hugging Face directory (config.json and\n"
        "safetensors), a GGUF file (of a split model: the first), a llama2.c checkpoint, or\n"
        "a model.bin, to change the type of its weights. A TARGET that ends in .gguf is\n"
        "the GGUF file SOURCE with other types, for other programs.\n"
        "\n",
        name, name);
    command_line_help(stdout, line, true);
}

/* Takes SOURCE and TARGET from the operands, and refuses options that a GGUF target cannot have. */
static Status choose_files(Export *e, Error *error) {
    const Arguments *a = e->arguments;
    size_t wanted = a->random ? 1 : 2;
    if (a->n_operands < wanted)
        return usage(error, a->random ? "TARGET is missing" : "SOURCE and TARGET are needed", "");
    if (a->n_operands > wanted) return usage(error, "too many operands: ", a->operands[wanted]);
    e->target = a->operands[wanted - 1];
    const char *ending = strrchr(e->target, '.');
    if (ending && strcasecmp(ending, ".safetensors") == 0)
        return usage(error,
                     "a model.bin is written, which no other program reads: "
                     "let the name of TARGET not end in ",
                     ending);
    e->gguf = gguf_write_asked(e->target);
    const char *kept = a->tokenizer  ? "--tokenizer"
                       : a->kv_heads ? "--kv-heads"
                       : a->pooling  ? "--pooling"
                       : a->no_mtp   ? "--no-mtp"
                       : a->random   ? "--random"
                                     : NULL;
    if (e->gguf && kept)
        return usage(error, "a GGUF target has all of its source but the types: no ", kept);
    if (e->gguf && e->target_size.bytes)
        return usage(error, "for a GGUF target give the size in bits a weight: --target-size 4.5b",
                     "");
    int length = a->random ? snprintf(e->source, sizeof e->source, "random:%s", a->random)
                           : snprintf(e->source, sizeof e->source, "%s", a->operands[0]);
    if (length >= (int)sizeof e->source) return usage(error, "SOURCE is too long", "");
    char *found = NULL;
    if (a->random || access(e->source, F_OK) == 0) return STATUS_OK;
    Status status = model_names_resolve(e->source, &found, error);
    if (found && strlen(found) < sizeof e->source) strcpy(e->source, found);
    free(found);
    return status;
}

/* Puts the table of types `path` after the mix. */
static Status keep_table(FILE *mix, const char *path, Error *error) {
    char *text = NULL, *more = NULL;
    size_t length;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(error, "%s: %s", path, strerror(errno));
    Status status = text_file_read(fd, path, TABLE_BYTES, NULL, &text, &length, error);
    close(fd);
    if (status == STATUS_OK && type_table_mix(text, length, &more, error) != STATUS_OK)
        status = error_prefix(error, "%s", path);
    if (status == STATUS_OK) fputs(more, mix);
    free(text);
    free(more);
    return status;
}

/* Joins --type and all --keep into e->mix, "TYPE,NAME=TYPE,...". */
static Status join_types(Export *e, Error *error) {
    const Arguments *a = e->arguments;
    Error why;
    size_t length;
    if (mix_check(a->type, error) != STATUS_OK) return STATUS_USAGE;
    FILE *mix = open_memstream(&e->mix, &length);
    Status status = mix ? STATUS_OK : error_set(error, "no memory");
    if (mix) fputs(a->type, mix);
    for (size_t i = 0; status == STATUS_OK && i < a->keep.n; i++) {
        if (a->keep.items[i][0] == '@') {
            status = keep_table(mix, a->keep.items[i] + 1, error);
        } else {
            fprintf(mix, ",%s", a->keep.items[i]);
        }
    }
    if (mix && (fclose(mix) != 0 || !e->mix)) status = error_set(error, "no memory");
    if (status != STATUS_OK) return status;
    return mix_check(e->mix, &why) == STATUS_OK ? STATUS_OK : usage(error, "--keep: ", why.text);
}

/* Takes the types from --type, --keep and --target-size, which exclude each other in part. */
static Status choose_types(Export *e, Error *error) {
    const Arguments *a = e->arguments;
    if (a->target_size) {
        if (a->type || a->keep.n > 0)
            return usage(error, "--target-size chooses all types: no --type, no --keep", "");
        if (!a->calibrate)
            return usage(error, "--target-size needs --calibrate TEXT to measure with", "");
        return target_size_parse(a->target_size, &e->target_size, error);
    }
    if (!a->type) {
        if (a->keep.n > 0) return usage(error, "--keep needs --type", "");
        return a->calibrate ? usage(error, "--calibrate needs --type or --target-size", "")
                            : STATUS_OK;
    }
    if (type_choice_asked(a->type)) {
        if (a->keep.n > 0)
            return usage(error, "--type auto chooses for all matrices: no --keep", "");
        e->fits = true;
        return type_wish_open(&e->wish, a->type, error);
    }
    return join_types(e, error);
}

/* ---- Rights ---- */

/* Enters the sandbox. The target is named by a process that was started before (errand.h). */
static Status enter_sandbox(void *context, Error *error) {
    const Export *e = context;
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    return e->arguments->no_sandbox ? STATUS_OK : sandbox_enter(&rules, &report, error);
}

/* ---- Progress ---- */

typedef struct Meter {
    double started, shown;
} Meter;

/* What is being done, after a bar or on a line of its own. */
static void print_step(ConvertStep step, uint64_t done, uint64_t total) {
    if (step == CONVERT_CALIBRATING)
        terminal_print(stderr, "calibrating: %llu of %llu tokens", (unsigned long long)done,
                       (unsigned long long)total);
    else if (step == CONVERT_CHOOSING)
        terminal_print(stderr, "choosing types: pass %llu of at most %llu",
                       (unsigned long long)done, (unsigned long long)total);
    else
        terminal_print(stderr, "%.2f of %.2f GB", (double)done / 1e9, (double)total / 1e9);
}

/* Where stderr is not a terminal, as under nohup: a line now and then, so that whoever reads it
 * knows that the work goes on, and how long it may take. */
static void print_progress(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    enum { SECONDS = 15 };
    Meter *meter = context;
    double time = clock_seconds();
    if (time - meter->shown < SECONDS) return;
    meter->shown = time;
    terminal_print(stderr, "%s: ", program_invocation_short_name);
    print_step(step, done, total);
    terminal_print(stderr, ", after %.0f s\n", time - meter->started);
}

static void show_progress(ConvertStep step, uint64_t done, uint64_t total, void *context) {
    Meter *meter = context;
    double time = clock_seconds();
    if (done < total && time - meter->shown < 0.1) return;
    meter->shown = time;
    terminal_code(stderr, TERMINAL_CLEAR_LINE);
    terminal_bar(stderr, 30, done, total);
    terminal_print(stderr, " %3.0f%%  ", total ? 100.0 * (double)done / (double)total : 100.0);
    print_step(step, done, total);
}

static void show_note(const char *line, void *context) {
    (void)context;
    if (isatty(STDERR_FILENO)) terminal_code(stderr, TERMINAL_CLEAR_LINE);
    terminal_print(stderr, "%s\n", line);
}

/* Opens the finished file as `run` would, and says what it is. */
static Status report_result(void *context, int fd, uint64_t gguf_bytes, Error *error) {
    const Export *e = context;
    ModelFile *file;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* which modelfile_open takes over */
    if (own < 0) return error_set(error, "%s: %s", e->target, strerror(errno));
    if (modelfile_open(&file, e->target, own, error) != STATUS_OK) return STATUS_FAILED;
    uint64_t parameters = 0;
    modelfile_meta_uint(file, "source.parameters", 0, &parameters);
    if (!e->arguments->quiet)
        terminal_line(stderr, "%s: %.4g M parameters, %.1f MB, %.1f s", e->target,
                      (double)parameters / 1e6,
                      (double)(e->gguf ? gguf_bytes : modelfile_bytes(file)) / 1e6,
                      clock_seconds() - e->started);
    const char *table;
    size_t bytes;
    if (e->arguments->target_size && modelfile_meta_text(file, METADATA_TYPE_TABLE, &table, &bytes))
        terminal_put(stdout, table, bytes);
    modelfile_close(file);
    return STATUS_OK;
}

/* ---- The program ---- */

/* The words of --pooling; NULL: as the source says. */
static const char *const poolings[] = {[POOLING_AS_SOURCE] = NULL,
                                       [POOLING_LAST_TOKEN] = "last",
                                       [POOLING_OF_ALL] = "mean",
                                       [POOLING_FIRST_TOKEN] = "cls"};

/* Fills in what the conversion asks for, and converts, with progress on stderr. */
static Status export_model(Export *e, const volatile sig_atomic_t *stopped, Error *error) {
    const Arguments *a = e->arguments;
    Meter meter = {.started = clock_seconds()};
    e->started = meter.started;
    bool shows_progress = !a->quiet && isatty(STDERR_FILENO);
    if (!shows_progress) meter.shown = meter.started;
    const ConvertOptions options = {
        .source = {.tokenizer = a->tokenizer,
                   .split_pattern = a->split_pattern,
                   .family = a->family,
                   .no_mtp = a->no_mtp},
        .type = e->mix,
        .n_threads = a->n_threads ? (int)a->n_threads : machine_cores(),
        .cancel = stopped,
        .note = a->quiet ? NULL : show_note,
        .progress = shows_progress ? show_progress
                    : a->quiet     ? NULL
                                   : print_progress,
        .progress_context = &meter,
    };
    const ExportOptions wishes = {
        .pooling = poolings[a->pooling],
        .adapters = a->lora.n ? &e->adapters : NULL,
        .kv_heads = (uint32_t)a->kv_heads,
        .fits = e->fits ? &e->wish : NULL,
        .target_size = a->target_size ? &e->target_size : NULL,
        .calibrate = a->calibrate,
        .gguf = e->gguf,
        .keeps = !a->force,
        .ready = enter_sandbox,
        .written = report_result,
        .context = e,
    };
    Status status = adapter_opening_begin(&e->adapters, &a->lora, error);
    if (status == STATUS_OK)
        status = convert_to_path(e->source, &options, &wishes, e->target, error);
    adapter_opening_close(&e->adapters);
    if (shows_progress) terminal_code(stderr, TERMINAL_CLEAR_LINE);
    return status;
}

static Status export_run(int argc, char **argv, const volatile sig_atomic_t *stopped,
                         Error *error) {
    Arguments arguments = {0};
    Export e = {.arguments = &arguments};
    const OptionTable tables[] = {{rows, &arguments}, {NULL, NULL}};
    CommandLine line = {
        .tables = tables, .context = &arguments, .operand = set_operand, .advise = advice_option};
    Status status = command_line_parse(&line, argc, argv, error);
    if (status == STATUS_OK && (arguments.help || arguments.version)) {
        if (arguments.help) print_help(&line);
        if (!arguments.help) versions_print(stdout);
        return standard_streams_finish(error);
    }
    if (status == STATUS_OK) status = choose_types(&e, error);
    if (status == STATUS_OK) status = choose_files(&e, error);
    if (status == STATUS_OK) status = export_model(&e, stopped, error);
    free(e.mix);
    return status == STATUS_OK ? standard_streams_finish(error) : status;
}

/* Not inlined: its variables would be on the stack before main has looked at the limit. */
__attribute__((noinline)) static int start(int argc, char **argv) {
    Error error = {{0}};
    standard_streams_only(argv);
    Status status = standard_streams_fill(&error);
    const volatile sig_atomic_t *stopped = stop_signals_catch(false);
    mapped_watch();
    json_memory_guard();
    json_object_seed(0); /* from /dev/urandom, which the sandbox closes */
    if (status == STATUS_OK) status = export_run(argc, argv, stopped, &error);
    if (status != STATUS_OK) terminal_say("%s", error.text);
    return stop_signals_exit_status(status);
}

int main(int argc, char **argv) {
    return stack_suffices() ? start(argc, argv) : STATUS_FAILED;
}
