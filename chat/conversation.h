/* A conversation in files: messages that any program can read, and the cache beside them.
 *
 * FILE holds JSON lines: first one that names the model, then a line a message,
 * {"role": ..., "content": ...}. A message is appended and synced when it is complete, so that
 * a kill loses at most the answer in progress; what is undone is taken out by replacing the file
 * atomically. FILE.kv holds the key/value pages (kvfile.h): only speed depends on it. */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include <jansson.h>
#include <stdint.h>
#include <time.h>

#include "chat/kvfile.h"

typedef struct Conversation {
    char *path;       /* NULL: the conversation lives in memory only */
    json_t *messages; /* an array of {"role", "content"}; owned */
    time_t started;   /* what the template's clock shows */
    char *model;      /* what the model calls itself */
    uint64_t fingerprint;
    int fd;     /* locked while the session is open; -1: none */
    KvFile *kv; /* NULL: none */
} Conversation;

/* A conversation that is not saved. */
Status conversation_new(Conversation *conversation, const char *model, uint64_t fingerprint,
                        Error *error);

/* Opens `path` or creates it (mode 0600; a symbolic link is not followed). A session of another
 * model is refused, as is one that another process has open. Damage is no failure: what can
 * be read is kept, the file as it was is set aside as PATH.damaged, and `note` (which may be
 * NULL) says so; it is empty otherwise. */
Status conversation_open(Conversation *conversation, const char *path, const char *model,
                         uint64_t fingerprint, const KvShape *shape, Error *note, Error *error);
void conversation_close(Conversation *conversation);

/* Adds a message and makes it durable. The text must be UTF-8. */
Status conversation_append(Conversation *conversation, const char *role, const char *content,
                           size_t length, Error *error);

/* Keeps only the first n messages. This and the changes below leave both messages and file as
 * they were when they fail. */
Status conversation_truncate(Conversation *conversation, size_t n, Error *error);

/* The system prompt, always the first message; NULL removes it. */
Status conversation_set_system(Conversation *conversation, const char *content, Error *error);

/* The whole conversation as its file would hold it; NUL-terminated, freed by the caller. */
Status conversation_text(const Conversation *conversation, char **text, size_t *length,
                         Error *error);

/* Takes over the messages of another conversation's text, of any model; `path` for messages. */
Status conversation_adopt(Conversation *conversation, const char *path, const char *text,
                          size_t length, Error *error);

size_t conversation_length(const Conversation *conversation);
const char *conversation_role(const Conversation *conversation, size_t i);
const char *conversation_content(const Conversation *conversation, size_t i);

#endif
