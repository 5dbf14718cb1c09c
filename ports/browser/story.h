/* The core as a WebAssembly module: the functions that docs/browser/story.js calls.
 *
 *     Story *story = story_open(model, bytes)
 *     story_options(story)->seed = 3
 *     story_begin(story, prompt, length)
 *     while (story_next(story) > 0) ... story_text(story), story_length(story) ...
 *
 * The module imports nothing: it computes with the bytes that it is given, and can reach no file,
 * no network and no clock. One thread. Pointers are offsets into the module's memory. */
#ifndef BROWSER_STORY_H
#define BROWSER_STORY_H

#include <stddef.h>
#include <stdint.h>

typedef struct Story Story;

/* What a text depends on, 8 bytes each: the options of run and the settings of a receipt. */
typedef struct StoryOptions {
    double temperature, top_p, min_p;
    double repetition_penalty, presence_penalty, frequency_penalty;
    double top_k;      /* a whole number; 0: all */
    double max_tokens; /* a whole number; 0: to the end of the context */
    double context;    /* positions */
    uint64_t seed;
} StoryOptions;

/* Memory for a model, a prompt or other bytes, aligned to 64 bytes; NULL: there is none left. It
 * lives as long as the module. */
void *story_memory(size_t n);

/* Opens a model.bin, which must stay; NULL: no memory. story_error says what else is wrong. */
Story *story_open(const void *model, size_t bytes);

/* What the last function that failed says; "": none did. */
const char *story_error(const Story *story);

/* The options of the next story_begin; at first what the model recommends. */
StoryOptions *story_options(Story *story);

/* Reads the prompt, UTF-8; an empty one begins a new text. 0, or -1 where it fails. */
int story_begin(Story *story, const char *prompt, size_t length);

/* Chooses one token. 1: the text goes on; 0: it has ended; -1: it failed. */
int story_next(Story *story);

/* What the last token added to the text: whole characters, perhaps none. */
const char *story_text(const Story *story);
size_t story_length(const Story *story);

/* Tokens generated, without the one that ended the text; and of the prompt. */
size_t story_n_tokens(const Story *story);
size_t story_n_prompt(const Story *story);
/* "end", "length", or "interrupted" for a text that goes on: the words of a receipt. */
const char *story_finish(const Story *story);

/* What a receipt says of the prompt, the model and the program, one line each of a name, a space
 * and a value: prompt_tokens, numeric_revision, repeated_revisions (numbers with blanks between
 * them: earlier ones whose receipts this program repeats), kv-type, eos (numbers with commas
 * between them), config, tokenizer, template ("null": there is none), weights, and "tensors.NAME"
 * for each tensor. Hashes the model once. NULL where it fails. Valid until the next call. */
const char *story_facts(Story *story);

/* The SHA-256 of bytes[n] as 64 digits with a NUL. */
void story_sha256(const void *bytes, size_t n, char digest[65]);

#endif
