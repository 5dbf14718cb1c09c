#include "verbatim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/call_mode.h"
#include "ports/library/opening.h"
#include "ports/library/refused.h"
#include "system/line_reader.h"

/* A growing matrix of the numbers of one text. */
typedef struct Numbers {
    float *values;
    size_t n_rows, capacity; /* capacity in numbers */
} Numbers;

struct VerbatimRequest {
    VerbatimModel *model;
    VerbatimRequest *before, *next; /* of the model's requests, in the order of their lines */
    Job *job;
    Numbers *numbers; /* [job->n] with return_logits or return_states; else NULL */
    size_t n_numbers;
    char *line; /* the result, once it was asked for */
    bool done, failed;
    Error failure;
};

struct VerbatimModel {
    LibraryOpening opening;
    pid_t process;   /* the process that opened the model */
    locale_t locale; /* C, for numbers as text */
    VerbatimRequest *first, *last;
    VerbatimRequest *feeding; /* the first request with texts that the engine does not have yet */
    size_t n_lines;
    atomic_ulong n_refused; /* allocations in all calls so far: library_refused */
    unsigned long refused;  /* library_refused before this pass */
    char *description;
    TokenList ids; /* of verbatim_tokens */
    char *text;    /* of verbatim_detokenize */
    Error error;
};

/* ---- Calls ---- */

static CallSetting setting_of(VerbatimModel *m) {
    return (CallSetting){m->locale, &m->n_refused};
}

/* Begins a call: refuses a process forked from the one that opened the model, whose OpenMP runtime
 * has lost its threads. */
static bool call_begins(VerbatimModel *m, CallMode *before) {
    if (m->process != getpid()) {
        error_set(&m->error, "this process was forked after the model was opened: it can only "
                             "close it");
        return false;
    }
    call_mode_enter(before, setting_of(m));
    return true;
}

static int failed(VerbatimModel *m, const char *why) {
    error_set(&m->error, "%s", why);
    return -1;
}

const char *verbatim_version(void) {
    return VERBATIM_VERSION;
}

const char *verbatim_error(const VerbatimModel *m) {
    return m->error.text;
}

/* ---- Opening and closing ---- */

static void job_done(Job *job, void *context) {
    VerbatimRequest *r = job->owner;
    const char *failure = job_failure(job);
    (void)context;
    r->done = true;
    r->failed = failure != NULL;
    if (!failure) return;
    error_set(&r->failure, "%s", failure);
    /* Where memory was refused, the text's own message may name a consequence of that only. */
    if (library_refused() != r->model->refused) error_prefix(&r->failure, "no memory");
}

/* Appends a row to the numbers of text `index`. Threads call it at once, but not for one text. */
static Status add_row(VerbatimRequest *r, size_t index, const float *values, size_t columns,
                      size_t *row, Error *error) {
    Numbers *numbers = &r->numbers[index];
    size_t needed;
    if (!size_mul(numbers->n_rows + 1, columns, &needed) ||
        !array_reserve(&numbers->values, &numbers->capacity, needed, sizeof *numbers->values))
        return error_set(error, "no memory for the numbers of a text");
    *row = numbers->n_rows++;
    memcpy(numbers->values + *row * columns, values, columns * sizeof *values);
    return STATUS_OK;
}

static const Config *config_of(const VerbatimRequest *r) {
    return model_config(r->model->opening.session.model);
}

static Status add_logits(Job *job, size_t index, const float *logits, size_t *row, Error *error) {
    VerbatimRequest *r = job->owner;
    return add_row(r, index, logits, config_of(r)->vocab_size, row, error);
}

static Status add_state(Job *job, size_t index, const float *state, Error *error) {
    VerbatimRequest *r = job->owner;
    size_t ignored;
    return add_row(r, index, state, config_of(r)->dim, &ignored, error);
}

static Status open_all(VerbatimModel *m, const char *path, const char *options, Error *error) {
    unsigned long before = library_refused();
    if (library_open(&m->opening, path, options, error) != STATUS_OK) return STATUS_FAILED;
    JobSetting *setting = &m->opening.answering.setting;
    setting->add_logits = add_logits;
    setting->add_state = add_state;
    setting->done = job_done;
    return library_refused() == before ? STATUS_OK : error_set(error, "%s: no memory", path);
}

VerbatimModel *verbatim_open(const char *path, const char *options, char *error,
                             size_t error_bytes) {
    CallMode before;
    Error why = {""};
    VerbatimModel *m = calloc(1, sizeof *m);
    Status status = m ? STATUS_OK : error_set(&why, "no memory for a model");
    if (m) {
        m->process = getpid();
        m->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!m->locale) status = error_set(&why, "no memory for a locale");
    }
    if (status == STATUS_OK && !path) status = error_set(&why, "no model is named");
    if (status == STATUS_OK) {
        call_mode_enter(&before, setting_of(m));
        status = open_all(m, path, options, &why);
        call_mode_leave(&before);
    }
    if (error && error_bytes > 0) {
        size_t n = strlen(why.text);
        if (n >= error_bytes) n = error_bytes - 1;
        memcpy(error, why.text, n);
        error[n] = '\0';
    }
    if (status == STATUS_OK) return m;
    verbatim_close(m);
    return NULL;
}

/* Takes a request out of the model's list and frees it; its texts must have left the engine. */
static void free_request(VerbatimRequest *r) {
    VerbatimModel *m = r->model;
    *(r->before ? &r->before->next : &m->first) = r->next;
    *(r->next ? &r->next->before : &m->last) = r->before;
    for (size_t i = 0; i < r->n_numbers; i++) free(r->numbers[i].values);
    free(r->numbers);
    if (r->job) job_free(r->job);
    free(r->line);
    free(r);
}

void verbatim_close(VerbatimModel *m) {
    CallMode before;
    if (!m) return;
    call_mode_enter(&before, setting_of(m));
    engine_free(m->opening.answering.engine);
    m->opening.answering.engine = NULL;
    while (m->first) free_request(m->first);
    library_close(&m->opening);
    free(m->description);
    free(m->text);
    token_list_free(&m->ids);
    call_mode_leave(&before);
    if (m->locale) freelocale(m->locale);
    free(m);
}

const char *verbatim_describe(VerbatimModel *m) {
    CallMode mode;
    if (!call_begins(m, &mode)) return NULL;
    unsigned long before = library_refused();
    json_t *info = m->description ? NULL : answering_info(&m->opening.answering);
    char *line = info ? json_dumps(info, 0) : NULL;
    json_decref(info);
    if (line && library_refused() == before)
        m->description = line;
    else
        free(line);
    if (!m->description) failed(m, "no memory for a description");
    call_mode_leave(&mode);
    return m->description;
}

/* ---- Requests ---- */

/* Parses the line and encodes its prompts. What is wrong with the request is its own failure. */
static Status take_line(VerbatimRequest *r, const char *line, size_t length) {
    const Answering *a = &r->model->opening.answering;
    Job *job = r->job;
    Request *request = &job->request;
    size_t number = r->model->n_lines + 1;
    Error *error = &r->failure;
    if (length > LINE_MOST_BYTES) {
        request_blank(request, line, length, number);
        return error_set(error, "the line is longer than %d bytes", LINE_MOST_BYTES);
    }
    Status status = request_parse(request, line, length, number, &a->defaults, error);
    if (status != STATUS_OK) return status;
    if (request->streams)
        return error_set(error, "'stream': the library gives a text's parts by verbatim_text");
    if (request->control.kind != CONTROL_NONE)
        return error_set(error, "'info', 'detokenize', 'cancel' and 'forget' need --live");
    status = job_prepare(job, error);
    bool has_numbers = request->returns_logits || request->embedding.returns_states;
    if (status != STATUS_OK || !has_numbers) return status;
    r->numbers = calloc(job->n, sizeof *r->numbers);
    if (!r->numbers) return error_set(error, "no memory for numbers");
    r->n_numbers = job->n;
    return STATUS_OK;
}

/* Appends a request for the line to the model's list. A wrong line gives a request that has failed
 * already; NULL: the system refused memory. */
static VerbatimRequest *begin(VerbatimModel *m, const char *line, size_t length) {
    unsigned long before = library_refused();
    VerbatimRequest *r = calloc(1, sizeof *r);
    Job *job = r ? job_new(&m->opening.answering.setting) : NULL;
    if (!job) {
        free(r);
        return NULL;
    }
    r->model = m;
    r->job = job;
    job->owner = r;
    r->before = m->last;
    *(m->last ? &m->last->next : &m->first) = r;
    m->last = r;
    r->failed = r->done = take_line(r, line, length) != STATUS_OK;
    if (library_refused() != before) {
        free_request(r);
        shape_store_forget(m->opening.session.shapes); /* one may lack what was refused */
        return NULL;
    }
    m->n_lines++;
    if (!r->done && !m->feeding) m->feeding = r;
    return r;
}

VerbatimRequest *verbatim_begin(VerbatimModel *m, const char *line, size_t length) {
    CallMode before;
    if (!call_begins(m, &before)) return NULL;
    VerbatimRequest *r = begin(m, line, length);
    if (!r) failed(m, "no memory for a request");
    call_mode_leave(&before);
    return r;
}

/* The next request after r that has texts which the engine does not have yet. */
static VerbatimRequest *next_to_feed(VerbatimRequest *r) {
    do {
        r = r->next;
    } while (r && (r->done || r->job->n_submitted == r->job->n));
    return r;
}

/* Hands texts to the engine until enough wait there. A text that cannot be handed over fails its
 * own request alone. */
static void feed(VerbatimModel *m) {
    const Answering *a = &m->opening.answering;
    while (m->feeding && engine_waiting(a->engine) < a->read_ahead) {
        VerbatimRequest *r = m->feeding;
        Error error;
        if (job_submit(r->job, a->engine, &error) != STATUS_OK) job_fail(r->job, a->engine, &error);
        if (r->done || r->job->n_submitted == r->job->n) m->feeding = next_to_feed(r);
    }
}

/* A pass has failed: the engine's texts are lost with it, and so are their requests. */
static int give_up(VerbatimModel *m, const Error *why) {
    Answering *a = &m->opening.answering;
    m->error = *why;
    engine_free(a->engine);
    a->engine = NULL;
    m->feeding = NULL;
    for (VerbatimRequest *r = m->first; r; r = r->next) {
        if (r->done) continue;
        r->done = r->failed = true;
        r->failure = *why;
    }
    return -1;
}

static int pass(VerbatimModel *m) {
    LibraryOpening *o = &m->opening;
    Answering *a = &o->answering;
    Error error;
    m->refused = library_refused();
    if (!a->engine && answering_start(a, o->kv_bytes, 0, &error) != STATUS_OK)
        return give_up(m, &error);
    feed(m);
    const size_t pending = engine_pending(a->engine), passes = engine_stats(a->engine).passes;
    if (pending > 0 && engine_step(a->engine, &error) != STATUS_OK) return give_up(m, &error);
    /* No memory to compute even one pass: a host that calls until all is done would never end. */
    if (library_refused() != m->refused && engine_pending(a->engine) == pending &&
        engine_stats(a->engine).passes == passes && pending > 0) {
        error_set(&error, "no memory for a pass");
        return give_up(m, &error);
    }
    return m->feeding || engine_pending(a->engine) > 0;
}

int verbatim_pass(VerbatimModel *m) {
    CallMode before;
    if (!call_begins(m, &before)) return -1;
    int left = pass(m);
    call_mode_leave(&before);
    return left;
}

int verbatim_text(VerbatimRequest *r, size_t index, const char **text, size_t *length) {
    *text = "";
    *length = 0;
    if (index >= r->job->n || request_embeds(&r->job->request))
        return failed(r->model, "the request has no such text");
    return job_text(r->job, index, text, length) || r->done;
}

int verbatim_result(VerbatimRequest *r, const char **line, size_t *length) {
    CallMode mode;
    *line = NULL;
    *length = 0;
    if (!r->done) return 0;
    if (!r->line) {
        if (!call_begins(r->model, &mode)) return -1;
        unsigned long before = library_refused();
        r->line = r->failed ? result_error_line(&r->model->opening.answering.maker,
                                                &r->job->request, r->failure.text)
                            : job_result(r->job);
        if (library_refused() != before) {
            free(r->line);
            r->line = NULL;
        }
        call_mode_leave(&mode);
    }
    if (!r->line) return failed(r->model, "no memory for a result");
    *line = r->line;
    *length = strlen(r->line);
    return 1;
}

static int cancel(VerbatimRequest *r) {
    VerbatimModel *m = r->model;
    if (r->done) return 0;
    if (m->feeding == r) m->feeding = next_to_feed(r);
    m->refused = library_refused();
    job_cancel(r->job, m->opening.answering.engine);
    return 1;
}

int verbatim_cancel(VerbatimRequest *r) {
    CallMode before;
    if (!call_begins(r->model, &before)) return -1;
    int was_running = cancel(r);
    call_mode_leave(&before);
    return was_running;
}

void verbatim_end(VerbatimRequest *r) {
    CallMode before;
    if (!r) return;
    call_mode_enter(&before, setting_of(r->model));
    cancel(r);
    free_request(r);
    call_mode_leave(&before);
}

/* ---- Numbers and tokens ---- */

static bool flags_are_known(VerbatimModel *m, int flags) {
    if ((flags & ~(VERBATIM_BARE | VERBATIM_SPECIAL)) == 0) return true;
    error_set(&m->error, "unknown flags: %d", flags);
    return false;
}

int verbatim_numbers(VerbatimRequest *r, VerbatimNumbers what, size_t index, const float **rows,
                     size_t *n_rows, size_t *n_columns) {
    const Job *job = r->job;
    const Request *request = &job->request;
    *rows = NULL;
    *n_rows = *n_columns = 0;
    if (index >= job->n) return failed(r->model, "the request has no such text");
    if (what != VERBATIM_LOGITS && what != VERBATIM_EMBEDDING && what != VERBATIM_STATES)
        return failed(r->model, "there are no such numbers");
    if (what == VERBATIM_EMBEDDING) {
        const EmbeddingRequest *e = &request->embedding;
        if (request->format != REQUEST_EMBEDDING || !e->texts[index].vector) return 0;
        *rows = e->texts[index].vector;
        *n_rows = 1;
        *n_columns = e->setting.dimensions;
        return 1;
    }
    bool asked =
        what == VERBATIM_LOGITS ? request->returns_logits : request->embedding.returns_states;
    if (!asked || !r->numbers || r->numbers[index].n_rows == 0) return 0;
    *rows = r->numbers[index].values;
    *n_rows = r->numbers[index].n_rows;
    *n_columns = what == VERBATIM_LOGITS ? config_of(r)->vocab_size : config_of(r)->dim;
    return 1;
}

int verbatim_tokens(VerbatimModel *m, const char *text, size_t length, int flags,
                    const int32_t **ids, size_t *n) {
    CallMode before;
    *ids = NULL;
    *n = 0;
    if (!flags_are_known(m, flags) || !call_begins(m, &before)) return -1;
    unsigned how = (flags & VERBATIM_BARE ? 0 : TOKENIZE_ADD_BOS) |
                   (flags & VERBATIM_SPECIAL ? TOKENIZE_PARSE_SPECIAL : 0);
    m->ids.length = 0;
    Status status =
        tokenizer_encode(m->opening.session.tokenizer, text, length, NULL, how, &m->ids, &m->error);
    call_mode_leave(&before);
    if (status != STATUS_OK) return -1;
    *ids = m->ids.ids;
    *n = m->ids.length;
    return 1;
}

int verbatim_detokenize(VerbatimModel *m, const int32_t *ids, size_t n, int flags,
                        const char **text, size_t *length) {
    CallMode before;
    *text = "";
    *length = 0;
    char *decoded = NULL;
    size_t n_decoded = 0;
    if (!flags_are_known(m, flags) || !call_begins(m, &before)) return -1;
    Status status = tokenizer_decode(m->opening.session.tokenizer, ids, n,
                                     flags & VERBATIM_SPECIAL ? 0 : TOKEN_DECODER_SKIP_SPECIAL,
                                     &decoded, &n_decoded, &m->error);
    call_mode_leave(&before);
    if (status != STATUS_OK) return -1;
    free(m->text);
    m->text = decoded;
    *text = decoded ? decoded : "";
    *length = n_decoded;
    return 1;
}
