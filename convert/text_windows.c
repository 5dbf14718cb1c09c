#include "convert/text_windows.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/prefill.h"
#include "session/logprobs.h"
#include "tokenizer.h"

/* Encodes the text with the model's tokenizer and chooses the length of a window. */
Status text_windows_open(TextWindows *windows, const ModelFile *file, const InputFile *text,
                         size_t most, Error *error) {
    *windows = (TextWindows){.bos = -1};
    const Config *config = modelfile_config(file);
    Tokenizer *tokenizer;
    size_t bytes;
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &bytes);
    if (!section)
        return error_set(error, "%s: has no tokenizer to read %s with", modelfile_path(file),
                         text->path);
    if (tokenizer_open(&tokenizer, section, bytes, error) != STATUS_OK) return STATUS_FAILED;
    tokenizer_limit(tokenizer, config->vocab_size);
    const char *begin = (const char *)text->map;
    size_t n = (size_t)text->bytes, mark = utf8_mark_length(begin, n);
    Status status =
        tokenizer_encode(tokenizer, begin + mark, n - mark, NULL, 0, &windows->ids, error);
    if (status != STATUS_OK) {
        error_prefix(error, "%s", text->path);
    } else if (windows->ids.length == 0) {
        status = error_set(error, "%s: holds no token", text->path);
    }
    windows->window = config->context < most ? config->context : most;
    /* A context of one has no room for the bos. */
    if (tokenizer_adds_bos(tokenizer) && windows->window > 1) {
        windows->bos = tokenizer_bos(tokenizer);
        windows->window -= windows->bos >= 0;
    }
    tokenizer_close(tokenizer);
    return status;
}

void text_windows_close(TextWindows *windows) {
    token_list_free(&windows->ids);
}

size_t text_windows_rows(const TextWindows *windows) {
    size_t n = windows->ids.length;
    return n + (windows->bos >= 0 ? (n + windows->window - 1) / windows->window : 0);
}

typedef struct WindowState {
    const WindowRun *run;
    KvCache *cache;
    size_t max_rows; /* of one forward pass */
    float *logits;   /* [max_rows][vocab_size] */
    size_t n_rows;   /* rows that have run */
    size_t tokens;   /* of the text before this window, less its bos */
    int32_t *ids;    /* [window + 1] */
    bool *wanted;    /* [window + 1] rows of this window that want logits */
} WindowState;

static Status after_chunk(void *context, const PrefillChunk *chunk, Error *error) {
    WindowState *s = context;
    const WindowRun *run = s->run;
    size_t first = s->n_rows;
    s->n_rows += chunk->n;
    if (run->cancel && *run->cancel) {
        error_set(error, "interrupted");
        return STATUS_INTERRUPTED;
    }
    if (!run->rows) return STATUS_OK;
    return run->rows(run->context, chunk->logits, first, chunk->n, s->tokens + chunk->done, error);
}

/* Runs tokens [first, first + n) of the text, after the bos if there is one. */
static Status run_window(WindowState *s, const TextWindows *windows, size_t first, size_t n,
                         Error *error) {
    size_t begin = windows->bos >= 0, left = SIZE_MAX, end = s->n_rows + begin + n;
    if (begin) s->ids[0] = windows->bos;
    memcpy(s->ids + begin, windows->ids.ids + first, n * sizeof *s->ids);
    s->tokens = first - begin;
    kvcache_reset(s->cache, 0, 0);
    if (s->run->most_rows) left = s->run->most_rows - s->n_rows;
    if (s->run->cut) {
        size_t wanted = s->run->cut(s->run->context, s->n_rows, begin + n);
        if (wanted < left) left = wanted;
    }
    for (size_t i = 0; i < begin + n; i++)
        s->wanted[i] = !s->run->wants || s->run->wants(s->run->context, s->n_rows + i);
    const Prefill p = {.ids = s->ids,
                       .n = begin + n < left ? begin + n : left,
                       .wanted = s->wanted,
                       .max_rows = s->max_rows,
                       .logits = s->logits,
                       .after_chunk = after_chunk,
                       .context = s};
    Status status = p.n > 0 ? prefill(s->run->model, s->cache, &p, error) : STATUS_OK;
    if (s->run->cut) s->n_rows = end;
    return status;
}

/* Runs the windows one after another, each on an empty cache. */
Status text_windows_run(const TextWindows *windows, const WindowRun *run, Error *error) {
    const KvShape shape =
        model_kv_shape(run->model, run->kv_type ? *run->kv_type : model_kv_type(run->model));
    WindowState s = {.run = run, .max_rows = logprobs_max_rows(run->model)};
    s.logits = malloc(s.max_rows * model_config(run->model)->vocab_size * sizeof *s.logits);
    s.ids = malloc((windows->window + 1) * sizeof *s.ids);
    s.wanted = malloc((windows->window + 1) * sizeof *s.wanted);
    Status status = s.logits && s.ids && s.wanted
                        ? STATUS_OK
                        : error_set(error, "no memory to run over a text");
    if (status == STATUS_OK) status = kvcache_new(&s.cache, &shape, 1, 0, error);
    for (size_t first = 0; status == STATUS_OK && first < windows->ids.length &&
                           (!run->most_rows || s.n_rows < run->most_rows);
         first += windows->window) {
        size_t left = windows->ids.length - first;
        status =
            run_window(&s, windows, first, left < windows->window ? left : windows->window, error);
    }
    kvcache_free(s.cache);
    free(s.logits);
    free(s.ids);
    free(s.wanted);
    return status;
}
