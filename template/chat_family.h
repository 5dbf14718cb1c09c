/* Chat templates of our own for models that come without one.
 *
 * Fine-tuned models are often published or converted without their chat template, but the control
 * tokens that the template wrote are still in the vocabulary. They tell which family of templates
 * the model was trained with. */
#ifndef CHAT_FAMILY_H
#define CHAT_FAMILY_H

#include "tokenizer.h"

typedef struct ChatFamily {
    const char *name;      /* "chatml" ... */
    const char *tokens[3]; /* control tokens that the vocabulary must hold; NULL-terminated */
    const char *end;       /* the token that ends a turn; the vocabulary must hold it, too */
    const char *text;      /* the template */
} ChatFamily;

/* The first family whose tokens are all in the vocabulary, or NULL. */
const ChatFamily *chat_family_find(const Tokenizer *tokenizer);

/* The family with this name, or NULL. */
const ChatFamily *chat_family_named(const char *name);

/* The template for a model of no family: lines of "Role: content". */
const char *chat_family_plain(void);

#endif
