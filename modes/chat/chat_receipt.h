/* Receipts of a chat: the answers of a conversation as it stands at its end. */
#ifndef CHAT_RECEIPT_H
#define CHAT_RECEIPT_H

#include "modes/chat/dialogue.h"
#include "session/mode.h"

/* Adds an item to session->receipt for each answer whose message says that it was made with these
 * settings; the messages before it, back to the item before, are its prompt. */
Status chat_receipt_add(const Dialogue *dialogue, Error *error);

/* Gives the next answer as made_with (made_with.h) says: its settings, seed and length. What the
 * user has interrupted ends where it was interrupted, and says so as well; *interrupted is then
 * set: that cannot be checked. */
Status chat_receipt_repeat(Dialogue *dialogue, const json_t *made_with, bool *interrupted,
                           Error *error);

/* The mode in Session.replay_kinds that repeats a chat's answers. */
extern const Mode chat_replay;

#endif
