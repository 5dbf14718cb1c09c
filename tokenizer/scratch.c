#include "tokenizer/scratch.h"

#include <stdlib.h>

Scratch *scratch_new(void) {
    Scratch *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->cache = calloc(CACHE_SLOTS, sizeof *s->cache);
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32 << 10, 64 << 20, NULL); /* taken as it is needed */
    if (!s->cache || !s->match || !s->context) {
        scratch_free(s);
        return NULL;
    }
    pcre2_set_match_limit(s->context, UINT32_MAX); /* pattern_allow sets one */
    pcre2_set_heap_limit(s->context, 1u << 18);    /* KiB: some 1.5 million frames of a match */
    if (s->stack) pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

void scratch_free(Scratch *s) {
    for (int i = 0; i < 2; i++) text_free(&s->normalized[i]);
    for (int i = 0; i < SECTION_MAX_STEPS; i++) text_free(&s->levels[i]);
    text_free(&s->word);
    free(s->symbols);
    free(s->heap);
    free(s->best);
    free(s->cache);
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

Scratch *scratch_borrow(Tokenizer *t) {
    pthread_mutex_lock(&t->lock);
    Scratch *s = t->pool;
    if (s) t->pool = s->next;
    pthread_mutex_unlock(&t->lock);
    return s ? s : scratch_new();
}

void scratch_return(Tokenizer *t, Scratch *s) {
    pthread_mutex_lock(&t->lock);
    s->next = t->pool;
    t->pool = s;
    pthread_mutex_unlock(&t->lock);
}
