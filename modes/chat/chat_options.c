#include "modes/chat/chat_options.h"

#define FIELD(name) offsetof(ChatOptions, name)

static const ChatOptions unset;

static const OptionRow rows[] = {
    FLAG_ROW(USUAL, 0, "single-turn", FIELD(single_turn),
             "stdin is one message; answer it and exit"),
    TEXT_ROW(USUAL, 0, "session", "FILE", FIELD(session),
             "save the conversation to FILE, or continue it"),
    END_ROW,
};
const ModeOptions chat_option_table = {rows, &unset, sizeof unset};

const ChatOptions *chat_options(const Options *options) {
    return options_of(options, &unset);
}

ChatOptions *chat_options_to_set(Options *options) {
    return options_to_set(options, &unset);
}
