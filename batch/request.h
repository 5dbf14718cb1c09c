/* One line of a batch: a JSON object, understood and checked.
 *
 * Two forms are read. Ours: {"prompt": ...} or {"messages": [...]} with an optional "id" and the
 * options of the command line by their long names. OpenAI's batch form
 * (https://platform.openai.com/docs/guides/batch): {"custom_id", "method", "url", "body"} with a
 * chat completion or a completion as the body. Fields that cannot change what is generated are
 * ignored; any other that is not known is an error, so that no request is answered differently
 * from what it asks. docs/batch.md lists them all. */
#ifndef REQUEST_H
#define REQUEST_H

#include <jansson.h>

#include "generation.h"
#include "template/chat_prompt.h"

typedef enum RequestFormat {
    REQUEST_NATIVE,
    REQUEST_CHAT,      /* OpenAI's /v1/chat/completions */
    REQUEST_COMPLETION /* OpenAI's /v1/completions */
} RequestFormat;

enum {
    REQUEST_MAX_SAMPLES = 4096, /* texts that one line may ask for */
    REQUEST_MAX_TOP = 20,       /* alternatives of each token */
    REQUEST_MAX_BIAS = 1024
};

/* What a result is matched by when a batch is resumed: the id, or the line. */
typedef struct RequestKey {
    uint64_t low, high;
} RequestKey;

typedef struct Request {
    RequestFormat format;
    size_t line;        /* from 1 */
    uint64_t line_hash; /* XXH3-64 of its bytes */
    json_t *json;       /* the line; NULL for plain text and for what is no JSON */
    char *text;         /* the line itself when it is plain text, [text_length] */
    size_t text_length;

    /* Borrowed from `json`; NULL: not given. */
    const json_t *id; /* a string or an integer */
    const json_t *prompt, *messages, *tools, *template_variables;
    const char *model, *reasoning_effort;

    size_t n;  /* samples of each prompt */
    bool echo; /* the prompt stands before the text, and its tokens' chances before the text's */
    bool only_prompt; /* nothing is generated */
    bool wants_logprobs;
    int top_logprobs; /* alternatives of each token */
    GenerationOptions options;
    const char **stop; /* what options.stop points at */
    LogitBias *bias;   /* what options.sampling.bias points at */

    TokenList *prompts; /* [n_prompts], by request_encode */
    size_t n_prompts;
} Request;

/* Parses one line. `defaults` are the command line's options; what they point at must outlive
 * the request. On failure the request still says what a result line needs: format, id, line. The
 * caller frees it in any case. */
Status request_parse(Request *request, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error);

/* A request that is its prompt. */
Status request_plain(Request *request, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error);

/* A request that could not be read at all (a line that is too long). */
void request_blank(Request *request, const char *line, size_t length, size_t number);

void request_free(Request *request);

/* The request as if it had no id: what a line is matched by whose id is not its own. */
void request_forget_id(Request *request);
RequestKey request_key(const Request *request);
RequestKey request_key_of_id(const json_t *id);
RequestKey request_key_of_line(size_t line, uint64_t hash);

/* Fills `prompts`: the ids that `run` makes of each; of messages by `chat`, and where that is
 * plain its stop strings join the request's. */
Status request_encode(Request *request, const Session *session, const ChatPrompt *chat,
                      Error *error);

#endif
