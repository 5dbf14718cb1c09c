/* Parsing and checking one line of a batch, a JSON object.
 *
 * There are two forms. The native form is {"prompt": ...} or {"messages": [...]} with an optional
 * "id" and the options of the command line by their long names. OpenAI's batch form
 * (https://platform.openai.com/docs/guides/batch) is {"custom_id", "method", "url", "body"} with a
 * chat completion or a completion as the body. Fields that cannot change what is generated are
 * ignored; any other unknown field is an error, so that every request is answered as it asks.
 * docs/batch.md lists them all. */
#ifndef REQUEST_H
#define REQUEST_H

#include <jansson.h>

#include "json/json_digits.h"
#include "modes/batch/control.h"
#include "modes/batch/request_embedding.h"
#include "modes/batch/request_prompt.h"
#include "modes/batch/request_shape.h"
#include "generation.h"
#include "session/session.h"
#include "modes/proof/record_key.h"
#include "template/answer_hold.h"
#include "template/chat_prompt.h"

typedef enum RequestFormat {
    REQUEST_NATIVE,
    REQUEST_CHAT,       /* OpenAI's /v1/chat/completions */
    REQUEST_COMPLETION, /* OpenAI's /v1/completions */
    REQUEST_EMBEDDING,  /* OpenAI's /v1/embeddings, or the same in native form */
    REQUEST_RERANK      /* /v1/rerank, likewise */
} RequestFormat;

enum {
    REQUEST_MAX_SAMPLES = 4096, /* texts of one line */
    REQUEST_MAX_TOP = 20,       /* alternatives of each token, with logprobs */
    REQUEST_MAX_BIAS = 1024     /* tokens of logit_bias */
};

typedef struct Request {
    RequestFormat format;
    bool is_native;     /* the line is not in OpenAI's batch form */
    size_t line;        /* from 1 */
    uint64_t line_hash; /* XXH3-64 of its bytes */
    json_t *json;       /* the line, parsed; NULL for plain text and for invalid JSON */
    JsonDigits *digits; /* of its numbers (json/json_digits.h); NULL as `json` is */
    char *text;         /* the line itself, [text_length], with --batch-text; otherwise NULL */
    size_t text_length;

    /* These are borrowed from `json`; NULL: not given. */
    const json_t *id; /* a string or a whole number, of any size */
    bool id_taken;    /* an earlier line has the same id: the request's key is that of its line */
    const json_t *prompt, *messages, *tools, *template_variables;
    json_t *with_system; /* owned: `messages` after the command line's system prompt; or NULL */
    const char *model, *reasoning_effort;
    const char *function; /* the function that tool_choice names */
    bool needs_call;      /* tool_choice is "required" or names a function */
    bool one_call;        /* parallel_tool_calls is false */
    int64_t budget;       /* tokens of reasoning; REASONING_UNLIMITED */

    size_t n;            /* samples of each prompt */
    bool echo;           /* the result's text and logprobs begin with the prompt's */
    bool only_prompt;    /* nothing is generated */
    size_t score_from;   /* with echo and logprobs: the prompt's first token that is scored, > 0 */
    bool returns_ids;    /* the result has the ids of prompt and text */
    bool returns_prompt; /* and what the chat template made of the messages */
    bool returns_logits; /* and the rows of --logits that hold them */
    bool keeps;          /* what is cached of the prompt stays cached */
    bool any_line;       /* --live: its key does not depend on the line's number */
    bool cancelled;      /* by a line of control.h */
    Control control;     /* kind CONTROL_NONE: it is a request */
    const json_t *adds_special;   /* boolean; NULL: as the command line has it */
    const json_t *parses_special; /* boolean; NULL: as the command line has it */
    ChatTemplateOutput rendered;  /* for returns_prompt, by request_encode */
    bool streams;                 /* the result comes in chunks */
    bool tells_usage;             /* of a stream: its last chunk counts the tokens */
    bool wants_logprobs;
    int top_logprobs; /* alternatives of each token */
    GenerationOptions options;
    bool opened;                /* the prompt has begun a reasoning */
    const char **stop;          /* what options.stop points at */
    LogitBias *bias;            /* what options.sampling.bias points at */
    EmbeddingRequest embedding; /* REQUEST_EMBEDDING and REQUEST_RERANK, which generate nothing */
    RequestShape shape;         /* of the answer, as the request gives it */
    AnswerHold hold;            /* what holds the answer, by request_encode */

    PromptCut cut;      /* truncate_prompt_tokens */
    TokenList *prompts; /* [n_prompts], by request_encode */
    size_t n_prompts;
} Request;

/* Parses line[length], which is line `number` of the input. `defaults` are the command line's
 * options; what they point at must outlive the request. After a failure the request still holds
 * what its result line needs: format, id, line. The caller frees it in any case. */
Status request_parse(Request *request, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error);

/* Whether it looks at the logits of the prompt's tokens. */
static inline bool request_sees_prompt(const Request *request) {
    return request->echo && (request->wants_logprobs || request->returns_logits);
}

/* Whether its result is pooled or ranked, by request_embedding.h: nothing is generated. */
static inline bool request_embeds(const Request *request) {
    return request->format == REQUEST_EMBEDDING || request->format == REQUEST_RERANK;
}
/* The first step of request_parse: the line as JSON, its format and its id, which is all that
 * finding its result takes. */
Status request_identify(Request *request, const char *line, size_t length, size_t number,
                        Error *error);

/* Like request_parse for --batch-text, where the whole line is the prompt. */
Status request_plain(Request *request, const char *line, size_t length, size_t number,
                     const GenerationOptions *defaults, Error *error);

/* Makes a request of request_plain one for the line's embedding. */
void request_embed_plain(Request *request);

/* Makes a request of a line that cannot be parsed because it is too long. */
void request_blank(Request *request, const char *line, size_t length, size_t number);

void request_free(Request *request);

/* Nothing is computed: the result only says what the prompt is. */
bool request_only_encodes(const Request *request);

/* A hash of the request's id, or of its line and line number, by which its result is found. */
RecordKey request_key(const Request *request);

/* Fills `prompts` with the ids of each prompt, as `run` encodes it. Messages are rendered by
 * `chat`, whose stop strings, if it has any, are added to the request's. */
Status request_encode(Request *request, const Session *session, const ChatPrompt *chat,
                      Error *error);

#endif
