/* What a chat holds, for the files that it is made of: the loop (chat.c), one turn (turn.h) and the
 * commands (commands.h). */
#ifndef CHAT_STATE_H
#define CHAT_STATE_H

#include <signal.h>

#include "modes/chat/answer_view.h"
#include "modes/chat/courier.h"
#include "modes/chat/dialogue.h"
#include "modes/chat/line_editor.h"

typedef struct Chat {
    Session *session;
    Dialogue dialogue;
    LineEditor *editor;
    Courier courier;
    volatile sig_atomic_t *interrupted;
    bool leaves; /* after /quit */
    AnswerView view;
    AnswerStats last;
    size_t n_failed;  /* messages and commands from a pipe */
    size_t n_cut;     /* answers that did not end by themselves */
    char *returned;   /* the message that did not fit, for /edit; NULL: none */
    SessionFile file; /* until the conversation takes it over */
    Error file_note;
    Error unkept; /* why PATH.kv was not written, until it is shown; "": nothing */
    char state_directory[4096];
} Chat;

#endif
