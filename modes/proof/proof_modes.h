/* --replay RECEIPT and the kinds of records that --check takes: options, and entries in the table
 * of modes. */
#ifndef PROOF_MODES_H
#define PROOF_MODES_H

#include "session/generate.h"
#include "session/mode.h"

/* Finds out what kind of record --check names, before the other modes look at the options: a
 * receipt is replayed, a conversation goes to `check_session`. The first of the table. */
extern const Mode proof_record_kind_mode;

extern const Mode proof_replay_mode;

/* Session.replay_kinds are the modes that repeat the answers of each kind of receipt, which is
 * their name: modes/modes.c has the table, because they lie in the folders of what they repeat.
 * Which kind a receipt is, is known only when it is read, so that all of them are opened and one
 * runs. */
enum { REPLAY_MOST_KINDS = 4 };

/* Replays the receipt of one text. */
extern const Mode proof_replay_text;

/* generate_run with the receipt of its text, where the session keeps one. */
Status proof_generate(Session *session, const GenerateRecord *record, Error *error);

#endif
