#include "json/json_digits.h"
#include "json/json_reader.h"
#include "modes/batch/batch.h"
#include "modes/proof/proof_options.h"
#include "session/embedding_options.h"
#include "modes/batch/batch_options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "json/json_text.h"
#include "modes/batch/answering.h"
#include "modes/batch/batch_files.h"
#include "modes/batch/batch_memory.h"
#include "modes/batch/batch_progress.h"
#include "modes/batch/batch_receipt.h"
#include "modes/batch/csv.h"
#include "modes/batch/csv_shard.h"
#include "modes/batch/kept_results.h"
#include "modes/batch/logits_file.h"
#include "modes/batch/shard.h"
#include "kvcache/kvcache_sizes.h"
#include "session/logprobs.h"
#include "system/line_reader.h"
#include "system/terminal.h"

enum {
    /* With --ordered: the jobs and bytes of results that may wait for an earlier result. */
    ORDERED_MOST_JOBS = 4096,
    ORDERED_MOST_BYTES = 64 << 20,
    /* With --live: the requests that may be under way. */
    LIVE_MOST_JOBS = 4096
};

struct Batch {
    const Options *options;
    LineReader reader;
    Csv *csv;          /* the input is a table; NULL: lines */
    const CsvRow *row; /* the row being read */
    ResultFile results;
    Records *check;     /* NULL: nothing is checked */
    LogitsFile *logits; /* NULL: none */
    size_t kv_bytes;    /* limit of the KV cache */
    bool input_open;
    char *name;   /* of a part, for errors; NULL: the whole file */
    char *header; /* of a part: the first line of its results; NULL: the whole file */
    bool replays; /* a receipt: no result is written */

    Session *session;
    Answering answering;
    bool skips_empty; /* --embed with a model that has no token for an empty text */
    size_t n_skipped; /* lines, for that reason */

    Job *first, *last;         /* the jobs whose results are not written yet */
    Job *feeding;              /* the job whose texts are being handed to the engine; NULL: none */
    size_t n_streams;          /* jobs in that list whose results come in chunks */
    size_t n_jobs, held_bytes; /* in that list: jobs, and bytes of their result lines */
    bool at_end;               /* of the input */
    bool stops;                /* a line failed with --strict */
    Status status;
    Error error;

    BatchProgress progress;
    size_t failed_line; /* the first line that failed in this run; 0: none */
    char failure[400];  /* why */
};

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Results are lines of JSON, whatever their file (NULL: stdout) is called. */
static void remark_on_name(const char *path) {
    static const char *const others[] = {".csv", ".tsv", ".npy", ".parquet", ".xlsx"};
    const char *ending = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; ending && i < sizeof others / sizeof *others; i++)
        if (strcasecmp(ending, others[i]) == 0)
            terminal_say("-o %s: the results are lines of JSON, whatever the name: %.*s.jsonl says "
                         "what they are",
                         path, (int)(ending - path), path);
}

/* --embed takes each line of FILE as a text, also where FILE is a table. */
static void remark_on_table(const char *path) {
    const char *ending = strrchr(path, '.');
    if (ending && (strcasecmp(ending, ".csv") == 0 || strcasecmp(ending, ".tsv") == 0))
        terminal_say("--embed %s: each line of the table is a text, its header too", path);
}

Status batch_open(Batch **out, const Options *o, Error *error) {
    const EmbeddingOptions *embedding = embedding_options(o);
    const ProofOptions *proof = proof_options(o);
    const BatchOptions *batch = batch_options(o);
    Batch *b = calloc(1, sizeof *b);
    if (!b) return error_set(error, "no memory for a batch");
    *out = b;
    b->options = o;
    b->results.fd = b->results.retry_fd = -1;
    Status status = batch_memory(batch->kv_memory, &b->kv_bytes, error);
    if (status != STATUS_OK) return status;
    bool standard = strcmp(o->batch, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(o->batch, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(error, "%s: %s", o->batch, strerror(errno));
    if (standard && isatty(fd))
        terminal_say("reading stdin, one %s a line; Ctrl-D ends it",
                     batch->batch_text ? "text" : "JSON object");
    line_reader_init(&b->reader, fd, standard ? "stdin" : o->batch, "--batch");
    b->input_open = true;
    if (batch->logits && logits_file_open(&b->logits, batch->logits, error) != STATUS_OK)
        return STATUS_FAILED;
    if (proof->check && records_open(&b->check, proof->check, o->output, error) != STATUS_OK)
        return STATUS_FAILED;
    if (proof->check) return result_file_open(&b->results, NULL, false, false, error);
    status = result_file_open(&b->results, o->output, batch->resume, batch->retry_failed, error);
    if (status == STATUS_OK) remark_on_name(o->output);
    if (status == STATUS_OK && embedding->embed) remark_on_table(embedding->embed);
    return status;
}

void batch_close(Batch *b) {
    if (!b) return;
    answering_end(&b->answering);
    for (Job *job = b->first, *next; job; job = next) {
        next = job->next;
        job_free(job);
    }
    if (b->input_open && b->reader.fd != STDIN_FILENO) close(b->reader.fd);
    line_reader_free(&b->reader);
    csv_close(b->csv);
    records_close(b->check);
    logits_file_close(b->logits);
    result_file_close(&b->results);
    free(b->name);
    free(b->header);
    free(b);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Ends the run with this error, unless another one has already ended it. */
static void end_run(Batch *b, Status status, const Error *error) {
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
    bool told = b->replays || (proof_options(b->options)->quiet && job->is_same);
    if (!told && result_file_add(&b->results, job->line, &error) != STATUS_OK)
        end_run(b, STATUS_FAILED, &error);
    if (job->result && records_write(b->check, job->result, &error) != STATUS_OK)
        end_run(b, STATUS_FAILED, &error);
    b->progress.n_done++;
    unlink_job(b, job);
    job_free(job);
}

/* Adds the result of a job (`line`), or its failure, to the receipt. */
static void add_to_receipt(Batch *b, Job *job, const char *failure, const char *line) {
    static const Error no_memory = {"no memory for a receipt"};
    Error error;
    json_t *item = job->item;
    job->item = NULL;
    if (!item) return;
    const Receipt *receipt = b->session->receipt;
    bool fits = failure ? batch_receipt_failure(receipt, item, failure)
                : request_embeds(&job->request)
                    ? batch_receipt_result(item, line)
                    : batch_receipt_answers(receipt, item, &job->request, job->choices);
    if (!fits) {
        json_decref(item);
        end_run(b, STATUS_FAILED, &no_memory);
    } else if (receipt_item(b->session->receipt, job->request.line, item, &error) != STATUS_OK) {
        end_run(b, STATUS_FAILED, &error);
    }
}

/* With --replay and --check: names a recorded result that is not the model's. job NULL: no request
 * asks for it. */
static void report_record(Batch *b, const Job *job, const char *line) {
    json_t *report = json_reader_load_digits(line, strlen(line), JSON_ALLOW_NUL, NULL, NULL);
    if (report && !json_is_true(json_object_get(report, "same"))) {
        if (job) json_object_set_new(report, "number", json_integer((json_int_t)job->request.line));
        receipt_report(b->session->receipt, "recorded", report);
    }
    json_decref(report);
}

/* Takes over the result line of a job (NULL: no memory) and writes it; with --ordered once all
 * earlier results are written. */
static void deliver(Batch *b, Job *job, char *line) {
    const BatchOptions *batch = batch_options(b->options);
    static const Error no_memory = {"no memory for a result"};
    if (b->check) line = job_compare(job, line);
    if (b->check && b->replays && line) report_record(b, job, line);
    job->line = line;
    if (!line) {
        end_run(b, STATUS_FAILED, &no_memory);
        return;
    }
    b->held_bytes += strlen(line);
    job_shrink(job);
    if (!batch->ordered) write_job(b, job);
    while (batch->ordered && b->first && b->first->line) write_job(b, b->first);
}

/* With --strict the line that failed gets no result, so that --resume answers it once it is mended.
 * No line is begun any more, but those in progress are finished. With --ordered the job stays: the
 * results of later lines wait for it and are not written. */
static void stop_at(Batch *b, Job *job, const char *message) {
    if (!b->stops)
        error_set(&b->error, "%s: line %zu: %s", b->reader.name, job->request.line, message);
    b->stops = true;
    if (batch_options(b->options)->ordered) return;
    unlink_job(b, job);
    job_free(job);
}

static void fail_job(Batch *b, Job *job, const char *message) {
    b->progress.n_failed++;
    if (!b->failed_line) {
        b->failed_line = job->request.line;
        snprintf(b->failure, sizeof b->failure, "%s", message);
    }
    if (batch_options(b->options)->strict) {
        stop_at(b, job, message);
        return;
    }
    add_to_receipt(b, job, message, NULL);
    deliver(b, job, result_error_line(&b->answering.maker, &job->request, message));
}

static Status batch_add_line(void *context, const char *line, Error *error) {
    return result_file_add(context, line, error);
}

/* Writes the chunks that streams can get now; the last ones of a job that is done. */
static void stream(Batch *b, Job *job) {
    Error error;
    if (!b->replays && job_stream(job, batch_add_line, &b->results, &error) != STATUS_OK)
        end_run(b, STATUS_FAILED, &error);
}

static void stream_all(Batch *b) {
    for (Job *job = b->first; job && b->n_streams > 0; job = job->next)
        if (job->streamed && job->n_submitted > 0) stream(b, job);
}

static void finish_stream(Batch *b, Job *job) {
    b->n_streams--;
    b->progress.n_done++;
    unlink_job(b, job);
    job_free(job);
}

/* All texts of the job are done: JobSetting.done. */
static void finish_job(Job *job, void *context) {
    Batch *b = context;
    const char *failure = job_failure(job);
    if (failure) {
        b->n_streams -= job->streamed != NULL;
        fail_job(b, job, failure);
        return;
    }
    b->progress.n_generated += job_n_generated(job);
    if (job->streamed) stream(b, job);
    bool in_chunks = job->streamed && !job->request.is_native;
    char *line = in_chunks ? NULL : job_result(job);
    add_to_receipt(b, job, NULL, line);
    if (in_chunks) {
        finish_stream(b, job);
    } else {
        b->n_streams -= job->streamed != NULL;
        deliver(b, job, line);
    }
}

/* JobSetting.add_logits: a row of --logits. */
static Status add_logits(Job *job, size_t index, const float *logits, size_t *row, Error *error) {
    const Batch *b = job->setting->context;
    (void)index;
    return logits_file_add(b->logits, logits, row, error);
}

/* ---- Reading -----------------------------------------------------------------------------------
 */

/* Makes a job and puts it at the end of the list. */
static Job *add_job(Batch *b) {
    Job *job = job_new(&b->answering.setting);
    if (!job) return NULL;
    if (b->last) {
        b->last->next = job;
    } else {
        b->first = job;
    }
    b->last = job;
    b->n_jobs++;
    return job;
}

/* Whether an earlier run has answered the request. With --ordered its result must be the next one
 * of the resumed file. */
static bool answered(Batch *b, const Request *r) {
    RecordKey key = request_key(r);
    const ResultFile *file = &b->results;
    uint64_t flags = keyset_flags(&file->keys, key);
    if (batch_options(b->options)->ordered && b->progress.n_before < file->n_kept) {
        const RecordKey *expected = &file->order[b->progress.n_before];
        if (expected->low != key.low || expected->high != key.high) {
            Error error;
            error_set(&error,
                      "%s: its line %zu is not the result of line %zu of %s: it was written "
                      "without --ordered, or for other requests; resume without --ordered",
                      file->path, b->progress.n_before + 1 + (file->header != NULL), r->line,
                      b->reader.name);
            end_run(b, STATUS_FAILED, &error);
            return true;
        }
    }
    if (!(flags & KEY_DONE)) return false;
    b->progress.n_before++;
    b->progress.n_done++;
    b->progress.n_failed += (flags & KEY_FAILED) != 0;
    return true;
}

/* Refuses an id that an earlier line has, because their results could not be told apart. */
static Status claim_id(Batch *b, Request *r, Error *error) {
    if (!r->id || batch_options(b->options)->live) return STATUS_OK;
    RecordKey key = request_key(r);
    if (keyset_flags(&b->results.keys, key) & KEY_SEEN) {
        char *id = json_digits_dumps(r->id, r->digits, 0);
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
    size_t number = b->row ? b->row->number : b->reader.number;
    if (b->row && b->row->wrong) {
        request_blank(r, line, length, number);
        return error_set(error, "%s", b->row->problem.text);
    }
    if (state == LINE_TOO_LONG) {
        request_blank(r, line, length, number);
        return error_set(error, "the line is longer than %d bytes", LINE_MOST_BYTES);
    }
    if (!batch_options(b->options)->batch_text)
        return request_parse(r, line, length, number, &b->answering.defaults, error);
    Status status = request_plain(r, line, length, number, &b->answering.defaults, error);
    if (embedding_options(b->options)->embed) request_embed_plain(r);
    return status;
}

/* Chunks are for a reader at the other end of a pipe: they cannot be put in order, compared or
 * continued. */
static Status check_stream(const Batch *b, Request *r, Error *error) {
    const Options *o = b->options;
    const ProofOptions *proof = proof_options(o);
    const BatchOptions *batch = batch_options(o);
    if (b->replays) r->streams = false; /* whole results are compared */
    if (!r->streams || !(batch->ordered || batch->shard || proof->check || b->results.regular))
        return STATUS_OK;
    return error_set(error, "'stream' needs results that go to a pipe: no file, --ordered or "
                            "--check");
}

/* The job after this one whose texts come next; NULL: none has been read, as always without
 * --live.
 */
static Job *next_to_feed(Job *job) {
    do {
        job = job->next;
    } while (job && job->n_submitted == job->n);
    return job;
}

/* Ends the request on a line; false: it has ended. */
static bool cancel(Batch *b, size_t line) {
    Job *job = b->first;
    while (job && job->request.line != line) job = job->next;
    if (!job || job->n_left == 0) return false;
    if (b->feeding == job) b->feeding = next_to_feed(job);
    job_cancel(job, b->answering.engine);
    return true;
}

/* Does what a line of control.h asks for. */
static void obey(Batch *b, Job *job) {
    const Control *control = &job->request.control;
    json_t *json = json_object();
    Error error;
    switch (control->kind) {
    case CONTROL_INFO:
        json_object_set_new(json, "info", answering_info(&b->answering));
        break;
    case CONTROL_DETOKENIZE:
        if (control_detokenize(control, b->session->tokenizer, json, &error) == STATUS_OK) break;
        json_decref(json);
        fail_job(b, job, error.text);
        return;
    case CONTROL_RESULTS:
        if (kept_results_answer(control, b->answering.maker.fingerprint, json, &error) == STATUS_OK)
            break;
        json_decref(json);
        fail_job(b, job, error.text);
        return;
    case CONTROL_CANCEL:
        json_object_set_new(json, "cancelled", json_boolean(cancel(b, control->line)));
        break;
    default:
        json_object_set_new(json, "forgotten",
                            json_boolean(engine_forget(b->answering.engine, control->line)));
    }
    deliver(b, job, result_control_line(&b->answering.maker, &job->request, json));
}

/* Makes a job of a line of the input, unless the line is blank or answered by an earlier run. */
static void submit_line(Batch *b, LineState state, const char *line, size_t length) {
    const BatchOptions *batch = batch_options(b->options);
    static const Error no_memory = {"no memory for a request"};
    Error error, other;
    if (!b->csv) line_reader_trim(&b->reader, batch->batch_text, &line, &length);
    /* A row that a table has counted has a result, whatever it looks like. */
    if (!embedding_options(b->options)->embed && !b->csv && json_line_is_blank(line, length))
        return;
    if (b->skips_empty && length == 0) {
        b->n_skipped++;
        return;
    }
    b->progress.n_lines++;
    Job *job = add_job(b);
    if (!job) {
        end_run(b, STATUS_FAILED, &no_memory);
        return;
    }
    if (b->session->receipt &&
        !(job->item = batch_receipt_begin(b->session->receipt, line, length))) {
        end_run(b, STATUS_FAILED, &no_memory);
        return;
    }
    Status status = parse_line(b, &job->request, state, line, length, &error);
    job->request.any_line = batch->live;
    if (claim_id(b, &job->request, &other) != STATUS_OK) {
        error = other;
        status = STATUS_FAILED;
    }
    if (answered(b, &job->request)) {
        unlink_job(b, job);
        job_free(job);
        return;
    }
    if (b->check)
        job->recorded = records_find(b->check, request_key(&job->request), job->request.line);
    if (status == STATUS_OK) status = check_stream(b, &job->request, &error);
    bool is_control = job->request.control.kind != CONTROL_NONE;
    if (status == STATUS_OK && is_control && !batch->live)
        status = error_set(&error, "'info', 'detokenize', 'cancel', 'forget' and 'results' "
                                   "need --live");
    if (status == STATUS_OK && is_control) {
        obey(b, job);
        return;
    }
    if (status == STATUS_OK) status = job_prepare(job, &error);
    if (status != STATUS_OK) {
        fail_job(b, job, error.text);
    } else {
        if (!b->feeding) b->feeding = job;
        b->n_streams += job->streamed != NULL;
    }
}

/* Hands the next text of the job that is being fed to the engine. */
static Status hand_over(Batch *b, Error *error) {
    Job *job = b->feeding;
    if (job->n_submitted + 1 == job->n) b->feeding = next_to_feed(job);
    return job_submit(job, b->answering.engine, error);
}

static bool has_room(const Batch *b) {
    if (!batch_options(b->options)->ordered) return true;
    return b->n_jobs < ORDERED_MOST_JOBS && b->held_bytes < ORDERED_MOST_BYTES;
}

/* Handles what the reader has returned: a line, or a part of a table's row. */
static Status handle_input(Batch *b, LineState state, const char *line, size_t length,
                           Error *error) {
    b->at_end = state == LINE_NONE;
    if (!b->csv) {
        if (!b->at_end) submit_line(b, state, line, length);
        return STATUS_OK;
    }
    if (state == LINE_TOO_LONG)
        return error_set(error, "%s: line %zu is longer than %d bytes", b->reader.name,
                         b->reader.number, LINE_MOST_BYTES);
    if (!b->at_end) line_reader_trim(&b->reader, false, &line, &length);
    Status status = b->at_end ? csv_end(b->csv, &b->row, error)
                              : csv_line(b->csv, line, length, &b->row, error);
    if (status == STATUS_OK && b->row) submit_line(b, LINE_READ, b->row->request, b->row->length);
    return status;
}

/* --live: reads what has come, also where the engine wants no more texts: a line may cancel one. */
static Status read_live(Batch *b, Error *error) {
    while (!b->at_end && b->n_jobs < LIVE_MOST_JOBS && b->status == STATUS_OK) {
        LineState state;
        const char *line;
        size_t length;
        Status status = line_reader_next(&b->reader, false, b->session->interrupted, &state, &line,
                                         &length, error);
        if (status != STATUS_OK || state == LINE_NOT_YET) return status;
        if (state == LINE_NONE) {
            b->at_end = true;
        } else {
            submit_line(b, state, line, length);
        }
    }
    return STATUS_OK;
}

/* Reads lines and hands their texts to the engine until enough wait there. Waits for input only
 * when there is nothing to compute. */
static Status feed(Batch *b, Error *error) {
    while (engine_waiting(b->answering.engine) < b->answering.read_ahead &&
           b->status == STATUS_OK) {
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
        bool wait = engine_pending(b->answering.engine) == 0;
        if (wait && result_file_flush(&b->results, false, error) != STATUS_OK) return STATUS_FAILED;
        status = line_reader_next(&b->reader, wait, b->session->interrupted, &state, &line, &length,
                                  error);
        if (status != STATUS_OK) return status;
        if (*b->session->interrupted) return STATUS_INTERRUPTED;
        if (state == LINE_NOT_YET) break;
        status = handle_input(b, state, line, length, error);
        if (status != STATUS_OK) return status;
    }
    return batch_options(b->options)->live ? read_live(b, error) : STATUS_OK;
}

/* ---- The mode -----------------------------------------------------------------------------------
 */

static CsvPrompt table_prompt(const Batch *b) {
    const Options *o = b->options;
    const BatchOptions *batch = batch_options(o);
    return (CsvPrompt){.template = b->session->prompt,
                       .length = b->session->prompt_length,
                       .messages = batch->csv_messages,
                       .id = batch->csv_id};
}

/* Finds the part of the input, and puts the header of its results together. */
static Status locate_shard(Batch *b, Shard *shard, Error *error) {
    const LineReader *reader = &b->reader;
    const CsvPrompt prompt = table_prompt(b);
    volatile sig_atomic_t *interrupted = b->session->interrupted;
    Status status = b->csv ? csv_shard_locate(shard, &prompt, reader->fd, reader->name, b->csv,
                                              interrupted, error)
                           : shard_locate(shard, reader->fd, reader->name, interrupted, error);
    if (status != STATUS_OK) return status;
    snprintf(shard->fingerprint, sizeof shard->fingerprint, "%s", b->answering.fingerprint);
    b->header = shard_header(shard);
    if (asprintf(&b->name, "%s, part %" PRIu64 "/%" PRIu64, reader->name, shard->part, shard->of) <
        0)
        b->name = NULL;
    return b->header && b->name ? STATUS_OK : error_set(error, "no memory for a part");
}

/* --shard: limits the reader to the part's lines, and puts the part's header before the results. */
static Status begin_shard(Batch *b, Error *error) {
    const Options *o = b->options;
    const BatchOptions *batch = batch_options(o);
    LineReader *reader = &b->reader;
    Shard shard = {.text = batch->batch_text};
    Status status = shard_number(batch->shard, &shard.part, &shard.of, error);
    if (status == STATUS_OK) status = locate_shard(b, &shard, error);
    shard_free(&shard);
    if (status != STATUS_OK) return status;
    if (b->session->receipt && receipt_member(b->session->receipt, "shard",
                                              batch_receipt_shard(&shard), error) != STATUS_OK)
        return STATUS_FAILED;
    reader->name = b->name;
    b->results.header = b->header;
    return line_reader_range(reader, shard.begin, shard.end, error);
}

/* --csv: opens the table, whose requests' template is the text of -i and -f. */
static Status begin_table(Batch *b, Error *error) {
    const CsvPrompt prompt = table_prompt(b);
    return csv_open(&b->csv, &prompt, b->reader.name, error);
}

/* Prepares a batch whose model is open: what answers, and what its options ask for beside. */
static Status batch_begin(Batch *b, Session *session, Error *error) {
    const Options *o = b->options;
    const BatchOptions *batch = batch_options(o);
    const EmbeddingOptions *embedding = embedding_options(o);
    Answering *a = &b->answering;
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    b->session = session;
    Status status = answering_begin(a, session, error);
    if (status != STATUS_OK) return status;
    struct tm now = a->chat.now;
    if (session->receipt && receipt_clock(session->receipt, &now)) a->chat.now = now;
    if (session->receipt &&
        receipt_settings(session->receipt, session, &a->defaults, &a->chat.now, error) != STATUS_OK)
        return STATUS_FAILED;
    status = answering_settle(a, error);
    if (status == STATUS_OK && embedding->embed)
        status = embedding_check(session, &a->embedding, error);
    if (status != STATUS_OK) return status;
    b->skips_empty = embedding->embed && !embedding_accepts_empty(session, &a->embedding);
    if (b->logits) b->logits->columns = model_config(session->model)->vocab_size;
    a->setting.check = b->check;
    a->setting.add_logits = b->logits ? add_logits : NULL;
    a->setting.done = finish_job;
    a->setting.context = b;
    size_t least = kvcache_sequence_bytes(&shape, KV_PAGE + 1);
    if (b->kv_bytes < least)
        return error_set(error, "--kv-memory: %zu bytes are too few, at least %zu are needed",
                         b->kv_bytes, least);
    if (b->check && records_read(b->check, session->interrupted, error) != STATUS_OK)
        return STATUS_FAILED;
    if (batch->csv && (status = begin_table(b, error)) != STATUS_OK) return status;
    if (batch->shard && (status = begin_shard(b, error)) != STATUS_OK) return status;
    if (batch->resume &&
        result_file_resume(&b->results, a->fingerprint, batch->ordered, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!b->replays && result_file_begin(&b->results, error) != STATUS_OK) return STATUS_FAILED;
    size_t check_rows = b->check ? logprobs_max_rows(session->model) : 0;
    if (answering_start(a, b->kv_bytes, check_rows, error) != STATUS_OK) return STATUS_FAILED;
    if (session->shows_progress && !b->csv) b->progress.total = line_reader_count(&b->reader);
    b->progress.session = session;
    b->progress.engine = a->engine;
    b->progress.start = clock_seconds();
    b->progress.on_results = isatty(b->results.fd);
    return STATUS_OK;
}

/* --live: whether whoever waited for the results has gone, also while there is none to write. */
static bool has_gone(const Batch *b) {
    struct pollfd out = {.fd = b->results.fd};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

/* Runs the batch. Each round gives requests to the engine, computes one step and writes what is
 * finished; it ends when all is answered, at an error, or when nobody reads the results any
 * more. */
static Status answer_lines(Batch *b, Error *error) {
    for (;;) {
        if (*b->session->interrupted) return STATUS_INTERRUPTED;
        Status status = feed(b, error);
        if (status != STATUS_OK) return status;
        if (engine_pending(b->answering.engine) > 0)
            status = engine_step(b->answering.engine, error);
        if (status != STATUS_OK) return status;
        stream_all(b);
        if (result_file_flush(&b->results, false, error) != STATUS_OK) return STATUS_FAILED;
        batch_progress_show(&b->progress, false);
        if (b->status != STATUS_OK) {
            *error = b->error;
            return b->status;
        }
        if (b->results.closed || (batch_options(b->options)->live && has_gone(b))) return STATUS_OK;
        bool at_end = b->at_end || b->stops;
        if (engine_pending(b->answering.engine) == 0 && at_end && !b->feeding) return STATUS_OK;
    }
}

/* Names the records that no request has asked for, and completes the results as they should be. */
static Status finish_check(Batch *b, Error *error) {
    Status status = STATUS_OK;
    for (char *line; status == STATUS_OK && (line = check_unasked(b->check)); free(line)) {
        if (b->replays) {
            report_record(b, NULL, line);
        } else {
            status = result_file_add(&b->results, line, error);
        }
    }
    return status == STATUS_OK ? records_finish(b->check, error) : status;
}

static void print_how_to_resume(const Batch *b) {
    if (!b->results.regular) return;
    /* After a failed write (a full disk) it is not known how many lines were written. */
    if (b->results.buffer.length > 0)
        terminal_print(stderr, "%s: what %s holds stays; the same command with --resume goes on\n",
                       program_invocation_short_name, b->results.path);
    else
        terminal_print(stderr,
                       "%s: %zu lines are answered; the same command with --resume goes on\n",
                       program_invocation_short_name, b->progress.n_done);
}

/* --resume: warns that results of an earlier run answer no line of the input any more. They stay in
 * the file. */
static void warn_of_stale_results(const Batch *b) {
    size_t n = b->results.n_kept - b->progress.n_before;
    if (!batch_options(b->options)->resume || b->results.n_kept <= b->progress.n_before) return;
    terminal_say("%s: %zu result%s of an earlier run answer%s no line of %s any more: lines were "
                 "changed, moved or removed, and what stands there now was answered again",
                 b->results.path, n, n == 1 ? "" : "s", n == 1 ? "s" : "", b->reader.name);
}

/* What a log of a run in the background holds at its end: how many results there are, and where. */
static void say_finished(const Batch *b) {
    const BatchProgress *p = &b->progress;
    size_t n = p->n_done; /* none of them failed */
    if (!b->results.regular || p->n_lines == 0 || b->options->stats) return;
    char before[64] = "";
    if (p->n_before > 0) snprintf(before, sizeof before, ", %zu by an earlier run", p->n_before);
    terminal_say("%s: complete, %zu result%s%s", b->results.path, n, n == 1 ? "" : "s", before);
}

/* Says that the input holds nothing to answer, which may be a mistake of what made it. */
static void tell_of_nothing(const Batch *b) {
    const Options *o = b->options;
    const EmbeddingOptions *embedding = embedding_options(o);
    const BatchOptions *batch = batch_options(o);
    if (b->replays || b->check || b->stops || batch->live || batch->shard) return;
    terminal_say("%s: %s, so nothing is answered", b->reader.name,
                 batch->csv         ? "has no rows below its header"
                 : embedding->embed ? "holds no text"
                                    : "holds no request");
}

static Status batch_status(const Batch *b, Error *error) {
    if (b->replays) return STATUS_OK;
    if (b->check) return records_end(b->check, error);
    if (b->progress.n_failed == 0) {
        say_finished(b);
        return STATUS_OK;
    }
    const BatchProgress *p = &b->progress;
    if (b->failed_line && p->n_failed == p->n_lines)
        error_set(error, "%zu of %zu lines failed; line %zu: %s", p->n_failed, p->n_lines,
                  b->failed_line, b->failure);
    else
        error_set(error, "%zu of %zu lines failed: their results say why", p->n_failed, p->n_lines);
    return STATUS_LINES_FAILED;
}

Status batch_run(Batch *b, Session *session, Error *error) {
    Status status = batch_begin(b, session, error);
    if (status != STATUS_OK) return status;
    status = answer_lines(b, error);
    if (b->check && status == STATUS_OK && !b->stops) status = finish_check(b, error);
    batch_progress_show(&b->progress, true);
    if (status == STATUS_OK && b->progress.n_lines == 0 && b->n_skipped == 0) tell_of_nothing(b);
    if (b->n_skipped > 0)
        terminal_say("%zu empty line%s skipped: the model has no token for %s", b->n_skipped,
                     b->n_skipped == 1 ? "" : "s", b->n_skipped == 1 ? "it" : "them");
    if (status == STATUS_OK && !b->stops) warn_of_stale_results(b);
    if (status != STATUS_FAILED) {
        Status flushed = result_file_flush(&b->results, true, error);
        if (flushed != STATUS_OK) status = flushed;
    }
    if (b->options->stats)
        batch_progress_stats(&b->progress, b->kv_bytes, b->answering.fingerprint);
    if (!b->replays && (status != STATUS_OK || b->stops)) print_how_to_resume(b);
    if (status != STATUS_OK) return status;
    if (b->stops) {
        *error = b->error;
        return STATUS_LINES_FAILED;
    }
    return batch_status(b, error);
}

/* ---- Replaying a receipt ------------------------------------------------------------------------
 */

Status batch_replay_open(Batch **out, const Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    const BatchOptions *batch = batch_options(o);
    Batch *b = calloc(1, sizeof *b);
    if (!b) return error_set(error, "no memory for a batch");
    *out = b;
    b->options = o;
    b->replays = true;
    b->results.fd = b->results.retry_fd = -1;
    Status status = batch_memory(batch->kv_memory, &b->kv_bytes, error);
    int fd = status == STATUS_OK && o->batch ? open(o->batch, O_RDONLY | O_CLOEXEC) : -1;
    if (status == STATUS_OK && o->batch && fd < 0)
        return error_set(error, "%s: %s", o->batch, strerror(errno));
    line_reader_init(&b->reader, fd, o->batch ? o->batch : "the receipt", "--batch");
    b->input_open = fd >= 0;
    if (status == STATUS_OK && proof->check) {
        status = records_open(&b->check, proof->check, NULL, error);
        if (status == STATUS_OK) records_complete(b->check);
    }
    return status;
}

Status batch_replay_run(Batch *b, Session *session, Error *error) {
    LineReader *reader = &b->reader;
    size_t length = 0;
    if (!b->input_open) {
        if (batch_receipt_lines(session->receipt, &reader->bytes, &length, error) != STATUS_OK)
            return STATUS_FAILED;
        reader->end = reader->capacity = length;
        reader->at_end = true;
    }
    return batch_run(b, session, error);
}
