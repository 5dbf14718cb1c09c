#include "modes/inspect/eval_tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/inspect/inspect_options.h"
#include "base/unicode.h"
#include "modes/open/modelopen.h"
#include "modes/inspect/statistics.h"
#include "modes/inspect/task_items.h"
#include "modes/inspect/why_tasks.h"
#include "system/terminal.h"
#include "system/text_file.h"

/* One of the models that are compared. */
typedef struct Contestant {
    Model *model;
    Tokenizer *tokenizer;
    Endings *endings;
    /* Totals over all items: */
    size_t n_right, n_right_normalized;
    double loss; /* of documents, nats */
    uint64_t n_tokens;
} Contestant;

typedef struct EvalTasks {
    int fd;
    ModelOpening other; /* --against */
    ModelFile *other_file;
    char *text;
    TaskItems items;
    Contestant models[2];
    size_t n_models, n_choices, n_documents, n_cut, n_bytes, n_words;
    size_t only[2]; /* --against: items that one model alone has right */
    size_t only_normalized[2];
} EvalTasks;

/* What one model says of one item. */
typedef struct Verdict {
    EndingScore *scores; /* [n_choices], or one of a document */
    size_t chosen, normalized;
} Verdict;

/* ---- Opening ----------------------------------------------------------------------------------
 */

static bool tasks_asked(const Options *o) {
    return inspect_options(o)->eval_tasks != NULL;
}

static Status open_tasks(void **state, const Session *session, SandboxRules *rules, Error *error) {
    const Options *o = session->options;
    const InspectOptions *inspect = inspect_options(o);
    EvalTasks *t = calloc(1, sizeof *t);
    (void)rules;
    if (!t) return error_set(error, "no memory for the tasks");
    *state = t;
    t->other = MODELOPEN_NONE;
    t->fd = strcmp(inspect->eval_tasks, "-") == 0 ? STDIN_FILENO
                                                  : open(inspect->eval_tasks, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0) return error_set(error, "%s: %s", inspect->eval_tasks, strerror(errno));
    return inspect->against
               ? modelopen_begin(&t->other, inspect->against, NULL, o, session->interrupted, error)
               : STATUS_OK;
}

static void close_tasks(void *state) {
    EvalTasks *t = state;
    if (!t) return;
    for (size_t i = 0; i < 2; i++) endings_free(t->models[i].endings);
    if (t->n_models > 1) {
        model_close(t->models[1].model);
        tokenizer_close(t->models[1].tokenizer);
    }
    modelfile_close(t->other_file);
    modelopen_close(&t->other);
    task_items_free(&t->items);
    free(t->text);
    if (t->fd > STDIN_FILENO) close(t->fd);
    free(t);
}

/* Fills in t->models, each with its scorer: the session's model and, with --against, the other
 * one. */
static Status open_models(EvalTasks *t, Session *session, Error *error) {
    const InspectOptions *inspect = inspect_options(session->options);
    const ModelOptions options = session_model_options(session);
    t->models[t->n_models++] =
        (Contestant){.model = session->model, .tokenizer = session->tokenizer};
    Status status = STATUS_OK;
    if (inspect->against) {
        Contestant *other = &t->models[t->n_models++];
        status = modelopen_finish(&t->other, session, session->n_threads, &t->other_file, error);
        if (status == STATUS_OK)
            status = modelopen_tokenizer(&t->other, t->other_file, &other->tokenizer, error);
        if (status == STATUS_OK && !other->tokenizer)
            status = error_set(error, "%s: has no tokenizer", inspect->against);
        if (status == STATUS_OK) status = model_open(&other->model, t->other_file, &options, error);
    }
    for (size_t i = 0; i < t->n_models && status == STATUS_OK; i++)
        status = endings_new(&t->models[i].endings, session, t->models[i].model,
                             session_kv_type(t->models[i].model, session->options->kv_type),
                             t->models[i].tokenizer, error);
    return status;
}

/* ---- Items ------------------------------------------------------------------------------------
 */

static size_t characters(const EndingText *text) {
    return utf8_count(text->text, text->length);
}

/* The words of a text: what white space divides. */
static size_t words(const EndingText *text) {
    size_t n = 0;
    bool in_word = false;
    for (size_t i = 0; i < text->length; i++) {
        bool space = strchr(" \t\n\r\f\v", text->text[i]) != NULL;
        n += !space && !in_word;
        in_word = !space;
    }
    return n;
}

/* The choice of the largest log-likelihood, and of the largest by character; the first of equals.
 */
static void tasks_choose(const TaskItem *item, Verdict *v) {
    for (size_t i = 1; i < item->n_choices; i++) {
        if (v->scores[i].logprob > v->scores[v->chosen].logprob) v->chosen = i;
        double own = v->scores[i].logprob / (double)characters(&item->choices[i]);
        double best =
            v->scores[v->normalized].logprob / (double)characters(&item->choices[v->normalized]);
        if (own > best) v->normalized = i;
    }
}

/* Scores an item with one model, and adds the result to that model's totals: of a document its
 * loss, of a question whether the likeliest choice is the right one. */
static Status judge(EvalTasks *t, const TaskItem *item, Contestant *c, Verdict *v, Error *error) {
    bool cut = false;
    v->scores = calloc(item->choices ? item->n_choices : 1, sizeof *v->scores);
    if (!v->scores) return error_set(error, "no memory for an item");
    if (!item->choices) {
        Status status =
            endings_document(c->endings, &item->context, item->stride, v->scores, error);
        c->loss -= v->scores->logprob;
        c->n_tokens += v->scores->n_tokens;
        return status;
    }
    Status status = endings_score(c->endings, &item->context, item->choices, item->n_choices,
                                  v->scores, &cut, error);
    if (status != STATUS_OK) return status;
    t->n_cut += cut && c == t->models;
    tasks_choose(item, v);
    c->n_right += v->chosen == item->answer;
    c->n_right_normalized += v->normalized == item->answer;
    return STATUS_OK;
}

/* One model's part of an item's line. */
static json_t *verdict_json(const TaskItem *item, const Verdict *v) {
    json_t *json = json_object(), *logprobs = json_array(), *tokens = json_array();
    size_t n = item->choices ? item->n_choices : 1;
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(logprobs, json_real(v->scores[i].logprob));
        json_array_append_new(tokens, json_integer((json_int_t)v->scores[i].n_tokens));
    }
    json_object_set(json, "logprob", item->choices ? logprobs : json_array_get(logprobs, 0));
    json_object_set(json, "tokens", item->choices ? tokens : json_array_get(tokens, 0));
    json_decref(logprobs);
    json_decref(tokens);
    if (!item->choices) {
        json_object_set_new(json, "perplexity",
                            json_real(exp(-v->scores->logprob / (double)v->scores->n_tokens)));
        return json;
    }
    json_object_set_new(json, "chosen", json_integer((json_int_t)v->chosen));
    json_object_set_new(json, "right", json_boolean(v->chosen == item->answer));
    json_object_set_new(json, "chosen_normalized", json_integer((json_int_t)v->normalized));
    json_object_set_new(json, "right_normalized", json_boolean(v->normalized == item->answer));
    return json;
}

/* With -o: a line for the item, with the other model's part as "other". */
static Status write_item(const EvalTasks *t, const Session *session, const TaskItem *item,
                         const Verdict *verdicts, Error *error) {
    json_t *json = json_pack("{s:I}", "line", (json_int_t)item->line);
    json_t *id = json_object_get(item->json, "id"), *task = json_object_get(item->json, "task");
    if (id) json_object_set(json, "id", id);
    if (task) json_object_set(json, "task", task);
    json_t *own = verdict_json(item, &verdicts[0]);
    json_object_update(json, own);
    json_decref(own);
    if (t->n_models > 1) json_object_set_new(json, "other", verdict_json(item, &verdicts[1]));
    char *line = json_dumps(json, JSON_REAL_PRECISION(17));
    json_decref(json);
    if (!line) return error_set(error, "no memory for a line");
    Status status = output_write(session->output, line, strlen(line), error);
    if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
    free(line);
    return status;
}

/* Scores one item with each model and counts the result. */
static Status run_item(EvalTasks *t, const Session *session, const TaskItem *item, Error *error) {
    Verdict verdicts[2] = {{0}, {0}};
    Status status = STATUS_OK;
    for (size_t i = 0; i < t->n_models && status == STATUS_OK; i++)
        status = judge(t, item, &t->models[i], &verdicts[i], error);
    if (status == STATUS_OK && item->choices) {
        bool right[2] = {verdicts[0].chosen == item->answer, verdicts[1].chosen == item->answer};
        bool normalized[2] = {verdicts[0].normalized == item->answer,
                              verdicts[1].normalized == item->answer};
        t->n_choices++;
        for (size_t i = 0; i < 2; i++) {
            t->only[i] += right[i] && !right[1 - i];
            t->only_normalized[i] += normalized[i] && !normalized[1 - i];
        }
    } else if (status == STATUS_OK) {
        t->n_documents++;
        t->n_bytes += item->context.length;
        t->n_words += words(&item->context);
    }
    if (status == STATUS_OK && session->options->output)
        status = write_item(t, session, item, verdicts, error);
    for (size_t i = 0; i < 2; i++) free(verdicts[i].scores);
    return status == STATUS_FAILED
               ? error_prefix(error, "%s: line %zu", inspect_options(session->options)->eval_tasks,
                              item->line)
               : status;
}

/* ---- The report -------------------------------------------------------------------------------
 */

static void print_share(const char *name, size_t hits, size_t n) {
    double low, high;
    statistics_wilson_interval(hits, n, &low, &high);
    terminal_print(stdout, "%-19s %.4f [%.4f, %.4f]\n", name, (double)hits / (double)n, low, high);
}

static void print_test(const char *name, const size_t only[2]) {
    terminal_print(stdout, "%-19s %zu right by this model alone, %zu by the other: p = %.3g\n",
                   name, only[0], only[1], statistics_mcnemar_p(only[0], only[1]));
}

static void print_documents(const EvalTasks *t, const Contestant *c, const char *which) {
    terminal_print(stdout, "%sperplexity%*s %.6g of %llu tokens\n", which, which[0] ? 3 : 9, "",
                   exp(c->loss / (double)c->n_tokens), (unsigned long long)c->n_tokens);
    if (t->n_words > 0)
        terminal_print(stdout, "  of words          %.6g\n", exp(c->loss / (double)t->n_words));
    terminal_print(stdout, "  bits a byte       %.6g\n", c->loss / log(2.0) / (double)t->n_bytes);
}

/* Prints the totals: the accuracy on questions, with McNemar's test where two models are compared,
 * the loss on documents, and with --stats how many rows were computed. */
static void report(const EvalTasks *t, const Session *session) {
    const Contestant *own = &t->models[0], *other = &t->models[1];
    uint64_t computed, whole;
    if (t->n_choices > 0) {
        terminal_print(stdout, "questions           %zu; 95 %% intervals by Wilson\n",
                       t->n_choices);
        print_share("accuracy", own->n_right, t->n_choices);
        print_share("  by character", own->n_right_normalized, t->n_choices);
    }
    if (t->n_choices > 0 && t->n_models > 1) {
        print_share("other accuracy", other->n_right, t->n_choices);
        print_share("  by character", other->n_right_normalized, t->n_choices);
        print_test("McNemar", t->only);
        print_test("  by character", t->only_normalized);
    }
    if (t->n_cut > 0)
        terminal_print(stdout, "cut                 %zu contexts lost their first tokens\n",
                       t->n_cut);
    if (t->n_documents > 0) {
        terminal_print(stdout, "documents           %zu\n", t->n_documents);
        print_documents(t, own, "");
        if (t->n_models > 1) print_documents(t, other, "other ");
    }
    if (session->overridden)
        terminal_print(stdout, "overridden          %.400s\n", session->overridden);
    endings_rows(own->endings, &computed, &whole);
    if (session->options->stats)
        terminal_print(stderr, "rows:    %llu computed, %llu without sharing\n",
                       (unsigned long long)computed, (unsigned long long)whole);
}

/* --eval-tasks: parses the items, scores each with the models and prints the totals; with --why,
 * then searches for the tensors that change the answers. */
static Status tasks_run(void *state, Session *session, Error *error) {
    const InspectOptions *inspect = inspect_options(session->options);
    static const size_t most = (size_t)1 << 31;
    EvalTasks *t = state;
    const char *name = inspect->eval_tasks;
    size_t length;
    Status status =
        text_file_read_json(t->fd, name, most, session->interrupted, &t->text, &length, error);
    if (status == STATUS_OK) status = task_items_parse(&t->items, name, t->text, length, error);
    if (status == STATUS_OK) status = open_models(t, session, error);
    for (size_t i = 0; i < t->items.n && status == STATUS_OK; i++) {
        session_progress(session, "scoring", i, t->items.n);
        status = run_item(t, session, &t->items.items[i], error);
    }
    session_progress(session, "scoring", 0, 0);
    if (status == STATUS_OK) report(t, session);
    if (status != STATUS_OK || !inspect->why) return status;
    fflush(stdout);
    return why_tasks_run(session, t->other_file,
                         session_kv_type(t->models[1].model, session->options->kv_type), &t->items,
                         error);
}

const Mode eval_tasks_mode = {.name = "--eval-tasks",
                              .asked = tasks_asked,
                              .open = open_tasks,
                              .run = tasks_run,
                              .close = close_tasks};
