#include "modes/batch/answering.h"

#include <stdlib.h>

#include "modes/batch/batch_options.h"
#include "kvcache/kvcache_sizes.h"
#include "session/generation_options.h"

Status answering_begin(Answering *a, const Session *session, Error *error) {
    const Options *o = session->options;
    a->session = session;
    Status status = session_generation_options(session, &a->defaults, error);
    if (status != STATUS_OK) return status;
    if (!options_given(o, &o->seed)) a->defaults.sampling.seed = 0;
    if (chat_prompt_open(&a->chat, session, error) != STATUS_OK) return STATUS_FAILED;
    chat_prompt_end(&a->chat, &a->defaults);
    a->chat.now = chat_prompt_request_time();
    return STATUS_OK;
}

Status answering_settle(Answering *a, Error *error) {
    const Session *session = a->session;
    const Config *config = model_config(session->model);
    batch_fingerprint(a->fingerprint, session, &a->defaults, &a->chat);
    Status status = embedding_setting(session, &a->embedding, error);
    a->maker = (ResultMaker){.tokenizer = session->tokenizer,
                             .model = config->name[0] ? config->name : "verbatim",
                             .fingerprint = a->fingerprint,
                             .answers = &a->chat.answers,
                             .hides_reasoning = session->options->hide_reasoning,
                             .tells_line = batch_options(session->options)->live};
    a->setting = (JobSetting){
        .session = session, .chat = &a->chat, .maker = &a->maker, .embedding = &a->embedding};
    return status;
}

/* How many texts to generate at once: as many as the cache can hold if they are of middling length.
 * When they are longer, the engine sets some aside. More cores compute more rows in the time in
 * which the weights are read once. */
static size_t choose_concurrency(const Session *session, const KvShape *shape, size_t kv_bytes) {
    const BatchOptions *batch = batch_options(session->options);
    enum { MIDDLING = 512, LEAST_MOST = 64, OF_A_CORE = 32 };
    size_t most = OF_A_CORE * (size_t)session->n_threads, rows = model_max_rows(session->model);
    if (most > rows) most = rows;
    if (most < LEAST_MOST) most = LEAST_MOST;
    size_t context = model_context(session->model);
    size_t positions = context < MIDDLING ? context : MIDDLING;
    size_t each = kvcache_sequence_bytes(shape, positions > 0 ? positions : 1);
    size_t n = each > 0 ? kv_bytes / each : most; /* a model may store nothing */
    if (batch->max_concurrent) return (size_t)batch->max_concurrent;
    return n < 1 ? 1 : n > most ? most : n;
}

Status answering_start(Answering *a, size_t kv_bytes, size_t draft_rows, Error *error) {
    const Session *session = a->session;
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    const EngineOptions options = {.draft_rows = draft_rows,
                                   .max_tasks = choose_concurrency(session, &shape, kv_bytes),
                                   .max_bytes = kv_bytes,
                                   .snapshot_bytes = kv_bytes / 100 * session->options->snapshots,
                                   .kv_type = session->kv_type,
                                   .lora = session->adapters ? session->adapters->lora : NULL};
    if (engine_new(&a->engine, session->model, &options, error) != STATUS_OK) return STATUS_FAILED;
    a->max_tasks = options.max_tasks;
    a->read_ahead = options.max_tasks < 16 ? 16 : options.max_tasks;
    return STATUS_OK;
}

void answering_end(Answering *a) {
    engine_free(a->engine);
    a->engine = NULL;
    chat_prompt_close(&a->chat);
}

json_t *answering_info(const Answering *a) {
    const Model *model = a->session->model;
    const Config *config = model_config(model);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", a->maker.model, "version",
                     VERBATIM_VERSION, "numeric_revision", (json_int_t)NUMERIC_REVISION, "context",
                     (json_int_t)model_context(model), "vocab_size", (json_int_t)config->vocab_size,
                     "dim", (json_int_t)config->dim, "max_concurrent", (json_int_t)a->max_tasks);
}
