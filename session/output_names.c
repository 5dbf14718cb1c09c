#include "session/output_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/modelfile.h"

enum { PATH_BYTES = 4096 };

/* A file and the option that names it. */
typedef struct NamedFile {
    const char *option, *path; /* path NULL: not given */
} NamedFile;

static Status refuse(const NamedFile *written, const char *why, Error *error) {
    error_set(error, "%s %s: %s; name another file", written->option, written->path, why);
    return STATUS_USAGE;
}

static bool is_file(const char *path, const struct stat *file) {
    struct stat info;
    return path && stat(path, &info) == 0 && info.st_dev == file->st_dev &&
           info.st_ino == file->st_ino;
}

/* The path of a text that may be @FILE; NULL: it is the text itself. */
static const char *after_at(const char *text) {
    return text && text[0] == '@' && text[1] ? text + 1 : NULL;
}

/* The path in NAME=PATH:SCALE of --lora. */
static const char *adapter_path(const char *item, char path[PATH_BYTES]) {
    struct stat info;
    const char *equals = strchr(item, '='), *from = equals ? equals + 1 : item;
    const char *colon = strrchr(from, ':');
    if (!colon || stat(from, &info) == 0) return from;
    snprintf(path, PATH_BYTES, "%.*s", (int)(colon - from), from);
    return path;
}

/* The option that reads this file, or NULL. */
static const char *reader_of(const Options *o, const NamedFile *written, const struct stat *file) {
    char path[PATH_BYTES];
    const char *session = options_text(o, "session");
    const NamedFile read[] = {
        {"the model", o->model},
        {"-z", options_text(o, "tokenizer")},
        {"-f", o->prompt_file},
        {"-y", after_at(o->system)},
        {"--eval", options_text(o, "eval")},
        {"--eval-tasks", options_text(o, "eval-tasks")},
        {"--against", options_text(o, "against")},
        {"--draft-model", o->draft_model},
        {options_ask(o, "embed") ? "--embed" : "--batch", o->batch},
        {"--session", session},
        {"--chat-template", o->chat_template},
        {"--json-schema", after_at(o->json_schema)},
        {"--regex", after_at(o->regex)},
        {"--grammar", after_at(o->grammar)},
        {"--family", options_text(o, "family")},
        {"--receipt-key", options_text(o, "receipt-key")},
        {"--replay", options_text(o, "replay")},
        {"--check", written->path == o->output ? NULL : options_text(o, "check")},
    };
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (is_file(read[i].path, file)) return read[i].option;
    for (size_t i = 0; i < o->lora.n; i++)
        if (is_file(adapter_path(o->lora.items[i], path), file)) return "--lora";
    for (size_t i = 0; i < o->n_parts; i++)
        if (is_file(o->parts[i], file)) return "--merge";
    if (session) snprintf(path, sizeof path, "%s.kv", session);
    return session && is_file(path, file) ? "--session" : NULL;
}

/* Whether the file's first line is a result of a batch or the head of a part's results: it begins
 * as they do and names the fingerprint of what made it. One too long to be looked at whole counts
 * as one. */
static bool holds_results(int fd) {
    enum { MOST_BYTES = 1 << 20 };
    static const char *const starts[] = {"{\"id\": ", "{\"line\": ", "{\"shard\": "};
    static const char fingerprint[] = "\"fp_";
    char *line = malloc(MOST_BYTES);
    ssize_t n = line ? pread(fd, line, MOST_BYTES, 0) : 0;
    size_t length = n > 0 ? (size_t)n : 0;
    char *newline = length > 0 ? memchr(line, '\n', length) : NULL;
    bool begins = false, cut = !newline && length == MOST_BYTES;
    if (newline) length = (size_t)(newline - line);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t m = strlen(starts[i]);
        begins = begins || (length >= m && memcmp(line, starts[i], m) == 0);
    }
    bool found = begins && (cut || memmem(line, length, fingerprint, sizeof fingerprint - 1));
    free(line);
    return found;
}

static const char holds_receipt[] = "holds a receipt";

/* What the file holds that nobody means to replace by a result; NULL: anything else. Safetensors
 * have no mark of their own: their name tells. *results: it holds those of a batch. */
static const char *kept_kind(const char *path, bool *results) {
    static const struct {
        const char *begins, *kind;
    } kinds[] = {
        {MODELFILE_MAGIC, "holds a model"},
        {"GGUF", "holds a model"},
        {"{\"verbatim_session\"", "holds a conversation"},
        {"vbtm-kv", "holds the keys and values of a conversation"}, /* of any version */
        {"{\n \"verbatim_receipt\"", holds_receipt},
    };
    char begins[32] = "";
    size_t n = strlen(path), ending = strlen(".safetensors");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = fd < 0 ? 0 : read(fd, begins, sizeof begins);
    *results = fd >= 0 && holds_results(fd);
    if (fd >= 0) close(fd);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t m = strlen(kinds[i].begins);
        if (length >= (ssize_t)m && memcmp(begins, kinds[i].begins, m) == 0) return kinds[i].kind;
    }
    bool named = n > ending && strcmp(path + n - ending, ".safetensors") == 0;
    if (named && length > 0) return "holds a model";
    return *results ? "holds the results of a batch" : NULL;
}

/* Whether a batch's results may stay in the file: --batch has a rule of its own for its -o
 * (--resume), and the file of --check is replaced when it is named twice. */
static bool may_hold_results(const Options *o, const NamedFile *written, const struct stat *file) {
    if (written->path != o->output) return false;
    const char *check = options_text(o, "check");
    return (o->batch && !options_ask(o, "merge") && !check) || is_file(check, file);
}

static Status check_file(const Options *o, const NamedFile *written, Error *error) {
    char why[64];
    struct stat file;
    if (!written->path || stat(written->path, &file) != 0 || !S_ISREG(file.st_mode))
        return STATUS_OK;
    const char *reader = reader_of(o, written, &file);
    if (reader) {
        snprintf(why, sizeof why, "%s reads this file, which would be replaced", reader);
        return refuse(written, why, error);
    }
    bool results;
    const char *kind = kept_kind(written->path, &results);
    /* A new receipt is written to the file of the last one. */
    if (kind == holds_receipt && written->path == options_text(o, "receipt")) return STATUS_OK;
    if (kind && results && may_hold_results(o, written, &file)) return STATUS_OK;
    return kind ? refuse(written, kind, error) : STATUS_OK;
}

Status output_names_check(const Options *o, Error *error) {
    /* A picture's file has become that of -o by now. */
    const char *picture = o->output == options_text(o, "attention")   ? "--attention"
                          : o->output == options_text(o, "positions") ? "--positions"
                                                                      : "-o";
    const NamedFile written[] = {{picture, o->output},
                                 {"--receipt", options_text(o, "receipt")},
                                 {"--logits", options_text(o, "logits")}};
    size_t n = sizeof written / sizeof *written;
    for (size_t i = 0; i < n; i++) {
        struct stat file;
        if (check_file(o, &written[i], error) != STATUS_OK) return STATUS_USAGE;
        for (size_t k = 0; k < i; k++) {
            if (!written[i].path || !written[k].path) continue;
            bool same = strcmp(written[i].path, written[k].path) == 0 ||
                        (stat(written[i].path, &file) == 0 && S_ISREG(file.st_mode) &&
                         is_file(written[k].path, &file));
            if (same && strncmp(written[i].path, "/dev/", 5) != 0)
                return refuse(&written[i], "is also the file of another option", error);
        }
    }
    return STATUS_OK;
}
