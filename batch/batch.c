#include "batch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "batch/batch_files.h"
#include "batch/batch_fingerprint.h"
#include "batch/batch_memory.h"
#include "batch/check.h"
#include "batch/engine.h"
#include "kvcache_sharing.h"
#include "session/drafting.h"
#include "session/generation_options.h"
#include "session/logprobs.h"
#include "system/terminal.h"

enum {
    /* With --ordered: the jobs and bytes of results that may wait for an earlier result. */
    ORDERED_MOST_JOBS = 4096,
    ORDERED_MOST_BYTES = 64 << 20
};

typedef struct Job Job;

/* One text of a request, being generated. */
typedef struct Sample {
    EngineTask task;
    Job *job;
    size_t index;
    bool begun;
    Generation generation;
    TokenRule *rule; /* of the generation; NULL: none */
    float *scratch;  /* [2][vocab_size], only for logprobs */
    Error error;
    bool failed;
    bool left; /* the record that it is checked against, and will not be completed */
} Sample;

/* One request and its texts. */
struct Job {
    Batch *batch;
    Request request;
    Choice *choices;               /* [n] */
    Sample *samples;               /* [n] */
    size_t n, n_submitted, n_left; /* texts: all, handed to the engine, not yet done */
    Shape *shape;                  /* of its texts; NULL: none */
    char *line;                    /* the result, or --check's; NULL: not yet finished */

    /* --check */
    json_t *recorded;        /* NULL: there is no record */
    CheckText *texts;        /* [n] */
    Divergence *divergences; /* [n] */
    char *result;            /* as it should be; NULL: not completed, or nobody asks */
    Job *next;               /* the next line of the input */
};

struct Batch {
    const Options *options;
    LineReader reader;
    ResultFile results;
    Check *check;    /* NULL: nothing is checked */
    size_t kv_bytes; /* that the KV cache may use */
    size_t total;    /* lines of the input; 0: not known */
    bool input_open;

    Session *session;
    Engine *engine;
    GenerationOptions defaults;
    ChatPrompt chat;
    char fingerprint[BATCH_FINGERPRINT_BYTES];
    ResultMaker maker;
    size_t read_ahead; /* how many texts to have waiting in the engine */

    Job *first, *last;         /* the jobs whose results are not written yet */
    Job *feeding;              /* the job whose texts are being handed to the engine; NULL: none */
    size_t n_jobs, held_bytes; /* in that list: jobs, and bytes of their result lines */
    bool at_end;               /* of the input */
    bool stops;                /* a line failed with --strict */
    Status status;
    Error error;

    size_t n_lines, n_done, n_failed; /* lines: read, answered, failed */
    size_t n_before;                  /* lines that an earlier run answered */
    size_t n_generated;               /* tokens */
    double start, shown;
};

/* ---- Opening --------------------------------------------------------------------------------- */

Status batch_open(Batch **out, const Options *o, Error *error) {
    Batch *b = calloc(1, sizeof *b);
    if (!b) return error_set(error, "no memory for a batch");
    *out = b;
    b->options = o;
    b->results.fd = b->results.retry_fd = -1;
    Status status = batch_memory(o->kv_memory, &b->kv_bytes, error);
    if (status != STATUS_OK) return status;
    bool standard = strcmp(o->batch, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(o->batch, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(error, "%s: %s", o->batch, strerror(errno));
    if (standard && isatty(fd))
        terminal_say("reading stdin, one JSON object a line; Ctrl-D ends it");
    line_reader_init(&b->reader, fd, standard ? "stdin" : o->batch);
    b->input_open = true;
    if (o->check && check_open(&b->check, o->check, o->output, error) != STATUS_OK)
        return STATUS_FAILED;
    if (o->check) return result_file_open(&b->results, NULL, false, false, error);
    return result_file_open(&b->results, o->output, o->resume, o->retry_failed, error);
}

/* ---- Jobs -------------------------------------------------------------------------------------
 */

static void sample_end(Sample *sample) {
    if (sample->begun) generation_free(&sample->generation);
    token_rule_free(sample->rule);
    sample->rule = NULL;
    sample->begun = false;
    free(sample->scratch);
    sample->scratch = NULL;
    free(sample->task.tokens);
    sample->task.tokens = NULL;
    drafter_free(sample->task.drafter);
    sample->task.drafter = NULL;
}

/* Frees everything of a finished job but its result line. */
static void job_shrink(Job *job) {
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
    job->samples = NULL;
    job->choices = NULL;
    shape_store_release(job->batch->session->shapes, job->shape);
    job->shape = NULL;
    request_free(&job->request);
}

static void job_free(Job *job) {
    job_shrink(job);
    free(job->line);
    free(job->result);
    free(job);
}

void batch_close(Batch *b) {
    if (!b) return;
    engine_free(b->engine);
    chat_prompt_close(&b->chat);
    for (Job *job = b->first, *next; job; job = next) {
        next = job->next;
        job_free(job);
    }
    if (b->input_open && b->reader.fd != STDIN_FILENO) close(b->reader.fd);
    line_reader_free(&b->reader);
    check_close(b->check);
    result_file_close(&b->results);
    free(b);
}

/* Ends the run with this error, unless another one has already ended it. */
static void give_up(Batch *b, Status status, const Error *error) {
    if (b->status != STATUS_OK) return;
    b->status = status;
    b->error = *error;
}

static void unlink_job(Batch *b, Job *job) {
    Job **link = &b->first, *before = NULL;
    while (*link != job) {
        before = *link;
        link = &before->next;
    }
    *link = job->next;
    if (b->last == job) b->last = before;
    b->n_jobs--;
}

static void write_job(Batch *b, Job *job) {
    Error error;
    b->held_bytes -= strlen(job->line);
    if (result_file_add(&b->results, job->line, &error) != STATUS_OK)
        give_up(b, STATUS_FAILED, &error);
    if (job->result && check_write(b->check, job->result, &error) != STATUS_OK)
        give_up(b, STATUS_FAILED, &error);
    b->n_done++;
    unlink_job(b, job);
    job_free(job);
}

/* Puts what --check says in place of the result line (NULL: it was not completed). */
static char *compare_job(Batch *b, Job *job, char *line) {
    char *report = check_compare(b->check, &b->maker, &job->request, job->recorded, line,
                                 job->divergences, job->texts, job->n);
    if (check_writes(b->check)) {
        job->result = line;
    } else {
        free(line);
    }
    return report;
}

/* Takes over the result line of a job (NULL: no memory) and writes it; with --ordered once all
 * earlier results are written. */
static void deliver(Batch *b, Job *job, char *line) {
    static const Error no_memory = {"no memory for a result"};
    if (b->check) line = compare_job(b, job, line);
    job->line = line;
    if (!line) {
        give_up(b, STATUS_FAILED, &no_memory);
        return;
    }
    b->held_bytes += strlen(line);
    job_shrink(job);
    if (!b->options->ordered) write_job(b, job);
    while (b->options->ordered && b->first && b->first->line) write_job(b, b->first);
}

/* With --strict the line that failed gets no result, so that --resume answers it once it is mended.
 * No line is begun any more, but those in progress are finished. With --ordered the job stays: the
 * results of later lines wait for it and are not written. */
static void stop_at(Batch *b, Job *job, const char *message) {
    if (!b->stops)
        error_set(&b->error, "%s: line %zu: %s", b->reader.name, job->request.line, message);
    b->stops = true;
    if (b->options->ordered) return;
    unlink_job(b, job);
    job_free(job);
}

static void fail_job(Batch *b, Job *job, const char *message) {
    b->n_failed++;
    if (b->options->strict)
        stop_at(b, job, message);
    else
        deliver(b, job, result_error_line(&b->maker, &job->request, message));
}

static void finish_job(Batch *b, Job *job) {
    for (size_t i = 0; i < job->n; i++) {
        if (!job->samples[i].failed) continue;
        fail_job(b, job, job->samples[i].error.text);
        return;
    }
    bool left = false;
    for (size_t i = 0; i < job->n; i++) b->n_generated += job->choices[i].n_tokens;
    for (size_t i = 0; i < job->n; i++) left = left || job->samples[i].left;
    if (left)
        deliver(b, job, NULL);
    else
        deliver(b, job, result_line(&b->maker, &job->request, job->choices));
}

/* ---- One text ----------------------------------------------------------------------------------
 */

static Status sample_begin(Sample *sample) {
    const Batch *b = sample->job->batch;
    const Request *r = &sample->job->request;
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    const Model *model = b->session->model;
    size_t vocab = model_config(model)->vocab_size;
    GenerationOptions options = r->options;
    options.sampling.sample = sample->index % r->n;
    if (answer_hold_rule(&r->hold, b->session, &options, &sample->rule, &sample->error) !=
        STATUS_OK)
        return STATUS_FAILED;
    options.rule = sample->rule;
    if (generation_init(&sample->generation, &options, b->session->tokenizer, vocab,
                        model_isa(model)->numeric, &sample->error) != STATUS_OK)
        return STATUS_FAILED;
    sample->begun = true;
    generation_prompt(&sample->generation, prompt->ids, prompt->length);
    return STATUS_OK;
}

static bool has_scratch(Sample *sample) {
    size_t vocab = model_config(sample->job->batch->session->model)->vocab_size;
    if (!sample->scratch) sample->scratch = malloc(2 * vocab * sizeof *sample->scratch);
    return sample->scratch != NULL;
}

/* With echo: records the log-probabilities of the prompt's next token and of the likeliest in its
 * place. */
static void sample_seen(EngineTask *task, size_t position, const float *logits) {
    Sample *sample = task->context;
    const Request *r = &sample->job->request;
    const Model *model = sample->job->batch->session->model;
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    Choice *choice = &sample->job->choices[sample->index];
    size_t width = 1 + (size_t)r->top_logprobs, vocab = model_config(model)->vocab_size;
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
    recorded_judge(sample->task.drafter, token, ends, options->eos, options->n_eos);
    sample->left =
        recorded_divergence(sample->task.drafter)->found && sample->job->texts[sample->index].whole;
    return !sample->left;
}

/* Chooses the next token of a text and appends its bytes to the choice. */
static Status sample_token(Sample *sample, float *logits, int32_t *token) {
    const Request *r = &sample->job->request;
    const Model *model = sample->job->batch->session->model;
    size_t vocab = model_config(model)->vocab_size, position = sample->task.n_tokens;
    Choice *choice = &sample->job->choices[sample->index];
    Generation *g = &sample->generation;
    TokenLogprob *logprobs = NULL;
    GenerationStep step;
    double total = 0.0;
    if (!sample->begun && sample_begin(sample) != STATUS_OK) return STATUS_FAILED;
    /* The last token that fits the context is printed but never fed back to the model. */
    if (position == model_context(model)) g->options.max_tokens = g->n_tokens + 1;
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
    if (checks &&
        !recorded_look(sample->task.drafter, sample->task.tokens, position, logits, vocab))
        return error_set(&sample->error, "no memory for the logits");
    if (generation_next(g, logits, position, &step, &sample->error) != STATUS_OK)
        return STATUS_FAILED;
    if (logprobs && g->n_tokens > before) {
        float logprob = (float)((double)sample->scratch[step.token] - total);
        logprobs[0] = (TokenLogprob){step.token, logprob};
        choice->n_logprobs++;
    }
    text_put(&choice->text, step.text, step.length, 0);
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
    if (sample->job->request.only_prompt) {
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

static void sample_done(EngineTask *task, const Error *error) {
    Sample *sample = task->context;
    Job *job = sample->job;
    if (error) {
        sample->failed = true;
        sample->error = *error;
    }
    if (job->recorded && task->drafter)
        job->divergences[sample->index] = *recorded_divergence(task->drafter);
    sample_end(sample);
    if (--job->n_left == 0) finish_job(job->batch, job);
}

/* ---- Reading -----------------------------------------------------------------------------------
 */

static Job *new_job(Batch *b) {
    Job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    job->batch = b;
    if (b->last) {
        b->last->next = job;
    } else {
        b->first = job;
    }
    b->last = job;
    b->n_jobs++;
    return job;
}

/* Finds what the request's texts are checked against. */
static Status prepare_check(Batch *b, Job *job, size_t n, Error *error) {
    job->texts = calloc(n, sizeof *job->texts);
    job->divergences = calloc(n, sizeof *job->divergences);
    if (!job->texts || !job->divergences) return error_set(error, "no memory for a check");
    for (size_t i = 0; i < n && job->recorded; i++)
        check_text(b->check, job->recorded, &b->maker, &job->request, i, &job->texts[i]);
    return STATUS_OK;
}

static Status prepare(Batch *b, Job *job, Error *error) {
    if (request_encode(&job->request, b->session, &b->chat, error) != STATUS_OK)
        return STATUS_FAILED;
    const ShapeSource *shape = &job->request.hold.source;
    if (shape->kind != SHAPE_NONE &&
        shape_store_get(b->session->shapes, shape, &job->shape, error) != STATUS_OK)
        return STATUS_FAILED;
    size_t n = job->request.n_prompts * job->request.n;
    job->choices = calloc(n, sizeof *job->choices);
    job->samples = calloc(n, sizeof *job->samples);
    if (!job->choices || !job->samples) return error_set(error, "no memory for a request");
    if (b->check && prepare_check(b, job, n, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) {
        job->samples[i].job = job;
        job->samples[i].index = i;
        bool sees = job->request.echo && job->request.wants_logprobs;
        job->samples[i].task = (EngineTask){.next = sample_next,
                                            .seen = sees ? sample_seen : NULL,
                                            .done = sample_done,
                                            .context = &job->samples[i]};
    }
    job->n = job->n_left = n;
    return STATUS_OK;
}

/* Whether an earlier run has answered the request. With --ordered its result must be the next one
 * of the resumed file. */
static bool answered(Batch *b, const Request *r) {
    RequestKey key = request_key(r);
    const ResultFile *file = &b->results;
    unsigned flags = keyset_flags(&file->keys, key);
    if (b->options->ordered && b->n_before < file->n_kept) {
        const RequestKey *expected = &file->order[b->n_before];
        if (expected->low != key.low || expected->high != key.high) {
            Error error;
            error_set(&error,
                      "%s: its line %zu is not the result of line %zu of %s: it was written "
                      "without --ordered, or for other requests; resume without --ordered",
                      file->path, b->n_before + 1, r->line, b->reader.name);
            give_up(b, STATUS_FAILED, &error);
            return true;
        }
    }
    if (!(flags & KEY_DONE)) return false;
    b->n_before++;
    b->n_done++;
    b->n_failed += (flags & KEY_FAILED) != 0;
    return true;
}

/* Refuses an id that an earlier line has, because their results could not be told apart. */
static Status claim_id(Batch *b, Request *r, Error *error) {
    if (!r->id) return STATUS_OK;
    RequestKey key = request_key(r);
    if (keyset_flags(&b->results.keys, key) & KEY_SEEN) {
        char *id = json_dumps(r->id, JSON_ENCODE_ANY);
        error_set(error, "an earlier line has the same id, %.200s", id ? id : "");
        free(id);
        r->id_taken = true;
        return STATUS_FAILED;
    }
    if (!keyset_add(&b->results.keys, key, KEY_SEEN))
        return error_set(error, "no memory for an id");
    return STATUS_OK;
}

static Status parse_line(Batch *b, Request *r, LineState state, const char *line, size_t length,
                         Error *error) {
    size_t number = b->reader.number;
    if (state == LINE_TOO_LONG) {
        request_blank(r, line, length, number);
        return error_set(error, "the line is longer than %d bytes", LINE_MOST_BYTES);
    }
    return b->options->batch_text ? request_plain(r, line, length, number, &b->defaults, error)
                                  : request_parse(r, line, length, number, &b->defaults, error);
}

/* Makes a job of a line of the input, unless the line is blank or answered by an earlier run. */
static void take_line(Batch *b, LineState state, const char *line, size_t length) {
    static const Error no_memory = {"no memory for a request"};
    Error error, other;
    if (b->reader.number == 1 && length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3, length -= 3; /* a byte order mark */
    if (b->options->batch_text && length > 0 && line[length - 1] == '\r') length--;
    if (line_is_blank(line, length)) return;
    b->n_lines++;
    Job *job = new_job(b);
    if (!job) {
        give_up(b, STATUS_FAILED, &no_memory);
        return;
    }
    Status status = parse_line(b, &job->request, state, line, length, &error);
    if (claim_id(b, &job->request, &other) != STATUS_OK) {
        error = other;
        status = STATUS_FAILED;
    }
    if (answered(b, &job->request)) {
        unlink_job(b, job);
        job_free(job);
        return;
    }
    if (b->check) job->recorded = check_find(b->check, &job->request);
    if (status == STATUS_OK) status = prepare(b, job, &error);
    if (status != STATUS_OK) {
        fail_job(b, job, error.text);
    } else {
        b->feeding = job;
    }
}

/* Makes a text's Drafter: its record, or what the session has. */
static Status new_drafter(Batch *b, Sample *sample, size_t n_prompt, Error *error) {
    const Job *job = sample->job;
    const GenerationOptions *o = &job->request.options;
    Drafter **drafter = &sample->task.drafter;
    GenerationOptions own = *o;
    own.rule = sample->rule;
    if (!job->recorded) return session_drafter(b->session, &own, drafter, error);
    const RecordedDecoding decoding = {.tokenizer = b->session->tokenizer,
                                       .flags = o->decode_flags,
                                       .shown = o->shown,
                                       .n_shown = o->n_shown,
                                       .stops = o->n_stop > 0};
    const TextBuffer *record = &job->texts[sample->index].record;
    *drafter =
        record->failed ? NULL : recorded_new(&decoding, record->bytes, record->length, n_prompt);
    return *drafter ? STATUS_OK : error_set(error, "no memory for a record");
}

/* Hands the next text of the job to the engine. */
static Status hand_over(Batch *b, Error *error) {
    Job *job = b->feeding;
    const Request *r = &job->request;
    Sample *sample = &job->samples[job->n_submitted++];
    const TokenList *prompt = &r->prompts[sample->index / r->n];
    if (job->n_submitted == job->n) b->feeding = NULL;
    EngineTask *task = &sample->task;
    task->capacity = prompt->length + 64;
    task->tokens = malloc(task->capacity * sizeof *task->tokens);
    if (!task->tokens) return error_set(error, "no memory for a prompt");
    memcpy(task->tokens, prompt->ids, prompt->length * sizeof *task->tokens);
    task->n_tokens = prompt->length;
    if (new_drafter(b, sample, prompt->length, error) != STATUS_OK) return STATUS_FAILED;
    return engine_submit(b->engine, task, error);
}

static bool has_room(const Batch *b) {
    if (!b->options->ordered) return true;
    return b->n_jobs < ORDERED_MOST_JOBS && b->held_bytes < ORDERED_MOST_BYTES;
}

/* Reads lines and hands their texts to the engine until enough wait there. Waits for input only
 * when there is nothing to compute. */
static Status feed(Batch *b, Error *error) {
    while (engine_waiting(b->engine) < b->read_ahead && b->status == STATUS_OK) {
        Status status;
        if (b->feeding) {
            status = hand_over(b, error);
            if (status != STATUS_OK) return status;
            continue;
        }
        if (b->at_end || b->stops || !has_room(b)) break;
        LineState state;
        const char *line;
        size_t length;
        bool wait = engine_pending(b->engine) == 0;
        if (wait && result_file_flush(&b->results, false, error) != STATUS_OK) return STATUS_FAILED;
        status = line_reader_next(&b->reader, wait, b->session->interrupted, &state, &line, &length,
                                  error);
        if (status != STATUS_OK) return status;
        if (*b->session->interrupted) return STATUS_INTERRUPTED;
        if (state == LINE_NOT_YET) break;
        if (state == LINE_NONE) {
            b->at_end = true;
        } else {
            take_line(b, state, line, length);
        }
    }
    return STATUS_OK;
}

/* ---- Progress and statistics -------------------------------------------------------------------
 */

/* Estimates that the remaining lines take as long as those of this run did on average. */
static void show_time_left(const Batch *b, double elapsed) {
    size_t by_now = b->n_done - b->n_before;
    if (b->total <= b->n_done || by_now == 0) return;
    double seconds = elapsed / (double)by_now * (double)(b->total - b->n_done);
    if (seconds < 3600.0) {
        fprintf(stderr, ", %d:%02d left", (int)seconds / 60, (int)seconds % 60);
    } else {
        fprintf(stderr, ", %.1f h left", seconds / 3600.0);
    }
}

static void show_progress(Batch *b, bool last) {
    if (!b->session->shows_progress) return;
    double now = clock_seconds(), elapsed = now - b->start;
    if (!last && now - b->shown < 0.1) return;
    b->shown = now;
    if (last) {
        fprintf(stderr, "\r\033[K");
        return;
    }
    EngineStats stats = engine_stats(b->engine);
    fprintf(stderr, "\r\033[K");
    if (b->total) {
        terminal_bar(stderr, 20, b->n_done, b->total);
        fprintf(stderr, " %zu of %zu", b->n_done, b->total);
    } else {
        fprintf(stderr, "%zu done", b->n_done);
    }
    if (b->n_failed) fprintf(stderr, ", %zu failed", b->n_failed);
    fprintf(stderr, ", tokens/s: %.0f prefill, %.0f decode",
            (double)stats.prompt_rows / fmax(elapsed, 1e-3),
            (double)stats.decode_rows / fmax(elapsed, 1e-3));
    show_time_left(b, elapsed);
    fflush(stderr);
}

static void print_stats(const Batch *b) {
    EngineStats s = engine_stats(b->engine);
    double seconds = fmax(clock_seconds() - b->start, 1e-9);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(stderr, "lines:   %zu answered, %zu by an earlier run, %zu failed\n",
            b->n_done - b->n_before, b->n_before, b->n_failed);
    fprintf(stderr, "time:    %.3f s, %.1f lines/s\n", seconds,
            (double)(b->n_done - b->n_before) / seconds);
    fprintf(stderr, "prefill: %zu tokens computed, %zu shared, %.1f tokens/s\n", s.prompt_rows,
            s.shared_rows, (double)s.prompt_rows / seconds);
    fprintf(stderr, "decode:  %zu tokens, %.1f tokens/s\n", b->n_generated,
            (double)b->n_generated / seconds);
    fprintf(stderr,
            "batch:   %zu texts at once at most, %zu passes, %zu times a text was set aside\n",
            s.most_tasks, s.passes, s.set_aside);
    drafting_print(stderr, b->session->drafting);
    fprintf(stderr, "memory:  %.1f MiB at most, %.1f MiB of them KV cache (allowed: %.1f MiB)\n",
            (double)usage.ru_maxrss / 1024.0, (double)s.most_bytes / (1 << 20),
            (double)b->kv_bytes / (1 << 20));
    fprintf(stderr, "sandbox: %s\n", sandbox_text(&b->session->sandbox));
    fprintf(stderr, "model:   %s\n", b->fingerprint);
}

static void tell_how_to_resume(const Batch *b) {
    if (b->results.regular)
        fprintf(stderr, "%s: %zu lines are answered; the same command with --resume goes on\n",
                program_invocation_short_name, b->n_done);
}

/* ---- The mode -----------------------------------------------------------------------------------
 */

/* The date for chat templates that ask for it: $SOURCE_DATE_EPOCH (specified for reproducible
 * builds, https://reproducible-builds.org/specs/source-date-epoch/), else a fixed one, so that the
 * same request has the same answer tomorrow. */
static void set_clock(struct tm *now) {
    const char *text = getenv("SOURCE_DATE_EPOCH");
    time_t seconds = text ? (time_t)strtoll(text, NULL, 10) : 1735689600; /* 1 January 2025 */
    gmtime_r(&seconds, now);
}

/* How many texts to generate at once: as many as the cache can hold if they are of middling length.
 * When they are longer, the engine sets some aside. More cores compute more rows in the time in
 * which the weights are read once. */
static size_t choose_concurrency(const Batch *b, const KvShape *shape) {
    enum { MIDDLING = 512, LEAST_MOST = 64, OF_A_CORE = 32 };
    size_t most = OF_A_CORE * (size_t)b->session->n_threads,
           rows = model_max_rows(b->session->model);
    if (most > rows) most = rows;
    if (most < LEAST_MOST) most = LEAST_MOST;
    size_t context = model_context(b->session->model);
    size_t positions = context < MIDDLING ? context : MIDDLING;
    size_t each = kvcache_sequence_bytes(shape, positions > 0 ? positions : 1);
    size_t n = each > 0 ? b->kv_bytes / each : most; /* a model may store nothing */
    if (b->options->max_concurrent) return (size_t)b->options->max_concurrent;
    return n < 1 ? 1 : n > most ? most : n;
}

static Status start(Batch *b, Session *session, Error *error) {
    const Options *o = b->options;
    const Config *config = model_config(session->model);
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    b->session = session;
    Status status = session_generation_options(session, &b->defaults, error);
    if (status != STATUS_OK) return status;
    if (!options_given(o, &o->seed)) b->defaults.sampling.seed = 0;
    if (chat_prompt_open(&b->chat, session, error) != STATUS_OK) return STATUS_FAILED;
    chat_prompt_end(&b->chat, &b->defaults);
    set_clock(&b->chat.now);
    batch_fingerprint(b->fingerprint, session, &b->defaults, &b->chat);
    b->maker = (ResultMaker){.tokenizer = session->tokenizer,
                             .model = config->name[0] ? config->name : "verbatim",
                             .fingerprint = b->fingerprint,
                             .answers = &b->chat.answers,
                             .hides_reasoning = o->hide_reasoning};
    size_t least = kvcache_sequence_bytes(&shape, KV_PAGE + 1);
    if (b->kv_bytes < least)
        return error_set(error, "--kv-memory: %zu bytes are too few, at least %zu are needed",
                         b->kv_bytes, least);
    if (b->check && check_read(b->check, session->interrupted, error) != STATUS_OK)
        return STATUS_FAILED;
    if (o->resume &&
        result_file_resume(&b->results, b->fingerprint, o->ordered, error) != STATUS_OK)
        return STATUS_FAILED;
    size_t check_rows = b->check ? rows_with_logits(session->model) : 0;
    const EngineOptions options = {.draft_rows = check_rows,
                                   .max_tasks = choose_concurrency(b, &shape),
                                   .max_bytes = b->kv_bytes,
                                   .snapshot_bytes = b->kv_bytes / 100 * o->snapshots,
                                   .kv_type = session->kv_type};
    if (engine_new(&b->engine, session->model, &options, error) != STATUS_OK) return STATUS_FAILED;
    b->read_ahead = options.max_tasks < 16 ? 16 : options.max_tasks;
    if (session->shows_progress) b->total = line_reader_count(b->reader.fd);
    b->start = clock_seconds();
    return STATUS_OK;
}

static Status answer_lines(Batch *b, Error *error) {
    for (;;) {
        if (*b->session->interrupted) return STATUS_INTERRUPTED;
        Status status = feed(b, error);
        if (status != STATUS_OK) return status;
        if (engine_pending(b->engine) > 0) status = engine_step(b->engine, error);
        if (status != STATUS_OK) return status;
        if (result_file_flush(&b->results, false, error) != STATUS_OK) return STATUS_FAILED;
        show_progress(b, false);
        if (b->status != STATUS_OK) {
            *error = b->error;
            return b->status;
        }
        if (b->results.closed) return STATUS_OK;
        bool at_end = b->at_end || b->stops;
        if (engine_pending(b->engine) == 0 && at_end && !b->feeding) return STATUS_OK;
    }
}

/* Names the records that no request has asked for, and completes the results as they should be. */
static Status finish_check(Batch *b, Error *error) {
    Status status = STATUS_OK;
    for (char *line; status == STATUS_OK && (line = check_unasked(b->check)); free(line))
        status = result_file_add(&b->results, line, error);
    return status == STATUS_OK ? check_finish(b->check, error) : status;
}

static Status batch_status(const Batch *b, Error *error) {
    size_t n_differ = b->check ? check_n_differ(b->check) : 0;
    if (b->check && n_differ == 0) return STATUS_OK;
    if (b->check) {
        error_set(error, "%zu results are not what this model gives", n_differ);
        return STATUS_LINES_FAILED;
    }
    if (b->n_failed == 0) return STATUS_OK;
    error_set(error, "%zu of %zu lines failed: their results say why", b->n_failed, b->n_lines);
    return STATUS_LINES_FAILED;
}

Status batch_run(Batch *b, Session *session, Error *error) {
    Status status = start(b, session, error);
    if (status != STATUS_OK) return status;
    status = answer_lines(b, error);
    if (b->check && status == STATUS_OK && !b->stops) status = finish_check(b, error);
    show_progress(b, true);
    if (status != STATUS_FAILED) {
        Status flushed = result_file_flush(&b->results, true, error);
        if (flushed != STATUS_OK) status = flushed;
    }
    if (b->options->stats) print_stats(b);
    if (status != STATUS_OK || b->stops) tell_how_to_resume(b);
    if (status != STATUS_OK) return status;
    if (b->stops) {
        *error = b->error;
        return STATUS_LINES_FAILED;
    }
    return batch_status(b, error);
}
