#include "modes/batch/request_prompt.h"

#include <string.h>

#include "session/generate.h"

Status request_prompt_cut(const Session *session, PromptCut *cut, size_t prefix, const char *what,
                          TokenList *ids, Error *error) {
    size_t context = model_context(session->model);
    if (cut->asked && cut->most > 0 && ids->length > (size_t)cut->most) {
        size_t most = (size_t)cut->most, drop = ids->length - most;
        if (prefix >= most) prefix = 0;
        memmove(ids->ids + prefix, ids->ids + prefix + drop, (most - prefix) * sizeof *ids->ids);
        ids->length = most;
        cut->dropped += drop;
    }
    if (ids->length <= context || ids->length - context <= cut->beyond) return STATUS_OK;
    return error_set(error, "%s %zu tokens long, but the context has %zu positions", what,
                     ids->length, context);
}

Status request_prompt_prefix(const Session *session, BosChoice bos, size_t *n, Error *error) {
    TokenList ids = {0};
    *n = bos == BOS_YES ? 1 : 0;
    if (bos != BOS_AUTO) return STATUS_OK;
    Status status =
        tokenizer_encode(session->tokenizer, "", 0, NULL, TOKENIZE_ADD_BOS, &ids, error);
    *n = ids.length;
    token_list_free(&ids);
    return status;
}

Status request_prompt_text(const Session *session, const char *text, size_t length, PromptCut *cut,
                           TokenList *ids, Error *error) {
    const Options *o = session->options;
    size_t prefix = 0;
    if (!cut->asked && cut->beyond == 0) {
        Session alone = *session;
        alone.prompt = (char *)text;
        alone.prompt_length = length;
        return generate_prompt_ids(&alone, ids, error);
    }
    if (request_prompt_prefix(session, o->bos, &prefix, error) != STATUS_OK) return STATUS_FAILED;
    const GenerationText whole = {text, length, o->special, o->bos};
    Status status = generation_prompt_ids(session->model, session->file, session->tokenizer, &whole,
                                          ids, error);
    /* That it is too long is what cutting is for; all ids are there. */
    if (status != STATUS_OK && ids->length <= model_context(session->model)) return status;
    return request_prompt_cut(session, cut, prefix, "the prompt is", ids, error);
}

/* Reads a prompt that is a list of token ids. */
static Status read_token_ids(const Session *session, const json_t *list, PromptCut *cut,
                             TokenList *ids, Error *error) {
    size_t vocab = model_config(session->model)->vocab_size, n = json_array_size(list);
    if (n == 0) return error_set(error, "'prompt': an empty list of token ids");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || (size_t)value >= vocab)
            return error_set(error, "'prompt': element %zu is not a token id from 0 to %zu", i + 1,
                             vocab - 1);
        if (!token_list_push(ids, (int32_t)value))
            return error_set(error, "no memory for a prompt");
    }
    return request_prompt_cut(session, cut, 0, "the prompt is", ids, error);
}

Status request_prompt_json(const Session *session, const json_t *prompt, PromptCut *cut,
                           TokenList *ids, Error *error) {
    if (json_is_string(prompt))
        return request_prompt_text(session, json_string_value(prompt), json_string_length(prompt),
                                   cut, ids, error);
    if (json_is_array(prompt)) return read_token_ids(session, prompt, cut, ids, error);
    return error_set(error, "'prompt' must be a text, a list of token ids, or a list of these");
}
