/* A text that `run` has continued, as the one item of a receipt. */
#ifndef RECEIPT_TEXT_ITEM_H
#define RECEIPT_TEXT_ITEM_H

#include "receipts/receipt.h"

/* For Session.answered. */
Status receipt_take_text(const Session *session, const AnsweredText *text, Error *error);

#endif
