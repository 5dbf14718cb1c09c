#include "modes/open/draft_opening.h"

#include "base/machine.h"

/* Texts that are drafted for at once: with more than so many rows a pass has none to spare. */
enum { MOST_TEXTS = 16 };

Status draft_opening_begin(DraftOpening *draft, const Session *session, Error *error) {
    const Options *o = session->options;
    if (!o->draft_model) return STATUS_OK;
    return modelopen_begin(&draft->opening, o->draft_model, NULL, o, session->interrupted, error);
}

/* An eighth of the machine's memory. */
static size_t cache_bytes(void) {
    return (size_t)(machine_memory() / 8.0);
}

/* Opens the draft model with its tokenizer, maps its tokens to the session's, and makes what the
 * drafters of all texts share. */
static Status open_model(DraftOpening *draft, const Session *session, Error *error) {
    const Options *o = session->options;
    ModelOptions options = session_model_options(session);
    options.context = 0;
    Status status =
        modelopen_finish(&draft->opening, session, session->n_threads, &draft->file, error);
    if (status == STATUS_OK)
        status = modelopen_tokenizer(&draft->opening, draft->file, &draft->tokenizer, error);
    if (status != STATUS_OK) return status;
    if (!draft->tokenizer) return error_set(error, "it has no tokenizer");
    status = model_open(&draft->model, draft->file, &options, error);
    if (status != STATUS_OK) return status;
    size_t n = model_config(draft->model)->vocab_size;
    status = token_map_new(&draft->map, session->tokenizer,
                           model_config(session->model)->vocab_size, draft->tokenizer, n, error);
    if (status != STATUS_OK) return status;
    const DraftModelOptions shared = {.kv_type = session_kv_type(draft->model, o->kv_type),
                                      .max_texts = o->batch ? MOST_TEXTS : 1,
                                      .max_bytes = cache_bytes()};
    return draft_model_new(&draft->shared, draft->model, draft->map, &shared, error);
}

Status draft_opening_finish(DraftOpening *draft, const Session *session, Error *error) {
    if (!session->options->draft_model || !session->model || !session->tokenizer) return STATUS_OK;
    Status status = open_model(draft, session, error);
    return status == STATUS_FAILED
               ? error_prefix(error, "--draft-model %s", session->options->draft_model)
               : status;
}

void draft_opening_close(DraftOpening *draft) {
    draft_model_free(draft->shared);
    token_map_free(draft->map);
    model_close(draft->model);
    tokenizer_close(draft->tokenizer);
    modelfile_close(draft->file);
    modelopen_close(&draft->opening);
}
