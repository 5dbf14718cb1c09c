/* Prints a family's tables as a page (family_page.h). */
#ifndef FORMATS_FAMILY_FAMILY_PRINT_H
#define FORMATS_FAMILY_FAMILY_PRINT_H

#include <stdio.h>

#include "formats/family/family.h"

/* Without `like` and groups: every line that the family has. Reading the page makes the same
 * tables; what C adds to them (`finish` and the other hooks) no page can say. */
void family_print(FILE *out, const Family *family);

#endif
