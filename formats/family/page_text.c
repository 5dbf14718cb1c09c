#include "formats/family/page_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *page_keep(PagePool *pool, const char *text, size_t bytes) {
    if (bytes >= PAGE_POOL - pool->used) return NULL;
    char *kept = pool->bytes + pool->used;
    memcpy(kept, text, bytes);
    kept[bytes] = '\0';
    pool->used += bytes + 1;
    return kept;
}

Status page_fail(PageText *t, const char *format, ...) {
    char message[400];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return error_set(t->error, "%s:%u:%zu: %s", t->name, t->line, t->last + 1, message);
}

/* Copies the line at `at` without its comment and the spaces at its end. */
static Status copy_line(PageText *t) {
    const char *start = t->text + t->at, *end = memchr(start, '\n', t->bytes - t->at);
    size_t n = end ? (size_t)(end - start) : t->bytes - t->at;
    t->at += n + (end != NULL);
    t->line++;
    t->word = t->last = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)start[i];
        bool begins = i == 0 || start[i - 1] == ' ' || start[i - 1] == '\t';
        if (c == '#' && begins) n = i;
    }
    if (n > 0 && start[n - 1] == '\r') n--;
    if (n >= PAGE_LINE) return page_fail(t, "a line of more than %d characters", PAGE_LINE - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)start[i];
        t->last = i;
        if ((c < 0x20 && c != '\t') || c >= 0x7F)
            return page_fail(t, "a character that only comments may have");
        t->words[i] = c == '\t' ? ' ' : (char)c;
    }
    while (n > 0 && t->words[n - 1] == ' ') n--;
    t->words[n] = '\0';
    t->last = 0;
    return STATUS_OK;
}

Status page_line(PageText *t, bool *found) {
    *found = false;
    if (t->cut) {
        t->last = t->cut - 1;
        return page_fail(t, "a word of more than %d characters", PAGE_WORD - 1);
    }
    while (!*found && t->at < t->bytes) {
        if (copy_line(t) != STATUS_OK) return STATUS_FAILED;
        *found = page_more(t);
    }
    return STATUS_OK;
}

bool page_more(PageText *t) {
    t->word += strspn(t->words + t->word, " ");
    return t->words[t->word] != '\0';
}

bool page_word(PageText *t, char word[PAGE_WORD]) {
    word[0] = '\0';
    bool more = page_more(t);
    t->last = t->word;
    if (!more) return false;
    size_t n = strcspn(t->words + t->word, " ");
    t->word += n;
    if (n >= PAGE_WORD && !t->cut) t->cut = t->last + 1;
    if (n >= PAGE_WORD) n = PAGE_WORD - 1;
    memcpy(word, t->words + t->last, n);
    word[n] = '\0';
    return true;
}

const char *page_rest(PageText *t) {
    page_more(t);
    t->last = t->word;
    t->word += strlen(t->words + t->word);
    return t->words + t->last;
}
