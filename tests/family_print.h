/* Prints a family's tables as a page (family_page.h). */
#ifndef FAMILY_PRINT_H
#define FAMILY_PRINT_H

#include <stdio.h>

#include "formats/family/family.h"

/* Without `like` and groups: every line that the family has. Reading the page as one of the program
 * makes the same tables. */
void family_print(FILE *out, const Family *family);

#endif
