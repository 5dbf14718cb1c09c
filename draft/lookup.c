#include "draft/lookup.h"

#include <stdlib.h>

#include "tokenizer.h"

/* The tokens that must have stood before as they stand at the end of the text now; more than
 * MATCH_MOST are not compared. */
enum { MATCH_LEAST = 2, MATCH_MOST = 16 };

/* Guesses at first; passes without any after ever more wrong ones, unless so many tokens match. */
enum { FIRST_GUESSES = 3, LONGEST_PAUSE = 32, MATCH_STRONG = 8 };

enum { WORTHWHILE_BYTES = 64 << 20, DEFAULT_GUESSES = 7 };

struct Lookup {
    Model *model;
    size_t vocab_size, most;
    TokenList text;           /* all of it so far */
    Row rows[1 + LOOKUP_MAX]; /* of the last pass: the text's last token then, and guesses */
    size_t n_rows, n_used;
    float *logits; /* [1 + most][vocab_size], of those rows */
    size_t guesses, wrong, pause;
    LookupStats stats;
};

size_t lookup_default(const ModelFile *file) {
    bool pays = modelfile_bytes(file) >= WORTHWHILE_BYTES && modelfile_config(file)->n_experts == 0;
    return pays ? DEFAULT_GUESSES : 0;
}

Status lookup_new(Lookup **out, Model *model, size_t most, const int32_t *ids, size_t n,
                  Error *error) {
    size_t rows = model_max_rows(model), bytes, floats;
    Lookup *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return error_set(error, "no memory for the text");
    if (most > LOOKUP_MAX) most = LOOKUP_MAX;
    l->model = model;
    l->vocab_size = model_config(model)->vocab_size;
    l->most = most < rows ? most : rows - 1;
    l->guesses = l->most < FIRST_GUESSES ? l->most : FIRST_GUESSES;
    bool fits = true;
    for (size_t i = 0; i < n && fits; i++) fits = token_list_push(&l->text, ids[i]);
    if (size_mul(1 + l->most, l->vocab_size, &floats) && size_mul(floats, sizeof(float), &bytes))
        l->logits = malloc(bytes);
    if (!fits || !l->logits) {
        lookup_free(l);
        return error_set(error, "no memory for the logits");
    }
    *out = l;
    return STATUS_OK;
}

void lookup_free(Lookup *l) {
    if (!l) return;
    token_list_free(&l->text);
    free(l->logits);
    free(l);
}

/* Where what followed the end of the text begins, the last time that the longest run of tokens at
 * its end stood earlier in it. *length, of that run, is 0 when it never did. */
static size_t find_match(const Lookup *l, size_t *length) {
    const int32_t *last = l->text.ids + l->text.length - 1;
    size_t best = 0;
    *length = 0;
    for (size_t at = l->text.length - 1; at-- > 0 && *length < MATCH_MOST;) {
        size_t n = 0;
        while (n <= at && n < MATCH_MOST && l->text.ids[at - n] == *(last - n)) n++;
        if (n < MATCH_LEAST || n <= *length) continue;
        *length = n;
        best = at + 1;
    }
    return best;
}

/* Adds guesses to rows[1 ...], as many as the room allows. */
static void guess(Lookup *l) {
    size_t most = l->guesses, context = model_context(l->model), length;
    size_t room = l->text.length < context ? context - l->text.length : 0;
    if (most > room) most = room;
    if (most == 0) return;
    size_t from = find_match(l, &length);
    if (length == 0) return;
    if (l->pause > 0 && length < MATCH_STRONG) {
        l->pause--;
        return;
    }
    for (; l->n_rows <= most; l->n_rows++, from++) {
        /* A match that reaches to the end of the text goes on with the guesses themselves. */
        int32_t token =
            from < l->text.length ? l->text.ids[from] : l->rows[1 + from - l->text.length].token;
        l->rows[l->n_rows] = (Row){.position = (int32_t)(l->text.length - 1 + l->n_rows),
                                   .token = token,
                                   .wants_logits = true};
    }
}

/* What became of the last pass's guesses tells how many to make next. */
static void learn(Lookup *l) {
    if (l->n_rows < 2) return;
    size_t right = l->n_used - 1;
    if (right == l->n_rows - 1) {
        l->guesses = 2 * l->guesses < l->most ? 2 * l->guesses : l->most;
    } else {
        l->guesses = right > 0 ? right : 1;
    }
    if (right > 0) {
        l->wrong = 0;
        return;
    }
    l->wrong++;
    l->pause = l->wrong < 5 ? (size_t)1 << l->wrong : LONGEST_PAUSE;
}

Status lookup_next(Lookup *l, KvCache *cache, int32_t token, float **logits, Error *error) {
    size_t position = l->text.length;
    if (!token_list_push(&l->text, token)) return error_set(error, "no memory for the text");
    if (l->n_used < l->n_rows && l->rows[l->n_used].token == token) {
        *logits = l->logits + l->n_used++ * l->vocab_size;
        l->stats.right++;
        return STATUS_OK;
    }
    learn(l);
    kvcache_truncate(cache, 0, (int32_t)position);
    l->rows[0] = (Row){.position = (int32_t)position, .token = token, .wants_logits = true};
    l->n_rows = 1;
    guess(l);
    l->n_used = 1;
    l->stats.passes++;
    l->stats.guessed += l->n_rows - 1;
    *logits = l->logits;
    Status status = model_forward(l->model, cache, l->rows, l->n_rows, l->logits, error);
    if (status != STATUS_OK && l->n_rows > 1) {
        /* A wrong guess may lead to what the text never comes to: numbers that are none. */
        l->n_rows = 1;
        status = model_forward(l->model, cache, l->rows, 1, l->logits, error);
    }
    return status;
}

void lookup_end(const Lookup *l, KvCache *cache) {
    if (l && kvcache_next(cache, 0) > (int32_t)l->text.length)
        kvcache_truncate(cache, 0, (int32_t)l->text.length);
}

LookupStats lookup_stats(const Lookup *l) {
    return l->stats;
}
