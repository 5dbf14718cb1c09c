/* What families/ fills in: the lists that the readers of pages and of sources go through. Nothing
 * else of formats/ comes from there. */
#ifndef FORMATS_FAMILY_FAMILY_LISTS_H
#define FORMATS_FAMILY_FAMILY_LISTS_H

#include "formats/family/family.h"

/* The tables of hooks of C files of families/, which families/list.c names; ends with NULL. Each
 * table ends with an entry without a name. */
extern const FamilyHook *const families_hooks[]; /* families/list.c */

/* A page whose text is compiled into the program: families/NAME.family, of a family
 * (family_page.h), or "groups", whose tensors the others use. */
typedef struct BuiltinPage {
    const char *name, *text;
} BuiltinPage;

/* In the order of their names; ends with an entry without a name. Made by scripts/pages-to-c. */
extern const BuiltinPage families_pages[]; /* families/pages.c */

/* The verbs of steps; ends with a verb without a name. */
extern const Verb verbs_all[]; /* families/verbs.c */

#endif
