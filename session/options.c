#include "session/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "draft/drafter.h"
#include "session/sampling_numbers.h"
#include "system/terminal.h"

#define FIELD(name) offsetof(Options, name)

#define REAL(often, letter, name, field, low, high, help)                                          \
    FLOAT_ROW(often, letter, name, FIELD(field), low, high, help)
#define WHOLE(often, letter, name, field, low, high, help)                                         \
    UINT_ROW(often, letter, name, FIELD(field), low, high, help)

static const OptionRow text_rows[] = {
    HEADING_ROW("Text"),
    TEXT_ROW(USUAL, 'i', "prompt", "TEXT", FIELD(prompt),
             "continue this text; - reads it from stdin"),
    TEXT_ROW(USUAL, 'f', "prompt-file", "FILE", FIELD(prompt_file),
             "read the prompt from FILE (-: stdin), after -i's"),
    UINT_ROW(USUAL, 'n', "tokens", FIELD(n_tokens), 0, 1e9,
             "at most N new tokens [256]; 0: fill the context"),
    LIST_ROW(USUAL, "stop", "TEXT", FIELD(stop), "stop sequence: end before this text; repeatable"),
    FLAG_ROW(RARE, 0, "ignore-eos", FIELD(ignore_eos), "continue after an EOS token"),
    FLAG_ROW(RARE, 0, "special", FIELD(special), "parse and print special tokens as text"),
    CHOICE_ROW(RARE, 0, "bos", "auto|no|yes", FIELD(bos), "yes", "prepend the BOS token [auto]"),
    TEXT_ROW(USUAL, 'o', "output", "FILE", FIELD(output), "write the text to FILE, atomically"),
    FLAG_ROW(USUAL, 0, "echo", FIELD(echo), "write the prompt, too"),
    HEADING_ROW("Sampling (default: what the model recommends, else the one in brackets)"),
    SAMPLING_NUMBERS(REAL, WHOLE),
    LIST_ROW(RARE, "logit-bias", "ID=X", FIELD(logit_bias), "add X to a token's logit; repeatable"),
    UINT_ROW(USUAL, 's', "seed", FIELD(seed), 0, 18446744073709551615.0,
             "seed of the sampler [random; --stats prints it]"),
    END_ROW,
};

static const OptionRow machine_rows[] = {
    HEADING_ROW("Machine"),
    UINT_ROW(USUAL, 'j', "threads", FIELD(n_threads), 1, 1024,
             "worker threads [one for each core]"),
    TEXT_ROW(RARE, 0, "isa", "NAME", FIELD(isa), "instruction set; reference: plain C [the best]"),
    UINT_ROW(USUAL, 'c', "context", FIELD(context), 1, 268435456,
             "context length, in tokens [the model's]"),
    UINT_ROW(RARE, 0, "chunk", FIELD(chunk), 1, 65536, "prompt tokens per forward pass [512]"),
    CHOICE_ROW(RARE, 0, "kv-type", "auto|f32|f16|bf16|q8", FIELD(kv_type), NULL,
               "type of the KV cache [f16; f32 for f32 models]"),
    LIST_ROW(RARE, "lora", "NAME=PATH", FIELD(lora),
             "use a LoRA adapter; NAME=PATH:SCALE; repeatable"),
    UINT_ROW(RARE, 0, "snapshots", FIELD(snapshots), 0, 100,
             "% of memory for window and state snapshots [25]"),
    FLAG_ROW(USUAL, 0, "stats", FIELD(stats), "print speed, memory and seed to stderr"),
    TEXT_ROW(RARE, 0, "draft", "NAMES", FIELD(draft),
             "speculative decoding; --lookup N, --draft-model M"),
    TEXT_ROW(RARE, 0, "draft-model", "MODEL", FIELD(draft_model), NULL),
    UINT_ROW(RARE, 0, "lookup", FIELD(lookup), 0, DRAFTS_MAX, NULL),
    FLAG_ROW(RARE, 0, "no-sandbox", FIELD(no_sandbox), "run without the sandbox (files, network)"),
    END_ROW,
};

static const OptionRow shape_rows[] = {
    HEADING_ROW("Structured output: the shape of the answer (docs/shapes.md)"),
    TEXT_ROW(USUAL, 0, "json-schema", "TEXT", FIELD(json_schema),
             "JSON valid under a JSON Schema; @FILE reads it"),
    FLAG_ROW(RARE, 0, "json", FIELD(json_object),
             "any JSON object; form: --json-order, --json-space"),
    TEXT_ROW(RARE, 0, "regex", "TEXT", FIELD(regex),
             "text matching a regular expression; or @FILE"),
    TEXT_ROW(RARE, 0, "grammar", "TEXT", FIELD(grammar), "a GBNF grammar; or @FILE"),
    LIST_ROW(RARE, "choice", "TEXT", FIELD(choice), "one of these texts; repeatable"),
    CHOICE_ROW(RARE, 0, "json-order", "schema|any", FIELD(json_order), NULL, NULL),
    CHOICE_ROW(RARE, 0, "json-space", "line|any", FIELD(json_space), NULL, NULL),
    CHOICE_ROW(RARE, 0, "on-length", "cut|close", FIELD(on_length), NULL,
               "at the -n limit: cut, or complete it [cut]"),
    END_ROW,
};

static const OptionRow chat_rows[] = {
    HEADING_ROW("Chat (-m chat); reasoning options are for --batch, too"),
    CHOICE_ROW(USUAL, 'm', "mode", "generate|chat", FIELD(mode), NULL,
               "continue a text [generate], or chat"),
    TEXT_ROW(USUAL, 'y', "system", "TEXT", FIELD(system), "the system prompt of a chat; or @FILE"),
    END_ROW,
};
const ModeOptions options_chat = {.rows = chat_rows};

static const OptionRow message_rows[] = {
    TEXT_ROW(RARE, 0, "chat-template", "FILE", FIELD(chat_template),
             "a Jinja template instead of the model's"),
    CHOICE_ROW(RARE, 0, "reasoning", "auto|on|off", FIELD(reasoning), NULL,
               "think before answering [auto]; --hide-reasoning"),
    TEXT_ROW(RARE, 0, "reasoning-effort", "HOW", FIELD(reasoning_effort),
             "low, medium or high, as the template knows them"),
    UINT_ROW(RARE, 0, "reasoning-budget", FIELD(reasoning_budget), 0, 1e9,
             "at most N tokens of reasoning [no limit]"),
    FLAG_ROW(RARE, 0, "hide-reasoning", FIELD(hide_reasoning), NULL),
    END_ROW,
};
const ModeOptions options_messages = {.rows = message_rows};

static const OptionRow batch_rows[] = {
    HEADING_ROW("Batches of requests (docs/batch.md); the seed is 0 unless -s is given"),
    TEXT_ROW(USUAL, 0, "batch", "FILE", FIELD(batch),
             "answer each line of FILE (JSON Lines; -: stdin)"),
    END_ROW,
};
const ModeOptions options_batch = {.rows = batch_rows};

static const OptionRow override_rows[] = {
    LIST_ROW(RARE, "override", "FIELD=VALUE", FIELD(override),
             "change a field of the configuration; repeatable"),
    END_ROW,
};
const ModeOptions options_override = {.rows = override_rows};

static const OptionRow help_rows[] = {
    HEADING_ROW("Help"),
    {OPTION_WORD, 'h', "help", "usual|all", FIELD(help), 0, 0,
     "this page; --help all: every option", USUAL, "usual"},
    FLAG_ROW(USUAL, 0, "version", FIELD(version), "versions; --bug-report: details for an issue"),
    END_ROW,
};

/* A word of the mode that takes them: --merge. */
static Status take_part(Options *o, const char *word, Error *error) {
    if (!array_reserve(&o->parts, &o->parts_capacity, o->n_parts + 1, sizeof *o->parts))
        return error_set(error, "no memory for the names of the parts");
    o->parts[o->n_parts++] = word;
    return STATUS_OK;
}

/* Takes a word that belongs to no option as the model, or as a part for a mode that wants parts. A
 * second such word is refused, with a hint that depends on whether it is a file or looks like a
 * part of a prompt. */
static Status take_model(void *values, const char *word, Error *error) {
    Options *options = values;
    if (options->takes_words && options->takes_words(options))
        return take_part(options, word, error);
    if (!options->model) {
        options->model = word;
        return STATUS_OK;
    }
    if (access(word, F_OK) == 0) {
        error_set(error, "one model at a time, but %s stands beside %s; --against %s compares both",
                  word, options->model, word);
        return STATUS_USAGE;
    }
    /* The first words of a prompt, unless the second is a prompt in quotes. */
    if (!strpbrk(options->model, "./:\\") && !strchr(word, ' ')) {
        error_set(error,
                  "one model at a time, but '%s' stands beside '%s'; a prompt goes after -i, in "
                  "quotes: run -i '%s %s ...'",
                  word, options->model, options->model, word);
        return STATUS_USAGE;
    }
    error_set(error,
              "one model at a time, but '%s' stands beside '%s'; a prompt goes after -i: run %s -i "
              "'%s'",
              word, options->model, options->model, word);
    return STATUS_USAGE;
}

static Status options_check(const Options *o, Error *error) {
    if (o->prompt && o->prompt_file && strcmp(o->prompt, "-") == 0) {
        error_set(error, "-i - and -f both give the text: with -f, -i is what stands before it");
        return STATUS_USAGE;
    }
    for (size_t i = 0; i < o->stop.n; i++) {
        if (o->stop.items[i][0] != '\0') continue;
        error_set(error, "--stop: an empty text would match everywhere");
        return STATUS_USAGE;
    }
    return STATUS_OK;
}

/* Adds a table after the n that are there, and chooses the struct that its rows set: Options where
 * the table has no defaults, else that of an earlier table with the same defaults, else a new copy
 * of them in o->mode_values. */
static Status add_table(Options *o, size_t n, const ModeOptions *table, Error *error) {
    void *values = o;
    if (n == OPTIONS_MOST_TABLES) return error_set(error, "more than %zu tables of options", n);
    for (size_t i = 0; i < n && table->defaults; i++)
        if (o->modes[i] == table->defaults) values = o->tables[i].values;
    if (table->defaults && values == o) {
        if (table->size > sizeof o->mode_values - o->n_mode_bytes)
            return error_set(error, "the options of modes take more than %d bytes",
                             OPTIONS_MODES_BYTES);
        values = memcpy(o->mode_values + o->n_mode_bytes, table->defaults, table->size);
        const size_t align = _Alignof(max_align_t);
        o->n_mode_bytes += (table->size + align - 1) / align * align;
    }
    o->modes[n] = table->defaults;
    o->tables[n] = (OptionTable){table->rows, values};
    return STATUS_OK;
}

Status options_parse(Options *options, const MoreOptions *more, int argc, char **argv,
                     Error *error) {
    static const ModeOptions text = {.rows = text_rows}, machine = {.rows = machine_rows},
                             shape = {.rows = shape_rows}, help = {.rows = help_rows};
    const ModeOptions *const own[] = {&text, &machine, &shape, NULL}, *const last[] = {&help, NULL};
    const ModeOptions *const *const lists[] = {own, more ? more->tables : NULL, last};
    size_t n = 0;
    Status status = STATUS_OK;
    *options = (Options){.n_tokens = 256,
                         .temperature = 1.0,
                         .top_p = 0.9,
                         .repetition_penalty = 1.0,
                         .snapshots = 25};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const ModeOptions *const *table = lists[i]; table && *table && status == STATUS_OK;
             table++)
            status = add_table(options, n++, *table, error);
    if (status != STATUS_OK) return status;
    options->line.tables = options->tables;
    options->line.context = options;
    options->line.operand = take_model;
    options->line.advise = more ? more->advise : NULL;
    options->line.look = more ? more->look : NULL;
    options->takes_words = more ? more->takes_words : NULL;
    status = command_line_parse(&options->line, argc, argv, error);
    if (options->output && strcmp(options->output, "-") == 0) options->output = NULL; /* stdout */
    return status == STATUS_OK ? options_check(options, error) : status;
}

/* The tables' values lie in Options, so that a copy's must point into the copy. */
void options_copy(Options *copy, const Options *options) {
    *copy = *options;
    for (size_t i = 0; copy->tables[i].rows; i++)
        copy->tables[i].values =
            (char *)copy + ((char *)options->tables[i].values - (char *)options);
    copy->line.tables = copy->tables;
    copy->line.context = copy;
}

void options_free(Options *options) {
    free(options->parts);
    options->parts = NULL;
}

bool options_given(const Options *options, const void *field) {
    return command_line_given(&options->line, field);
}

const void *options_of(const Options *options, const void *defaults) {
    for (size_t i = 0; options->tables[i].rows; i++)
        if (options->modes[i] == defaults) return options->tables[i].values;
    return defaults;
}

void *options_to_set(Options *options, const void *defaults) {
    for (size_t i = 0; options->tables[i].rows; i++)
        if (options->modes[i] == defaults) return options->tables[i].values;
    return NULL;
}

bool options_ask(const Options *options, const char *name) {
    return command_line_asks(&options->line, name);
}

bool options_ask_any(const Options *options, const char *const *names) {
    while (*names && !options_ask(options, *names)) names++;
    return *names != NULL;
}

const char *options_text(const Options *options, const char *name) {
    return command_line_text(&options->line, name);
}

void options_print_help(FILE *out, const Options *options, const char *program, const char *docs,
                        bool all) {
    terminal_print(out,
                   "Usage: %s [MODEL] [options]\n"
                   "Continues a text, chats, or answers a file of requests. MODEL is a model.bin,\n"
                   "a .gguf file, a Hugging Face directory, a llama2.c checkpoint, or a name that\n"
                   "--list shows. Without MODEL the bundled small model tells a story.\n",
                   program);
    command_line_help(out, &options->line, all);
    if (!all)
        terminal_print(out, "%s --help all shows every option; the manual and docs/ say more.\n",
                       program);
    if (docs) terminal_print(out, "docs/ is %s\n", docs);
}
