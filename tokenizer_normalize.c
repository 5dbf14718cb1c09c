/* Patterns at work, and the normalizer steps of a section. */
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- Patterns ---- */

/* The next match of a pattern at or after `at`: 1 with its bounds, 0 for none, -1 on error. When
 * the JIT stack runs out the interpreter goes on. */
static int pattern_next(Scratch *s, const pcre2_code *code, const char *text, size_t n, size_t at,
                        size_t *from, size_t *to, Error *error) {
    int found =
        pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, s->match, s->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            s->match, s->context);
    if (found == PCRE2_ERROR_NOMATCH) return 0;
    if (found < 0) {
        char why[128];
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        error_set(error, "tokenizer: a pattern of the model failed on this text: %s", why);
        return -1;
    }
    const size_t *bounds = pcre2_get_ovector_pointer(s->match);
    *from = bounds[0];
    *to = bounds[1] < bounds[0] ? bounds[0] : bounds[1];
    return 1;
}

size_t character_length(const char *text, size_t n) {
    uint32_t code;
    size_t length = utf8_decode(text, n, &code);
    return length ? length : n > 0;
}

int matches_next(Matches *m, Scratch *s, size_t *from, size_t *to, Error *error) {
    while (m->at <= m->n) {
        int found = pattern_next(s, m->code, m->text, m->n, m->at, from, to, error);
        if (found <= 0) return found;
        bool empty = *from == *to, skip = empty && m->any && *to == m->last_end;
        m->at = empty ? *to + character_length(m->text + *to, m->n - *to) + (*to == m->n) : *to;
        m->last_end = *to;
        m->any = true;
        if (!skip) return 1;
    }
    return 0;
}

/* Appends in[n] with every match replaced. */
Status replace_pattern(Scratch *s, const pcre2_code *code, TextBuffer *out, const char *in,
                       size_t n, const uint8_t *marks, const char *by, size_t by_length,
                       Error *error) {
    Matches matches = {.code = code, .text = in, .n = n};
    size_t done = 0, from, to;
    int found;
    while ((found = matches_next(&matches, s, &from, &to, error)) > 0) {
        uint8_t mark = marks != NULL;
        for (size_t i = from; i < to; i++) mark &= marks && marks[i];
        for (size_t i = done; i < from && marks; i++) text_put(out, in + i, 1, marks[i]);
        if (!marks) text_put(out, in + done, from - done, 0);
        if (to > 0 && from == 0 && (by_length == 0 || to > character_length(in, n)))
            out->lost_start = true;
        text_put(out, by, by_length, mark);
        done = to;
    }
    for (size_t i = done; i < n && marks; i++) text_put(out, in + i, 1, marks[i]);
    if (!marks) text_put(out, in + done, n - done, 0);
    return found < 0 ? STATUS_FAILED : STATUS_OK;
}

/* ---- Normalization ---- */

void replace_string(TextBuffer *out, Span in, const char *from, size_t n, const char *to,
                    size_t to_length) {
    size_t at = 0;
    while (at < in.n) {
        const char *hit = n > 0 ? memmem(in.bytes + at, in.n - at, from, n) : NULL;
        size_t end = hit ? (size_t)(hit - in.bytes) : in.n;
        if (!in.marks) text_put(out, in.bytes + at, end - at, 0);
        for (size_t i = at; i < end && in.marks; i++) text_put(out, in.bytes + i, 1, in.marks[i]);
        if (!hit) return;
        uint8_t mark = in.marks != NULL;
        for (size_t i = 0; i < n; i++) mark &= in.marks && in.marks[end + i];
        if (end == 0 && (to_length == 0 || n > character_length(in.bytes, in.n)))
            out->lost_start = true;
        text_put(out, to, to_length, mark);
        at = end + n;
    }
}

static size_t added_longest(const Trie *trie, size_t limit, const char *text, size_t n,
                            uint32_t *index) {
    size_t longest = 0;
    uint32_t node = 0;
    if (n == 0 || !trie->starts[(uint8_t)text[0]]) return 0;
    for (size_t i = 0; i < n && i < limit; i++) {
        const PairSlot *slot = pair_find(&trie->table, node, (uint8_t)text[i]);
        if (!slot) break;
        node = slot->x;
        if (slot->y != TOKENIZER_NONE) longest = i + 1, *index = slot->y;
    }
    return longest;
}

/* SentencePiece's normalizer.cc: the map by longest prefix, spaces, the prefix. */
static void sentencepiece_normalize(const Tokenizer *t, TextBuffer *out, Span in, uint32_t flags) {
    const char *space = flags & SPM_ESCAPE_SPACES ? "\xE2\x96\x81" : " ";
    size_t space_length = strlen(space);
    bool skip_space = flags & SPM_REMOVE_EXTRA_SPACES, was_space = skip_space, begun = false;
    for (size_t at = 0, step; at < in.n; at += step) {
        const char *to = in.bytes + at;
        size_t n;
        uint32_t index;
        if ((step = added_longest(&t->added_norm, t->header->max_added, to, in.n - at, &index)))
            n = step;
        else if (!(flags & SPM_CHARSMAP) ||
                 !(step = charsmap_longest(&t->charsmap, in.bytes + at, in.n - at, false, &to, &n)))
            n = step = character_length(in.bytes + at, in.n - at);
        uint8_t mark = in.marks != NULL;
        for (size_t i = at; i < at + step; i++) mark &= in.marks && in.marks[i];
        if (skip_space && !begun && n == 1 && *to == ' ') continue;
        if (!begun && flags & SPM_DUMMY_PREFIX && !(flags & SPM_SPACE_AS_SUFFIX) && !in.glued)
            text_put(out, space, space_length, mark);
        begun = true;
        while (was_space && n > 0 && *to == ' ') to++, n--;
        for (size_t i = 0; i < n; i++)
            if (to[i] == ' ')
                text_put(out, space, space_length, mark);
            else
                text_put(out, to + i, 1, mark);
        if (n > 0) was_space = to[n - 1] == ' ';
        was_space = was_space && skip_space;
    }
    while (skip_space && out->length >= space_length &&
           memcmp(out->bytes + out->length - space_length, space, space_length) == 0)
        out->length -= space_length;
    if (begun && flags & SPM_DUMMY_PREFIX && flags & SPM_SPACE_AS_SUFFIX)
        text_put(out, space, space_length, 0);
}

static Status normalize_step(Run *run, size_t i, TextBuffer *out, Span in) {
    Tokenizer *t = run->tokenizer;
    const StepRecord *step = &t->steps[0][i];
    size_t a_length, b_length;
    const char *a = section_text(t, step->a, &a_length), *b = section_text(t, step->b, &b_length);
    switch (step->op) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        unicode_normalize(out, in.bytes, in.n, in.marks, (UnicodeForm)(step->op - NORMALIZE_NFC));
        break;
    case NORMALIZE_LOWERCASE:
        unicode_lowercase(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_STRIP:
        unicode_strip(out, in.bytes, in.n, in.marks, step->flags & 1, step->flags & 2);
        break;
    case NORMALIZE_STRIP_ACCENTS:
        unicode_strip_accents(out, in.bytes, in.n, in.marks, step->flags & 1);
        break;
    case NORMALIZE_BERT_CLEAN:
        unicode_bert_clean(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_BERT_CHINESE:
        unicode_bert_chinese(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_NMT:
        unicode_nmt(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_CHARSMAP:
        unicode_charsmap(out, in.bytes, in.n, in.marks, &t->charsmap);
        break;
    case NORMALIZE_SENTENCEPIECE:
        sentencepiece_normalize(t, out, in, step->flags);
        break;
    case NORMALIZE_MAP_BYTES:
        bytelevel_map(out, in.bytes, in.n, in.marks);
        break;
    case NORMALIZE_PREPEND:
        if (in.n > 0 && !in.glued) text_put(out, a, a_length, in.marks ? in.marks[0] : 0);
        replace_string(out, in, NULL, 0, NULL, 0);
        break;
    case NORMALIZE_REPLACE:
        replace_string(out, in, a, a_length, b, b_length);
        break;
    case NORMALIZE_REPLACE_PATTERN:
        return replace_pattern(run->scratch, t->patterns[0][i], out, in.bytes, in.n, in.marks, b,
                               b_length, run->error);
    }
    return STATUS_OK;
}

Status normalize(Run *run, Span *span) {
    for (size_t i = 0; i < run->tokenizer->n_steps[0]; i++) {
        TextBuffer *out = &run->scratch->normalized[i & 1];
        out->length = 0;
        out->limit = run->limit;
        out->marked = span->marks != NULL;
        out->lost_start = false;
        if (normalize_step(run, i, out, *span) != STATUS_OK) return STATUS_FAILED;
        if (out->failed) return no_memory(run->error);
        *span = (Span){out->bytes ? out->bytes : "", out->marked ? out->marks : NULL, out->length,
                       span->first && !out->lost_start, span->glued};
    }
    return STATUS_OK;
}

Status tokenizer_normalize(Tokenizer *t, const char *text, size_t length, char **out,
                           size_t *out_length, Error *error) {
    Scratch *scratch = scratch_borrow(t);
    if (!scratch) return no_memory(error);
    Run run = {.tokenizer = t, .scratch = scratch, .error = error};
    Span span = {text, NULL, utf8_valid_prefix(text, length), true, false};
    TextBuffer copy = {0};
    Status status = normalize(&run, &span);
    if (status == STATUS_OK) text_put(&copy, span.bytes, span.n, 0);
    scratch_return(t, scratch);
    if (status == STATUS_OK && copy.failed) status = no_memory(error);
    *out = copy.bytes;
    *out_length = copy.length;
    return status;
}
