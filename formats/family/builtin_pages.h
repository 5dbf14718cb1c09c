/* The pages whose texts are compiled into the program (family_lists.h), by name. */
#ifndef FORMATS_FAMILY_BUILTIN_PAGES_H
#define FORMATS_FAMILY_BUILTIN_PAGES_H

/* The text of the page of this name; NULL: unknown. */
const char *builtin_pages_text(const char *name);

#endif
