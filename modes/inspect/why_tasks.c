#include "modes/inspect/why_tasks.h"

#include <stdio.h>
#include <stdlib.h>

#include "modes/inspect/residuals.h"
#include "modes/inspect/why.h"

typedef struct Questions {
    const Session *session;
    const TaskItem **items; /* [n] with choices */
    size_t n;
    KvType other_kv_type;
} Questions;

static Status ask(const Questions *q, Endings *endings, size_t i, const WhyAsked *asked,
                  size_t *answers, Error *error) {
    const TaskItem *item = q->items[i];
    EndingScore scores[ENDINGS_MOST];
    bool cut;
    Status status =
        endings_score(endings, &item->context, item->choices, item->n_choices, scores, &cut, error);
    if (status != STATUS_OK) return status;
    answers[i] = 0;
    for (size_t k = 1; k < item->n_choices; k++)
        if (scores[k].logprob > scores[answers[i]].logprob) answers[i] = k;
    if (!asked->logprobs) return STATUS_OK;
    asked->logprobs[i][0] = scores[asked->own[i]].logprob;
    asked->logprobs[i][1] = scores[asked->other[i]].logprob;
    return STATUS_OK;
}

/* WhyItems.answer for questions: opens a model on `file`, which may hold exchanged tensors, and
 * lets it choose an ending for each question that is asked for. */
static Status answer(void *context, const ModelFile *file, const WhyAsked *asked, size_t *answers,
                     Error *error) {
    const Questions *q = context;
    const ModelOptions options = session_model_options(q->session);
    Model *model = NULL;
    Endings *endings = NULL;
    Status status = model_open(&model, file, &options, error);
    if (status == STATUS_OK)
        status = endings_new(&endings, q->session, model,
                             file == q->session->file ? q->session->kv_type : q->other_kv_type,
                             q->session->tokenizer, error);
    if (status == STATUS_OK) residuals_observe(asked->observer, model);
    for (size_t i = 0; i < q->n && status == STATUS_OK; i++) {
        if (asked->wanted && !asked->wanted[i]) continue;
        status = ask(q, endings, i, asked, answers, error);
        if (asked->expected && answers[i] != asked->expected[i]) break;
    }
    endings_free(endings);
    model_close(model);
    return status;
}

static void name(void *context, size_t i, size_t choice, char *place, char *text, size_t size) {
    const TaskItem *item = ((const Questions *)context)->items[i];
    const EndingText *ending = &item->choices[choice];
    json_t *json = json_stringn(ending->text, ending->length);
    char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    snprintf(place, size, "line %zu", item->line);
    snprintf(text, size, "%s%s", quoted ? quoted : "", choice == item->answer ? " (right)" : "");
    free(quoted);
    json_decref(json);
}

Status why_tasks_run(const Session *session, ModelFile *other, KvType kv_type,
                     const TaskItems *items, Error *error) {
    Questions questions = {.session = session, .other_kv_type = kv_type};
    if (modelfile_config(other)->vocab_size != modelfile_config(session->file)->vocab_size)
        return error_set(error,
                         "%s: has %u tokens, but %s has %u: --why compares models of one "
                         "shape",
                         modelfile_path(other), modelfile_config(other)->vocab_size,
                         modelfile_path(session->file),
                         modelfile_config(session->file)->vocab_size);
    questions.items = malloc((items->n + 1) * sizeof *questions.items);
    if (!questions.items) return error_set(error, "no memory for the questions");
    for (size_t i = 0; i < items->n; i++)
        if (items->items[i].choices) questions.items[questions.n++] = &items->items[i];
    const WhyItems why = {.n = questions.n, .answer = answer, .name = name, .context = &questions};
    Status status = why_run(session, other, &why, error);
    free(questions.items);
    return status;
}
