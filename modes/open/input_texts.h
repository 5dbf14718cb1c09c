/* The texts that options name: -i and -f, -y @FILE, --chat-template. Their files are opened first
 * and read when the process has given up its rights. */
#ifndef INPUT_TEXTS_H
#define INPUT_TEXTS_H

#include "session/session.h"

typedef struct InputText {
    const char *name; /* for errors */
    int fd;           /* -1: none */
    char *text;       /* once it is read; NUL-terminated, owned */
    size_t length;
} InputText;

typedef struct InputTexts {
    InputText prompt; /* of -i, -f, --eval or stdin */
    InputText system; /* of -y @FILE */
    InputText chat_template;
} InputTexts;

/* What input_texts_close accepts. */
#define INPUT_TEXTS_NONE ((InputTexts){.prompt.fd = -1, .system.fd = -1, .chat_template.fd = -1})

/* Opens the files that the options name. */
Status input_texts_open(InputTexts *texts, const Options *options, Error *error);

/* Reads them into the session and, of -y @FILE, into the options. An empty file is remarked upon
 * where the mode `continues` its text. */
Status input_texts_read(InputTexts *texts, Options *options, bool continues, Session *session,
                        Error *error);

/* Says that text waits on stdin which nothing reads. */
void input_texts_hint_at_stdin(const InputTexts *texts, const Options *options);

void input_texts_close(InputTexts *texts);

#endif
