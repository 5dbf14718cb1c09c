/* The options of chats alone; all modes know the options about messages. */
#ifndef CHAT_OPTIONS_H
#define CHAT_OPTIONS_H

#include "session/options.h"

typedef struct ChatOptions {
    bool single_turn;    /* stdin, -i or -f is one message */
    const char *session; /* the conversation's file */
} ChatOptions;

extern const ModeOptions chat_option_table;

/* The ChatOptions among the command line's options. */
const ChatOptions *chat_options(const Options *options);
ChatOptions *chat_options_to_set(Options *options);

#endif
