#include "chat/conversation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/descriptor.h"
#include "system/replace_file.h"

enum { CONVERSATION_VERSION = 1, MAX_BYTES = 1 << 28 };

/* ---- Lines ------------------------------------------------------------------------------- */

static char *header_line(const Conversation *c) {
    char fingerprint[32];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, c->fingerprint);
    json_t *header =
        json_pack("{s:i, s:s, s:s, s:I}", "verbatim_session", CONVERSATION_VERSION, "model",
                  c->model, "fingerprint", fingerprint, "started", (json_int_t)c->started);
    char *line = header ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    return line;
}

/* Reads the first line of a file; false: it is none of this version. */
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
    return json_is_string(json_object_get(line, "role")) &&
           json_is_string(json_object_get(line, "content"));
}

static Status write_line(int fd, const char *path, char *line, Error *error) {
    if (!line) return error_set(error, "%s: no memory for a line", path);
    Status status = STATUS_OK;
    size_t n = strlen(line);
    line[n] = '\n'; /* in place of the NUL, so that one write suffices and a line is seldom torn */
    if (descriptor_write(fd, line, n + 1) <= n)
        status = error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    free(line);
    return status;
}

static Status write_messages(const Conversation *c, int fd, const char *path, Error *error) {
    size_t i;
    json_t *message;
    if (write_line(fd, path, header_line(c), error) != STATUS_OK) return STATUS_FAILED;
    json_array_foreach(c->messages, i, message) {
        if (write_line(fd, path, json_dumps(message, JSON_COMPACT), error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return replace_file_sync(fd, path, error);
}

/* ---- Files ------------------------------------------------------------------------------- */

/* Writes the conversation into a temporary file, which replaces the conversation's file; c->fd is
 * then the new file, locked as the old one was. */
static Status replace_file(Conversation *c, Error *error) {
    char *temporary;
    int fd = replace_file_begin(c->path, NULL, O_APPEND, &temporary, error);
    c->unsaved = c->unsaved || fd < 0;
    if (fd < 0) return STATUS_FAILED;
    Status status = write_messages(c, fd, c->path, error);
    if (status == STATUS_OK && flock(fd, LOCK_EX | LOCK_NB) != 0)
        status = error_set(error, "%s: cannot lock: %s", c->path, strerror(errno));
    if (status == STATUS_OK) status = replace_file_rename(&temporary, c->path, error);
    replace_file_discard(&temporary);
    close(status == STATUS_OK ? c->fd : fd);
    c->unsaved = c->unsaved || status != STATUS_OK;
    if (status == STATUS_OK) c->fd = fd;
    return status;
}

static Status read_file(const Conversation *c, char **text, size_t *length, Error *error) {
    struct stat info;
    if (fstat(c->fd, &info) != 0) return error_set(error, "%s: %s", c->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return error_set(error, "%s: not a regular file", c->path);
    return descriptor_read(c->fd, c->path, MAX_BYTES, NULL, text, length, error);
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

static Contents parse_lines(const char *text, size_t length) {
    Contents contents = {.messages = json_array()};
    size_t line_number = 0;
    for (size_t at = 0; at < length && contents.messages; line_number++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        json_t *line = json_loadb(text + at, n, JSON_ALLOW_NUL, NULL);
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
    *c = (Conversation){.fd = -1, .started = time(NULL), .fingerprint = fingerprint};
    c->messages = json_array();
    c->model = strdup(model);
    if (c->messages && c->model) return STATUS_OK;
    conversation_close(c);
    return error_set(error, "no memory for a conversation");
}

void conversation_close(Conversation *c) {
    kvfile_close(c->kv);
    if (c->fd >= 0) close(c->fd);
    json_decref(c->messages);
    free(c->model);
    free(c->path);
    *c = (Conversation){.fd = -1};
}

/* Takes over the parsed lines. *whole: nothing of them was damaged. */
static Status adopt(Conversation *c, Contents *contents, bool *whole, Error *error) {
    uint64_t fingerprint;
    time_t started;
    const char *model;
    *whole = contents->bad_line == 0 && contents->header;
    if (contents->header && read_header(contents->header, &fingerprint, &started, &model)) {
        if (fingerprint != c->fingerprint)
            return error_set(error,
                             "%s: a conversation with another model, '%s' (%016" PRIx64
                             "); this one is '%s' (%016" PRIx64 ")",
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
    struct stat info;
    int n = snprintf(aside, sizeof aside, "%s.damaged", c->path);
    for (int i = 2; n < (int)sizeof aside && i < 1000 && lstat(aside, &info) == 0; i++)
        n = snprintf(aside, sizeof aside, "%s.damaged.%d", c->path, i);
    if (n >= (int)sizeof aside) return error_set(error, "%s: the path is too long", c->path);
    if (rename(c->path, aside) != 0)
        return error_set(error, "%s: cannot keep a copy: %s", aside, strerror(errno));
    if (replace_file(c, error) != STATUS_OK) return STATUS_FAILED;
    error_set(note,
              "%s: line %zu is damaged; the %zu messages before it are kept, the file as it "
              "was is %s",
              c->path, bad_line ? bad_line : 1, json_array_size(c->messages), aside);
    return STATUS_OK;
}

static Status load_or_begin(Conversation *c, Error *note, Error *error) {
    char *text = NULL;
    size_t length = 0;
    if (read_file(c, &text, &length, error) != STATUS_OK) return STATUS_FAILED;
    if (length == 0) {
        free(text);
        return write_messages(c, c->fd, c->path, error);
    }
    /* After a power cut a file may begin with zeros. Any other file was named by mistake. */
    if (text[0] != '{' && text[0] != '\0') {
        free(text);
        return error_set(error, "%s: not a conversation; name another file", c->path);
    }
    Contents contents = parse_lines(text, length);
    bool whole = false;
    Status status = contents.messages ? adopt(c, &contents, &whole, error)
                                      : error_set(error, "%s: no memory for its messages", c->path);
    if (status == STATUS_OK && !whole) status = repair(c, contents.bad_line, note, error);
    contents_free(&contents);
    free(text);
    return status;
}

/* Whether the file belongs to a user other than this one or root, who could then read it: it may
 * lie in a directory that all users can write to. */
static bool is_foreign(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && info.st_uid != geteuid() && info.st_uid != 0;
}

/* Opens or creates PATH.kv. A failure costs time only, and `note` says so. */
static void open_kv(Conversation *c, const KvShape *shape, Error *note) {
    char path[PATH_MAX];
    Error reason;
    bool begun;
    if (snprintf(path, sizeof path, "%s.kv", c->path) >= (int)sizeof path) return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || is_foreign(fd)) {
        if (note && !note->text[0])
            error_set(note, "%s: %s", path, fd < 0 ? strerror(errno) : "belongs to another user");
        if (fd >= 0) close(fd);
        return;
    }
    if (kvfile_open(&c->kv, path, fd, c->fingerprint, shape, &begun, &reason) != STATUS_OK) {
        c->kv = NULL;
        if (note && !note->text[0]) error_set(note, "%s", reason.text);
    }
}

Status conversation_open(Conversation *c, const char *path, const char *model, uint64_t fingerprint,
                         const KvShape *shape, Error *note, Error *error) {
    if (note) note->text[0] = '\0';
    if (conversation_new(c, model, fingerprint, error) != STATUS_OK) return STATUS_FAILED;
    c->path = strdup(path);
    c->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    Status status = STATUS_OK;
    if (!c->path) {
        status = error_set(error, "no memory for a path");
    } else if (c->fd < 0) {
        status = error_set(error, "%s: cannot open: %s", path,
                           errno == ELOOP ? "it is a symbolic link" : strerror(errno));
    } else if (is_foreign(c->fd)) {
        status = error_set(error, "%s: belongs to another user", path);
    } else if (flock(c->fd, LOCK_EX | LOCK_NB) != 0) {
        status = error_set(error, "%s: another process has this conversation open", path);
    } else {
        status = load_or_begin(c, note, error);
    }
    if (status == STATUS_OK && shape) open_kv(c, shape, note);
    if (status != STATUS_OK) conversation_close(c);
    return status;
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

Status conversation_append(Conversation *c, const char *role, const char *content, size_t length,
                           Error *error) {
    json_t *message = new_message(role, content, length);
    if (!message) return error_set(error, "a message that is not UTF-8, or no memory for it");
    if (c->fd >= 0) {
        off_t end = lseek(c->fd, 0, SEEK_END);
        Status status = write_line(c->fd, c->path, json_dumps(message, JSON_COMPACT), error);
        if (status == STATUS_OK && fdatasync(c->fd) != 0 && errno != EINVAL)
            status = error_set(error, "%s: cannot sync: %s", c->path, strerror(errno));
        if (status != STATUS_OK) {
            c->unsaved = true;
            /* Removes what was written of the line; the next line must not follow half a line. */
            if (end >= 0 && ftruncate(c->fd, end) != 0) errno = 0;
            json_decref(message);
            return status;
        }
    }
    if (json_array_append_new(c->messages, message) != 0)
        return error_set(error, "no memory for a message");
    return STATUS_OK;
}

/* Replaces the messages in the file and in memory; after a failure both are as before. Takes over
 * `messages`, where NULL means that memory was short. */
static Status replace_messages(Conversation *c, json_t *messages, Error *error) {
    json_t *before = c->messages;
    if (!messages) return error_set(error, "no memory for the messages");
    c->messages = messages;
    if (c->fd >= 0 && replace_file(c, error) != STATUS_OK) {
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

Status conversation_set_system(Conversation *c, const char *content, Error *error) {
    json_t *message = content ? new_message("system", content, strlen(content)) : NULL;
    if (content && !message)
        return error_set(error, "a system prompt that is not UTF-8, or no memory for it");
    json_t *messages = json_copy(c->messages);
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
        line = json_dumps(message, JSON_COMPACT);
        if (out && line) fprintf(out, "%s\n", line);
        free(line);
    }
    if (out && fclose(out) == 0) return STATUS_OK;
    return error_set(error, "no memory for the conversation's text");
}

Status conversation_adopt(Conversation *c, const char *path, const char *text, size_t length,
                          Error *error) {
    Contents contents = parse_lines(text, length);
    Status status = STATUS_OK;
    if (!contents.messages || contents.bad_line) {
        status = error_set(error, "%s: line %zu is not a message", path, contents.bad_line);
    } else {
        status = replace_messages(c, json_incref(contents.messages), error);
    }
    contents_free(&contents);
    return status;
}
