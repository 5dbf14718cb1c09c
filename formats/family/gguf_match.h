/* Which architecture of GGUF files is nearest to one that is not known: for the message that
 * refuses the file. */
#ifndef FORMATS_FAMILY_GGUF_MATCH_H
#define FORMATS_FAMILY_GGUF_MATCH_H

#include "formats/family/family_match.h"

/* Finds the architecture that takes most of the file's tensors and whose required keys it has. Used
 * tensors are left out of account. *nearest and match->family are NULL where no architecture takes
 * a third of the tensors. Free with family_match_free. */
Status gguf_match(const GgufModel *model, FamilyMatch **match, const GgufFamily **nearest,
                  Error *error);

/* Puts the architecture's keys that no reader has looked up into match->config, so that
 * family_draft_explain names them. Keys for images and sound are ignored. */
void gguf_match_unread(const GgufModel *model, FamilyMatch *match);

#endif
