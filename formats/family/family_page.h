/* A family as a page of text: families/NAME.family, or a file that the user names.
 *
 *     family glm4 like llama
 *     set    norm_place around
 *     key    head_dim = 128
 *     bias   wq wk wv if attention_bias absent true
 *     linear w_gate w_up <- .mlp.gate_up_proj [ffn_dim + ffn_dim, dim]
 *
 * docs/family-pages.md explains every word. Reading a page makes the tables of family.h. A page may
 * be a stranger's: it is checked before any model is read by it, and its memory is fixed, whatever
 * it holds. */
#ifndef FORMATS_FAMILY_FAMILY_PAGE_H
#define FORMATS_FAMILY_FAMILY_PAGE_H

#include "formats/family/family_lists.h"

typedef struct FamilyPage FamilyPage;

/* Reads the page text[bytes]; `name` stands before line and column in errors. Free with
 * family_page_free. A page may be `like` one of the program. */
Status family_page_read(FamilyPage **out, const char *name, const char *text, size_t bytes,
                        Error *error);

/* Reads a page of the program, which may name hooks. */
Status family_page_read_builtin(FamilyPage **out, const BuiltinPage *builtin, Error *error);

/* The tables; they live as long as the page. */
const Family *family_page_family(const FamilyPage *page);

void family_page_free(FamilyPage *page);

#endif
