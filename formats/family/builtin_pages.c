#include "formats/family/builtin_pages.h"
#include "formats/family/family_lists.h"

#include <string.h>

const char *builtin_pages_text(const char *name) {
    for (const BuiltinPage *page = families_pages; page->name; page++)
        if (strcmp(page->name, name) == 0) return page->text;
    return NULL;
}
