#include "modes/open/weights_opening.h"

#include "layers/model_watch.h"
#include "modes/open/fit.h"
#include "modes/open/overrides.h"
#include "session/embedding.h"
#include "session/mode.h"
#include "system/terminal.h"

/* A model has fewer threads than it was given where a limit has no room for them. */
static void take_threads(Session *session) {
    const int n = model_threads(session->model);
    if (n < session->n_threads)
        terminal_say(
            "%d of %d threads: the address space is limited (ulimit -v), and each thread's stack "
            "takes some of it",
            n, session->n_threads);
    session->n_threads = n;
}

/* Applies --override. */
static Status change_model(Session *session, ModelOptions *options, MaskOverride *masks,
                           BranchOffList *off, Error *error) {
    const Options *o = session->options;
    Config *config = modelfile_config_to_change(session->file);
    Overrides overrides;
    if (o->override.n == 0) return STATUS_OK;
    Status status = overrides_apply(&overrides, &o->override, config, error);
    session->overridden = overrides.text;
    options->rope_theta = overrides.rope_theta;
    *masks = overrides.masks;
    *off = overrides.off;
    if (status != STATUS_OK) return status;
    if (masks_any(masks)) status = masks_prepare(config, options, error);
    session->sees_future = masks_see_future(masks);
    return status;
}

/* A model larger than the free memory runs, but slowly: said before its first token. Of ranks each
 * holds a part. */
static void warn_of_size(const Session *session) {
    char text[256];
    const Options *o = session->options;
    static const char *const describing[] = {"info", "layers", NULL};
    if (!options_ask_any(o, describing) && !session->cluster &&
        fit_warning(session, session->free_memory, text, sizeof text))
        terminal_say("%s: %s", o->model, text);
}

/* Opens the model with the changes that the options ask for: overridden fields and masks, ranks,
 * threads. */
Status weights_opening_start(WeightsOpening *weights, Session *session, unsigned traits,
                             const Ranks *ranks, Error *error) {
    const Options *o = session->options;
    MaskOverride masks = {.mask = MASK_MODEL};
    BranchOffList off = {.n = 0};
    const Config *config = modelfile_config(session->file);
    ModelOptions options = session_model_options(session);
    if (modelfile_n_tensors(session->file) == 0 && options_ask(o, "info"))
        return STATUS_OK; /* a vocabulary */
    if (o->context > config->context)
        terminal_say("the model was made for %u positions; more than these may not make sense",
                     config->context);
    Status status = change_model(session, &options, &masks, &off, error);
    if (status == STATUS_OK && !(traits & MODE_WITHOUT_HEAD))
        status = embedding_refuse_text(session->file, error);
    options.exchange = ranks->exchange;
    if (status == STATUS_OK) status = model_open(&session->model, session->file, &options, error);
    if (status == STATUS_OK) take_threads(session);
    if (status == STATUS_OK && masks_any(&masks))
        status = masks_apply(&weights->masks, session->model, &masks, error);
    if (status == STATUS_OK && off.n > 0)
        status = branches_off_apply(&weights->branches_off, session->model, &off, error);
    if (status != STATUS_OK) return status;
    /* On stderr as well, so that no output is taken for the model's own. */
    if (session->overridden && !options_ask(o, "info") && ranks->leads)
        terminal_say("overridden: %s", session->overridden);
    adaptive_threads_init(&weights->threads, session->interrupted);
    session->threads = &weights->threads;
    model_add_observer(session->model, &weights->threads.observer);
    session->kv_type = session_kv_type(session->model, o->kv_type);
    warn_of_size(session);
    return STATUS_OK;
}

/* Chooses which weights stay in memory when not all of them fit, and asks between few of them
 * whether to stop, which a chat goes on after: a pass may then take seconds. Of ranks each reads a
 * part, in its own order. */
void weights_opening_keep(WeightsOpening *weights, Session *session) {
    static const double PART_FROM_DISK = 1e8; /* multiply-adds with some 100 MB */
    double free_bytes = session->free_memory;
    for (size_t i = 0; session->adapters && i < session->adapters->n; i++)
        free_bytes -= (double)session->adapters->items[i].bytes;
    size_t kept = session->cluster ? SIZE_MAX : kept_weights_bytes(session->file, free_bytes);
    if (kept == SIZE_MAX) return;
    weights->kept = kept_weights_open(session->model, session->file, kept, 0);
    weights->threads.observer.part_work = PART_FROM_DISK;
}

void weights_opening_close(WeightsOpening *weights) {
    kept_weights_close(weights->kept);
    masks_free(weights->masks);
    branches_off_free(weights->branches_off);
}
