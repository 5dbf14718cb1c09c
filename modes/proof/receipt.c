#include "modes/proof/receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json/json_reader.h"
#include "json/json_text.h"
#include "modes/proof/proof_options.h"
#include "session/embedding_options.h"
#include "base/unicode.h"
#include "core/numeric.h"
#include "modes/proof/report.h"
#include "modes/proof/model_digest.h"
#include "modes/proof/revisions.h"
#include "session/adapters.h"
#include "session/shape.h"
#include "system/descriptor.h"
#include "system/terminal.h"
#include "system/text_file.h"

/* Version 1 did not count its items. */
enum { RECEIPT_VERSION = 2, KEY_LEAST_BYTES = 16, KEY_MOST_BYTES = 4096, NAMED_MOST = 16 };

#define KEY_KIND "hmac-sha256"

struct Receipt {
    const Options *options;
    bool replays;
    bool by_old_rule;  /* --replay: of a revision that this program repeats by its rule */
    const char *name;  /* the file's */
    long long version; /* of one that is replayed */
    Output output;     /* --receipt */
    int fd;            /* of --replay; -1: none */
    int key_fd;        /* of --receipt-key; -1: none */
    char *key;         /* NULL: texts are written in full */
    size_t key_bytes;
    json_t *json;  /* as it is written, or was read */
    json_t *items; /* the receipt's items, borrowed */
    json_t *found; /* --replay: {number: true} for items that came */
    const volatile sig_atomic_t *interrupted;
    ShapeSource shape;
    Report report;
};

/* ---- Opening ----------------------------------------------------------------------------------
 */

static Status open_file(const char *path, int *fd, Error *error) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? error_set(error, "%s: %s", path, strerror(errno)) : STATUS_OK;
}

Status receipt_open(Receipt **out, const Options *o, Error *error) {
    const ProofOptions *proof = proof_options(o);
    Receipt *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, "no memory for a receipt");
    *out = r;
    r->options = o;
    r->replays = proof->replay != NULL;
    r->report.quiet = proof->quiet;
    r->name = r->replays ? proof->replay : proof->receipt;
    r->fd = r->key_fd = r->output.fd = -1;
    Status status =
        r->replays ? open_file(r->name, &r->fd, error) : output_open(&r->output, r->name, error);
    if (status == STATUS_OK && proof->receipt_key)
        status = open_file(proof->receipt_key, &r->key_fd, error);
    return status;
}

void receipt_close(Receipt *r) {
    if (!r) return;
    if (r->fd >= 0) close(r->fd);
    if (r->key_fd >= 0) close(r->key_fd);
    if (!r->replays) output_close(&r->output);
    json_decref(r->json);
    json_decref(r->found);
    free(r->key);
    free(r);
}

static Status read_key(Receipt *r, const volatile sig_atomic_t *interrupted, Error *error) {
    const ProofOptions *proof = proof_options(r->options);
    if (r->key_fd < 0) return STATUS_OK;
    Status status = descriptor_read(r->key_fd, proof->receipt_key, KEY_MOST_BYTES, interrupted,
                                    &r->key, &r->key_bytes, error);
    /* What a short key has written can still be replayed. */
    if (status == STATUS_OK && r->key_bytes < (r->replays ? 1 : KEY_LEAST_BYTES))
        status = error_set(error, "%s: a key of %zu bytes could be guessed; %d are the least",
                           proof->receipt_key, r->key_bytes, KEY_LEAST_BYTES);
    return status;
}

/* ---- Parts ------------------------------------------------------------------------------------
 */

static json_t *json_digest(const void *bytes, size_t n) {
    char digest[SHA256_HEX];
    sha256_text(bytes, n, digest);
    return json_string(digest);
}

static char *hex_of(const char *bytes, size_t n) {
    static const char digits[] = "0123456789abcdef";
    char *hex = malloc(2 * n + 1);
    if (!hex) return NULL;
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[(unsigned char)bytes[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)bytes[i] & 15];
    }
    hex[2 * n] = '\0';
    return hex;
}

json_t *receipt_text(const Receipt *r, const char *text, size_t length) {
    if (r->key) {
        char digest[SHA256_HEX];
        sha256_hmac_text(r->key, r->key_bytes, text, length, digest);
        return json_pack("{s:s}", "hmac", digest);
    }
    if (utf8_valid_prefix(text, length) == length)
        return json_pack("{s:s%, s:o}", "text", text, length, "sha256", json_digest(text, length));
    char *hex = hex_of(text, length);
    json_t *json =
        hex ? json_pack("{s:s, s:o}", "hex", hex, "sha256", json_digest(text, length)) : NULL;
    free(hex);
    return json;
}

char *receipt_bytes(const json_t *text, size_t *length) {
    const char *plain = json_string_value(json_object_get(text, "text"));
    const char *hex = json_string_value(json_object_get(text, "hex"));
    *length = json_string_length(json_object_get(text, plain ? "text" : "hex"));
    char *bytes = plain || hex ? malloc(*length + 1) : NULL;
    if (!bytes) return NULL;
    if (plain) return memcpy(bytes, plain, *length + 1);
    bool valid = *length % 2 == 0 && strspn(hex, "0123456789abcdef") == *length;
    for (size_t i = 0; valid && i < *length; i++) {
        unsigned digit = (unsigned)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
        bytes[i / 2] = (char)(i % 2 == 0 ? digit << 4 : (unsigned char)bytes[i / 2] | digit);
    }
    *length /= 2;
    if (valid) return bytes;
    free(bytes);
    return NULL;
}

/* A text of the settings: it is applied again as it stands, so that only a keyed one is an object.
 */
static json_t *setting_text(const void *receipt, const char *text, size_t length) {
    const Receipt *r = receipt;
    return r->key ? receipt_text(r, text, length) : json_stringn(text, length);
}

json_t *receipt_tokens(const Receipt *r, const TokenList *ids) {
    char digest[SHA256_HEX];
    size_t bytes = ids->length * sizeof *ids->ids;
    if (!r->key) return json_digest(ids->ids, bytes);
    sha256_hmac_text(r->key, r->key_bytes, ids->ids, bytes, digest);
    return json_string(digest);
}

json_t *receipt_answer(const SamplerOptions *sampling, const char *text, size_t length,
                       size_t n_tokens, Finish finish) {
    static const char *const finishes[] = {[FINISH_NOT] = "interrupted",
                                           [FINISH_EOS] = "end",
                                           [FINISH_STOP] = "stop",
                                           [FINISH_LENGTH] = "length"};
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)sampling->seed);
    return json_pack("{s:s, s:I, s:o, s:I, s:s}", "seed", seed, "sample",
                     (json_int_t)sampling->sample, "sha256", json_digest(text ? text : "", length),
                     "tokens", (json_int_t)n_tokens, "finish", finishes[finish]);
}

/* ---- Saying what is the same ------------------------------------------------------------------
 */

void receipt_compare(Receipt *r, const char *part, const json_t *expected, const json_t *got) {
    report_compare(&r->report, part, 0, expected, got, NULL);
}

void receipt_report(Receipt *r, const char *part, const json_t *report) {
    const json_t *same = json_object_get(report, "same");
    json_t *line = report_line(part, 0);
    json_object_update(line, (json_t *)report);
    report_say(&r->report, line,
               json_is_true(same)   ? VERDICT_SAME
               : json_is_null(same) ? VERDICT_NOT_CHECKED
                                    : VERDICT_DIFFERENT);
}

void receipt_not_checked(Receipt *r, const char *part, uint64_t number, const char *why) {
    report_not_checked(&r->report, part, number, why);
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* The digest of the receipt without its seal. */
static json_t *make_seal(json_t *receipt) {
    json_t *rest = json_copy(receipt);
    json_object_del(rest, "seal");
    /* Nine digits, as they are written: what is read back has the same. */
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
    json_t *seal = text ? json_digest(text, strlen(text)) : NULL;
    free(text);
    json_decref(rest);
    return seal;
}

/* Checks the numbers of a receipt's items. Items have rising numbers, and version 2 says how many
 * there are. */
static Status check_items(Receipt *r, Error *error) {
    const json_t *count = json_object_get(r->json, "count");
    json_int_t before = 0;
    json_t *item;
    size_t i;
    json_array_foreach(r->items, i, item) {
        const json_t *number = json_object_get(item, "number");
        if (!json_is_integer(number) || json_integer_value(number) <= before)
            return error_set(error,
                             "%s: item %zu of the receipt has no number, or not a larger one",
                             r->name, i + 1);
        before = json_integer_value(number);
    }
    if (r->version > 1) {
        json_t *own = json_integer((json_int_t)json_array_size(r->items));
        receipt_compare(r, "count", count, own);
        json_decref(own);
    }
    if (json_array_size(r->items) == 0)
        report_not_checked(&r->report, "items", 0, "the receipt has no answers");
    return STATUS_OK;
}

static void receipt_check_keys(Receipt *r) {
    static const char *const keys[] = {
        "verbatim_receipt", "kind",    "key", "program", "model", "shard", "items",
        "settings",         "tensors", "seal"};
    const char *key;
    json_t *value;
    json_object_foreach(r->json, key, value) {
        bool known = r->version > 1 && strcmp(key, "count") == 0;
        for (size_t i = 0; !known && i < sizeof keys / sizeof *keys; i++)
            known = strcmp(keys[i], key) == 0;
        if (!known) report_compare(&r->report, key, 0, value, NULL, NULL);
    }
}

/* Parses a receipt, and fails where it does not have a receipt's form. A wrong seal, a wrong count
 * and unknown keys are reported as differences instead. */
static Status receipt_parse(Receipt *r, const char *text, size_t length, Error *error) {
    json_error_t where;
    r->json = json_reader_load(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!r->json)
        return error_set(error, "%s: not a receipt: %s (line %d)", r->name, where.text, where.line);
    const json_t *version = json_object_get(r->json, "verbatim_receipt");
    if (!json_is_integer(version))
        return error_set(error, "%s: not a receipt: it has no 'verbatim_receipt'", r->name);
    r->version = json_integer_value(version);
    if (r->version < 1 || r->version > RECEIPT_VERSION)
        return error_set(error, "%s: a receipt of version %lld, but this program reads 1 to %d",
                         r->name, (long long)r->version, RECEIPT_VERSION);
    static const char *const objects[] = {"program", "model", "settings", "tensors"};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (!json_is_object(json_object_get(r->json, objects[i])))
            return error_set(error, "%s: not a receipt: it has no '%s'", r->name, objects[i]);
    r->items = json_object_get(r->json, "items");
    if (!json_is_array(r->items) || !receipt_kind(r))
        return error_set(error, "%s: not a receipt: it has no 'items' or no 'kind'", r->name);
    const json_t *key = json_object_get(r->json, "key");
    const char *key_kind = json_reader_word(key);
    if (key && (!key_kind || strcmp(key_kind, KEY_KIND) != 0))
        return error_set(error, "%s: its 'key' is not '%s'", r->name, KEY_KIND);
    json_t *seal = make_seal(r->json);
    if (!seal) return error_set(error, "%s: no memory for it", r->name);
    receipt_compare(r, "seal", json_object_get(r->json, "seal"), seal);
    json_decref(seal);
    receipt_check_keys(r);
    return check_items(r, error);
}

/* Gives the session the prompt of a text and the shape of answers. */
static Status set_inputs(Receipt *r, Options *o, Session *session, Error *error) {
    EmbeddingOptions *embedding = embedding_options_to_set(o);
    const json_t *settings = json_object_get(r->json, "settings");
    const json_t *prompt = json_object_get(json_array_get(r->items, 0), "prompt");
    const json_t *text = json_object_get(prompt, "text");
    bool given = o->prompt || o->prompt_file;
    if (strcmp(receipt_kind(r), "batch") == 0 && !o->batch) o->batch = r->name;
    if (o->batch && !embedding->embed && json_object_get(settings, "embed"))
        embedding->embed = o->batch;
    if (strcmp(receipt_kind(r), "text") == 0 && !given && json_is_string(text)) {
        session->prompt = (char *)(uintptr_t)json_string_value(text);
        session->prompt_length = json_string_length(text);
    } else if (strcmp(receipt_kind(r), "text") == 0 && !given) {
        return error_set(error, "%s: its prompt is keyed: give it with -i or -f", r->name);
    }
    if (session->shape && session->shape->kind != SHAPE_NONE) return STATUS_OK;
    if (settings_shape(settings, &r->shape, error) != STATUS_OK)
        return error_prefix(error, "%s", r->name);
    r->shape.form = session_json_form(o);
    session->shape = &r->shape;
    return STATUS_OK;
}

/* The revision of a receipt that was read; NULL: this program does not know it. */
static const Revision *made_under(const Receipt *r) {
    const json_t *program = json_object_get(r->json, "program");
    return revision_find(json_integer_value(json_object_get(program, "numeric_revision")));
}

/* Up to revision 3 JSON of a shape had any order and white space: a receipt of that time is
 * repeated by the same rule. */
static void take_old_rule(Receipt *r, Options *o) {
    const Revision *made = made_under(r);
    r->by_old_rule = made && made->repeated;
    if (!r->by_old_rule) return;
    o->json_order = JSON_ORDER_ANY;
    o->json_space = JSON_SPACE_ANY;
}

Status receipt_read(Receipt *r, Options *o, Session *session, Error *error) {
    static const size_t most = (size_t)1 << 31;
    char *text;
    size_t length;
    Status status =
        text_file_read_json(r->fd, r->name, most, session->interrupted, &text, &length, error);
    if (status != STATUS_OK) return status;
    status = receipt_parse(r, text, length, error);
    free(text);
    if (status == STATUS_OK) status = read_key(r, session->interrupted, error);
    if (status != STATUS_OK) return status;
    if (json_object_get(r->json, "key") && !r->key)
        return error_set(error, "%s: its texts are keyed: give the key's file with --receipt-key",
                         r->name);
    if (!json_object_get(r->json, "key") && r->key)
        return error_set(error, "%s: its texts are not keyed: no --receipt-key", r->name);
    r->found = json_object();
    if (settings_apply(json_object_get(r->json, "settings"), o, error) != STATUS_OK)
        return error_prefix(error, "%s", r->name);
    take_old_rule(r, o);
    return set_inputs(r, o, session, error);
}

const char *receipt_kind(const Receipt *r) {
    return json_reader_word(json_object_get(r->json, "kind"));
}

const json_t *receipt_items(const Receipt *r) {
    return r->replays ? r->items : NULL;
}

bool receipt_clock(const Receipt *r, struct tm *clock) {
    return r->replays && settings_clock(json_object_get(r->json, "settings"), clock);
}

size_t receipt_n_differ(const Receipt *r) {
    return r->report.n_of[VERDICT_DIFFERENT];
}

/* ---- The model --------------------------------------------------------------------------------
 */

static void show_hashing(uint64_t done, uint64_t total, void *session) {
    session_progress(session, "hashing the weights", done, total);
}

static json_t *digest_or_null(const void *bytes, size_t n) {
    return bytes && n > 0 ? json_digest(bytes, n) : json_null();
}

/* A number with the nine digits that a receipt is written with. */
static double as_written(double x) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", x);
    return strtod(text, NULL);
}

/* Sets "adapters": of each its name, scale and the SHA-256 of its weights. */
static void put_adapters(json_t *model, const Adapters *adapters) {
    json_t *list = json_array();
    for (size_t i = 0; i < adapters->n; i++) {
        const SessionAdapter *a = &adapters->items[i];
        json_array_append_new(list, json_pack("{s:s, s:f, s:s}", "name", a->name, "scale",
                                              as_written(a->scale), "sha256", a->digest));
    }
    json_object_set_new(model, "adapters", list);
}

/* A new object {name: digest} of all tensors; NULL: no memory. */
static json_t *tensors_json(const TensorDigest *digests, size_t n) {
    json_t *json = json_object();
    for (size_t i = 0; json && i < n; i++) {
        if (json_object_set_new(json, digests[i].tensor->name, json_string(digests[i].sha256)) == 0)
            continue;
        json_decref(json);
        return NULL;
    }
    return json;
}

/* Makes the receipt's "model" (digests of all that answers depend on) and "tensors" (a digest
 * each), new references; either may be set after a failure, too. */
static Status make_model(const Session *session, json_t **model, json_t **tensors, Error *error) {
    const ModelDigestOptions options = {.n_threads = session->n_threads,
                                        .progress = show_hashing,
                                        .context = (void *)(uintptr_t)session,
                                        .interrupted = session->interrupted};
    const Config *config = model_config(session->model);
    char weights[SHA256_HEX], config_digest[SHA256_HEX];
    size_t n_tokenizer = session->tokenizer_bytes, n_template;
    const void *tokenizer = session->tokenizer_section;
    const char *template = modelfile_section(session->file, SECTION_TEMPLATE, &n_template);
    if (session->chat_template) template = session->chat_template, n_template = strlen(template);
    if (!tokenizer) tokenizer = modelfile_section(session->file, SECTION_TOKENIZER, &n_tokenizer);
    TensorDigest *digests;
    Status status = model_digest_weights(session->file, &options, weights, &digests, error);
    session_progress(session, "hashing the weights", 0, 0);
    if (status != STATUS_OK) return status;
    *tensors = tensors_json(digests, modelfile_n_tensors(session->file));
    free(digests);
    if (!*tensors) return error_set(error, "no memory for a receipt");
    if (model_digest_config(config, config_digest, error) != STATUS_OK) return STATUS_FAILED;
    *model = json_pack("{s:o, s:s, s:s, s:o, s:o}", "name",
                       json_lossy_text(config->name, strlen(config->name)), "weights", weights,
                       "config", config_digest, "tokenizer", digest_or_null(tokenizer, n_tokenizer),
                       "template", digest_or_null(template, n_template));
    if (!*model) return error_set(error, "no memory for a receipt");
    if (session->adapters) put_adapters(*model, session->adapters);
    if (session->sources) json_object_set(*model, "source", session->sources);
    return STATUS_OK;
}

static json_t *make_program(void) {
    return json_pack("{s:s, s:s, s:i}", "name", "verbatim", "version", VERBATIM_VERSION,
                     "numeric_revision", NUMERIC_REVISION);
}

/* Says whether the weights are the same, and which tensors are not: up to NAMED_MOST. */
static Verdict say_weights(Receipt *r, const json_t *expected, const json_t *got,
                           const json_t *tensors) {
    json_t *before = json_object_get(r->json, "tensors"), *names = json_array(), *value;
    const char *name;
    const json_t *weights = json_object_get(expected, "weights");
    json_t *report = report_line("weights", 0);
    bool same = json_equal(weights, json_object_get(got, "weights"));
    json_object_foreach(before, name, value) {
        if (json_equal(value, json_object_get(tensors, name))) continue;
        if (json_array_size(names) < NAMED_MOST) json_array_append_new(names, json_string(name));
    }
    json_object_foreach((json_t *)tensors, name, value) {
        if (!json_object_get(before, name) && json_array_size(names) < NAMED_MOST)
            json_array_append_new(names, json_string(name));
    }
    if (!same) {
        json_object_set(report, "expected", weights ? (json_t *)weights : json_null());
        json_object_set(report, "got", json_object_get(got, "weights"));
        json_object_set(report, "tensors", names);
        if (json_object_get(expected, "source"))
            json_object_set(report, "made_from", json_object_get(expected, "source"));
    }
    json_decref(names);
    report_say(&r->report, report, same ? VERDICT_SAME : VERDICT_DIFFERENT);
    return same ? VERDICT_SAME : VERDICT_DIFFERENT;
}

/* The files that a model was converted from. Another container of the same weights was made from
 * others, or is a model.bin that names none. */
static void compare_source(Receipt *r, const json_t *expected, const json_t *got) {
    if (expected && got) {
        receipt_compare(r, "source", expected, got);
    } else if (expected) {
        report_not_checked(&r->report, "source", 0,
                           "this model file was not converted from others");
    } else if (got) {
        report_not_checked(&r->report, "source", 0, "the receipt does not name the files");
    }
}

/* Compares the receipt's model with the one that is open. Other weights end the replay; other
 * differences are reported. */
static Status compare_model(Receipt *r, const json_t *model, const json_t *tensors, Error *error) {
    static const char *const parts[] = {"config", "tokenizer", "template", "adapters"},
                             *const name[] = {"name", NULL};
    enum { N_PARTS = sizeof parts / sizeof *parts };
    const json_t *expected = json_object_get(r->json, "model");
    const char *key;
    json_t *value;
    bool same = say_weights(r, expected, model, tensors) == VERDICT_SAME;
    if (same) receipt_compare(r, "tensors", json_object_get(r->json, "tensors"), tensors);
    for (size_t i = 0; i < N_PARTS; i++)
        if (json_object_get(expected, parts[i]) || json_object_get(model, parts[i]))
            receipt_compare(r, parts[i], json_object_get(expected, parts[i]),
                            json_object_get(model, parts[i]));
    compare_source(r, json_object_get(expected, "source"), json_object_get(model, "source"));
    report_compare(&r->report, "name", 0, json_object_get(expected, "name"),
                   json_object_get(model, "name"), name);
    json_object_foreach((json_t *)expected, key, value) {
        bool known = strcmp(key, "weights") == 0 || strcmp(key, "source") == 0;
        if (!known && !json_object_get(model, key) && strcmp(key, "adapters") != 0)
            report_compare(&r->report, key, 0, value, NULL, NULL);
    }
    if (same) return STATUS_OK;
    error_set(error, "%s was made with other weights: nothing is repeated", r->name);
    return STATUS_LINES_FAILED;
}

/* What an upgrade means for the receipt, for people. `made` NULL: an unknown revision. */
static void explain_revision(const Receipt *r, const Revision *made) {
    char changed[200];
    if (!made || !made->last) {
        terminal_print(stderr, "note: %s is not of a numeric revision that this version knows\n",
                       r->name);
        return;
    }
    terminal_print(
        stderr,
        "note: %s is of numeric revision %d, this program of %d. Between them changed: %s. "
        "scripts/rebuild-revision %d builds the program that repeats it in full\n",
        r->name, made->number, NUMERIC_REVISION,
        revision_changes_since(made->number, changed, sizeof changed) ? changed : "any result",
        made->number);
}

/* Another version may compute other bits: the revision says so, and where its programs come from.
 */
static void compare_revision(Receipt *r, const json_t *expected, const json_t *program) {
    const json_t *revision = json_object_get(expected, "numeric_revision"),
                 *own = json_object_get(program, "numeric_revision");
    json_t *report = report_line("numeric_revision", 0);
    bool same = revision && json_equal(revision, own);
    if (!same) {
        json_object_set(report, "expected", revision ? (json_t *)revision : json_null());
        json_object_set(report, "got", (json_t *)own);
        json_object_set(report, "made_by_version", json_object_get(expected, "version"));
        const Revision *known = revision_find(json_integer_value(revision));
        if (known && known->last) json_object_set_new(report, "commit", json_string(known->last));
        if (r->by_old_rule)
            json_object_set_new(report, "repeated", json_true());
        else
            explain_revision(r, known);
    }
    bool good = same || r->by_old_rule;
    report_say(&r->report, report, good ? VERDICT_SAME : VERDICT_DIFFERENT);
}

/* Compares what a receipt says of the program. The revision counts, and is compared first, apart.
 * Name, version and commit only name the run: where these alone differ, the report says "same",
 * with what made the receipt. */
static void compare_program(Receipt *r, const json_t *program) {
    static const char *const run[] = {"program.name", "program.version", "program.commit", NULL};
    const json_t *expected = json_object_get(r->json, "program");
    json_t *own = json_copy((json_t *)program);
    compare_revision(r, expected, program);
    json_object_set(own, "numeric_revision", json_object_get(expected, "numeric_revision"));
    if (json_object_get(expected, "commit")) json_object_set_new(own, "commit", json_string(""));
    Comparison c = comparison_of("program", expected, own, run);
    bool others = comparison_verdict(&c) == VERDICT_SAME && json_array_size(c.run) > 0;
    if (others) {
        json_t *report = report_line("program", 0);
        comparison_put_names(&c, report);
        json_object_set(report, "made_by", (json_t *)expected);
        report_say(&r->report, report, VERDICT_SAME);
    } else {
        report_compare(&r->report, "program", 0, expected, own, run);
    }
    comparison_free(&c);
    json_decref(own);
}

Status receipt_begin(Receipt *r, const Session *session, const char *kind, Error *error) {
    json_t *model = NULL, *tensors = NULL, *program = make_program();
    Status status = STATUS_OK;
    if (!r->replays) status = read_key(r, session->interrupted, error);
    if (status == STATUS_OK) status = make_model(session, &model, &tensors, error);
    if (status == STATUS_OK && r->replays) {
        compare_program(r, program);
        if (json_object_get(r->json, "shard") && !options_ask(session->options, "shard"))
            report_not_checked(&r->report, "shard", 0,
                               "the requests' file was not given: --batch FILE --shard I/N");
        status = compare_model(r, model, tensors, error);
    } else if (status == STATUS_OK) {
        r->json = json_pack("{s:i, s:s, s:O, s:O, s:{}, s:O}", "verbatim_receipt", RECEIPT_VERSION,
                            "kind", kind, "program", program, "model", model, "settings", "tensors",
                            tensors);
        r->items = json_array();
        if (r->key) json_object_set_new(r->json, "key", json_string(KEY_KIND));
        if (!r->json || json_object_set_new(r->json, "items", r->items) != 0)
            status = error_set(error, "no memory for a receipt");
    }
    json_decref(model);
    json_decref(tensors);
    json_decref(program);
    return status;
}

/* ---- Settings and items -----------------------------------------------------------------------
 */

Status receipt_settings(Receipt *r, const Session *session, const GenerationOptions *options,
                        const struct tm *clock, Error *error) {
    json_t *settings = settings_make(session, options, clock, setting_text, r);
    if (!settings) return error_set(error, "no memory for a receipt");
    if (r->by_old_rule) { /* which knew no other form */
        json_object_del(settings, "json-order");
        json_object_del(settings, "json-space");
    }
    if (r->replays) {
        receipt_compare(r, "settings", json_object_get(r->json, "settings"), settings);
    } else {
        json_object_set(r->json, "settings", settings);
    }
    json_decref(settings);
    return STATUS_OK;
}

Status receipt_member(Receipt *r, const char *key, json_t *value, Error *error) {
    if (!value) return error_set(error, "no memory for a receipt");
    if (r->replays) {
        receipt_compare(r, key, json_object_get(r->json, key), value);
        json_decref(value);
        return STATUS_OK;
    }
    if (json_object_set_new(r->json, key, value) == 0) return STATUS_OK;
    return error_set(error, "no memory for a receipt");
}

/* Items stand in the order of their numbers. */
static json_t *find_item(const Receipt *r, uint64_t number) {
    size_t low = 0, high = json_array_size(r->items);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        json_t *item = json_array_get(r->items, middle);
        uint64_t own = (uint64_t)json_integer_value(json_object_get(item, "number"));
        if (own == number) return item;
        if (own < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

Status receipt_item(Receipt *r, uint64_t number, json_t *item, Error *error) {
    if (!item || json_object_set_new(item, "number", json_integer((json_int_t)number)) != 0) {
        json_decref(item);
        return error_set(error, "no memory for a receipt");
    }
    if (!r->replays) {
        if (json_array_append_new(r->items, item) == 0) return STATUS_OK;
        return error_set(error, "no memory for a receipt");
    }
    char key[24];
    const json_t *expected = find_item(r, number);
    snprintf(key, sizeof key, "%llu", (unsigned long long)number);
    json_object_set_new(r->found, key, json_true());
    if (expected) {
        report_compare(&r->report, "item", number, expected, item, NULL);
    } else {
        json_t *report = report_line("item", number);
        json_object_set_new(report, "error", json_string("the receipt has no such item"));
        report_say(&r->report, report, VERDICT_DIFFERENT);
    }
    json_decref(item);
    return STATUS_OK;
}

/* ---- The end ----------------------------------------------------------------------------------
 */

static Status finish_replay(Receipt *r, Error *error) {
    size_t i;
    json_t *item;
    json_array_foreach(r->items, i, item) {
        char key[24];
        json_int_t number = json_integer_value(json_object_get(item, "number"));
        snprintf(key, sizeof key, "%lld", (long long)number);
        if (json_object_get(r->found, key)) continue;
        json_t *report = report_line("item", (uint64_t)number);
        json_object_set_new(report, "error", json_string("nothing was repeated for it"));
        report_say(&r->report, report, VERDICT_DIFFERENT);
    }
    /* Its rule is that of JSON of a shape; other results may still be of their revision. */
    if (r->by_old_rule && r->report.n_of[VERDICT_DIFFERENT] > 0) explain_revision(r, made_under(r));
    return report_end(&r->report, r->name, "part", error);
}

static int by_number(const void *a, const void *b) {
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "number"));
    json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "number"));
    return (x > y) - (x < y);
}

/* Sorts the items by their number: a batch adds them in the order in which they finish. False: no
 * memory. */
static bool sort_items(Receipt *r) {
    size_t n = json_array_size(r->items);
    json_t **items = calloc(n + 1, sizeof *items), *sorted = json_array();
    for (size_t i = 0; items && i < n; i++) items[i] = json_array_get(r->items, i);
    if (items && n > 0) qsort(items, n, sizeof *items, by_number);
    bool ok = items && sorted;
    for (size_t i = 0; ok && i < n; i++) ok = json_array_append(sorted, items[i]) == 0;
    free(items);
    ok = ok && json_object_set(r->json, "items", sorted) == 0;
    json_decref(sorted);
    return ok;
}

Status receipt_finish(Receipt *r, Error *error) {
    if (r->replays) return finish_replay(r, error);
    bool fits = sort_items(r) && json_object_set_new(r->json, "count",
                                                     json_integer((json_int_t)json_array_size(
                                                         json_object_get(r->json, "items")))) == 0;
    json_t *seal = fits ? make_seal(r->json) : NULL;
    if (!seal || json_object_set_new(r->json, "seal", seal) != 0)
        return error_set(error, "%s: no memory for the receipt", r->name);
    char *text = json_dumps(r->json, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (!text) return error_set(error, "%s: no memory for the receipt", r->name);
    Status status = output_write(&r->output, text, strlen(text), error);
    if (status == STATUS_OK) status = output_write(&r->output, "\n", 1, error);
    free(text);
    return status == STATUS_OK ? output_finish(&r->output, error) : status;
}

/* ---- The receipt of one text ---------------------------------------------------------------- */

Status receipt_take_text(const Session *session, const GeneratedText *text, Error *error) {
    Receipt *r = session->receipt;
    if (receipt_settings(r, session, &text->options, NULL, error) != STATUS_OK)
        return STATUS_FAILED;
    json_t *answer = receipt_answer(&text->options.sampling, text->text.bytes, text->text.length,
                                    text->n_tokens, text->finish);
    json_t *item = json_pack("{s:o, s:[o], s:[o]}", "prompt",
                             receipt_text(r, session->prompt, session->prompt_length),
                             "prompt_tokens", receipt_tokens(r, &text->prompt), "answers", answer);
    return receipt_item(r, 1, item, error);
}
