#include "formats/family/page_reader.h"

#include <string.h>

Status page_reader_keep(PageReader *r, const char *text, const char **kept) {
    *kept = page_keep(&r->page->pool, text, strlen(text));
    return *kept ? STATUS_OK : page_fail(r->text, "the page is too long");
}

Status page_reader_kept(PageReader *r, const char *what, const char **kept) {
    char word[PAGE_WORD];
    *kept = NULL;
    if (!page_word(r->text, word)) return page_fail(r->text, "%s is missing", what);
    return page_reader_keep(r, word, kept);
}

Status page_reader_end(PageReader *r) {
    char word[PAGE_WORD];
    return page_word(r->text, word) ? page_fail(r->text, "'%s' is too much here", word) : STATUS_OK;
}

bool page_reader_is(PageReader *r, const char *expected) {
    PageText *t = r->text;
    size_t n = strlen(expected);
    if (!page_more(t) || strncmp(t->words + t->word, expected, n) != 0) return false;
    if (t->words[t->word + n] != ' ' && t->words[t->word + n] != '\0') return false;
    t->last = t->word;
    t->word += n;
    return true;
}

Status page_reader_full(PageReader *r, const char *what, int most) {
    return page_fail(r->text, "more than %d %s", most, what);
}
