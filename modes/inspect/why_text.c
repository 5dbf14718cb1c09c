#include "modes/inspect/why_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modes/inspect/inspect_options.h"
#include "convert/text_windows.h"
#include "modes/inspect/residuals.h"
#include "modes/inspect/why.h"
#include "session/logprobs.h"

typedef struct Asking {
    const Session *session;
    TextWindows windows;
    KvType other_kv_type;
    size_t n_rows, first;  /* rows of a run; the first of them that is an item */
    const WhyAsked *asked; /* of the run */
    size_t *answers;       /* [items] */
    bool is_enough;        /* an answer was another than the one expected */
    float *exps;           /* [vocab_size] */
} Asking;

/* WindowRun.wants */
static bool is_wanted(void *context, size_t row) {
    const Asking *a = context;
    return row >= a->first && (!a->asked->wanted || a->asked->wanted[row - a->first]);
}

static void collect_row(Asking *a, const float *logits, size_t item) {
    const WhyAsked *asked = a->asked;
    size_t vocab_size = modelfile_config(a->session->file)->vocab_size;
    a->answers[item] = logprobs_argmax(logits, vocab_size);
    a->is_enough |= asked->expected && a->answers[item] != asked->expected[item];
    if (!asked->logprobs) return;
    double sum = logprobs_log_sum(a->session->isa->numeric, logits, vocab_size, a->exps, NULL);
    asked->logprobs[item][0] = (double)logits[asked->own[item]] - sum;
    asked->logprobs[item][1] = (double)logits[asked->other[item]] - sum;
}

/* WindowRun.rows */
static Status collect_rows(void *context, const float *logits, size_t first, size_t n,
                           size_t tokens, Error *error) {
    (void)tokens, (void)error;
    Asking *a = context;
    size_t vocab_size = modelfile_config(a->session->file)->vocab_size;
    for (size_t row = first; row < first + n; row++) {
        if (!is_wanted(a, row)) continue;
        collect_row(a, logits, row - a->first);
        logits += vocab_size;
    }
    return STATUS_OK;
}

/* WindowRun.cut: the rows up to the last item that is wanted; none after the window that ends the
 * trial. */
static size_t wanted_rows(void *context, size_t first, size_t n) {
    Asking *a = context;
    if (a->is_enough) return 0;
    while (n > 0 && !is_wanted(a, first + n - 1)) n--;
    return n;
}

/* WhyItems.answer for a text: opens a model on `file`, which may hold exchanged tensors, and takes
 * the likeliest token at each position that is asked for. */
static Status answer(void *context, const ModelFile *file, const WhyAsked *asked, size_t *answers,
                     Error *error) {
    Asking *a = context;
    const ModelOptions options = session_model_options(a->session);
    const KvType kv_type = file == a->session->file ? a->session->kv_type : a->other_kv_type;
    WindowRun run = {.kv_type = &kv_type,
                     .cut = wanted_rows,
                     .wants = is_wanted,
                     .rows = collect_rows,
                     .context = a,
                     .cancel = a->session->interrupted};
    a->asked = asked;
    a->answers = answers;
    a->is_enough = false;
    if (model_open(&run.model, file, &options, error) != STATUS_OK) return STATUS_FAILED;
    residuals_observe(asked->observer, run.model);
    Status status = text_windows_run(&a->windows, &run, error);
    model_close(run.model);
    return status;
}

static void name(void *context, size_t i, size_t token, char *place, char *text, size_t size) {
    const Asking *a = context;
    size_t length;
    const char *bytes = tokenizer_token_text(a->session->tokenizer, (int32_t)token, &length);
    json_t *json = json_stringn(bytes, length);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    snprintf(place, size, "after row %zu", a->first + i + 1);
    snprintf(text, size, "%s", quoted ? quoted : "a token that is no text");
    free(quoted);
    json_decref(json);
}

static Status explain(Asking *a, ModelFile *other, Error *error) {
    const Config *own = modelfile_config(a->session->file);
    WhyItems items = {.answer = answer, .name = name, .context = a};
    a->n_rows = text_windows_rows(&a->windows);
    items.n = a->n_rows - a->first;
    a->exps = malloc(own->vocab_size * sizeof *a->exps);
    if (!a->exps) return error_set(error, "no memory for probabilities");
    Status status = why_run(a->session, other, &items, error);
    free(a->exps);
    return status;
}

Status why_text_run(const Session *session, ModelFile *other, KvType kv_type, Error *error) {
    enum { WINDOW = 512 };
    Asking a = {.session = session, .windows = {.bos = -1}, .other_kv_type = kv_type};
    size_t context = model_context(session->model);
    unsigned flags = session->options->special ? TOKENIZE_PARSE_SPECIAL : 0;
    Status status = tokenizer_encode(session->tokenizer, session->prompt, session->prompt_length,
                                     NULL, flags, &a.windows.ids, error);
    a.windows.window = (context < WINDOW ? context : WINDOW) - 1;
    if (tokenizer_adds_bos(session->tokenizer)) a.windows.bos = tokenizer_bos(session->tokenizer);
    uint64_t limit = inspect_options(session->options)->limit;
    if (limit && limit < a.windows.ids.length) a.windows.ids.length = (size_t)limit;
    if (status == STATUS_OK) status = explain(&a, other, error);
    text_windows_close(&a.windows);
    return status;
}

Status why_text_parting(const Session *session, ModelFile *other, KvType kv_type,
                        const int32_t *ids, size_t n, Error *error) {
    Asking a = {.session = session,
                .windows = {.bos = -1, .window = n},
                .other_kv_type = kv_type,
                .first = n - 1};
    for (size_t i = 0; i < n; i++)
        if (!token_list_push(&a.windows.ids, ids[i])) {
            text_windows_close(&a.windows);
            return error_set(error, "no memory for the text");
        }
    Status status = explain(&a, other, error);
    text_windows_close(&a.windows);
    return status;
}
