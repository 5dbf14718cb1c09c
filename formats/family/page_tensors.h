/* The lines of a page that are about tensors. */
#ifndef FORMATS_FAMILY_PAGE_TENSORS_H
#define FORMATS_FAMILY_PAGE_TENSORS_H

#include "formats/family/page_reader.h"

/* The form that the word names; -1: none. */
int page_tensors_form(const char *word);

/* Reads the line after the word of its form: TENSOR... <- NAME [ROWS, COLUMNS] WORD... */
Status page_tensors_read(PageReader *r, RuleForm form);

/* Reads the line after the word: use GROUP [PREFIX] */
Status page_tensors_use(PageReader *r);

/* Takes the i-th tensor away. */
void page_tensors_remove(PagePart *part, size_t i);

/* Whether both lists of names, between spaces, have one in common. */
bool page_tensors_share_name(const char *a, const char *b);

#endif
