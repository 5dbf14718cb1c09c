#include "modes/chat/chat_mode.h"

#include "modes/proof/proof_options.h"
#include "modes/inspect/inspect_options.h"
#include "modes/chat/chat_options.h"
#include "modes/chat/chat.h"

static bool chat_asked(const Options *options) {
    return options->mode == TEXT_CHAT;
}

#define usage(...) (error_set(__VA_ARGS__), STATUS_USAGE)

/* Refuses options that would be ignored. */
static Status chat_check(Options *o, Error *error) {
    const InspectOptions *inspect = inspect_options(o);
    const ProofOptions *proof = proof_options(o);
    const ChatOptions *chat = chat_options(o);
    bool reasons = o->reasoning != REASONING_AUTO || o->reasoning_effort || o->hide_reasoning ||
                   options_given(o, &o->reasoning_budget);
    if (o->mode == TEXT_CHAT && o->echo)
        return usage(error, "--echo writes the prompt of one text: not with -m chat");
    if (o->mode == TEXT_CHAT && o->prompt && !*o->prompt && !o->prompt_file)
        return usage(error, "-i is empty: there is no message to answer");
    if (o->mode == TEXT_CHAT) return STATUS_OK;
    if (chat->single_turn) return usage(error, "--single-turn is for -m chat");
    if (chat->session && !proof->replay)
        return usage(error, "--session keeps a conversation: use it with -m chat");
    if (o->batch || inspect->render || proof->replay || proof->check_session) return STATUS_OK;
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
