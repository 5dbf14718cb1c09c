/* The core as a program of its own (make core): continues one text of a model.bin, on plain C.
 *
 *     build/core/run MODEL.bin [options]
 *
 * run.c goes the same way from a file and a prompt to the text with everything around it, and
 * prints the same bytes. decoder.c is the file to read first. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mapped.h"
#include "base/shown_text.h"
#include "base/unicode.h"
#include "generation.h"
#include "core/prefill.h"

static const char usage[] = "usage: run MODEL.bin [options]\n"
                            "  -i TEXT  continue this text\n"
                            "  -e       print the prompt, too\n"
                            "  -n N     at most N new tokens [256]; 0: to the end of the context\n"
                            "  -t X     temperature; 0: greedy, the most likely token\n"
                            "  -p X     nucleus sampling (top-p): probability mass X; 1: off\n"
                            "  -k N     top-k: sample among the N most likely tokens; 0: all\n"
                            "  -s N     seed of the sampler\n"
                            "  -j N     threads\n"
                            "  -c N     context length, in tokens\n"
                            "  -u N     prompt tokens per forward pass\n";

typedef struct Arguments {
    const char *model, *prompt;
    bool echo, help;
    /* -n -t -p -k -s -j -c -u, and which of them were given */
    double n_tokens, temperature, top_p, top_k, seed, n_threads, context, chunk;
    bool given[128];
} Arguments;

static Status wrong(Error *error, const char *word, const char *why) {
    error_set(error, "%s: %s", word, why);
    return STATUS_USAGE;
}

/* Reads the value of an option that takes a number, and checks its range. Refuses unknown options.
 */
static Status read_number(Arguments *a, const char *word, const char *text, Error *error) {
    const struct {
        char letter;
        bool whole;
        double *value, low, high;
    } numbers[] = {{'n', true, &a->n_tokens, 0, 1e9}, {'t', false, &a->temperature, 0, 1e3},
                   {'p', false, &a->top_p, 0, 1},     {'k', true, &a->top_k, 0, 1e9},
                   {'s', true, &a->seed, 0, 1e15},    {'j', true, &a->n_threads, 1, 1024},
                   {'c', true, &a->context, 1, 1e8},  {'u', true, &a->chunk, 1, 65536}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].letter != word[1]) continue;
        char *end;
        double number = text ? strtod(text, &end) : -1.0;
        if (!text || end == text || *end || !(number >= numbers[i].low) ||
            number > numbers[i].high || (numbers[i].whole && number != floor(number))) {
            error_set(error, "%s needs a %snumber from %g to %g", word,
                      numbers[i].whole ? "whole " : "", numbers[i].low, numbers[i].high);
            return STATUS_USAGE;
        }
        *numbers[i].value = number;
        a->given[(unsigned char)word[1]] = true;
        return STATUS_OK;
    }
    return wrong(error, word, "no such option; -h lists them");
}

/* Reads the command line: options of one letter, each followed by its value where it has one, and
 * the path of one model. */
static Status read_arguments(Arguments *a, char **argv, Error *error) {
    Status status = STATUS_OK;
    for (char **word = argv + 1; *word && status == STATUS_OK; word++) {
        char letter = (*word)[0] == '-' ? (*word)[1] : '\0';
        if (letter && (*word)[2] && strcmp(*word, "--help") != 0) {
            status = wrong(error, *word, "no such option; -h lists them");
        } else if (letter == 'h' || letter == '-') {
            a->help = true;
        } else if (letter == 'e') {
            a->echo = true;
        } else if (letter == 'i') {
            if (!word[1]) return wrong(error, *word, "the text is missing");
            a->prompt = *++word;
        } else if (letter) {
            status = read_number(a, *word, word[1], error);
            word += status == STATUS_OK;
        } else if (a->model) {
            status = wrong(error, *word, "one model at a time, and a prompt goes after -i");
        } else {
            a->model = *word;
        }
    }
    if (status == STATUS_OK && !a->model && !a->help)
        return wrong(error, "MODEL.bin is missing", "run MODEL.bin -i TEXT; -h lists the options");
    return status;
}

/* ---- From the file to the text ---- */

/* Everything that is open while a text is generated. */
typedef struct Core {
    ModelFile *file;
    Tokenizer *tokenizer;
    Model *model;
    KvCache *cache;   /* of one sequence */
    Generation text;  /* what has been generated */
    TokenList prompt; /* its tokens */
    float *logits;    /* [vocab_size] */
} Core;

static Status open_model(Core *core, const Arguments *a, Error *error) {
    size_t n_bytes;
    const ModelOptions options = {.n_threads = (int)a->n_threads,
                                  .context = (uint32_t)a->context,
                                  .max_rows = (uint32_t)a->chunk};
    int fd = open(a->model, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(error, "%s: %s", a->model, strerror(errno));
    if (modelfile_open(&core->file, a->model, fd, error) != STATUS_OK) return STATUS_FAILED;
    if (modelfile_meta_uint(core->file, "embedding.only", 0, &(uint64_t){0}))
        return error_set(error, "%s: a model without an output head gives no text", a->model);
    const void *section = modelfile_section(core->file, SECTION_TOKENIZER, &n_bytes);
    if (!section) return error_set(error, "%s: has no tokenizer", a->model);
    if (tokenizer_open_for(&core->tokenizer, a->model, section, n_bytes,
                           modelfile_config(core->file)->vocab_size, error) != STATUS_OK)
        return STATUS_FAILED;
    if (model_open(&core->model, core->file, &options, error) != STATUS_OK) return STATUS_FAILED;
    const KvShape shape = model_kv_shape(core->model, model_kv_type(core->model));
    return kvcache_new(&core->cache, &shape, 1, 0, error);
}

/* Prints text[length] at once. A reader that has closed the pipe had enough: no error. */
static Status put(const char *text, size_t length, Error *error) {
    shown_text_write(stdout, text, length);
    if (fflush(stdout) == 0 || errno == EPIPE) return STATUS_OK;
    return error_set(error, "stdout: cannot be written: %s", strerror(errno));
}

/* Prepares the text: its options, the prompt's tokens and the memory of logits. Prints the prompt
 * with -e. */
static Status begin_text(Core *core, const Arguments *a, Error *error) {
    const char *prompt = a->prompt ? a->prompt : "";
    const GenerationText text = {.text = prompt, .length = strlen(prompt)};
    size_t vocab_size = model_config(core->model)->vocab_size;
    GenerationOptions options = generation_defaults(core->file, core->tokenizer);
    SamplerOptions *s = &options.sampling;
    options.max_tokens = (size_t)a->n_tokens;
    if (text.length > 0) options.decode_flags |= TOKEN_DECODER_CONTINUE;
    if (a->given['t']) s->temperature = (float)a->temperature;
    if (a->given['p']) s->top_p = (float)a->top_p;
    if (a->given['k']) s->top_k = (uint32_t)a->top_k;
    s->seed = (uint64_t)a->seed;
    if (!a->given['s'] && generation_draw_seed(&s->seed, error) != STATUS_OK) return STATUS_FAILED;
    if (utf8_valid_prefix(prompt, text.length) < text.length)
        return error_set(error, "the prompt is not UTF-8 text");
    core->logits = malloc(vocab_size * sizeof *core->logits);
    if (!core->logits) return error_set(error, "no memory for the logits");
    if (generation_prompt_ids(core->model, core->file, core->tokenizer, &text, &core->prompt,
                              error) != STATUS_OK ||
        generation_init(&core->text, &options, core->tokenizer, vocab_size,
                        model_isa(core->model)->numeric, error) != STATUS_OK)
        return STATUS_FAILED;
    generation_prompt(&core->text, core->prompt.ids, core->prompt.length);
    return a->echo ? put(prompt, text.length, error) : STATUS_OK;
}

static Status write_text(Core *core, Error *error) {
    size_t n = core->prompt.length, context = model_context(core->model);
    const Prefill prompt = {
        .ids = core->prompt.ids, .n = n, .first_wanted = n - 1, .logits = core->logits};
    GenerationStep step;
    Status status = prefill(core->model, core->cache, &prompt, error);
    for (size_t position = n; status == STATUS_OK; position++) {
        /* The last token is printed but never fed back to the model. */
        if (position == context) core->text.options.max_tokens = core->text.n_tokens + 1;
        status = generation_next(&core->text, core->logits, position, &step, error);
        if (status != STATUS_OK) return status;
        if (put(step.text, step.length, error) != STATUS_OK) return STATUS_FAILED;
        if (ferror(stdout) || core->text.finish != FINISH_NOT) break;
        const Row row = {.position = (int32_t)position, .token = step.token, .wants_logits = true};
        status = model_forward(core->model, core->cache, &row, 1, core->logits, error);
    }
    return status;
}

static void close_core(Core *core) {
    free(core->logits);
    token_list_free(&core->prompt);
    if (core->text.sampler) generation_free(&core->text);
    kvcache_free(core->cache);
    model_close(core->model);
    tokenizer_close(core->tokenizer);
    modelfile_close(core->file);
}

static Status run(const Arguments *a, Core *core, Error *error) {
    Status status = open_model(core, a, error);
    if (status == STATUS_OK) status = begin_text(core, a, error);
    if (status == STATUS_OK) status = write_text(core, error);
    return status == STATUS_OK ? put("\n", 1, error) : status;
}

/* Reads the command line and runs the model, or prints the usage with -h. Errors go to stderr, and
 * the status is the exit code. */
int main(int argc, char **argv) {
    Arguments arguments = {.n_tokens = 256};
    Core core = {0};
    Error error;
    (void)argc;
    signal(SIGPIPE, SIG_IGN); /* a reader that closes the pipe shows in fflush */
    mapped_watch();
    Status status = read_arguments(&arguments, argv, &error);
    if (status == STATUS_OK && arguments.help)
        status = put(usage, strlen(usage), &error);
    else if (status == STATUS_OK)
        status = run(&arguments, &core, &error);
    if (status != STATUS_OK) {
        fputs("run: ", stderr);
        shown_text_write(stderr, error.text, strlen(error.text));
        fputs("\n", stderr);
    }
    close_core(&core);
    return status;
}
