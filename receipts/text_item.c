#include "receipts/text_item.h"

Status receipt_take_text(const Session *session, const AnsweredText *text, Error *error) {
    Receipt *r = session->receipt;
    if (receipt_settings(r, session, text->options, NULL, error) != STATUS_OK) return STATUS_FAILED;
    json_t *answer = receipt_answer(&text->options->sampling, text->bytes, text->length,
                                    text->n_tokens, text->finish);
    json_t *item = json_pack("{s:o, s:[o], s:[o]}", "prompt",
                             receipt_text(r, session->prompt, session->prompt_length),
                             "prompt_tokens", receipt_tokens(r, text->prompt), "answers", answer);
    return receipt_item(r, 1, item, error);
}
