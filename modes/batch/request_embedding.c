#include "modes/batch/request_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "advice/spelling.h"
#include "json/json_reader.h"
#include "session/prompt_limit.h"

/* ---- Fields ---- */

typedef struct Field Field;

struct Field {
    const char *name;
    const char *formats; /* e: embeddings, r: ranking */
    Status (*set)(EmbeddingRequest *e, const Field *field, const json_t *value, Error *error);
};

static Status embedding_wrong(const Field *field, const char *wanted, Error *error) {
    return error_set(error, "'%s' must be %s", field->name, wanted);
}

static Status text_value(const Field *field, const json_t *value, const char **text, Error *error) {
    *text = json_reader_word(value);
    if (*text) return STATUS_OK;
    return embedding_wrong(field, "a text without zero bytes", error);
}

static Status number_value(const Field *field, const json_t *value, uint64_t *number,
                           Error *error) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > 1000000000)
        return embedding_wrong(field, "a whole number from 1 to 1000000000", error);
    *number = (uint64_t)n;
    return STATUS_OK;
}

static Status flag_value(const Field *field, const json_t *value, bool *flag, Error *error) {
    *flag = json_is_true(value);
    return json_is_boolean(value) ? STATUS_OK : embedding_wrong(field, "true or false", error);
}

static Status set_model(EmbeddingRequest *e, const Field *field, const json_t *value,
                        Error *error) {
    return text_value(field, value, &e->model, error);
}

static Status set_input(EmbeddingRequest *e, const Field *field, const json_t *value,
                        Error *error) {
    if (!json_is_string(value) && json_array_size(value) == 0)
        return embedding_wrong(field, "a text, a list of token ids, or a list of these", error);
    e->input = value;
    return STATUS_OK;
}

static Status set_dimensions(EmbeddingRequest *e, const Field *field, const json_t *value,
                             Error *error) {
    return number_value(field, value, &e->dimensions, error);
}

static Status set_encoding(EmbeddingRequest *e, const Field *field, const json_t *value,
                           Error *error) {
    const char *name = json_reader_word(value);
    e->base64 = name && strcmp(name, "base64") == 0;
    if (e->base64 || (name && strcmp(name, "float") == 0)) return STATUS_OK;
    return embedding_wrong(field, "\"float\" or \"base64\"", error);
}

static Status set_prompt_name(EmbeddingRequest *e, const Field *field, const json_t *value,
                              Error *error) {
    return text_value(field, value, &e->prompt_name, error);
}

static Status set_normalize(EmbeddingRequest *e, const Field *field, const json_t *value,
                            Error *error) {
    bool normalizes = false;
    Status status = flag_value(field, value, &normalizes, error);
    e->normalize = normalizes ? NORMALIZE_YES : NORMALIZE_NO;
    return status;
}

static Status set_truncate(EmbeddingRequest *e, const Field *field, const json_t *value,
                           Error *error) {
    Status status = flag_value(field, value, &e->truncates, error);
    e->no_truncation = !e->truncates;
    return status;
}

static Status set_states(EmbeddingRequest *e, const Field *field, const json_t *value,
                         Error *error) {
    return flag_value(field, value, &e->returns_states, error);
}

static Status set_query(EmbeddingRequest *e, const Field *field, const json_t *value,
                        Error *error) {
    if (!json_is_string(value)) return embedding_wrong(field, "a text", error);
    e->query = value;
    return STATUS_OK;
}

/* A document, as the APIs have it: a text, or {"text": ...}. NULL: something else. */
static const json_t *document_text(const json_t *document) {
    if (json_is_object(document) && json_object_size(document) == 1)
        document = json_object_get(document, "text");
    return json_is_string(document) ? document : NULL;
}

static Status set_documents(EmbeddingRequest *e, const Field *field, const json_t *value,
                            Error *error) {
    bool is_list = json_array_size(value) > 0;
    for (size_t i = 0; i < json_array_size(value); i++)
        is_list = is_list && document_text(json_array_get(value, i));
    if (!is_list) return embedding_wrong(field, "a list of texts, or of {\"text\": ...}", error);
    e->documents = value;
    return STATUS_OK;
}

static Status set_top_n(EmbeddingRequest *e, const Field *field, const json_t *value,
                        Error *error) {
    uint64_t n = 0;
    Status status = number_value(field, value, &n, error);
    e->top_n = (size_t)n;
    return status;
}

static Status set_return(EmbeddingRequest *e, const Field *field, const json_t *value,
                         Error *error) {
    bool returns = true;
    Status status = flag_value(field, value, &returns, error);
    e->without_documents = !returns;
    return status;
}

static Status set_instruction(EmbeddingRequest *e, const Field *field, const json_t *value,
                              Error *error) {
    return text_value(field, value, &e->instruction, error);
}

static Status ignore(EmbeddingRequest *e, const Field *field, const json_t *value, Error *error) {
    (void)e, (void)field, (void)value, (void)error;
    return STATUS_OK;
}

static const Field fields[] = {
    {"model", "er", set_model},
    {"input", "e", set_input},
    {"encoding_format", "e", set_encoding},
    {"dimensions", "e", set_dimensions},
    {"prompt_name", "e", set_prompt_name},
    {"normalize", "e", set_normalize},
    {"truncate", "er", set_truncate},
    {"return_states", "e", set_states},
    {"query", "r", set_query},
    {"documents", "r", set_documents},
    {"top_n", "r", set_top_n},
    {"return_documents", "r", set_return},
    {"instruction", "r", set_instruction},
    {"user", "er", ignore},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static bool has_field(const EmbeddingRequest *e, const Field *field) {
    return strchr(field->formats, e->ranks ? 'r' : 'e') != NULL;
}

static Status unknown_field(const EmbeddingRequest *e, const char *name, const char *const *own,
                            Error *error) {
    const char *names[N_FIELDS + 8];
    size_t n = 0;
    for (size_t i = 0; own[i]; i++) names[n++] = own[i];
    for (size_t i = 0; i < N_FIELDS; i++)
        if (has_field(e, &fields[i])) names[n++] = fields[i].name;
    const char *near = spelling_nearest(name, names, n);
    static const char *const texts[] = {"docs", "passages", "texts"}; /* other programs' names */
    for (size_t i = 0; e->ranks && i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i]) == 0) near = "documents";
    return error_set(error, "the field '%.80s' is not supported%s%s%s", name,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

Status request_embedding_read(EmbeddingRequest *e, const json_t *body, const char *const *own,
                              Error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)body, name, value) {
        size_t i = 0, k = 0;
        while (own[k] && strcmp(own[k], name) != 0) k++;
        if (own[k] || json_is_null(value)) continue;
        while (i < N_FIELDS && !(strcmp(fields[i].name, name) == 0 && has_field(e, &fields[i])))
            i++;
        if (i == N_FIELDS) return unknown_field(e, name, own, error);
        if (fields[i].set(e, &fields[i], value, error) != STATUS_OK) return STATUS_FAILED;
    }
    if (e->ranks && (!e->query || !e->documents))
        return error_set(error, "there is no '%s'", e->query ? "documents" : "query");
    if (!e->ranks && !e->input) return error_set(error, "there is no 'input'");
    return STATUS_OK;
}

/* ---- Tokens ---- */

/* The tokens that are being made of a request's texts. */
typedef struct Encoding {
    EmbeddingRequest *request;
    const Session *session;
    TokenList *prompts; /* [request->n_texts] */
} Encoding;

/* Makes room for n texts. */
static Status new_texts(Encoding *c, size_t n, Error *error) {
    EmbeddingRequest *e = c->request;
    if (n > EMBEDDING_MOST_TEXTS)
        return error_set(error, "%zu texts, but a line may have at most %d", n,
                         EMBEDDING_MOST_TEXTS);
    c->prompts = calloc(n, sizeof *c->prompts);
    e->texts = calloc(n, sizeof *e->texts);
    if (!c->prompts || !e->texts) return error_set(error, "no memory for a request");
    e->n_texts = n;
    return STATUS_OK;
}

/* Reads an input that is a list of token ids. */
static Status copy_token_ids(const Encoding *c, const json_t *list, TokenList *ids, Error *error) {
    size_t vocab = model_config(c->session->model)->vocab_size, n = json_array_size(list);
    size_t most = c->request->setting.max_tokens;
    if (n == 0 || n > most)
        return error_set(error, "'input': a list of %zu token ids, but the model takes 1 to %zu", n,
                         most);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || (size_t)value >= vocab)
            return error_set(error, "'input': element %zu is not a token id from 0 to %zu", i + 1,
                             vocab - 1);
        if (!token_list_push(ids, (int32_t)value))
            return error_set(error, "no memory for a request");
    }
    return STATUS_OK;
}

static Status tokenizer_encode_text(Encoding *c, const char *text, size_t length, size_t i,
                                    Error *error) {
    EmbeddingRequest *e = c->request;
    return embedding_encode(c->session, &e->setting, text, length, &c->prompts[i],
                            &e->texts[i].first, error);
}

static Status encode_input(Encoding *c, Error *error) {
    const json_t *input = c->request->input;
    bool several = json_is_array(input) && !json_is_integer(json_array_get(input, 0));
    Status status = new_texts(c, several ? json_array_size(input) : 1, error);
    if (status == STATUS_OK && c->request->plain)
        return tokenizer_encode_text(c, c->request->plain, c->request->plain_length, 0, error);
    for (size_t i = 0; status == STATUS_OK && i < c->request->n_texts; i++) {
        const json_t *one = several ? json_array_get(input, i) : input;
        if (json_is_string(one))
            status =
                tokenizer_encode_text(c, json_string_value(one), json_string_length(one), i, error);
        else if (json_is_array(one))
            status = copy_token_ids(c, one, &c->prompts[i], error);
        else
            status = error_set(error, "'input' must be a text, a list of token ids, or a list of "
                                      "these");
    }
    return status;
}

/* ---- Ranking ---- */

/* The prompt of Qwen3-Reranker; its parts are encoded one by one
 * (https://huggingface.co/Qwen/Qwen3-Reranker-0.6B). */
static const char rank_start[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
static const char rank_end[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char rank_instruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

static Status put_marks(const Session *session, const char *text, TokenList *ids, Error *error) {
    return tokenizer_encode(session->tokenizer, text, strlen(text), NULL, TOKENIZE_PARSE_SPECIAL,
                            ids, error);
}

static Status put_pair(const Encoding *c, const json_t *document, TokenList *ids, Error *error) {
    const EmbeddingRequest *e = c->request;
    const char *instruction = e->instruction ? e->instruction : rank_instruction;
    TextBuffer text = {0};
    text_put(&text, "<Instruct>: ", 12, 0);
    text_put(&text, instruction, strlen(instruction), 0);
    text_put(&text, "\n<Query>: ", 10, 0);
    text_put(&text, json_string_value(e->query), json_string_length(e->query), 0);
    text_put(&text, "\n<Document>: ", 13, 0);
    text_put(&text, json_string_value(document), json_string_length(document), 0);
    Status status = text.failed ? error_set(error, "no memory for a document")
                                : prompt_limit_check(c->session, text.length, error);
    if (status == STATUS_OK)
        status =
            tokenizer_encode(c->session->tokenizer, text.bytes, text.length, NULL, 0, ids, error);
    text_free(&text);
    return status;
}

/* Appends the prompt that asks for the document; `end` are the ids of rank_end. */
static Status encode_document(const Encoding *c, const json_t *document, const TokenList *end,
                              TokenList *ids, Error *error) {
    const EmbeddingSetting *setting = &c->request->setting;
    size_t most = setting->max_tokens;
    if (put_marks(c->session, rank_start, ids, error) != STATUS_OK) return STATUS_FAILED;
    size_t start = ids->length;
    if (put_pair(c, document, ids, error) != STATUS_OK) return STATUS_FAILED;
    size_t all = ids->length + end->length;
    if (all > most && (!setting->truncates || start + end->length >= most))
        return error_set(error,
                         "a document with its query is %zu tokens long, but the model takes %zu; "
                         "--embed-truncate, or 'truncate' in a request, cuts it",
                         all, most);
    if (all > most) ids->length = most - end->length;
    for (size_t i = 0; i < end->length; i++)
        if (!token_list_push(ids, end->ids[i])) return error_set(error, "no memory for a document");
    return STATUS_OK;
}

/* Makes a prompt for each document in the format of Qwen3-Reranker, and finds the tokens "yes" and
 * "no", with which the model judges a document. */
static Status encode_documents(Encoding *c, Error *error) {
    EmbeddingRequest *e = c->request;
    const Tokenizer *tokenizer = c->session->tokenizer;
    int32_t mark = tokenizer_token_id(tokenizer, "<|im_start|>", 12);
    int32_t vocab = (int32_t)model_config(c->session->model)->vocab_size;
    e->yes = tokenizer_token_id(tokenizer, "yes", 3);
    e->no = tokenizer_token_id(tokenizer, "no", 2);
    if (e->yes < 0 || e->no < 0 || e->yes >= vocab || e->no >= vocab ||
        !tokenizer_is_special(tokenizer, mark))
        return error_set(error, "ranking needs a model that answers as Qwen3-Reranker does: this "
                                "one has no tokens <|im_start|>, yes and no");
    TokenList end = {0};
    Status status = new_texts(c, json_array_size(e->documents), error);
    if (status == STATUS_OK) status = put_marks(c->session, rank_end, &end, error);
    for (size_t i = 0; status == STATUS_OK && i < e->n_texts; i++)
        status = encode_document(c, document_text(json_array_get(e->documents, i)), &end,
                                 &c->prompts[i], error);
    token_list_free(&end);
    return status;
}

/* ---- Both ---- */

/* Completes the setting with what the request says. */
static Status complete_setting(EmbeddingRequest *e, const Session *session, Error *error) {
    EmbeddingSetting *setting = &e->setting;
    if (e->truncates || e->no_truncation) setting->truncates = e->truncates;
    if (e->normalize != NORMALIZE_AUTO) setting->normalizes = e->normalize == NORMALIZE_YES;
    if (e->ranks) return embedding_refuse_text(session->file, error);
    if (embedding_check(session, setting, error) != STATUS_OK ||
        (e->dimensions && embedding_set_dimensions(setting, e->dimensions, error) != STATUS_OK) ||
        (e->prompt_name &&
         embedding_set_prompt(session, setting, e->prompt_name, error) != STATUS_OK))
        return STATUS_FAILED;
    return STATUS_OK;
}

Status request_embedding_encode(EmbeddingRequest *e, const Session *session,
                                const EmbeddingSetting *setting, TokenList **prompts,
                                size_t *n_prompts, Error *error) {
    Encoding encoding = {.request = e, .session = session};
    e->setting = *setting;
    Status status = complete_setting(e, session, error);
    if (status == STATUS_OK)
        status = e->ranks ? encode_documents(&encoding, error) : encode_input(&encoding, error);
    *prompts = encoding.prompts;
    *n_prompts = e->n_texts;
    return status;
}

void request_embedding_free(EmbeddingRequest *e) {
    for (size_t i = 0; i < e->n_texts; i++) free(e->texts[i].vector);
    free(e->texts);
    *e = (EmbeddingRequest){0};
}
