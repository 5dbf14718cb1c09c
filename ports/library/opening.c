#include "ports/library/opening.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/spelling.h"
#include "json/json_reader.h"
#include "layers/model_watch.h"
#include "modes/batch/batch_memory.h"
#include "modes/batch/batch_options.h"
#include "session/embedding_options.h"
#include "kvcache/kvcache_sizes.h"
#include "base/machine.h"

/* ---- Options ---- */

/* The modes' options that requests may have. */
static const ModeOptions *const tables[] = {&options_chat, &options_messages, &batch_option_table,
                                            &embedding_option_table, NULL};
static const MoreOptions more = {.tables = tables};

/* The options that the library has: no files, nothing that prints. */
static const char *const names[] = {"map",
                                    "chat-template",
                                    "threads",
                                    "isa",
                                    "context",
                                    "chunk",
                                    "kv-type",
                                    "kv-memory",
                                    "max-concurrent",
                                    "snapshots",
                                    "draft",
                                    "lookup",
                                    "tokens",
                                    "stop",
                                    "ignore-eos",
                                    "special",
                                    "bos",
                                    "temperature",
                                    "top-k",
                                    "top-p",
                                    "min-p",
                                    "repetition-penalty",
                                    "presence-penalty",
                                    "frequency-penalty",
                                    "logit-bias",
                                    "json-order",
                                    "json-space",
                                    "seed",
                                    "system",
                                    "reasoning",
                                    "reasoning-effort",
                                    "reasoning-budget",
                                    "hide-reasoning",
                                    "pooling",
                                    "dimensions",
                                    "embed-normalize",
                                    "embed-prompt",
                                    "embed-truncate"};
enum { N_NAMES = sizeof names / sizeof *names };

static bool is_one_of(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

static Status add_word(LibraryOpening *o, char *word, Error *error) {
    char **words = word ? realloc(o->words, (o->n_words + 2) * sizeof *words) : NULL;
    if (!words) {
        free(word);
        return error_set(error, "no memory for the options");
    }
    o->words = words;
    words[o->n_words++] = word;
    words[o->n_words] = NULL;
    return STATUS_OK;
}

/* --NAME=VALUE, or --NAME of a flag (`value` NULL). */
static Status add_option(LibraryOpening *o, const char *name, const char *value, Error *error) {
    size_t n = strlen(name) + (value ? strlen(value) : 0) + 4;
    char *word = malloc(n);
    if (word) snprintf(word, n, value ? "--%s=%s" : "--%s", name, value);
    return add_word(o, word, error);
}

/* Adds an option of the command line from its JSON value: a flag, a number, a text or a list of
 * texts. null: not given. */
static Status add_option_value(LibraryOpening *o, const char *name, const json_t *value,
                               Error *error) {
    static const char *const flags[] = {"ignore-eos", "special", "hide-reasoning", "embed-truncate",
                                        NULL};
    static const char *const lists[] = {"stop", "logit-bias", NULL};
    char number[32];
    if (json_is_null(value)) return STATUS_OK;
    if (is_one_of(name, flags) && json_is_boolean(value))
        return json_is_true(value) ? add_option(o, name, NULL, error) : STATUS_OK;
    if (is_one_of(name, lists) && json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            const json_t *item = json_array_get(value, i);
            if (!json_is_string(item))
                return error_set(error, "'%s' must be a text or a list of texts", name);
            if (add_option_value(o, name, item, error) != STATUS_OK) return STATUS_FAILED;
        }
        return STATUS_OK;
    }
    if (json_is_string(value) && !is_one_of(name, flags)) {
        if (strlen(json_string_value(value)) != json_string_length(value))
            return error_set(error, "'%s': a text with a zero byte", name);
        return add_option(o, name, json_string_value(value), error);
    }
    if (!json_is_number(value) || is_one_of(name, flags))
        return error_set(error, "'%s' has a value of the wrong kind", name);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    return add_option(o, name, number, error);
}

/* Reads one member of the JSON options, whose name may have _ for -. */
static Status read_option(LibraryOpening *o, const char *key, const json_t *value, Error *error) {
    char name[64];
    snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    size_t i = 0;
    while (i < N_NAMES && strcmp(names[i], name) != 0) i++;
    if (i == N_NAMES) {
        const char *near = spelling_nearest(name, names, N_NAMES);
        return error_set(error, "there is no option '%.80s'%s%s%s", key,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (strcmp(name, "map") == 0) {
        o->maps = !json_is_false(value);
        return json_is_boolean(value) || json_is_null(value)
                   ? STATUS_OK
                   : error_set(error, "'map' must be true or false");
    }
    if (strcmp(name, "chat-template") != 0) return add_option_value(o, name, value, error);
    if (!json_is_string(value)) return error_set(error, "'chat-template' must be a text");
    free(o->chat_template); /* given twice: chat-template and chat_template */
    o->chat_template = strdup(json_string_value(value));
    return o->chat_template ? STATUS_OK : error_set(error, "no memory for the chat template");
}

/* Makes a command line of the options and reads it. */
static Status read_options(LibraryOpening *o, const char *path, const char *text, Error *error) {
    json_error_t where;
    const char *key;
    json_t *value;
    json_t *json =
        text ? json_reader_load(text, strlen(text), JSON_REJECT_DUPLICATES, &where) : NULL;
    if (text && !json) return error_set(error, "not JSON: %s", where.text);
    Status status = add_word(o, strdup("verbatim"), error);
    if (json && !json_is_object(json)) status = error_set(error, "not a JSON object");
    json_object_foreach(json, key, value) {
        if (status == STATUS_OK) status = read_option(o, key, value, error);
    }
    json_decref(json);
    if (status == STATUS_OK) status = add_word(o, strdup("--"), error);
    if (status == STATUS_OK) status = add_word(o, strdup(path), error);
    if (status == STATUS_OK)
        status = options_parse(&o->options, &more, (int)o->n_words, o->words, error);
    if (status == STATUS_OK) status = drafting_check(&o->options, error);
    o->options.batch = "-"; /* requests come as in a batch: many at a time */
    return status;
}

/* ---- The model ---- */

static Status open_tokenizer(Session *s, const char *path, Error *error) {
    size_t bytes, vocab_size = modelfile_config(s->file)->vocab_size;
    const void *section = modelfile_section(s->file, SECTION_TOKENIZER, &bytes);
    if (!section) return error_set(error, "%s: has no tokenizer", path);
    return tokenizer_open_for(&s->tokenizer, path, section, bytes, vocab_size, error);
}

/* Opens the file, its tokenizer and the model as the options say, and fills in the session with
 * what requests need. */
static Status open_model(LibraryOpening *o, const char *path, Error *error) {
    Session *s = &o->session;
    s->options = &o->options;
    s->prompt = "";
    s->drafting = &o->drafting;
    s->interrupted = &o->interrupted;
    s->chat_template = o->chat_template;
    s->isa = isa_choose(o->options.isa, error);
    if (!s->isa) return STATUS_FAILED;
    s->n_threads = o->options.n_threads ? (int)o->options.n_threads : machine_cores();
    s->free_memory = machine_free_memory();
    Status status = o->maps ? modelfile_open(&s->file, path, -1, error)
                            : modelfile_read(&s->file, path, -1, error);
    if (status == STATUS_OK) status = open_tokenizer(s, path, error);
    if (status != STATUS_OK) return status;
    const ModelOptions options = session_model_options(s);
    status = model_open(&s->model, s->file, &options, error);
    if (status != STATUS_OK) return status;
    adaptive_threads_init(&o->threads, &o->interrupted);
    s->threads = &o->threads;
    model_add_observer(s->model, &o->threads.observer);
    s->kv_type = session_kv_type(s->model, o->options.kv_type);
    s->shapes = shape_store_new(s->tokenizer, model_config(s->model)->vocab_size);
    if (!s->shapes) return error_set(error, "no memory for the shapes of answers");
    return drafting_open(&o->drafting, s, NULL, NULL, error);
}

Status library_open(LibraryOpening *o, const char *path, const char *options, Error *error) {
    *o = (LibraryOpening){.maps = true};
    Status status = read_options(o, path, options, error);
    if (status != STATUS_OK) return error_prefix(error, "options");
    status = open_model(o, path, error);
    if (status == STATUS_OK)
        status = batch_memory(batch_options(&o->options)->kv_memory, &o->kv_bytes, error);
    if (status == STATUS_OK) status = answering_begin(&o->answering, &o->session, error);
    if (status == STATUS_OK) status = answering_settle(&o->answering, error);
    if (status != STATUS_OK) return STATUS_FAILED;
    const KvShape shape = model_kv_shape(o->session.model, o->session.kv_type);
    size_t least = kvcache_sequence_bytes(&shape, KV_PAGE + 1);
    if (o->kv_bytes < least)
        return error_set(error, "kv-memory: %zu bytes are too few, at least %zu are needed",
                         o->kv_bytes, least);
    return answering_start(&o->answering, o->kv_bytes, 0, error);
}

void library_close(LibraryOpening *o) {
    Session *s = &o->session;
    answering_end(&o->answering);
    drafting_close(&o->drafting);
    shape_store_free(s->shapes);
    model_close(s->model);
    tokenizer_close(s->tokenizer);
    modelfile_close(s->file);
    options_free(&o->options);
    for (size_t i = 0; i < o->n_words; i++) free(o->words[i]);
    free(o->words);
    free(o->chat_template);
}
