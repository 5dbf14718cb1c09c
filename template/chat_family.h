/* Templates of our own for models that come without one.
 *
 * Fine-tunes are published, and converted, without their chat template; what is left of it in the
 * file are the tokens that it wrote. A vocabulary that holds them names the family. */
#ifndef CHAT_FAMILY_H
#define CHAT_FAMILY_H

#include "tokenizer.h"

typedef struct ChatFamily {
    const char *name;      /* "chatml" ... */
    const char *tokens[3]; /* tokens that the vocabulary must hold; NULL-terminated */
    const char *end;       /* the token that ends a turn */
    const char *text;      /* the template */
} ChatFamily;

/* The family whose tokens are all in the vocabulary; NULL for none. */
const ChatFamily *chat_family_find(const Tokenizer *tokenizer);

/* The one of that name, or NULL. */
const ChatFamily *chat_family_named(const char *name);

/* Lines of "Role: content", for a model of no family. */
const char *chat_family_plain(void);

#endif
