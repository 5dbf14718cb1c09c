/* What a directory of an unknown model_type needs to run: said in a line, and as the draft of a
 * page (docs/family-pages.md). */
#ifndef FORMATS_FAMILY_FAMILY_DRAFT_H
#define FORMATS_FAMILY_FAMILY_DRAFT_H

#include <stdio.h>

#include "formats/family/family_match.h"

/* Writes what is missing: the nearest family, keys that it does not read, tensors that it does not
 * take and tensors of it that the model does not have. "" where no family takes any tensor. */
void family_draft_explain(const FamilyMatch *match, char *text, size_t size);

/* Prints a page that is like the nearest family; what no line of it explains stands in comments. */
Status family_draft_print(FILE *out, const FamilyMatch *match, Error *error);

#endif
