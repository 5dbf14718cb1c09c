#include "modes/chat/conversation.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unicode.h"
#include "base/sha256.h"
#include "core/numeric.h"
#include "json/json_reader.h"
#include "system/descriptor.h"

enum { CONVERSATION_VERSION = 1, MAX_BYTES = 1 << 28 };

/* ---- Lines ------------------------------------------------------------------------------- */

json_t *conversation_header(const Conversation *c) {
    char fingerprint[32];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, c->fingerprint);
    return json_pack("{s:i, s:s, s:s, s:I}", "verbatim_session", CONVERSATION_VERSION, "model",
                     c->model, "fingerprint", fingerprint, "started", (json_int_t)c->started);
}

static char *header_line(const Conversation *c) {
    json_t *header = conversation_header(c);
    char *line = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return line;
}

/* Reads the first line of a file; false: the file has another version or is not a conversation. */
static bool read_header(json_t *line, uint64_t *fingerprint, time_t *started, const char **model) {
    int version;
    const char *hex;
    json_int_t when;
    if (json_unpack(line, "{s:i, s:s, s:s, s:I}", "verbatim_session", &version, "model", model,
                    "fingerprint", &hex, "started", &when) != 0)
        return false;
    char *end;
    *fingerprint = strtoull(hex, &end, 16);
    *started = (time_t)when;
    return version == CONVERSATION_VERSION && *end == '\0' && end != hex;
}

static bool is_message(const json_t *line) {
    return json_reader_word(json_object_get(line, "role")) &&
           json_is_string(json_object_get(line, "content"));
}

/* ---- Files ------------------------------------------------------------------------------- */

/* Adds a line, which it takes over; NULL means that memory was short. */
static Status conversation_add_line(Conversation *c, char *line, Error *error) {
    if (!line) return error_set(error, "%s: no memory for a line", c->path);
    size_t n = strlen(line);
    line[n] = '\n'; /* in place of the NUL, so that one write suffices and a line is seldom torn */
    Status status = c->courier ? courier_append(c->courier, c->path, line, n + 1, error)
                               : session_file_append(&c->file, line, n + 1, error);
    c->unsaved = c->unsaved || status != STATUS_OK;
    free(line);
    return status;
}

/* Replaces the file by one that holds the messages. */
static Status replace_file(Conversation *c, Error *error) {
    char *text;
    size_t n;
    if (conversation_text(c, &text, &n, error) != STATUS_OK) return STATUS_FAILED;
    Status status = c->courier ? courier_replace(c->courier, c->path, text, n, error)
                               : session_file_replace(&c->file, text, n, error);
    c->unsaved = c->unsaved || status != STATUS_OK;
    free(text);
    return status;
}

static Status read_file(const Conversation *c, char **text, size_t *length, Error *error) {
    struct stat info;
    if (fstat(c->file.fd, &info) != 0) return error_set(error, "%s: %s", c->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return error_set(error, "%s: not a regular file", c->path);
    return descriptor_read(c->file.fd, c->path, MAX_BYTES, NULL, text, length, error);
}

/* The parsed lines of a conversation's file. */
typedef struct Contents {
    json_t *header;   /* the first line; NULL: it is a message */
    json_t *messages; /* before the first damaged line; NULL: no memory */
    size_t bad_line;  /* the number of the first damaged line, from 1; 0: none */
} Contents;

static void contents_free(Contents *contents) {
    json_decref(contents->header);
    json_decref(contents->messages);
}

/* Parses a conversation's file up to its first damaged line, whose number becomes bad_line (0:
 * none). A line without a newline at its end counts as damaged. `messages` is NULL without
 * memory. */
static Contents parse_lines(const char *text, size_t length) {
    Contents contents = {.messages = json_array()};
    size_t line_number = 0;
    for (size_t at = utf8_mark_length(text, length); at < length && contents.messages;
         line_number++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        json_t *line = json_reader_load(text + at, n, JSON_ALLOW_NUL, NULL);
        bool header = line_number == 0 && json_object_get(line, "verbatim_session");
        if (!end || !line || (!header && !is_message(line))) {
            json_decref(line);
            contents.bad_line = line_number + 1;
            return contents;
        }
        if (header) {
            contents.header = line;
        } else {
            json_array_append_new(contents.messages, line);
        }
        at += n + 1;
    }
    return contents;
}

Status conversation_new(Conversation *c, const char *model, uint64_t fingerprint, Error *error) {
    *c = (Conversation){
        .file = SESSION_FILE_NONE, .started = time(NULL), .fingerprint = fingerprint};
    c->messages = json_array();
    c->model = strdup(model);
    if (c->messages && c->model) return STATUS_OK;
    conversation_close(c);
    return error_set(error, "no memory for a conversation");
}

void conversation_close(Conversation *c) {
    kvfile_close(c->kv);
    session_file_close(&c->file);
    json_decref(c->messages);
    free(c->model);
    free(c->path);
    *c = (Conversation){.file = SESSION_FILE_NONE};
}

/* Takes over the parsed lines. *whole: no line was damaged, and the header could be read. */
static Status adopt(Conversation *c, Contents *contents, bool *whole, Error *error) {
    uint64_t fingerprint;
    time_t started;
    const char *model;
    *whole = contents->bad_line == 0 && contents->header;
    if (contents->header && read_header(contents->header, &fingerprint, &started, &model)) {
        if (fingerprint != c->fingerprint)
            return error_set(error,
                             "%s: a conversation with another model, '%s' (%016" PRIx64
                             "), or other adapters; this one is '%s' (%016" PRIx64 ")",
                             c->path, model, fingerprint, c->model, c->fingerprint);
        c->started = started;
    } else {
        *whole = false;
    }
    json_decref(c->messages);
    c->messages = json_incref(contents->messages);
    return STATUS_OK;
}

/* Renames the damaged file to PATH.damaged (PATH.damaged.2 where that exists, and so on) and writes
 * the messages that could be read to a new file. */
static Status repair(Conversation *c, size_t bad_line, Error *note, Error *error) {
    char aside[PATH_MAX];
    Status status = c->courier ? courier_set_aside(c->courier, c->path, aside, error)
                               : session_file_set_aside(&c->file, aside, error);
    if (status != STATUS_OK) return status;
    if (replace_file(c, error) != STATUS_OK) return STATUS_FAILED;
    size_t n = json_array_size(c->messages);
    if (bad_line == 0)
        error_set(note,
                  "%s: its first line names no model (verbatim_session); its messages (%zu) go on "
                  "with this one, the file as it was is %s",
                  c->path, n, aside);
    else
        error_set(note,
                  "%s: line %zu is damaged; the %zu messages before it are kept, the file as it "
                  "was is %s",
                  c->path, bad_line, n, aside);
    return STATUS_OK;
}

/* Whether a file that is not empty was a conversation, perhaps a damaged one: it begins as one
 * does, with its header or a message; after a power cut with zeros. Any other file was named by
 * mistake. */
static bool was_conversation(const char *text, size_t length) {
    static const char *const begins[] = {"{\"verbatim_session\"", "{\"role\""};
    size_t mark = utf8_mark_length(text, length);
    text += mark, length -= mark;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = strlen(begins[i]) < length ? strlen(begins[i]) : length;
        if (memcmp(text, begins[i], n) == 0) return true;
    }
    return text[0] == '\0';
}

/* Loads the conversation from its file, or writes the header into an empty one. A damaged
 * conversation is repaired, which `note` tells; a file that never was a conversation is refused. */
static Status load_or_begin(Conversation *c, Error *note, Error *error) {
    char *text = NULL;
    size_t length = 0;
    if (read_file(c, &text, &length, error) != STATUS_OK) return STATUS_FAILED;
    if (length == 0) {
        free(text);
        return conversation_add_line(c, header_line(c), error);
    }
    Contents contents = parse_lines(text, length);
    bool whole = false;
    Status status;
    if (!contents.messages)
        status = error_set(error, "%s: no memory for its messages", c->path);
    else if (contents.bad_line == 1 && !was_conversation(text, length))
        status = error_set(error, "%s: not a conversation; name another file", c->path);
    else
        status = adopt(c, &contents, &whole, error);
    if (status == STATUS_OK && !whole) status = repair(c, contents.bad_line, note, error);
    contents_free(&contents);
    free(text);
    return status;
}

/* Opens the cache of keys and values. A failure costs time only, and `note` says so. */
static void open_kv(Conversation *c, const KvShape *shape, Error *note) {
    char path[PATH_MAX];
    Error reason;
    bool begun;
    int fd = c->file.kv_fd;
    c->file.kv_fd = -1; /* kvfile_open takes it over */
    if (fd < 0) return;
    snprintf(path, sizeof path, "%s.kv", c->path);
    if (kvfile_open(&c->kv, path, fd, c->fingerprint, shape, &begun, &reason) != STATUS_OK) {
        c->kv = NULL;
        if (!note->text[0]) error_set(note, "%s", reason.text);
    } else if (kvfile_other_revision(c->kv) != 0 && !note->text[0]) {
        error_set(note,
                  "%s is of numeric revision %d, this program of %d: its keys and values are "
                  "computed again, once; the messages stay as they are",
                  path, kvfile_other_revision(c->kv), NUMERIC_REVISION);
    }
}

Status conversation_open_file(Conversation *c, SessionFile *file, Courier *courier,
                              const char *model, uint64_t fingerprint, const KvShape *shape,
                              Error *note, Error *error) {
    if (conversation_new(c, model, fingerprint, error) != STATUS_OK) return STATUS_FAILED;
    c->path = strdup(file->path);
    c->file = *file;
    c->courier = courier;
    *file = SESSION_FILE_NONE;
    Status status =
        c->path ? load_or_begin(c, note, error) : error_set(error, "no memory for a path");
    if (status == STATUS_OK && shape) open_kv(c, shape, note);
    if (status != STATUS_OK) conversation_close(c);
    return status;
}

Status conversation_open(Conversation *c, const char *path, const char *model, uint64_t fingerprint,
                         const KvShape *shape, Error *note, Error *error) {
    SessionFile file;
    Error unread;
    *c = (Conversation){.file = SESSION_FILE_NONE};
    if (!note) note = &unread;
    if (session_file_open(&file, path, note, error) != STATUS_OK) return STATUS_FAILED;
    return conversation_open_file(c, &file, NULL, model, fingerprint, shape, note, error);
}

/* ---- Changes ----------------------------------------------------------------------------- */

size_t conversation_length(const Conversation *c) {
    return json_array_size(c->messages);
}

static const char *member(const Conversation *c, size_t i, const char *key) {
    return json_string_value(json_object_get(json_array_get(c->messages, i), key));
}

const char *conversation_role(const Conversation *c, size_t i) {
    return member(c, i, "role");
}
const char *conversation_content(const Conversation *c, size_t i) {
    return member(c, i, "content");
}

static json_t *new_message(const char *role, const char *content, size_t length) {
    return json_pack("{s:s, s:s%}", "role", role, "content", content, length);
}

/* Appends a message, which it takes over, to the conversation and to its file. A message of NULL
 * (not UTF-8, or no memory) is an error. */
static Status append_message(Conversation *c, json_t *message, Error *error) {
    if (!message) return error_set(error, "a message that is not UTF-8, or no memory for it");
    if (c->path &&
        conversation_add_line(c, json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(9)),
                              error) != STATUS_OK) {
        json_decref(message);
        return STATUS_FAILED;
    }
    if (json_array_append_new(c->messages, message) != 0)
        return error_set(error, "no memory for a message");
    return STATUS_OK;
}

/* The seal that message i bears; NULL: none. */
static json_t *seal_of(const Conversation *c, size_t i) {
    return json_object_get(json_object_get(json_array_get(c->messages, i), "made_with"), "seal");
}

/* A copy of a message without its seal. */
static json_t *unsealed(const json_t *message) {
    json_t *copy = json_copy((json_t *)message);
    json_t *made_with = json_copy(json_object_get(message, "made_with"));
    json_object_del(made_with, "seal");
    if (made_with) json_object_set_new(copy, "made_with", made_with);
    return copy;
}

json_t *conversation_seal(const Conversation *c, size_t i) {
    char digest[SHA256_HEX];
    size_t first = i;
    while (first > 0 && !seal_of(c, first - 1)) first--;
    json_t *before = first > 0 ? seal_of(c, first - 1) : NULL, *since = json_array();
    for (size_t k = first; k < i; k++) json_array_append(since, json_array_get(c->messages, k));
    json_array_append_new(since, unsealed(json_array_get(c->messages, i)));
    json_t *all = json_pack("{s:I, s:O?, s:o}", "started", (json_int_t)c->started, "before", before,
                            "messages", since);
    char *text =
        all ? json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    if (!text) return NULL;
    sha256_text(text, strlen(text), digest);
    free(text);
    return json_string(digest);
}

/* Seals an answer that will be the next message. */
static bool seal(Conversation *c, json_t *answer) {
    size_t n = conversation_length(c);
    if (json_array_append(c->messages, answer) != 0) return false;
    json_t *own = conversation_seal(c, n);
    bool fits = own && json_object_set_new(json_object_get(answer, "made_with"), "seal", own) == 0;
    json_array_remove(c->messages, n);
    return fits;
}

Status conversation_append(Conversation *c, const char *role, const char *content, size_t length,
                           Error *error) {
    size_t valid = utf8_valid_prefix(content, length);
    if (valid < length)
        return error_set(error, "a message that is not UTF-8: byte 0x%02x at offset %zu",
                         (unsigned char)content[valid], valid);
    return append_message(c, new_message(role, content, length), error);
}

Status conversation_append_answer(Conversation *c, const char *content, size_t length,
                                  const char *reasoning, size_t reasoning_length, json_t *made_with,
                                  Error *error) {
    json_t *message = new_message("assistant", content, length);
    bool fits = message && made_with && json_object_set(message, "made_with", made_with) == 0;
    if (fits && reasoning)
        fits = json_object_set_new(message, "reasoning_content",
                                   json_stringn(reasoning, reasoning_length)) == 0;
    json_decref(made_with);
    fits = fits && seal(c, message);
    if (!fits) {
        json_decref(message);
        message = NULL;
    }
    return append_message(c, message, error);
}

Status conversation_append_message(Conversation *c, json_t *message, Error *error) {
    if (is_message(message)) return append_message(c, message, error);
    json_decref(message);
    return error_set(error, "not a message: it has no role or no content");
}

/* Replaces the messages in the file and in memory; after a failure both are as before. Takes over
 * `messages`, where NULL means that memory was short. */
static Status replace_messages(Conversation *c, json_t *messages, Error *error) {
    json_t *before = c->messages;
    if (!messages) return error_set(error, "no memory for the messages");
    c->messages = messages;
    if (c->path && replace_file(c, error) != STATUS_OK) {
        c->messages = before;
        json_decref(messages);
        return STATUS_FAILED;
    }
    json_decref(before);
    return STATUS_OK;
}

Status conversation_truncate(Conversation *c, size_t n, Error *error) {
    size_t length = conversation_length(c);
    if (n >= length) return STATUS_OK;
    json_t *kept = json_copy(c->messages);
    while (kept && length > n) json_array_remove(kept, --length);
    return replace_messages(c, kept, error);
}

/* Copies the messages without "made_with", which is not true of the answers any more. NULL: no
 * memory. */
static json_t *without_made_with(const json_t *messages) {
    json_t *all = json_array(), *message;
    size_t i;
    json_array_foreach((json_t *)messages, i, message) {
        json_t *copy = json_copy(message);
        json_object_del(copy, "made_with");
        if (json_array_append_new(all, copy) == 0) continue;
        json_decref(all);
        return NULL;
    }
    return all;
}

/* Whether the first message is this system prompt; NULL: is none. */
static bool has_system(const Conversation *c, const char *content) {
    bool has = conversation_length(c) > 0 && strcmp(conversation_role(c, 0), "system") == 0;
    return has ? content && strcmp(conversation_content(c, 0), content) == 0 : !content;
}

Status conversation_set_system(Conversation *c, const char *content, Error *error) {
    json_t *message = content ? new_message("system", content, strlen(content)) : NULL;
    if (content && !message)
        return error_set(error, "a system prompt that is not UTF-8, or no memory for it");
    json_t *messages =
        has_system(c, content) ? json_copy(c->messages) : without_made_with(c->messages);
    if (conversation_length(c) > 0 && strcmp(conversation_role(c, 0), "system") == 0)
        json_array_remove(messages, 0);
    if (message && json_array_insert_new(messages, 0, message) != 0) {
        json_decref(messages);
        messages = NULL;
    }
    return replace_messages(c, messages, error);
}

Status conversation_text(const Conversation *c, char **text, size_t *length, Error *error) {
    size_t i;
    json_t *message;
    char *line = header_line(c);
    FILE *out = open_memstream(text, length);
    if (out && line) fprintf(out, "%s\n", line);
    free(line);
    json_array_foreach(c->messages, i, message) {
        line = json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(9));
        if (out && line) fprintf(out, "%s\n", line);
        free(line);
    }
    if (out && fclose(out) == 0) return STATUS_OK;
    return error_set(error, "no memory for the conversation's text");
}

Status conversation_read(const char *path, const char *text, size_t length, json_t **messages,
                         Error *error) {
    Contents contents = parse_lines(text, length);
    bool whole = contents.messages && contents.bad_line == 0;
    *messages = whole ? json_incref(contents.messages) : NULL;
    contents_free(&contents);
    return whole ? STATUS_OK
                 : error_set(error, "%s: line %zu is not a message", path, contents.bad_line);
}

Status conversation_adopt(Conversation *c, const char *path, const char *text, size_t length,
                          Error *error) {
    json_t *messages;
    Status status = conversation_read(path, text, length, &messages, error);
    if (status != STATUS_OK) return status;
    status = replace_messages(c, without_made_with(messages), error);
    json_decref(messages);
    return status;
}
