#include "modes/chat/chat_mode.h"

#include <stddef.h>

#include "modes/chat/chat.h"

#define FIELD(name) offsetof(Options, name)

const OptionRow chat_options[] = {
    HEADING_ROW("Chat (-m chat); reasoning options are for --batch, too"),
    CHOICE_ROW(USUAL, 'm', "mode", "generate|chat", FIELD(mode), NULL,
               "continue a text [generate], or chat"),
    TEXT_ROW(USUAL, 'y', "system", "TEXT", FIELD(system), "the system prompt of a chat; or @FILE"),
    FLAG_ROW(USUAL, 0, "single-turn", FIELD(single_turn),
             "stdin is one message; answer it and exit"),
    TEXT_ROW(USUAL, 0, "session", "FILE", FIELD(session),
             "save the conversation to FILE, or continue it"),
    TEXT_ROW(RARE, 0, "chat-template", "FILE", FIELD(chat_template),
             "a Jinja template instead of the model's"),
    CHOICE_ROW(RARE, 0, "reasoning", "auto|on|off", FIELD(reasoning), NULL,
               "think before answering [auto]; --hide-reasoning"),
    TEXT_ROW(RARE, 0, "reasoning-effort", "HOW", FIELD(reasoning_effort),
             "low, medium or high, as the template knows them"),
    UINT_ROW(RARE, 0, "reasoning-budget", FIELD(reasoning_budget), 0, 1e9,
             "at most N tokens of reasoning [no limit]"),
    FLAG_ROW(RARE, 0, "hide-reasoning", FIELD(hide_reasoning), NULL),
    END_ROW,
};

static bool chat_asked(const Options *options) {
    return options->mode == TEXT_CHAT;
}

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* Refuses options that would be ignored. */
static Status chat_check(Options *o, Error *error) {
    bool reasons = o->reasoning != REASONING_AUTO || o->reasoning_effort || o->hide_reasoning ||
                   options_given(o, &o->reasoning_budget);
    if (o->mode == TEXT_CHAT && o->echo)
        return usage(error, "--echo writes the prompt of one text: not with -m chat");
    if (o->mode == TEXT_CHAT && o->prompt && !*o->prompt && !o->prompt_file)
        return usage(error, "-i is empty: there is no message to answer");
    if (o->mode == TEXT_CHAT) return STATUS_OK;
    if (o->single_turn) return usage(error, "--single-turn is for -m chat");
    if (o->session && !o->replay)
        return usage(error, "--session keeps a conversation: use it with -m chat");
    if (o->batch || o->render || o->replay || o->check_session) return STATUS_OK;
    if (o->system || o->chat_template)
        return usage(error, "-y and --chat-template are for -m chat and --batch");
    if (!reasons) return STATUS_OK;
    error_set(error,
              "--reasoning, --reasoning-effort, --reasoning-budget and --hide-reasoning need "
              "-m chat or --batch");
    return STATUS_USAGE;
}

static Status open_chat(void **state, const Session *session, SandboxRules *rules, Error *error) {
    return chat_prepare((Chat **)state, session->options, session->interrupted, rules, error);
}

static Status run_chat(void *state, Session *session, Error *error) {
    return chat_run(state, session, error);
}

static void close_chat(void *state) {
    chat_free(state);
}

const Mode chat_mode = {.asked = chat_asked,
                        .check = chat_check,
                        .open = open_chat,
                        .run = run_chat,
                        .close = close_chat};
