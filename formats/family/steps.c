#include "formats/family/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool step_word(const char **words, char word[STEP_WORD]) {
    size_t n;
    while (**words == ' ') ++*words;
    n = strcspn(*words, " ");
    if (n >= STEP_WORD) n = STEP_WORD - 1;
    memcpy(word, *words, n);
    word[n] = '\0';
    *words += n;
    return n > 0;
}

bool step_number(const char *word, double *out) {
    char *end;
    *out = strtod(word, &end);
    return end != word && *end == '\0' && *out >= 0 && *out <= 1 << 28 && *out == floor(*out);
}
