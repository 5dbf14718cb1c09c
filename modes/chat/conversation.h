/* A conversation and its files: the messages, in a form that any program can read, and the KV
 * cache.
 *
 * FILE holds JSON lines. The first names the model, each other is a message,
 * {"role": ..., "content": ...}, of a model that thinks with "reasoning_content", and of an answer
 * that can be repeated with "made_with" (made_with.h). A message is
 * appended and synced when it is complete, so that a kill loses at most the answer in progress;
 * taking messages back replaces the file atomically. FILE.kv holds the pages of the KV cache
 * (kvfile.h) and only saves time. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include <jansson.h>
#include <stdint.h>
#include <time.h>

#include "modes/chat/courier.h"
#include "modes/chat/kvfile.h"

typedef struct Conversation {
    bool unsaved;         /* a message or a change could not be written to the file */
    char *path;           /* NULL: the conversation is not saved */
    json_t *messages;     /* an array of {"role", "content"}; owned */
    time_t started;       /* the time that the chat template sees */
    char *model;          /* the model's name */
    uint64_t fingerprint; /* of the model */
    SessionFile file;     /* stays locked; not used where there is a courier */
    Courier *courier;     /* process that writes to the file; NULL: this one */
    KvFile *kv;           /* NULL: no cache is saved */
} Conversation;

/* Begins a conversation that is not saved. */
Status conversation_new(Conversation *conversation, const char *model, uint64_t fingerprint,
                        Error *error);

/* Opens `path` or creates it (mode 0600; a symbolic link is not followed). Fails for a conversation
 * with another model and for one that another process has open. A damaged file is not a failure:
 * the messages before the damage are kept, the damaged file is renamed to PATH.damaged, and `note`
 * (which may be NULL) says so. Without such a remark `note` is empty. */
Status conversation_open(Conversation *conversation, const char *path, const char *model,
                         uint64_t fingerprint, const KvShape *shape, Error *note, Error *error);
/* As conversation_open, with files that are open, whose ownership passes to the conversation, and
 * `courier` (NULL: none), which was started with them. A `note` that holds a remark keeps it unless
 * there is another. */
Status conversation_open_file(Conversation *conversation, SessionFile *file, Courier *courier,
                              const char *model, uint64_t fingerprint, const KvShape *shape,
                              Error *note, Error *error);
void conversation_close(Conversation *conversation);

/* Adds a message and syncs it to the file. The text must be UTF-8. */
Status conversation_append(Conversation *conversation, const char *role, const char *content,
                           size_t length, Error *error);

/* Adds an answer with what the model thought before it, as "reasoning_content" (NULL: nothing), and
 * how it was made (made_with.h), an object that it takes over and seals (conversation_seal). */
Status conversation_append_answer(Conversation *conversation, const char *content, size_t length,
                                  const char *reasoning, size_t reasoning_length, json_t *made_with,
                                  Error *error);

/* The seal of the answer that is message i, a new reference: SHA-256 of the conversation's start,
 * the seal of the sealed answer before it (null: none) and the messages since then, this one with
 * what "made_with" says included, as compact JSON with sorted keys. It tells that a message was
 * changed by accident; it is not a signature. NULL: no memory. */
json_t *conversation_seal(const Conversation *conversation, size_t i);

/* Adds a message of this form, which it takes over. */
Status conversation_append_message(Conversation *conversation, json_t *message, Error *error);

/* Keeps only the first n messages. When this or a change below fails, both the messages and the
 * file are as before. */
Status conversation_truncate(Conversation *conversation, size_t n, Error *error);

/* Sets the system prompt, which is always the first message; NULL removes it. */
Status conversation_set_system(Conversation *conversation, const char *content, Error *error);

/* The first line of its file, {"verbatim_session", "model", "fingerprint", "started"}: a new
 * reference; NULL: no memory. */
json_t *conversation_header(const Conversation *conversation);

/* The contents of a file with this conversation; NUL-terminated, freed by the caller. */
Status conversation_text(const Conversation *conversation, char **text, size_t *length,
                         Error *error);

/* The messages in the contents of the file `path`, whole, as a new array. */
Status conversation_read(const char *path, const char *text, size_t length, json_t **messages,
                         Error *error);

/* Replaces the messages with those in the contents of another conversation's file, of any model;
 * `path` is that file's name, for errors. */
Status conversation_adopt(Conversation *conversation, const char *path, const char *text,
                          size_t length, Error *error);

size_t conversation_length(const Conversation *conversation);
const char *conversation_role(const Conversation *conversation, size_t i);
const char *conversation_content(const Conversation *conversation, size_t i);

#endif
