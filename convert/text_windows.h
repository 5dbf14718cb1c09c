/* A text cut into windows, and models that run over them: for calibration and for all that is
 * measured on the same text.
 *
 * Each window begins like a text: at position 0, with the beginning-of-text token where the
 * tokenizer adds one. */
#ifndef TEXT_WINDOWS_H
#define TEXT_WINDOWS_H

#include "base/token_list.h"
#include "convert/convert.h"
#include "model.h"

typedef struct TextWindows {
    TokenList ids;
    int32_t bos;   /* the token that begins each window; -1: none */
    size_t window; /* tokens of the text in each; the last may have fewer */
} TextWindows;

enum { TEXT_WINDOW = 512 }; /* the usual length, in tokens */

/* Reads the text with the model's tokenizer, and cuts it into windows of `most` tokens, with the
 * one that begins them, or of the model's context if that is shorter. Free with text_windows_close,
 * also after a failure. */
Status text_windows_open(TextWindows *windows, const ModelFile *file, const InputFile *text,
                         size_t most, Error *error);
void text_windows_close(TextWindows *windows);

/* The rows of a run over the whole text: its tokens, and the token that begins each window. */
size_t text_windows_rows(const TextWindows *windows);

typedef struct WindowRun {
    Model *model;
    const KvType *kv_type; /* of the cache; NULL: the model's */
    size_t most_rows;      /* ends after so many rows of the text; 0: never */
    /* How many of a window's rows [first, first + n) run, beginning with its first; NULL: all. The
     * rows of later windows keep their numbers. */
    size_t (*cut)(void *context, size_t first, size_t n);
    /* Whether a row wants logits; NULL: all do. */
    bool (*wants)(void *context, size_t row);
    /* Called after each forward pass with logits[][vocab_size] of those rows of [first, first + n)
     * of the run that want them, one after another. `tokens` of the text have run. A result other
     * than STATUS_OK ends the run, which returns it. May be NULL. */
    Status (*rows)(void *context, const float *logits, size_t first, size_t n, size_t tokens,
                   Error *error);
    void *context;
    const volatile sig_atomic_t *cancel; /* nonzero: stop with STATUS_INTERRUPTED; may be NULL */
} WindowRun;

/* Runs the model over the windows. Where all rows want logits, the output head takes part in all.
 */
Status text_windows_run(const TextWindows *windows, const WindowRun *run, Error *error);

#endif
