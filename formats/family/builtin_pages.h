/* The pages whose texts are compiled into the program: families/NAME.family, each of a family
 * (family_page.h), and "groups", whose tensors the others use. */
#ifndef FORMATS_FAMILY_BUILTIN_PAGES_H
#define FORMATS_FAMILY_BUILTIN_PAGES_H

typedef struct BuiltinPage {
    const char *name, *text;
} BuiltinPage;

/* In the order of their names; ends with an entry without a name. */
extern const BuiltinPage families_pages[];

/* The text of the page of this name; NULL: unknown. */
const char *builtin_pages_text(const char *name);

#endif
