/* Receipts of a chat: the answers of a conversation as it stands at its end. */
#ifndef CHAT_RECEIPT_H
#define CHAT_RECEIPT_H

#include "chat/dialogue.h"
#include "session/mode.h"

/* Adds an item to session->receipt for each answer whose message says that it was made with these
 * settings; the messages before it, back to the item before, are its prompt. */
Status chat_receipt_add(const Dialogue *dialogue, Error *error);

/* Of Session.replay_kinds: gives the answers once more. */
extern const Mode chat_replay;

#endif
