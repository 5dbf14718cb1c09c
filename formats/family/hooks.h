/* The functions of families/ that pages name: `finish NAME`, `more NAME`, `by_layer NAME`. */
#ifndef FORMATS_FAMILY_HOOKS_H
#define FORMATS_FAMILY_HOOKS_H

#include "formats/family/family.h"

/* The hooks of this name in the tables of families_hooks; NULL: there are none. */
const FamilyHook *hooks_find(const char *name);

/* Sets one function of `gguf` or, where that is NULL, of `family`: the one that a page's line
 * "WORD NAME" (finish, more or by_layer) takes from NAME's hooks. False: they have none. */
bool hooks_take(const FamilyHook *hooks, const char *word, Family *family, GgufFamily *gguf);

/* The words, then NULL. */
extern const char *const hooks_words[];

#endif
