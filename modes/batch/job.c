#include "modes/batch/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "session/drafting.h"
#include "session/logprobs.h"

struct Sample {
    EngineTask task;
    Drafter *recorded; /* drafts the recorded answer that is checked: a part of task.drafter; NULL:
                          none */
    Job *job;
    size_t index;
    bool begun;
    Generation generation;
    TokenRule *rule; /* of the generation; NULL: none */
    float *scratch;  /* [2][vocab_size], only for logprobs */
    EmbeddingPool pool;
    size_t first_pooled; /* position */
    Error error;
    bool failed, ended;
    bool left; /* the record that it is checked against, and will not be completed */
};

Job *job_new(const JobSetting *setting) {
    Job *job = calloc(1, sizeof *job);
    if (job) job->setting = setting;
    return job;
}

static void sample_end(Sample *sample) {
    if (sample->begun) generation_free(&sample->generation);
    token_rule_free(sample->rule);
    sample->rule = NULL;
    sample->begun = false;
    free(sample->scratch);
    sample->scratch = NULL;
    embedding_pool_free(&sample->pool);
    free(sample->task.tokens);
    sample->task.tokens = NULL;
    drafter_free(sample->task.drafter);
    sample->task.drafter = sample->recorded = NULL;
}

void job_shrink(Job *job) {
    for (size_t i = 0; i < job->n; i++) {
        sample_end(&job->samples[i]);
        choice_free(&job->choices[i]);
        if (job->texts) text_free(&job->texts[i].record);
    }
    job->n = 0;
    free(job->texts);
    free(job->divergences);
    job->texts = NULL;
    job->divergences = NULL;
    json_decref(job->recorded);
    job->recorded = NULL;
    free(job->samples);
    free(job->choices);
    free(job->streamed);
    job->streamed = NULL;
    job->samples = NULL;
    job->choices = NULL;
    shape_store_release(job->setting->session->shapes, job->shape);
    job->shape = NULL;
    request_free(&job->request);
}

void job_free(Job *job) {
    job_shrink(job);
    free(job->line);
    free(job->result);
    json_decref(job->item);
    free(job);
}

/* ---- One text -------------------------------------------------------------------------------- */

static Status sample_begin(Sample *sample) {
    const Session *session = sample->job->setting->session;
    const Request *r = &sample->job->request;
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    const Model *model = session->model;
    size_t vocab = model_config(model)->vocab_size;
    GenerationOptions options = r->options;
    options.sampling.sample = sample->index % r->n;
    if (answer_hold_rule(&r->hold, session, &options, &sample->rule, &sample->error) != STATUS_OK)
        return STATUS_FAILED;
    options.rule = sample->rule;
    if (generation_init(&sample->generation, &options, session->tokenizer, vocab,
                        model_isa(model)->numeric, &sample->error) != STATUS_OK)
        return STATUS_FAILED;
    sample->begun = true;
    generation_prompt(&sample->generation, prompt->ids, prompt->length);
    return STATUS_OK;
}

static bool has_scratch(Sample *sample) {
    size_t vocab = model_config(sample->job->setting->session->model)->vocab_size;
    if (!sample->scratch) sample->scratch = malloc(2 * vocab * sizeof *sample->scratch);
    return sample->scratch != NULL;
}

/* With return_logits: adds a row to --logits. */
static Status add_logits(Sample *sample, const float *logits) {
    Choice *choice = &sample->job->choices[sample->index];
    if (!sample->job->request.returns_logits) return STATUS_OK;
    if (!array_reserve(&choice->logits_rows, &choice->logits_capacity, choice->n_logits_rows + 1,
                       sizeof *choice->logits_rows))
        return error_set(&sample->error, "no memory for the rows of logits");
    return sample->job->setting->add_logits(sample->job, sample->index, logits,
                                            &choice->logits_rows[choice->n_logits_rows++],
                                            &sample->error);
}

/* EngineTask.seen, for each token of the prompt: stores its logits (return_logits), and with echo
 * the log-probabilities of the next token and of the likeliest in its place. */
static void sample_seen(EngineTask *task, size_t position, const float *logits) {
    Sample *sample = task->context;
    const Request *r = &sample->job->request;
    const Model *model = sample->job->setting->session->model;
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    Choice *choice = &sample->job->choices[sample->index];
    size_t width = 1 + (size_t)r->top_logprobs, vocab = model_config(model)->vocab_size;
    if (add_logits(sample, logits) != STATUS_OK) sample->failed = true;
    if (!r->wants_logprobs || sample->failed) return;
    if (!choice->prompt_logprobs)
        choice->prompt_logprobs = calloc(prompt->length, width * sizeof *choice->prompt_logprobs);
    if (!choice->prompt_logprobs || !has_scratch(sample)) {
        sample->failed = true;
        error_set(&sample->error, "no memory for the logprobs");
        return;
    }
    TokenLogprob *logprobs = choice->prompt_logprobs + (position + 1) * width;
    double total = result_logprobs(model_isa(model)->numeric, logits, vocab, width - 1,
                                   logprobs + 1, sample->scratch);
    int32_t token = prompt->ids[position + 1];
    logprobs[0] = (TokenLogprob){token, (float)((double)logits[token] - total)};
}

/* Room for the log-probabilities of one more token; NULL: no memory. */
static TokenLogprob *next_logprobs(Choice *choice, size_t width) {
    if (!array_reserve(&choice->logprobs, &choice->logprobs_capacity, choice->n_logprobs + 1,
                       width * sizeof *choice->logprobs))
        return NULL;
    return choice->logprobs + choice->n_logprobs * width;
}

/* Compares the token that was chosen with the record. Returns false when the text need not be
 * completed, because its record is known to be another. */
static bool judge(Sample *sample, int32_t token, bool ends) {
    const GenerationOptions *options = &sample->generation.options;
    recorded_judge(sample->recorded, token, ends, options->eos, options->n_eos);
    sample->left =
        recorded_divergence(sample->recorded)->found && sample->job->texts[sample->index].whole;
    return !sample->left;
}

/* Notes the id of a generated token. */
static bool table_push_id(Choice *choice, int32_t token) {
    if (!array_reserve(&choice->ids, &choice->ids_capacity, choice->n_tokens + 1,
                       sizeof *choice->ids))
        return false;
    choice->ids[choice->n_tokens] = token;
    return true;
}

/* Chooses the next token of a text and appends its bytes to the choice. */
static Status sample_token(Sample *sample, float *logits, int32_t *token) {
    const Request *r = &sample->job->request;
    const Model *model = sample->job->setting->session->model;
    size_t vocab = model_config(model)->vocab_size, position = sample->task.n_tokens;
    Choice *choice = &sample->job->choices[sample->index];
    Generation *g = &sample->generation;
    TokenLogprob *logprobs = NULL;
    GenerationStep step;
    double total = 0.0;
    if (!sample->begun && sample_begin(sample) != STATUS_OK) return STATUS_FAILED;
    /* The last token that fits the context is printed but never fed back to the model. */
    if (position == model_context(model)) g->options.max_tokens = g->n_tokens + 1;
    if (add_logits(sample, logits) != STATUS_OK) return STATUS_FAILED;
    if (r->wants_logprobs) {
        if (!has_scratch(sample) ||
            !(logprobs = next_logprobs(choice, 1 + (size_t)r->top_logprobs)))
            return error_set(&sample->error, "no memory for the logprobs");
        memcpy(sample->scratch, logits, vocab * sizeof *logits);
        total = result_logprobs(model_isa(model)->numeric, logits, vocab, (size_t)r->top_logprobs,
                                logprobs + 1, sample->scratch + vocab);
    }
    size_t before = g->n_tokens;
    bool checks = sample->job->recorded != NULL;
    if (checks && !recorded_look(sample->recorded, sample->task.tokens, position, logits, vocab))
        return error_set(&sample->error, "no memory for the logits");
    if (generation_next(g, logits, position, &step, &sample->error) != STATUS_OK)
        return STATUS_FAILED;
    if (logprobs && g->n_tokens > before) {
        float logprob = (float)((double)sample->scratch[step.token] - total);
        logprobs[0] = (TokenLogprob){step.token, logprob};
        choice->n_logprobs++;
    }
    text_put(&choice->text, step.text, step.length, 0);
    if (g->n_tokens > before && !table_push_id(choice, step.token))
        return error_set(&sample->error, "no memory for a token");
    choice->n_tokens = g->n_tokens;
    choice->finish = g->finish;
    if (checks && !judge(sample, step.token, g->finish == FINISH_EOS && g->n_tokens == before))
        g->finish = FINISH_STOP;
    *token = step.token;
    return choice->text.failed ? error_set(&sample->error, "no memory for the text") : STATUS_OK;
}

static bool sample_next(EngineTask *task, float *logits) {
    Sample *sample = task->context;
    int32_t token = -1;
    if (sample->failed) return false;
    if (sample->job->request.only_prompt) { /* of the prompt, all but the last token was run */
        sample_seen(task, task->n_tokens - 1, logits);
        sample->job->choices[sample->index].finish = FINISH_LENGTH;
        return false;
    }
    if (sample_token(sample, logits, &token) != STATUS_OK) {
        sample->failed = true;
        return false;
    }
    if (sample->generation.finish != FINISH_NOT) return false;
    if (engine_task_append(task, token)) return true;
    sample->failed = true;
    error_set(&sample->error, "no memory for a token");
    return false;
}

/* The request's text that the sample is. */
static EmbeddingText *text_of(const Sample *sample) {
    return &sample->job->request.embedding.texts[sample->index];
}

/* REQUEST_RERANK: the probability of yes, if the answer is yes or no. */
static bool sample_rank(EngineTask *task, float *logits) {
    Sample *sample = task->context;
    const EmbeddingRequest *e = &sample->job->request.embedding;
    const float two[] = {logits[e->yes], logits[e->no]};
    const Model *model = sample->job->setting->session->model;
    float exps[2];
    double sum;
    logprobs_log_sum(model_isa(model)->numeric, two, 2, exps, &sum);
    text_of(sample)->score = (double)exps[0] / sum;
    return false;
}

/* REQUEST_EMBEDDING: pools the state of one token. */
static void sample_state(EngineTask *task, size_t position, const float *state) {
    Sample *sample = task->context;
    Job *job = sample->job;
    const EmbeddingRequest *e = &job->request.embedding;
    const EmbeddingSetting *setting = &e->setting;
    if (sample->failed) return;
    if (e->returns_states && job->setting->add_state(job, sample->index, state, &sample->error)) {
        sample->failed = true;
        return;
    }
    if (position < sample->first_pooled ||
        embedding_pool_add(&sample->pool, setting, position, state))
        return;
    sample->failed = true;
    error_set(&sample->error, "no memory for an embedding");
}

static Status sample_embedding(Sample *sample) {
    const EmbeddingSetting *setting = &sample->job->request.embedding.setting;
    float *out = text_of(sample)->vector = malloc(setting->dimensions * sizeof *out);
    if (!out) return error_set(&sample->error, "no memory for an embedding");
    embedding_pool_result(&sample->pool, setting, out);
    for (uint32_t i = 0; i < setting->dimensions; i++)
        if (!isfinite(out[i]))
            return error_set(&sample->error, "the embedding is not made of finite numbers");
    return STATUS_OK;
}

/* A sample has ended in the engine: keeps its error, embedding or divergence, and ends the job
 * after its last sample. */
static void sample_done(EngineTask *task, const Error *error) {
    Sample *sample = task->context;
    Job *job = sample->job;
    if (error) {
        sample->failed = true;
        sample->error = *error;
    }
    if (task->state && !sample->failed) sample->failed = sample_embedding(sample) != STATUS_OK;
    if (sample->recorded) job->divergences[sample->index] = *recorded_divergence(sample->recorded);
    sample_end(sample);
    sample->ended = true;
    if (--job->n_left == 0) job->setting->done(job, job->setting->context);
}

/* ---- Making and handing over its texts ------------------------------------------------------- */

/* Finds what the request's texts are checked against. */
static Status prepare_check(Job *job, size_t n, Error *error) {
    const JobSetting *s = job->setting;
    job->texts = calloc(n, sizeof *job->texts);
    job->divergences = calloc(n, sizeof *job->divergences);
    if (!job->texts || !job->divergences) return error_set(error, "no memory for a check");
    for (size_t i = 0; i < n && job->recorded; i++)
        check_text(s->check, job->recorded, s->maker, &job->request, i, &job->texts[i]);
    return STATUS_OK;
}

/* The adapters that the request's `model` names. */
static Status find_adapters(const Job *job, uint64_t *bits, Error *error) {
    const Adapters *adapters = job->setting->session->adapters;
    const char *name = job->request.model;
    *bits = 0;
    if (!adapters || adapters_named(adapters, name, bits)) return STATUS_OK;
    char known[400] = "";
    size_t length = 0;
    for (size_t i = 0; i < adapters->n && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, ", '%s'",
                                   adapters->items[i].name);
    return error_set(error, "model: '%.100s' is neither the model's name '%s' nor an adapter's%s",
                     name, adapters->base, known);
}

static Status job_encode(Job *job, Error *error) {
    const JobSetting *s = job->setting;
    Request *r = &job->request;
    if (request_embeds(r) && r->embedding.returns_states && !s->add_state)
        return error_set(error, "'return_states' needs the library (verbatim.h)");
    if (request_embeds(r))
        return request_embedding_encode(&r->embedding, s->session, s->embedding, &r->prompts,
                                        &r->n_prompts, error);
    if (r->returns_logits && !s->add_logits)
        return error_set(error, "'return_logits' needs --logits FILE");
    if (embedding_refuse_text(s->session->file, error) != STATUS_OK) return STATUS_FAILED;
    return request_encode(r, s->session, s->chat, error);
}

/* The engine task of a sample, with the callbacks that its request needs. */
static EngineTask new_task(Sample *sample) {
    const Request *r = &sample->job->request;
    EngineTask task = {.next = sample_next, .done = sample_done, .context = sample};
    if (r->format == REQUEST_RERANK) task.next = sample_rank;
    size_t length = r->prompts[sample->index / r->n].length;
    if (request_sees_prompt(r) && r->score_from < length) task.seen = sample_seen;
    if (r->keeps) task.keep = r->line;
    task.see_from = r->score_from - 1;
    if (r->format != REQUEST_EMBEDDING) return task;
    task.state = sample_state;
    sample->first_pooled = embedding_first_state(&r->embedding.setting, text_of(sample)->first,
                                                 r->prompts[sample->index].length);
    task.first_state = r->embedding.returns_states ? 0 : sample->first_pooled;
    return task;
}

Status job_prepare(Job *job, Error *error) {
    const JobSetting *s = job->setting;
    uint64_t adapters;
    if (find_adapters(job, &adapters, error) != STATUS_OK || job_encode(job, error) != STATUS_OK)
        return STATUS_FAILED;
    const ShapeSource *shape = &job->request.hold.source;
    if (shape->kind != SHAPE_NONE &&
        shape_store_get(s->session->shapes, shape, &job->shape, error) != STATUS_OK)
        return STATUS_FAILED;
    size_t n = job->request.n_prompts * job->request.n;
    job->choices = calloc(n, sizeof *job->choices);
    job->samples = calloc(n, sizeof *job->samples);
    if (job->request.streams) job->streamed = calloc(n, sizeof *job->streamed);
    if (!job->choices || !job->samples || (job->request.streams && !job->streamed))
        return error_set(error, "no memory for a request");
    if (s->check && prepare_check(job, n, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) {
        job->samples[i].job = job;
        job->samples[i].index = i;
        job->samples[i].task = new_task(&job->samples[i]);
        job->samples[i].task.adapters = adapters;
    }
    job->n = job->n_left = n;
    return STATUS_OK;
}

/* Makes a text's Drafter: its record, or what the session has. */
static Status new_drafter(Sample *sample, size_t n_prompt, Error *error) {
    const Job *job = sample->job;
    const Session *session = job->setting->session;
    const GenerationOptions *o = &job->request.options;
    Drafter **drafter = &sample->task.drafter;
    GenerationOptions own = *o;
    own.rule = sample->rule;
    if (!job->recorded) return drafting_new(session, &own, drafter, error);
    const RecordedDecoding decoding = {.tokenizer = session->tokenizer,
                                       .flags = o->decode_flags,
                                       .shown = o->shown,
                                       .n_shown = o->n_shown,
                                       .stops = o->n_stop > 0};
    const TextBuffer *record = &job->texts[sample->index].record;
    Drafter *recorded =
        record->failed ? NULL : recorded_new(&decoding, record->bytes, record->length, n_prompt);
    if (drafting_recorded(session, recorded, drafter, error) != STATUS_OK) return STATUS_FAILED;
    sample->recorded = recorded;
    return STATUS_OK;
}

/* Makes the engine's task of a text, whose drafter and tokens it owns. */
static Status fill_task(Sample *sample, Error *error) {
    const Request *r = &sample->job->request;
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    EngineTask *task = &sample->task;
    task->capacity = prompt->length + 64;
    task->tokens = malloc(task->capacity * sizeof *task->tokens);
    if (!task->tokens) return error_set(error, "no memory for a prompt");
    memcpy(task->tokens, prompt->ids, prompt->length * sizeof *task->tokens);
    task->n_tokens = prompt->length - (r->only_prompt && !request_embeds(r) ? 1 : 0);
    if (r->only_prompt || request_embeds(r)) return STATUS_OK;
    return new_drafter(sample, prompt->length, error);
}

Status job_submit(Job *job, Engine *engine, Error *error) {
    const Request *r = &job->request;
    Sample *sample = &job->samples[job->n_submitted];
    if (r->only_prompt && !sample->task.seen) { /* there is nothing to compute */
        job->n_submitted++;
        job->choices[sample->index].finish = FINISH_LENGTH;
        sample_done(&sample->task, NULL);
        return STATUS_OK;
    }
    Status status = fill_task(sample, error);
    if (status == STATUS_OK) status = engine_submit(engine, &sample->task, error);
    if (status == STATUS_OK) job->n_submitted++;
    return status;
}

void job_fail(Job *job, Engine *engine, const Error *why) {
    size_t n_submitted = job->n_submitted, n = job->n;
    job->n_submitted = n;
    for (size_t i = 0; i < n; i++) {
        Sample *sample = &job->samples[i];
        if (sample->ended) continue;
        bool is_last = job->n_left == 1; /* the job is gone after it */
        if (i < n_submitted) {
            engine_cancel(engine, &sample->task, why);
        } else {
            sample_done(&sample->task, why);
        }
        if (is_last) return;
    }
}

void job_cancel(Job *job, Engine *engine) {
    static const Error cancelled = {"cancelled"};
    job->request.cancelled = true;
    job_fail(job, engine, &cancelled);
}

/* ---- Its result ------------------------------------------------------------------------------ */

const char *job_failure(const Job *job) {
    for (size_t i = 0; i < job->n; i++)
        if (job->samples[i].failed) return job->samples[i].error.text;
    return NULL;
}

size_t job_n_generated(const Job *job) {
    size_t n = 0;
    for (size_t i = 0; i < job->n; i++) n += job->choices[i].n_tokens;
    return n;
}

bool job_text(const Job *job, size_t index, const char **text, size_t *length) {
    const TextBuffer *whole = &job->choices[index].text;
    *text = whole->bytes ? whole->bytes : "";
    *length = whole->length;
    return job->samples[index].ended;
}

char *job_result(const Job *job) {
    for (size_t i = 0; i < job->n; i++)
        if (job->samples[i].left) return NULL;
    return result_line(job->setting->maker, &job->request, job->choices);
}

static bool all_ended(const Job *job) {
    for (size_t i = 0; i < job->n; i++)
        if (!job->streamed[i].ended && job->choices[i].finish == FINISH_NOT) return false;
    return true;
}

/* The texts before the index-th have been told as far as they go. */
static bool is_last_text(const Job *job, size_t index) {
    for (size_t i = index + 1; i < job->n; i++)
        if (!job->streamed[i].ended) return false;
    return all_ended(job);
}

Status job_stream(Job *job, Status (*add)(void *context, const char *line, Error *error),
                  void *context, Error *error) {
    const ResultMaker *maker = job->setting->maker;
    const Request *r = &job->request;
    for (size_t i = 0; i < job->n; i++) {
        bool failed, is_last = !r->tells_usage && is_last_text(job, i);
        char *line =
            result_chunk_line(maker, r, job->choices, i, &job->streamed[i], is_last, &failed);
        if (failed) return error_set(error, "no memory for a result");
        Status status = line ? add(context, line, error) : STATUS_OK;
        free(line);
        if (status != STATUS_OK) return status;
    }
    if (!r->tells_usage || job->n_left > 0) return STATUS_OK;
    char *line = result_usage_line(maker, r, job->choices);
    Status status = line ? add(context, line, error) : error_set(error, "no memory for a result");
    free(line);
    return status;
}

char *job_compare(Job *job, char *line) {
    const JobSetting *s = job->setting;
    char *report = check_compare(s->check, s->maker, &job->request, job->recorded, line,
                                 job->divergences, job->texts, job->n, &job->is_same);
    if (records_writes(s->check)) {
        job->result = line;
    } else {
        free(line);
    }
    return report;
}
